//! Candidates that did otherwise in another sweep, from the tables of all visited states.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::best::{FigureChange, state_text};
use crate::error::CliError;

/// Score changes that are shown.
const MOST_SCORES: usize = 10;

/// Where tables of visited states are in a folder of results.
const TABLES: [(&str, &str); 3] = [
    ("", "evaluated.csv"),
    ("agg", "agg/evaluated.csv"),
    ("disagg", "disagg/evaluated.csv"),
];

/// Columns that say how a state is judged, or that are numbers of lines; what was simulated is in the others.
const VERDICT: [&str; 6] = [
    "simulation",
    "score",
    "objective",
    "feasible",
    "violation_penalty",
    "infeasible_reason",
];

/// What differs between two tables of visited states.
#[derive(Debug, Default, Serialize)]
pub(super) struct CandidateChanges {
    /// `agg` or `disagg` of a comparison, else empty.
    pub(super) of: String,
    /// Candidates that only the first table has.
    pub(super) only_old: usize,
    /// Candidates that only the second table has.
    pub(super) only_new: usize,
    /// Candidates whose figures are not the same, whatever is thought of them.
    pub(super) changed: usize,
    /// Candidates that are feasible now and were not.
    pub(super) now_feasible: Vec<String>,
    /// Candidates that were feasible and are not any more.
    pub(super) now_infeasible: Vec<String>,
    /// The largest relative changes of the score, by candidate, largest first.
    pub(super) scores: Vec<FigureChange>,
}

impl CandidateChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.only_old + self.only_new + self.changed == 0
            && self.now_feasible.is_empty()
            && self.now_infeasible.is_empty()
            && self.scores.is_empty()
    }
}

/// What differs between the tables that both folders have.
///
/// # Errors
/// If such a table cannot be read.
pub(super) fn between(old: &Path, new: &Path) -> Result<Vec<CandidateChanges>, CliError> {
    let mut found = Vec::new();
    for (of, name) in TABLES {
        let (old, new) = (old.join(name), new.join(name));
        if old.exists() && new.exists() {
            found.push(compare(of, &read(&old)?, &read(&new)?));
        }
    }
    Ok(found)
}

/// A visited state.
#[derive(Debug, PartialEq)]
struct Candidate {
    feasible: bool,
    score: Option<f64>,
    /// Everything that was simulated.
    row: Vec<(String, String)>,
}

type Candidates = BTreeMap<String, Candidate>;

fn read(path: &Path) -> Result<Candidates, CliError> {
    let wrong = |error: &dyn std::fmt::Display| CliError::Input(format!("{}: {error}", path.display()));
    let mut table = csv::Reader::from_path(path).map_err(|error| wrong(&error))?;
    let columns = table.headers().map_err(|error| wrong(&error))?.clone();
    let mut found = Candidates::new();
    for row in table.records() {
        let row = row.map_err(|error| wrong(&error))?;
        let cell = |name: &str| {
            let index = columns.iter().position(|column| column == name)?;
            row.get(index)
        };
        // What a table has columns for depends on what else is in it.
        let fields = columns
            .iter()
            .zip(&row)
            .filter(|(column, value)| *column != "mode" && !value.is_empty());
        let key = state_text(fields.clone().map(|(column, value)| (column, value.to_owned())));
        let said = fields.filter(|(column, _)| !VERDICT.contains(column));
        let candidate = Candidate {
            feasible: cell("feasible") == Some("true"),
            score: cell("score").and_then(|score| score.parse().ok()),
            row: said
                .map(|(column, value)| (column.to_owned(), value.to_owned()))
                .collect(),
        };
        found.insert(key, candidate);
    }
    Ok(found)
}

fn compare(of: &str, old: &Candidates, new: &Candidates) -> CandidateChanges {
    let mut found = CandidateChanges {
        of: of.to_owned(),
        only_new: new.keys().filter(|key| !old.contains_key(*key)).count(),
        ..CandidateChanges::default()
    };
    for (key, before) in old {
        let Some(after) = new.get(key) else {
            found.only_old += 1;
            continue;
        };
        if before == after {
            continue;
        }
        found.changed += usize::from(before.row != after.row);
        match (before.feasible, after.feasible) {
            (false, true) => found.now_feasible.push(key.clone()),
            (true, false) => found.now_infeasible.push(key.clone()),
            _ => {}
        }
        if let (Some(before), Some(after)) = (before.score, after.score)
            && before.total_cmp(&after).is_ne()
        {
            found.scores.push(FigureChange::new(key, before, after));
        }
    }
    // Stable, so that equal changes stay in the order of their names. What was nothing has changed without bound.
    let size = |change: &FigureChange| change.relative.map_or(f64::INFINITY, f64::abs);
    found.scores.sort_by(|a, b| size(b).total_cmp(&size(a)));
    found.scores.truncate(MOST_SCORES);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(feasible: bool, score: f64) -> Candidate {
        Candidate {
            feasible,
            score: Some(score),
            row: vec![("mean_ttft_ms".to_owned(), score.to_string())],
        }
    }

    #[test]
    fn the_largest_changes_come_first() {
        let table = |factor: f64| -> Candidates {
            let rows = (1..=14).map(|index| {
                let score = 100.0 + factor * f64::from(index);
                (format!("tp={index:02}"), candidate(true, score))
            });
            rows.collect()
        };
        let (old, mut new) = (table(0.0), table(1.0));
        new.remove("tp=14");
        new.insert("tp=13".to_owned(), candidate(false, 100.0));
        new.insert("tp=16".to_owned(), candidate(true, 1.0));
        let found = compare("", &old, &new);
        // The verdict on number 13 is another one, its figures are not.
        assert_eq!((found.only_old, found.only_new, found.changed), (1, 1, 12));
        assert_eq!(
            (found.now_feasible.len(), found.now_infeasible),
            (0, vec!["tp=13".to_owned()])
        );
        let names: Vec<&str> = found.scores.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names.len(), 10);
        assert_eq!((names[0], names[9]), ("tp=12", "tp=03"));
        assert!(compare("", &old, &old).is_empty());
    }
}

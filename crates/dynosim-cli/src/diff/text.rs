//! Differences as text.

use super::Differences;
use super::best::{BestChange, FigureChange};
use super::candidates::CandidateChanges;
use crate::changes::Change;

/// Changes of one kind that are listed.
const MOST_CHANGES: usize = 8;

/// Figures of a best state that are listed.
const MOST_FIGURES: usize = 6;

/// Candidates that are feasible in one result only, and are listed.
const MOST_STATES: usize = 3;

/// For people: the most important differences, and how many others there are.
pub(super) fn text(differences: &Differences) -> String {
    if differences.is_empty() {
        return "Nothing differs\n".to_owned();
    }
    let mut lines: Vec<String> = Vec::new();
    let inputs = differences.inputs.iter();
    lines.extend(inputs.map(|difference| format!("Input {difference}")));
    let question = differences.question.iter().map(ToString::to_string);
    list(&mut lines, question.collect(), MOST_CHANGES);
    for (index, best) in differences.best.iter().enumerate() {
        // Of a comparison, the first one is the chosen one, whose figures are those of a side.
        let most = if index == 0 { MOST_FIGURES } else { 0 };
        best_lines(&mut lines, best, most);
    }
    if !differences.certificate.is_empty() {
        lines.push(format!("Counts: {}", counts(&differences.certificate)));
    }
    let tables = differences.candidates.iter().filter(|changes| !changes.is_empty());
    let most = 10 / tables.clone().count().max(1);
    for candidates in tables {
        candidate_lines(&mut lines, candidates, most);
    }
    if !differences.other.is_empty() {
        lines.push(format!("Also: {}", other(&differences.other)));
    }
    lines.join("\n") + "\n"
}

fn list(lines: &mut Vec<String>, mut items: Vec<String>, most: usize) {
    let further = items.len().saturating_sub(most);
    items.truncate(most);
    lines.extend(items);
    if further > 0 {
        lines.push(format!("... and {further} more; --json has all"));
    }
}

fn best_lines(lines: &mut Vec<String>, best: &BestChange, most: usize) {
    let name = match best.of.as_str() {
        "" => "Best".to_owned(),
        of => format!("Best ({of})"),
    };
    let state = |state: &Option<String>, feasible: Option<bool>| match state {
        None => "(none)".to_owned(),
        Some(state) if feasible == Some(false) => format!("{state} (infeasible)"),
        Some(state) => state.clone(),
    };
    let (old, new) = (
        state(&best.old_state, best.old_feasible),
        state(&best.new_state, best.new_feasible),
    );
    if old == new {
        lines.push(format!("{name}: the same, {old}"));
    } else {
        lines.push(format!("{name}: {old} -> {new}"));
    }
    let main = best.figures.iter().filter(|figure| figure.is_main());
    let main: Vec<&FigureChange> = main.take(most).collect();
    lines.extend(main.iter().map(|figure| format!("  {}", figure_line(figure))));
    let others = best.figures.len() - main.len();
    if most > 0 && others > 0 {
        lines.push(format!("  and {others} other figures"));
    }
}

fn candidate_lines(lines: &mut Vec<String>, candidates: &CandidateChanges, most_scores: usize) {
    let of = match candidates.of.as_str() {
        "" => String::new(),
        of => format!(" ({of})"),
    };
    let CandidateChanges {
        only_old,
        only_new,
        changed,
        ..
    } = candidates;
    lines.push(format!(
        "Candidates{of}: {changed} with other figures, {only_old} only in the first, {only_new} only in the second"
    ));
    for (word, states) in [
        ("now feasible", &candidates.now_feasible),
        ("now infeasible", &candidates.now_infeasible),
    ] {
        let items = states.iter().map(|state| format!("  {word}: {state}"));
        list(lines, items.collect(), MOST_STATES);
    }
    let scores = candidates.scores.iter().take(most_scores);
    lines.extend(scores.map(|change| format!("  score of {}", figure_line(change))));
}

fn figure_line(figure: &FigureChange) -> String {
    let FigureChange { name, old, new, .. } = figure;
    let (old, new) = (number(*old), number(*new));
    let difference = number(figure.difference);
    let sign = if figure.difference > 0.0 { "+" } else { "" };
    match figure.relative {
        Some(relative) => format!(
            "{name}: {old} -> {new} ({sign}{difference}, {:+.2} %)",
            100.0 * relative
        ),
        None => format!("{name}: {old} -> {new} ({sign}{difference})"),
    }
}

/// Six significant digits or so.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.2}"),
        size if size >= 1.0 => format!("{value:.4}"),
        size if size >= 1e-4 => format!("{value:.7}"),
        _ => format!("{value:.3e}"),
    }
}

/// Counts that differ, on one line; some are in two places.
fn counts(changes: &[Change]) -> String {
    let mut words: Vec<String> = Vec::new();
    for change in changes {
        let path = change.path.replace("certificate.", "").replace("counts.", "");
        let word = Change { path, ..change.clone() }.to_string();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(", ")
}

/// The first parts of paths, and how many values below each differ.
fn other(changes: &[Change]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for change in changes {
        let place = change.path.split('[').next().unwrap_or(&change.path);
        match counts.iter_mut().find(|(name, _)| *name == place) {
            Some((_, count)) => *count += 1,
            None => counts.push((place, 1)),
        }
    }
    let further = counts.len().saturating_sub(MOST_CHANGES);
    let shown = counts.iter().take(MOST_CHANGES);
    let mut words: Vec<String> = shown
        .map(|(name, count)| match count {
            1 => (*name).to_owned(),
            count => format!("{name} ({count} values)"),
        })
        .collect();
    if further > 0 {
        words.push(format!("{further} more"));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits_or_so() {
        let cases = [
            (3.0, "3"),
            (2_691.907_383, "2691.91"),
            (8.173_949_2, "8.1739"),
            (-0.012_345_678, "-0.0123457"),
            (1.5e-9, "1.500e-9"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn other_differences_are_counted_by_place() {
        let change = |path: &str| Change {
            path: path.to_owned(),
            old: None,
            new: None,
        };
        let changes = ["warnings[0]", "candidates[0].tp", "candidates[1].tp", "late"].map(change);
        assert_eq!(other(&changes), "warnings, candidates (2 values), late");
    }
}

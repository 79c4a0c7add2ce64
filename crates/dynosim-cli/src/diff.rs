//! `dynosim diff`: what is not the same in two results of sweeps.
//!
//! Keys that a result does not have, because it was written by another version, are absent and no error; keys that are
//! not known here are compared like all others and named.

mod best;
mod candidates;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use dynosim::answer::SCHEMA_VERSION;
use dynosim::inputs::Inputs;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args::DiffArgs;
use crate::changes::{Change, changes};
use crate::diff::best::BestChange;
use crate::diff::candidates::CandidateChanges;
use crate::error::CliError;
use crate::output;

/// Parts of a comparison of both kinds of deployments.
const SIDES: [&str; 2] = ["agg", "disagg"];

/// Keys with a part of the answer of their own; all others are only named.
const TREATED: [&str; 9] = [
    "spec",
    "inputs",
    "versions",
    "chosen_best",
    "best_feasible",
    "best_infeasible",
    "counts",
    "certificate",
    "mode",
];

/// Shows what differs; says by its exit code whether anything does.
pub(crate) fn diff(args: &DiffArgs) -> Result<(), CliError> {
    let (old, new) = (ResultFile::read(&args.old)?, ResultFile::read(&args.new)?);
    if old.is_comparison() != new.is_comparison() {
        return Err(CliError::Input(
            "one result compares both kinds of deployments (--mode compare) and the other one is of a single search; give the \
             folder agg or disagg within the first"
                .to_owned(),
        ));
    }
    let differences = Differences::between(&old, &new)?;
    if args.json {
        let json = serde_json::to_string_pretty(&differences)
            .map_err(|error| CliError::Failure(format!("the differences cannot be written as JSON: {error}")))?;
        output::print(&(json + "\n"))?;
    } else {
        output::print(&text::text(&differences))?;
    }
    if differences.is_empty() {
        Ok(())
    } else {
        Err(CliError::Differs)
    }
}

/// Everything that differs.
#[derive(Debug, Default, Serialize)]
struct Differences {
    /// Files and versions that the results rest on, in words.
    inputs: Vec<String>,
    /// Kinds of deployments, versions and keys of the spec.
    question: Vec<Change>,
    /// Best states, where they or their figures differ.
    best: Vec<BestChange>,
    /// Counts.
    certificate: Vec<Change>,
    /// Single candidates, for every table that both folders have.
    candidates: Vec<CandidateChanges>,
    /// Everything else.
    other: Vec<Change>,
}

impl Differences {
    fn between(old: &ResultFile, new: &ResultFile) -> Result<Self, CliError> {
        let mut found = Self {
            inputs: input_differences(old.get("inputs"), new.get("inputs")),
            ..Self::default()
        };
        for key in ["mode", "versions", "spec"] {
            found.question.extend(below(key, old.get(key), new.get(key)));
        }
        let chosen = BestChange::between("chosen", old.get("chosen_best"), new.get("chosen_best"));
        found.best.extend(chosen);
        found.add_findings("", &old.document, &new.document);
        for side in SIDES {
            if let (Some(Value::Object(old)), Some(Value::Object(new))) = (old.get(side), new.get(side)) {
                found.add_findings(side, old, new);
            } else {
                found.other.extend(below(side, old.get(side), new.get(side)));
            }
        }
        found.candidates = candidates::between(&old.folder, &new.folder)?;
        Ok(found)
    }

    /// Compares what a search found; `side` is empty unless it is a part of a comparison.
    fn add_findings(&mut self, side: &str, old: &Map<String, Value>, new: &Map<String, Value>) {
        let path = |key: &str| {
            if side.is_empty() {
                key.to_owned()
            } else {
                format!("{side}.{key}")
            }
        };
        self.best.extend(BestChange::between(side, best(old), best(new)));
        for key in ["certificate", "counts"] {
            self.certificate.extend(below(&path(key), old.get(key), new.get(key)));
        }
        let keys = old.keys().chain(new.keys().filter(|key| !old.contains_key(*key)));
        let is_other = |key: &&String| {
            let is_side = side.is_empty() && SIDES.contains(&key.as_str());
            !is_side && !TREATED.contains(&key.as_str())
        };
        for key in keys.filter(is_other) {
            self.other.extend(below(&path(key), old.get(key), new.get(key)));
        }
    }

    fn is_empty(&self) -> bool {
        self.inputs.is_empty()
            && self.question.is_empty()
            && self.best.is_empty()
            && self.certificate.is_empty()
            && self.candidates.iter().all(CandidateChanges::is_empty)
            && self.other.is_empty()
    }
}

/// The best state of a search, or the closest one.
fn best(findings: &Map<String, Value>) -> Option<&Value> {
    let keys = ["best_feasible", "best_infeasible"].into_iter();
    keys.filter_map(|key| findings.get(key)).find(|best| !best.is_null())
}

/// Changes of a value that is at `path`.
fn below(path: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<Change> {
    let document = |value: Option<&Value>| {
        let mut document = Map::new();
        document.extend(value.map(|value| (path.to_owned(), value.clone())));
        Value::Object(document)
    };
    changes(&document(old), &document(new))
}

fn input_differences(old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let inputs = |value: Option<&Value>| value.and_then(|value| serde_json::from_value::<Inputs>(value.clone()).ok());
    match (inputs(old), inputs(new)) {
        (Some(old), Some(new)) => old.differences(&new),
        // At least one was written by a version that notes down none, or in another way.
        _ => below("inputs", old, new).iter().map(ToString::to_string).collect(),
    }
}

/// A result, and the folder that it is in.
#[derive(Debug)]
struct ResultFile {
    folder: PathBuf,
    document: Map<String, Value>,
}

impl ResultFile {
    fn read(path: &Path) -> Result<Self, CliError> {
        let (folder, file) = if path.is_dir() {
            (path.to_owned(), path.join("result.json"))
        } else {
            let folder = path.parent().map(Path::to_owned).unwrap_or_default();
            (folder, path.to_owned())
        };
        let wrong = |what: String| CliError::Input(format!("{}: {what}", file.display()));
        let text = fs::read_to_string(&file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let document: Value = serde_json::from_str(&text).map_err(|error| wrong(format!("is no JSON: {error}")))?;
        let version = document.get("schema_version").and_then(Value::as_u64).unwrap_or(0);
        if version > u64::from(SCHEMA_VERSION) {
            return Err(wrong(format!(
                "is a result of format {version}, written by a newer version of dynosim; use that one"
            )));
        }
        match document {
            Value::Object(document) if document.contains_key("spec") => Ok(Self { folder, document }),
            _ => Err(wrong("is no result of a sweep, which has a key `spec`".to_owned())),
        }
    }

    /// Whether it is about both kinds of deployments, one beside the other.
    fn is_comparison(&self) -> bool {
        self.document.contains_key("chosen_mode")
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.document.get(key)
    }
}

//! Reading a journal.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use dynosim::sweep::Trial;
use serde::{Deserialize, Serialize};

use super::header::Header;
use crate::error::CliError;

/// What a journal holds.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// None if nothing was written yet.
    pub(crate) header: Option<Header>,
    /// How simulations ended.
    pub(crate) trials: BTreeMap<String, Trial>,
    /// Whether the last line says that everything is there.
    pub(crate) is_complete: bool,
    /// Length of what can be read: all of it but for a last line whose writer was ended in the middle of it.
    pub(crate) bytes: u64,
}

/// How a simulation ended.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) key: String,
    pub(super) trial: Trial,
}

/// The last line of a part that is complete.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Complete {
    pub(super) complete: bool,
}

impl Contents {
    /// Reads a journal.
    ///
    /// # Errors
    /// If there is none, or a line other than the last one makes no sense.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let bytes =
            fs::read(path).map_err(|error| CliError::Input(format!("cannot read {}: {error}", path.display())))?;
        let mut contents = Self::default();
        let mut rest = bytes.as_slice();
        let mut number = 0;
        while !rest.is_empty() {
            number += 1;
            let end = rest.iter().position(|&byte| byte == b'\n');
            let (line, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            // A line without an end is a line of which a part is missing, whatever it looks like.
            let taken = if end.is_some() { contents.take(line) } else { Err(None) };
            match taken {
                Ok(()) => contents.bytes += line.len() as u64,
                Err(None) if after.is_empty() => break,
                Err(reason) => {
                    let reason = reason.unwrap_or_else(|| "it is damaged".to_owned());
                    return Err(CliError::Input(format!(
                        "{} line {number}: {reason}; remove the file and begin anew",
                        path.display()
                    )));
                }
            }
            rest = after;
        }
        Ok(contents)
    }

    /// Takes in a line; the error is a reason that holds for a last line, too, if there is one.
    fn take(&mut self, line: &[u8]) -> Result<(), Option<String>> {
        if self.header.is_none() {
            // A line that is whole but no header was not written by this program.
            let foreign = |_| Some("this is not the first line of a journal".to_owned());
            let header = serde_json::from_slice(line).map_err(foreign)?;
            self.header = Some(header);
            return Ok(());
        }
        if let Ok(Complete { complete }) = serde_json::from_slice(line) {
            self.is_complete = complete;
            return Ok(());
        }
        let Line { key, trial } = serde_json::from_slice(line).map_err(|_| None)?;
        if self.trials.get(&key).is_some_and(|known| *known != trial) {
            return Err(Some(format!("the simulation {key} has another outcome than above")));
        }
        self.trials.insert(key, trial);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        r#"{"schema":1,"fingerprint":"f","inputs":[],"mode":"agg","shard":null,"metrics":3,"spec":null}"#;

    fn read(lines: &[&str]) -> Result<Contents, CliError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal.jsonl");
        fs::write(&path, lines.join("\n")).expect("can be written");
        Contents::read(&path)
    }

    #[track_caller]
    fn refused(lines: &[&str], message: &str) {
        let Err(CliError::Input(text)) = read(lines) else {
            panic!("it was read");
        };
        assert!(text.contains(message), "{text}");
    }

    #[test]
    fn only_a_last_line_may_be_damaged() {
        let (line, torn) = (r#"{"key":"a","trial":{"failed":"no"}}"#, r#"{"key":"b","tri"#);
        let contents = read(&[HEADER, line, torn]).expect("its last line is torn");
        assert_eq!((contents.trials.len(), contents.is_complete), (1, false));
        assert_eq!(contents.bytes, (HEADER.len() + line.len() + 2) as u64);
        let contents = read(&[HEADER, line, torn, ""]).expect("its last line makes no sense");
        assert_eq!(contents.bytes, (HEADER.len() + line.len() + 2) as u64);
        refused(&[HEADER, torn, line, ""], "line 2: it is damaged");
        refused(&[line, HEADER, ""], "line 1: this is not the first line");
        refused(&["somebody else's", ""], "line 1: this is not the first line");
    }

    #[test]
    fn one_simulation_has_one_outcome() {
        let lines = [
            HEADER,
            r#"{"key":"a","trial":{"failed":"no"}}"#,
            r#"{"key":"a","trial":{"failed":"yes"}}"#,
            "",
        ];
        refused(&lines, "line 3: the simulation a has another outcome");
        let contents = read(&[HEADER, lines[1], lines[1], r#"{"complete":true}"#, ""]).expect("it is well-formed");
        assert!(contents.is_complete);
    }
}

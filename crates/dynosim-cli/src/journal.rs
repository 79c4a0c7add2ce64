//! A journal: a file that keeps how simulations of a sweep ended, so that none is lost with the process.
//!
//! The first line says what the sweep is (`header`), every other one how a simulation ended, in the order in which they
//! did; `contents` reads them. A journal of a shard that is complete says so on its last line.

mod contents;
mod header;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use dynosim::sweep::{Trial, TrialStore};
use serde::Serialize;

use crate::error::CliError;
use crate::output;

pub(crate) use contents::Contents;
pub(crate) use header::Header;

/// Its name in a folder of results.
pub(crate) const FILE: &str = "journal.jsonl";

/// The journal of a sweep that is running. No other process writes it at the same time.
#[derive(Debug)]
pub(crate) struct Journal<'s> {
    path: PathBuf,
    file: Mutex<File>,
    /// How simulations ended before this process.
    known: BTreeMap<String, Trial>,
    is_complete: bool,
    /// Is set if the journal cannot be written any more: what is not kept is not worth simulating.
    stop: &'s AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

/// How a simulation ended.
#[derive(Serialize)]
struct Line<'l> {
    key: &'l str,
    trial: &'l Trial,
}

impl<'s> Journal<'s> {
    /// Begins a journal in a folder that has none.
    ///
    /// # Errors
    /// If it has one, or the file cannot be made.
    pub(crate) fn create(folder: &Path, header: &Header, stop: &'s AtomicBool) -> Result<Self, CliError> {
        let path = folder.join(FILE);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let mut file = file.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => taken(folder),
            _ => cannot_write(&path, &error),
        })?;
        lock(&file, &path)?;
        write_line(&mut file, header).map_err(|error| cannot_write(&path, &error))?;
        Ok(Self::new(path, file, Contents::default(), stop))
    }

    /// Goes on with the journal in a folder. Whatever its last writer did not finish writing is dropped.
    ///
    /// # Errors
    /// If there is none, it is the journal of something else, or somebody else writes it.
    pub(crate) fn resume(folder: &Path, expected: &mut Header, stop: &'s AtomicBool) -> Result<Self, CliError> {
        let path = folder.join(FILE);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let mut file = file.map_err(|error| match error.kind() {
            ErrorKind::NotFound => nothing_to_resume(folder),
            _ => cannot_write(&path, &error),
        })?;
        lock(&file, &path)?;
        let contents = Contents::read(&path)?;
        file.set_len(contents.bytes)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(|error| cannot_write(&path, &error))?;
        match &contents.header {
            Some(header) => expected.continues(header, &path)?,
            // The process ended before it had written a line.
            None => write_line(&mut file, expected).map_err(|error| cannot_write(&path, &error))?,
        }
        Ok(Self::new(path, file, contents, stop))
    }

    fn new(path: PathBuf, file: File, contents: Contents, stop: &'s AtomicBool) -> Self {
        Self {
            path,
            file: Mutex::new(file),
            known: contents.trials,
            is_complete: contents.is_complete,
            stop,
            failure: Mutex::new(None),
        }
    }

    /// How many simulations it held when it was opened.
    pub(crate) fn known(&self) -> usize {
        self.known.len()
    }

    /// Whether its last line said that everything is there.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Says on the last line that everything is there.
    ///
    /// # Errors
    /// If that cannot be written.
    pub(crate) fn complete(&self) -> Result<(), CliError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = write_line(&mut file, &contents::Complete { complete: true });
        written
            .and_then(|()| file.sync_all())
            .map_err(|error| cannot_write(&self.path, &error))
    }

    /// Removes it, because everything is in the results.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(crate) fn remove(self) -> Result<(), CliError> {
        std::fs::remove_file(&self.path)
            .map_err(|error| CliError::Failure(format!("cannot remove {}: {error}", self.path.display())))
    }

    /// Why the sweep was stopped, if that is because the journal could not be written.
    ///
    /// # Errors
    /// In that case.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            None => Ok(()),
            Some(error) => Err(CliError::Failure(format!(
                "cannot write {}: {error}; the sweep was stopped, what the journal holds is kept, and once it can be \
                 written again, --resume goes on from there",
                self.path.display()
            ))),
        }
    }
}

impl TrialStore for Journal<'_> {
    fn find(&self, key: &str) -> Option<Trial> {
        self.known.get(key).cloned()
    }

    fn keep(&self, key: &str, trial: &Trial) {
        let Some(line) = exact_line(key, trial) else {
            return;
        };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_some() {
            // Behind a line that is not whole, nothing can be read.
            return;
        }
        if let Err(error) = file.write_all(line.as_bytes()) {
            *failure = Some(error);
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// The line of a simulation; none if it would not read back as the same, as with figures that are no numbers. Then it is
/// made again when it is needed again.
fn exact_line(key: &str, trial: &Trial) -> Option<String> {
    let line = serde_json::to_string(&Line { key, trial }).ok()?;
    let read: contents::Line = serde_json::from_str(&line).ok()?;
    (read.trial == *trial).then(|| line + "\n")
}

fn write_line(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let line = serde_json::to_string(line).map_err(io::Error::from)? + "\n";
    file.write_all(line.as_bytes())
}

/// Keeps others from writing the file as long as it is open.
fn lock(file: &File, path: &Path) -> Result<(), CliError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(CliError::Input(format!(
            "another process is writing {}; wait for it, or use another folder",
            path.display()
        ))),
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
            output::note(&format!(
                "warning: {} is on a file system without locks; take care that no other process writes it",
                path.display()
            ));
            Ok(())
        }
        Err(TryLockError::Error(error)) => Err(cannot_write(path, &error)),
    }
}

/// Refuses a folder that holds a journal: its simulations would be lost.
///
/// # Errors
/// If it does.
pub(crate) fn check_folder(folder: &Path) -> Result<(), CliError> {
    if folder.join(FILE).exists() {
        return Err(taken(folder));
    }
    Ok(())
}

fn taken(folder: &Path) -> CliError {
    let path = folder.join(FILE);
    let contents = Contents::read(&path).unwrap_or_default();
    let shard = contents.header.and_then(|header| header.shard);
    let folder = folder.display();
    CliError::Input(match shard {
        Some(shard) if contents.is_complete => {
            format!("{folder} holds the whole of shard {shard}; use `dynosim merge` on all shards, or another folder")
        }
        Some(shard) => format!(
            "{folder} holds the journal of shard {shard}, which is not finished; go on with --resume {folder}, or remove \
             {}",
            path.display()
        ),
        None => format!(
            "{folder} holds the journal of a sweep that was not finished; go on with --resume {folder}, or remove {}",
            path.display()
        ),
    })
}

fn nothing_to_resume(folder: &Path) -> CliError {
    let folder_name = folder.display();
    CliError::Input(if folder.join("result.json").exists() {
        format!("there is nothing to resume in {folder_name}: its result is complete")
    } else {
        format!("there is nothing to resume in {folder_name}: it has no {FILE}; begin with --out {folder_name}")
    })
}

fn cannot_write(path: &Path, error: &io::Error) -> CliError {
    CliError::Failure(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial() -> Trial {
        Trial::GivenUp {
            reason: "late".to_owned(),
            expected_excess: 0.1 + 0.2,
        }
    }

    fn header() -> Header {
        serde_json::from_str(
            r#"{"schema":1,"fingerprint":"f","inputs":[],"mode":"agg","shard":null,"metrics":3,"spec":null}"#,
        )
        .expect("a header")
    }

    #[test]
    fn what_was_kept_is_found_by_the_next_process() {
        let (folder, stop) = (tempfile::tempdir().expect("a folder"), AtomicBool::new(false));
        let journal = Journal::create(folder.path(), &header(), &stop).expect("can be made");
        journal.keep("a", &trial());
        assert!(
            Journal::resume(folder.path(), &mut header(), &stop).is_err(),
            "it is in use"
        );
        drop(journal);
        let journal = Journal::resume(folder.path(), &mut header(), &stop).expect("it is there");
        assert_eq!((journal.find("a"), journal.find("b")), (Some(trial()), None));
    }

    #[test]
    fn a_torn_last_line_is_dropped_and_written_over() {
        let (folder, stop) = (tempfile::tempdir().expect("a folder"), AtomicBool::new(false));
        let journal = Journal::create(folder.path(), &header(), &stop).expect("can be made");
        journal.keep("a", &trial());
        journal.keep("b", &trial());
        drop(journal);
        let path = folder.path().join(FILE);
        let whole = std::fs::read(&path).expect("it is there");
        let last = whole[..whole.len() - 1]
            .iter()
            .rposition(|&byte| byte == b'\n')
            .expect("lines")
            + 1;
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).expect("can be written");
            let journal = Journal::resume(folder.path(), &mut header(), &stop).expect("nobody else uses it");
            if journal.find("a").is_none() {
                journal.keep("a", &trial());
            }
            journal.keep("b", &trial());
            drop(journal);
            assert_eq!(
                std::fs::read(&path).expect("it is there"),
                whole,
                "cut at {length} of {last}"
            );
        }
    }

    #[test]
    fn what_cannot_be_written_exactly_is_not_kept() {
        let endless = Trial::GivenUp {
            reason: String::new(),
            expected_excess: f64::INFINITY,
        };
        assert_eq!(exact_line("a", &endless), None);
        assert!(exact_line("a", &trial()).is_some());
    }

    #[test]
    fn a_full_disk_stops_the_sweep() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return;
        }
        let stop = AtomicBool::new(false);
        let file = OpenOptions::new().write(true).open(full).expect("it can be opened");
        let journal = Journal::new(full.to_owned(), file, Contents::default(), &stop);
        journal.keep("a", &trial());
        assert!(stop.load(Ordering::Relaxed));
        let Err(CliError::Failure(message)) = journal.check() else {
            panic!("nothing is said");
        };
        assert!(message.starts_with("cannot write /dev/full: "), "{message}");
    }
}

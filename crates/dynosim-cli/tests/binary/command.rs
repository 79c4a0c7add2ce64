//! Running the binary.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// What a run of the binary left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        self.exits(0, "")
    }

    /// Checks exit code and part of standard error.
    #[track_caller]
    pub(crate) fn exits(self, code: i32, message: &str) -> Self {
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.contains(message), "no `{message}` in {self:?}");
        if code != 0 {
            assert!(self.stderr.starts_with("error: "), "{self:?}");
        }
        self
    }

    /// Checks the exit code of what has nothing to say besides its result.
    #[track_caller]
    pub(crate) fn ends_quietly(self, code: i32) -> Self {
        assert_eq!((self.code, self.stderr.as_str()), (Some(code), ""), "{self:?}");
        self
    }
}

/// Runs the binary without input.
pub(crate) fn dynosim(args: &[&str]) -> Ran {
    dynosim_with_input(args, "")
}

/// Runs the binary from the root of the repository.
pub(crate) fn dynosim_at_root(args: &[&str]) -> Ran {
    run(
        Command::new(env!("CARGO_BIN_EXE_dynosim")).current_dir(root()),
        args,
        "",
    )
}

/// Runs the binary on this standard input.
pub(crate) fn dynosim_with_input(args: &[&str], input: &str) -> Ran {
    run(&mut Command::new(env!("CARGO_BIN_EXE_dynosim")), args, input)
}

fn run(command: &mut Command, args: &[&str], input: &str) -> Ran {
    let mut child = command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut stdin = child.stdin.take().expect("it is piped");
    // A command that refuses its arguments does not read what it is given.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// A folder that a test may fill.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder"))
    }

    /// The path of a file in it, as an argument.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a plain path").to_owned()
    }

    /// Writes a file and gives its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = PathBuf::from(self.path(name));
        fs::create_dir_all(path.parent().expect("a folder")).expect("can be made");
        fs::write(&path, text).expect("can be written");
        self.path(name)
    }

    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    #[track_caller]
    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).expect("JSON")
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        Path::new(&self.path(name)).exists()
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The figures of the reference.
pub(crate) fn golden(name: &str) -> PathBuf {
    root().join("tests/golden").join(name)
}

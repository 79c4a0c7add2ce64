//! What can be wrong with a spec, a model or a GPU name.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a spec, a model or a GPU system cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The text is not JSON.
    #[error("not valid JSON at line {line}, column {column}: {message}")]
    Syntax {
        /// Line of the mistake, from 1.
        line: usize,
        /// Column of the mistake, from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// The spec breaks its rules; every mistake is listed.
    #[error("{}", list("invalid spec", violations))]
    Invalid {
        /// The mistakes, at least one.
        violations: Vec<Violation>,
    },
    /// No bundled model has this name, and no file or folder is there either.
    #[error("unknown model `{name}`{} {}", suggestion(nearest.as_deref()), offer("bundled", known))]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// The bundled name most like it.
        nearest: Option<String>,
        /// All bundled names.
        known: Vec<String>,
    },
    /// No GPU system has this name.
    #[error("unknown GPU system `{name}`{} {}", suggestion(nearest.as_deref()), offer("known", known))]
    UnknownSystem {
        /// What was asked for.
        name: String,
        /// The known name most like it.
        nearest: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// A model file cannot be read.
    #[error("cannot read model file {}", path.display())]
    ModelFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A model file is not JSON.
    #[error("model file {}: not valid JSON: {message}", path.display())]
    ModelSyntax {
        /// The file.
        path: PathBuf,
        /// What the parser says, with line and column.
        message: String,
    },
    /// The facts about a model contradict themselves or are incomplete; every mistake is listed.
    #[error("{}", list(&format!("invalid model {model}"), violations))]
    InvalidModel {
        /// Name or path of the model.
        model: String,
        /// The mistakes, at least one.
        violations: Vec<Violation>,
    },
    /// The model is of a kind that cannot be simulated.
    #[error("not supported yet: {model} {reason}")]
    UnsupportedModel {
        /// Name or path of the model.
        model: String,
        /// What about it is not supported, and what is.
        reason: String,
    },
}

/// One mistake and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// JSON path, for example `engine.baseEngineArgs.block_size`; empty for the whole document.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// A value that was read without mistakes, with remarks about what the text asked for in vain.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked<T> {
    /// The value.
    pub value: T,
    /// Remarks, each beginning with a JSON path, for example on fields that have no effect.
    pub warnings: Vec<String>,
}

fn list(title: &str, violations: &[Violation]) -> String {
    match violations {
        [only] => format!("{title}: {only}"),
        several => {
            let lines: Vec<String> = several.iter().map(Violation::to_string).collect();
            format!("{title}, {} mistakes:\n  {}", several.len(), lines.join("\n  "))
        }
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!(", did you mean `{nearest}`?"))
}

fn offer(title: &str, known: &[String]) -> String {
    if known.is_empty() {
        format!("({title}: none)")
    } else {
        format!("({title}: {})", known.join(", "))
    }
}

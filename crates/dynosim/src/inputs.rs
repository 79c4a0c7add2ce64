//! What a result rests on, so that two results can be told apart and one can be made again.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dynosim_spec::{GpuSpec, ModelSpec, ReplayOptimizeSpec, TimingKind, TimingSpec, WorkloadSpec};
use dynosim_sweep::SweepError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::scenario::tables;

/// Everything that the result of a sweep rests on: equal inputs give equal results, on any host.
///
/// ```
/// use dynosim::inputs::Inputs;
/// use dynosim::spec::ReplayOptimizeSpec;
///
/// let text = r#"{
///     "engine": { "model": "Qwen/Qwen3-32B", "backend": "vllm" },
///     "hardware": { "system": "h200_sxm", "totalGpus": 4 },
///     "workload": { "isl": 2000, "osl": 20, "requestCount": 40, "concurrency": 8 }
/// }"#;
/// let mut spec = ReplayOptimizeSpec::from_json(text)?.value;
/// let inputs = Inputs::of_sweep(&spec, "disagg", None)?;
/// spec.max_parallel_evals = Some(2);
/// assert_eq!(Inputs::of_sweep(&spec, "disagg", None)?.fingerprint(), inputs.fingerprint());
/// spec.seed = 1;
/// assert_ne!(Inputs::of_sweep(&spec, "disagg", None)?.fingerprint(), inputs.fingerprint());
/// # Ok::<(), dynosim::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Inputs(Vec<Input>);

/// One of the things that a result rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// What it is: `dynosim`, `mode`, `spec`, `trace`, `model`, `calibration` or `tables`.
    pub what: String,
    /// The file, if it is one, as the spec or the command line names it; where a file lies makes no difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// What it is in words, if it is no file: a version, a mode, `bundled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
}

impl Inputs {
    /// What a sweep over `mode` (as the command line calls it) rests on, with the bundled tables or those of a folder.
    ///
    /// The spec counts as it is serialised: defaults filled in, without what results do not depend on. Of a folder of
    /// tables, those of the engine version in use count, and those of its other versions where impossible measurements
    /// are replaced from them.
    ///
    /// # Errors
    /// If one of the files cannot be read, or the spec cannot be written as JSON because a path in it is no text.
    pub fn of_sweep(spec: &ReplayOptimizeSpec, mode: &str, perfdata: Option<&Path>) -> Result<Self, Error> {
        let spec_json = serde_json::to_string(spec).map_err(SweepError::from)?;
        let mut inputs = vec![
            Input::word("dynosim", env!("CARGO_PKG_VERSION")),
            Input::word("mode", mode),
            Input {
                what: "spec".to_owned(),
                path: None,
                value: None,
                sha256: sha256(spec_json.as_bytes()),
            },
        ];
        if let WorkloadSpec::Trace(trace) = &spec.workload {
            inputs.push(Input::file("trace", &trace.trace_file)?);
        }
        for path in model_files(&spec.engine.model) {
            inputs.push(Input::file("model", &path)?);
        }
        if let Some(path) = calibration_file(&spec.timing) {
            inputs.push(Input::file("calibration", path)?);
        }
        if spec.timing.provider == TimingKind::Table {
            match perfdata {
                None => inputs.push(Input::word("tables", "bundled")),
                Some(folder) => {
                    for path in table_files(spec, folder).map_err(|source| unreadable("tables", folder, source))? {
                        inputs.push(Input::file("tables", &path)?);
                    }
                }
            }
        }
        Ok(Self(inputs))
    }

    /// One digest over all, in hexadecimal digits: equal if and only if all inputs are. Paths do not count.
    pub fn fingerprint(&self) -> String {
        let mut lines = String::new();
        for input in &self.0 {
            // Writing to a string cannot fail. The name of a table is part of what it is.
            let _ = writeln!(lines, "{} {} {}", input.what, input.file_name(), input.sha256);
        }
        sha256(lines.as_bytes())
    }

    /// All of them, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = &Input> {
        self.0.iter()
    }

    /// In words, what is not the same in `other`; empty if the fingerprints are equal.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        for input in &self.0 {
            match other.0.iter().find(|candidate| candidate.is_same_thing(input)) {
                Some(found) if found.sha256 == input.sha256 => {}
                Some(found) => differences.push(match (&input.value, &found.value) {
                    (Some(one), Some(two)) => format!("{}: {one} and {two}", input.what),
                    _ => format!("{}: contents differ", input.name()),
                }),
                None => differences.push(format!("{}: only in the first", input.name())),
            }
        }
        let is_new = |input: &&Input| !self.0.iter().any(|known| known.is_same_thing(input));
        let new = other.0.iter().filter(is_new);
        differences.extend(new.map(|input| format!("{}: only in the second", input.name())));
        differences
    }
}

impl Input {
    fn word(what: &str, value: &str) -> Self {
        Self {
            what: what.to_owned(),
            path: None,
            value: Some(value.to_owned()),
            sha256: sha256(value.as_bytes()),
        }
    }

    fn file(what: &str, path: &Path) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(|source| unreadable(what, path, source))?;
        Ok(Self {
            what: what.to_owned(),
            path: Some(path.to_owned()),
            value: None,
            sha256: sha256(&bytes),
        })
    }

    /// The kind, and the file if it is one.
    pub fn name(&self) -> String {
        match &self.path {
            Some(path) => format!("{} {}", self.what, path.display()),
            None => self.what.clone(),
        }
    }

    fn is_same_thing(&self, other: &Self) -> bool {
        self.what == other.what && self.file_name() == other.file_name()
    }

    /// Of the several files of a kind, which one; a trace or a calibration is the only one of its kind.
    fn file_name(&self) -> String {
        let path = self
            .path
            .as_deref()
            .filter(|_| self.what == "tables" || self.what == "model");
        // Tables of two versions have the same name in different folders.
        let folders = if self.what == "tables" { 3 } else { 1 };
        let parts: Vec<_> = path.into_iter().flat_map(Path::components).collect();
        let last = parts.iter().skip(parts.len().saturating_sub(folders));
        last.map(|part| part.as_os_str().to_string_lossy())
            .collect::<Vec<_>>()
            .join("/")
    }
}

/// The files that describe a model which is not bundled.
fn model_files(model: &str) -> Vec<PathBuf> {
    let path = Path::new(model);
    if ModelSpec::bundled_names().iter().any(|name| name == model) || !path.exists() {
        return Vec::new();
    }
    let config = if path.is_dir() {
        path.join("config.json")
    } else {
        path.to_owned()
    };
    let side_file = config.with_file_name("hf_quant_config.json");
    [config, side_file].into_iter().filter(|path| path.exists()).collect()
}

fn calibration_file(timing: &TimingSpec) -> Option<&Path> {
    let name = timing.calibration.as_deref()?;
    (name != TimingSpec::NO_CALIBRATION).then(|| Path::new(name))
}

/// The tables of a folder that step times may come from, by path.
fn table_files(spec: &ReplayOptimizeSpec, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (engine, timing) = (&spec.engine, &spec.timing);
    let gpu = GpuSpec::find(&spec.hardware.system).ok();
    // If there are no such tables, binding says so.
    let system = gpu.and_then(|gpu| {
        tables(timing, engine, Some(folder))
            .measured_system(&gpu, engine.backend)
            .ok()
    });
    let Some(system) = system else {
        return Ok(Vec::new());
    };
    let name = match engine.backend {
        dynosim_spec::Backend::Vllm => "vllm",
        dynosim_spec::Backend::Sglang => "sglang",
    };
    let in_use = format!("{name}_{}", timing.engine_version(engine.backend, engine.rules));
    let with_others = timing.repairs(engine.rules);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder.join(system))? {
        let entry = entry?;
        let version = entry.file_name().to_string_lossy().into_owned();
        let is_read = version == in_use || (with_others && version.starts_with(&format!("{name}_")));
        if is_read && entry.path().is_dir() {
            for table in fs::read_dir(entry.path())? {
                files.push(table?.path());
            }
        }
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

fn unreadable(what: &str, path: &Path, source: io::Error) -> Error {
    Error::InputFile {
        what: what.to_owned(),
        path: path.to_owned(),
        source,
    }
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(spec: &str, trace: &str, folder: &str) -> Inputs {
        Inputs(vec![
            Input::word("dynosim", "1"),
            Input::word("spec", spec),
            Input {
                path: Some(Path::new(folder).join("trace.jsonl")),
                value: None,
                ..Input::word("trace", trace)
            },
        ])
    }

    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn where_a_file_lies_makes_no_difference() {
        let (here, there) = (inputs("a", "t", "here"), inputs("a", "t", "there"));
        assert_eq!(here.fingerprint(), there.fingerprint());
        assert_eq!(here.differences(&there), [""; 0]);
    }

    #[test]
    fn differences_are_named() {
        let (one, two) = (inputs("a", "t", "here"), inputs("b", "u", "here"));
        assert_ne!(one.fingerprint(), two.fingerprint());
        assert_eq!(
            one.differences(&two),
            ["spec: a and b", "trace here/trace.jsonl: contents differ"]
        );
        let fewer = Inputs(one.0[..2].to_vec());
        assert_eq!(one.differences(&fewer), ["trace here/trace.jsonl: only in the first"]);
        assert_eq!(fewer.differences(&one), ["trace here/trace.jsonl: only in the second"]);
    }

    #[test]
    fn they_survive_being_written_down() {
        let inputs = inputs("a", "t", "here");
        let text = serde_json::to_string(&inputs).expect("plain values");
        assert_eq!(serde_json::from_str::<Inputs>(&text).expect("what was written"), inputs);
    }
}

//! Where tables are: built into the binary, or in a folder.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use dynosim_spec::{Backend, GpuSpec};

use crate::engine_version::nearest_first;
use crate::error::TimingError;
use crate::table_file::{TableFile, TableIdentity, TableSlice, engine_name};

#[cfg(feature = "bundled")]
macro_rules! bundled {
    (dense: $($system:literal / $engine:literal),*; experts: $($moe_system:literal / $moe_engine:literal),*) => {
        &[$(
            ($system, $engine, "gemm", bundled!(@ $system, $engine, "gemm")),
            ($system, $engine, "context_attention", bundled!(@ $system, $engine, "context_attention")),
            ($system, $engine, "generation_attention", bundled!(@ $system, $engine, "generation_attention")),
            ($system, $engine, "custom_allreduce", bundled!(@ $system, $engine, "custom_allreduce")),
        )* $(
            ($moe_system, $moe_engine, "moe", bundled!(@ $moe_system, $moe_engine, "moe")),
            ($moe_system, $moe_engine, "nccl", bundled!(@ $moe_system, $moe_engine, "nccl")),
        )*]
    };
    (@ $system:literal, $engine:literal, $table:literal) => {
        include_str!(concat!("../../../perfdata/", $system, "/", $engine, "/", $table, ".json"))
    };
}

/// System, engine folder, table and content of what is built in.
#[cfg(feature = "bundled")]
const BUNDLED: &[(&str, &str, &str, &str)] = bundled!(
    dense: "h200_sxm" / "vllm_0.14.0",
    "h200_sxm" / "vllm_0.19.0",
    "h200_sxm" / "sglang_0.5.6.post2",
    "h200_sxm" / "sglang_0.5.10";
    experts: "h200_sxm" / "vllm_0.14.0",
    "h200_sxm" / "vllm_0.19.0"
);
#[cfg(not(feature = "bundled"))]
const BUNDLED: &[(&str, &str, &str, &str)] = &[];

/// A collection of tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Perfdata {
    /// Built into the binary.
    Bundled,
    /// A folder laid out like `perfdata/`.
    Folder(PathBuf),
}

/// The tables of one engine version on one GPU system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableSet {
    perfdata: Perfdata,
    pub(crate) system: String,
    pub(crate) engine: Backend,
    pub(crate) version: String,
}

impl Perfdata {
    /// The tables of `engine` `version` on `system`.
    ///
    /// # Errors
    /// If there are none; the message lists what there is.
    pub(crate) fn find(&self, system: &str, engine: Backend, version: &str) -> Result<TableSet, TimingError> {
        let all = self.table_sets()?;
        let fitting = |set: &&TableSet| set.system == system && set.engine == engine;
        if let Some(set) = all.iter().filter(fitting).find(|set| set.version == version) {
            return Ok(set.clone());
        }
        let versions: Vec<&str> = all.iter().filter(fitting).map(|set| set.version.as_str()).collect();
        if versions.is_empty() {
            let mut known: Vec<String> = all
                .iter()
                .map(|set| format!("{} ({})", set.system, engine_name(set.engine)))
                .collect();
            known.dedup();
            return Err(TimingError::UnknownSystem {
                system: system.to_owned(),
                engine: engine_name(engine),
                place: self.to_string(),
                known: listing(&known),
            });
        }
        Err(TimingError::UnknownEngineVersion {
            system: system.to_owned(),
            engine: engine_name(engine),
            version: version.to_owned(),
            place: self.to_string(),
            known: listing(&versions),
        })
    }

    /// The tables of `engine` `version` to price `gpu` from, and the GPU they were measured on: itself, or, if nobody
    /// has measured this GPU and its figures are known by name, the measured one whose memory bandwidth is
    /// nearest.
    ///
    /// # Errors
    /// As [`Perfdata::find`].
    pub(crate) fn find_for(
        &self,
        gpu: &GpuSpec,
        engine: Backend,
        version: &str,
    ) -> Result<(TableSet, GpuSpec), TimingError> {
        match self.find(&gpu.name, engine, version) {
            Ok(set) => Ok((set, gpu.clone())),
            Err(error @ TimingError::UnknownSystem { .. }) if GpuSpec::find(&gpu.name).is_ok() => {
                let measured = self.nearest_measured(gpu, engine)?.ok_or(error)?;
                Ok((self.find(&measured.name, engine, version)?, measured))
            }
            Err(error) => Err(error),
        }
    }

    /// The known GPU with tables for `engine` whose memory bandwidth is nearest to that of `gpu`, as a ratio.
    fn nearest_measured(&self, gpu: &GpuSpec, engine: Backend) -> Result<Option<GpuSpec>, TimingError> {
        let sets = self.table_sets()?;
        let measured =
            (sets.iter().filter(|set| set.engine == engine)).filter_map(|set| GpuSpec::find(&set.system).ok());
        let distance = |other: &GpuSpec| (other.memory_bandwidth / gpu.memory_bandwidth).ln().abs();
        Ok(measured.min_by(|a, b| distance(a).total_cmp(&distance(b))))
    }

    /// The tables of the same engine on the same system in other versions, nearest first.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub(crate) fn other_versions(&self, set: &TableSet) -> Result<Vec<TableSet>, TimingError> {
        let mut others = self.table_sets()?;
        others.retain(|other| other.system == set.system && other.engine == set.engine && other != set);
        Ok(nearest_first(others, &set.version, |other| &other.version))
    }

    /// All table sets, by system, engine and version.
    pub(crate) fn table_sets(&self) -> Result<Vec<TableSet>, TimingError> {
        let mut folders: Vec<(String, String)> = match self {
            Self::Bundled => BUNDLED
                .iter()
                .map(|(system, engine, ..)| ((*system).to_owned(), (*engine).to_owned()))
                .collect(),
            Self::Folder(root) => {
                let mut folders = Vec::new();
                for system in subfolders(root)? {
                    let engines = subfolders(&root.join(&system))?;
                    folders.extend(engines.into_iter().map(|engine| (system.clone(), engine)));
                }
                folders
            }
        };
        folders.sort_unstable();
        folders.dedup();
        let set = |(system, folder): (String, String)| {
            let (engine, version) = folder.split_once('_')?;
            let engine = [Backend::Vllm, Backend::Sglang]
                .into_iter()
                .find(|known| engine_name(*known) == engine)?;
            Some(TableSet {
                perfdata: self.clone(),
                system,
                engine,
                version: version.to_owned(),
            })
        };
        Ok(folders.into_iter().filter_map(set).collect())
    }
}

impl std::fmt::Display for Perfdata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bundled => f.write_str("the built-in perfdata"),
            Self::Folder(root) => write!(f, "{}", root.display()),
        }
    }
}

impl TableSet {
    /// Reads and checks one table.
    ///
    /// # Errors
    /// If the table is missing, damaged or not what its place says.
    pub(crate) fn load<S: TableSlice>(&self) -> Result<TableFile<S>, TimingError> {
        let path = self.path::<S>();
        TableFile::parse(
            &self.text::<S>()?,
            &path,
            TableIdentity {
                system: &self.system,
                engine: self.engine,
                engine_version: &self.version,
            },
        )
    }

    /// Whether there is such a table at all.
    pub(crate) fn has<S: TableSlice>(&self) -> bool {
        match &self.perfdata {
            Perfdata::Bundled => self.bundled::<S>().is_some(),
            Perfdata::Folder(root) => root.join(self.relative_path(S::TABLE)).exists(),
        }
    }

    /// Where a table is, for messages.
    pub(crate) fn path<S: TableSlice>(&self) -> String {
        let relative = self.relative_path(S::TABLE);
        match &self.perfdata {
            Perfdata::Bundled => format!("perfdata/{relative}"),
            Perfdata::Folder(root) => root.join(relative).display().to_string(),
        }
    }

    fn text<S: TableSlice>(&self) -> Result<Cow<'static, str>, TimingError> {
        match &self.perfdata {
            Perfdata::Bundled => (self.bundled::<S>())
                .map(Cow::Borrowed)
                .ok_or_else(|| TimingError::MissingTable { path: self.path::<S>() }),
            Perfdata::Folder(root) => {
                let bytes = fs::read(root.join(self.relative_path(S::TABLE)));
                let bytes = bytes.map_err(|source| unreadable(&self.path::<S>(), source))?;
                // Bytes that are no text cannot be JSON either; the parser says where.
                Ok(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
            }
        }
    }

    /// The built-in text of a table.
    fn bundled<S: TableSlice>(&self) -> Option<&'static str> {
        let folder = self.folder();
        let mut tables = BUNDLED.iter();
        let found =
            tables.find(|(system, engine, table, _)| *system == self.system && *engine == folder && *table == S::TABLE);
        found.map(|(.., text)| *text)
    }

    fn folder(&self) -> String {
        format!("{}_{}", engine_name(self.engine), self.version)
    }

    fn relative_path(&self, table: &str) -> String {
        format!("{}/{}/{table}.json", self.system, self.folder())
    }
}

fn subfolders(folder: &Path) -> Result<Vec<String>, TimingError> {
    let unreadable = |source| unreadable(&folder.display().to_string(), source);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.path().is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

fn unreadable(path: &str, source: std::io::Error) -> TimingError {
    TimingError::Unreadable {
        path: path.to_owned(),
        source,
    }
}

fn listing<T: std::borrow::Borrow<str>>(items: &[T]) -> String {
    if items.is_empty() {
        "nothing".to_owned()
    } else {
        items.join(", ")
    }
}

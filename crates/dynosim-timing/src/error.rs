//! Why a timing model cannot be had.

use dynosim_spec::ParallelShape;
use thiserror::Error;

/// Why a provider could not be bound to a deployment, or a table not be asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TimingError {
    /// Nothing is known about the model.
    #[error(
        "nothing is known about model `{model}`, so {purpose} is impossible; give a bundled name or the path of a config.json"
    )]
    UnknownModel {
        /// Name in the spec.
        model: String,
        /// What the facts were needed for.
        purpose: &'static str,
    },
    /// The query heads cannot be shared out evenly.
    #[error("tp {tp} does not divide the {heads} attention heads of {model}; choose a divisor")]
    UnevenHeads {
        /// Model.
        model: String,
        /// Query heads.
        heads: u32,
        /// Tensor-parallel size.
        tp: u32,
    },
    /// Experts cannot be spread in this way.
    #[error("{model} cannot run at {shape}: {reason}")]
    ImpossibleShape {
        /// Model.
        model: String,
        /// GPUs of a worker as asked for.
        shape: ParallelShape,
        /// Why not.
        reason: String,
    },
    /// Nothing is known about how this engine runs experts.
    #[error(
        "{model} is a mixture-of-experts model, whose step times are known for backend vllm only, not for {engine}"
    )]
    ExpertsOfEngine {
        /// Model.
        model: String,
        /// Serving engine.
        engine: &'static str,
    },
    /// Weights and activations leave no memory for the KV cache.
    #[error(
        "no room for KV cache: {model} at {shape} on {system} needs {:.1} GiB beside the cache, {:.1} GiB may be used",
        gib(*needed_bytes),
        gib(*available_bytes)
    )]
    NoKvRoom {
        /// Model.
        model: String,
        /// GPUs of a worker.
        shape: ParallelShape,
        /// GPU system.
        system: String,
        /// Bytes for weights, activations and buffers.
        needed_bytes: u64,
        /// Bytes the engine may use.
        available_bytes: u64,
    },
    /// There are no tables for the GPU system and engine.
    #[error(
        "no measured tables for {engine} on system `{system}` in {place}; there are tables for {known}; timing provider `roofline` prices any system"
    )]
    UnknownSystem {
        /// GPU system in the spec.
        system: String,
        /// Serving engine.
        engine: &'static str,
        /// Where tables were looked for.
        place: String,
        /// Systems and engines with tables.
        known: String,
    },
    /// There are tables for the GPU system and engine, but of other versions.
    #[error("no tables of {engine} {version} for {system} in {place}; versions with tables: {known}")]
    UnknownEngineVersion {
        /// GPU system.
        system: String,
        /// Serving engine.
        engine: &'static str,
        /// Version that was asked for.
        version: String,
        /// Where tables were looked for.
        place: String,
        /// Versions with tables.
        known: String,
    },
    /// The model's number format was measured on another GPU, and this one cannot compute in it.
    #[error(
        "{system} has no units for 8-bit floats, so the {format} kernels of {model}, measured on {measured}, cannot be scaled to it; \
         choose a 16-bit checkpoint or another system"
    )]
    NoEightBitUnits {
        /// GPU system.
        system: String,
        /// Model.
        model: String,
        /// Number format of its weights.
        format: &'static str,
        /// GPU system with measurements.
        measured: String,
    },
    /// A table file, or a folder of tables, cannot be read.
    #[error("cannot read {path}: {source}; perfdata folders hold <system>/<engine>_<version>/<table>.json")]
    Unreadable {
        /// The file or folder.
        path: String,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// A table is missing among those built in.
    #[error("table {path} is not built in; choose another engine version, or timing provider `roofline`")]
    MissingTable {
        /// The file it would come from.
        path: String,
    },
    /// The file is a Git LFS pointer, its content was never fetched.
    #[error("{path} is a Git LFS pointer, not a table; run `git lfs pull` and build again")]
    LfsPointer {
        /// The file.
        path: String,
    },
    /// The file is not the JSON of a table.
    #[error("table {path} is damaged or not a table: {source}; restore or regenerate it (see perfdata/README.md)")]
    MalformedTable {
        /// The file.
        path: String,
        /// What the parser says, with line and column.
        source: serde_json::Error,
    },
    /// The file is a table but contradicts itself or its place.
    #[error("table {path} is invalid: {flaw}; regenerate it (see perfdata/README.md)")]
    InvalidTable {
        /// The file.
        path: String,
        /// First contradiction.
        flaw: String,
    },
    /// The table has no measurements of the kernels that a deployment runs.
    #[error(
        "table {path} does not cover {model} at {shape}: it has no {missing}, only {available}; timing provider `roofline` prices any shape"
    )]
    UncoveredShape {
        /// The file.
        path: String,
        /// Model.
        model: String,
        /// GPUs of a worker; boxed to keep errors small.
        shape: Box<ParallelShape>,
        /// What is missing.
        missing: String,
        /// What the table has instead.
        available: String,
    },
    /// A single query lies beyond the reach of a table.
    #[error("table {path} reaches up to {axis} = {limit}, {value} was asked for")]
    OutsideTable {
        /// The file.
        path: String,
        /// Axis that ends.
        axis: &'static str,
        /// Value asked for.
        value: u64,
        /// Largest value that can be answered.
        limit: u64,
    },
    /// Whatever went wrong in a provider of the user's.
    #[error("timing provider failed: {0}")]
    Custom(#[source] Box<dyn std::error::Error + Send + Sync>),
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

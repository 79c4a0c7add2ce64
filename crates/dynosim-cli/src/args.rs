//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use dynosim::export::ApiVersion;
use dynosim::spec::Backend;

use crate::shard::ShardArg;

const EXAMPLES: &str = "\
Examples:
  dynosim run deployment.json                      one simulation, its metrics as a table
  dynosim run deployment.json --report out.json    the whole report
  dynosim sweep budget.json --out results          search deployments within a GPU budget
  dynosim diff results other-results               what differs between two answers
  dynosim export results --out handoff             the best one as files for real engines
  dynosim validate measured.csv --setup setup.json how right simulations are
  dynosim timing prefill points.csv                price prefill steps
  dynosim models                                   models known by name

Exit status: 0 on success, 1 if a simulation fails or output cannot be written,
2 if arguments, specs, traces or tables cannot be used, 130 if it was interrupted.";

/// Simulates LLM-serving deployments: how does one do, and which should I run?
#[derive(Debug, Parser)]
#[command(name = "dynosim", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Simulate one deployment
    Run(RunArgs),
    /// Search for the best deployment within a GPU budget
    Sweep(SweepJobArgs),
    /// Put the shards of a sweep together
    Merge(MergeArgs),
    /// Show what differs between two results of sweeps
    Diff(DiffArgs),
    /// Compare simulations with measurements of real deployments
    Validate(ValidateArgs),
    /// Fit constants of an engine to measurements of real deployments
    Calibrate(CalibrateArgs),
    /// Write a deployment as files for real engines: manifest, commands, benchmark, expectations
    Export(ExportArgs),
    /// Price steps, or estimate KV capacities, for the rows of a CSV file
    Timing(TimingArgs),
    /// List the models that are known by name
    Models,
    /// List the GPU systems that are known
    Systems,
}

const RUN_EXAMPLES: &str = "\
Examples:
  dynosim run deployment.json
  dynosim run deployment.json --report report.json --requests requests.csv
  generate-spec | dynosim run - --report -";

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The simulation: a spec as JSON, see the README; `-` reads standard input
    pub(crate) spec: PathBuf,
    /// Write the whole report as JSON instead of printing a table; `-` is standard output
    #[arg(long, value_name = "OUT.json")]
    pub(crate) report: Option<PathBuf>,
    /// Write one line per request; `-` is standard output, and then the table goes to standard error
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) requests: Option<PathBuf>,
    /// Say what step time and TTFT are spent on; slower, with the same results
    #[arg(long)]
    pub(crate) breakdown: bool,
    #[command(flatten)]
    pub(crate) tables: PerfdataArg,
}

const SWEEP_EXAMPLES: &str = "\
Prints the best state, a table of the ten best, and what was seen of the space. If no state is
feasible, it says by how much the closest ones miss their bounds; that is an answer, too, and the
exit status is 0. --explain and --out say why, too, and how sure that is.

With --out, DIR holds result.json, evaluated.csv (every visited state), feasible.csv (best first),
pareto.csv, requests.csv and report.html, which depend neither on the host nor on
--max-parallel-evals. With --mode compare, DIR/agg and DIR/disagg hold these, and DIR/result.json
says which mode is chosen.

While a sweep runs, DIR/journal.jsonl keeps every simulation that has ended; it is removed with the
last file written. Ctrl-C and SIGTERM end a sweep after the simulations under way, with the result
so far and exit status 130; a second one ends it at once. Either way, and after a crash, --resume DIR
goes on, and the files are the same as without an interruption.

--shard makes a part of an exhaustive search, on whatever machine; its journal is its result, and
`dynosim merge` puts all parts together.

Examples:
  dynosim sweep budget.json
  dynosim sweep budget.json --mode compare --out results
  dynosim sweep budget.json --max-parallel-evals 2
  dynosim sweep budget.json --resume results
  dynosim sweep budget.json --shard 1/7 --out shard-1";

#[derive(Debug, Args)]
#[command(after_help = SWEEP_EXAMPLES)]
pub(crate) struct SweepJobArgs {
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
    #[command(flatten)]
    pub(crate) part: PartArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PartArgs {
    /// Go on with an unfinished sweep in this folder, instead of --out
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub(crate) resume: Option<PathBuf>,
    /// Make only the simulations of one part of an exhaustive search, 1/N to N/N
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<ShardArg>,
}

const MERGE_EXAMPLES: &str = "\
Every shard is a folder that `dynosim sweep SPEC --shard I/N --out SHARD_DIR` has filled. Spec and
options are those of the shards. Prints and writes exactly what one sweep on one machine does.

Examples:
  dynosim merge budget.json shard-1 shard-2 shard-3 --out results";

#[derive(Debug, Args)]
#[command(after_help = MERGE_EXAMPLES)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
    /// Folders of all shards, in any order
    #[arg(required = true, value_name = "SHARD_DIR")]
    pub(crate) shards: Vec<PathBuf>,
}

const DIFF_EXAMPLES: &str = "\
Compares what the results rest on, specs, best states with their main figures, the counts of the
certificates and, if evaluated.csv lies beside both, single candidates: those that are feasible in one
only, and the ten largest changes of the score. OLD and NEW are folders with a result.json, or such
files.

Exit status: 0 if nothing differs, 1 if something does, 2 if there is trouble.

Examples:
  dynosim diff results-before results-after
  dynosim diff before/result.json after/result.json --json";

#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub(crate) struct DiffArgs {
    /// The first result
    pub(crate) old: PathBuf,
    /// The second result
    pub(crate) new: PathBuf,
    /// Print all differences as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a sweep and the merging of its parts have in common.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The sweep: a spec as JSON, see the README; `-` reads standard input
    pub(crate) spec: PathBuf,
    /// Kinds of deployments to search
    #[arg(long, value_enum, default_value_t = ModeArg::Disagg)]
    pub(crate) mode: ModeArg,
    /// Write the results into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) answer: AnswerArgs,
    /// Simulations to run at the same time, instead of maxParallelEvals of the spec
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_parallel_evals: Option<u32>,
    /// How often to say on standard error how far it is, 0 for never; on a terminal, a bar does
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub(crate) progress: u64,
    #[command(flatten)]
    pub(crate) tables: PerfdataArg,
}

/// How much of an answer is wanted.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Say why the best states are what they are, and how sure that is; --out does so anyway
    #[arg(long)]
    pub(crate) explain: bool,
    /// Only search, even with --out
    #[arg(long, conflicts_with = "explain")]
    pub(crate) quick: bool,
    /// Best outcomes to explain and to repeat [default: 3]
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) top: Option<u32>,
    /// Repetitions of each, with other seeds and other beginnings of the load, 2 to 1000; 0 for none, and for no other
    /// loads [default: 5]
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = repeats)]
    pub(crate) repeats: Option<u32>,
}

/// No repetitions, or as many as have a spread.
fn repeats(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(repeats @ (0 | 2..=1000)) => Ok(repeats),
        _ => Err("must be 0, or from 2 to 1000".to_owned()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// Prompts and outputs are computed by separate pools
    Disagg,
    /// Every worker computes both
    Agg,
    /// Both kinds in one space
    All,
    /// Both kinds, one after the other, and the better of their best states
    Compare,
}

impl ModeArg {
    /// As the command line calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Disagg => "disagg",
            Self::Agg => "agg",
            Self::All => "all",
            Self::Compare => "compare",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PerfdataArg {
    /// Use the tables of this folder instead of the built-in ones; laid out as
    /// <system>/<engine>_<version>/<table>.json
    #[arg(long, value_name = "DIR")]
    pub(crate) perfdata: Option<PathBuf>,
}

const VALIDATE_HELP: &str = "\
MEASURED is any mix of
  CSV files       columns tp, isl, osl, concurrency, ttft_mean_ms, tpot_mean_ms; optional kv_limited (0 or 1),
                  derived_output_tok_s_per_gpu and requests; a latency that was not measured is left empty
  AIPerf          profile_export_aiperf.json, one point each
  vllm bench      result files of `vllm bench serve`, one point each
SETUP.json is a run without topology, lengths and load: engine, hardware, timing, router, and a workload
with no more than lengthRangeRatio. Every point is simulated as one aggregated worker that starts cold, in
a closed loop with ten requests for each one in flight, max_num_seqs being the concurrency unless the
setup gives it.

Prints the points, relative errors, errors of curves over concurrency, and how often simulations choose
what measurements choose. With --out, DIR holds validation.csv, validation.json and validation.svg.

Examples:
  dynosim validate measured.csv --setup setup.json
  dynosim validate measured.csv --setup setup.json --out results
  dynosim validate run1.json run2.json --setup setup.json --tp 2";

#[derive(Debug, Args)]
#[command(after_help = VALIDATE_HELP)]
pub(crate) struct ValidateArgs {
    /// Measured points; `-` reads standard input
    #[arg(required = true, value_name = "MEASURED")]
    pub(crate) measured: Vec<PathBuf>,
    /// What the points have in common, as JSON
    #[arg(long, value_name = "SETUP.json")]
    pub(crate) setup: PathBuf,
    /// Write the results into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Draws of lengths of each point
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) seeds: u32,
    /// GPUs of the worker, where a file does not say it; instead of topology.tp of the setup
    #[arg(long, value_name = "GPUS", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) tp: Option<u32>,
    #[command(flatten)]
    pub(crate) tables: PerfdataArg,
}

const CALIBRATE_HELP: &str = "\
MEASURED and SETUP.json are those of `dynosim validate`. The setup needs engine.rules vllm-v1-async; the
search begins with the calibration that it names. Points at the KV limit are left out.

Prints the constants with standard errors, the errors before and after, those of each pair of lengths
with constants fitted to the others, and the points that the constants do not explain. OUT.json holds
the setup's calibration with the fitted constants; name its path in timing.calibration.

Constants: gemmDerate, allReduceCallUs, decodeAttentionBandwidthTbS, decodeAttentionFloorUs, stepMs,
ingressMs, ingressUsPerToken, egressMs, resendMs; at most five at once.

Examples:
  dynosim calibrate measured.csv --setup setup.json -o calibration.json
  dynosim calibrate measured.csv --setup setup.json -o calibration.json --fit gemmDerate,stepMs --tp 1";

#[derive(Debug, Args)]
#[command(after_help = CALIBRATE_HELP)]
pub(crate) struct CalibrateArgs {
    /// Measured points; `-` reads standard input
    #[arg(required = true, value_name = "MEASURED")]
    pub(crate) measured: Vec<PathBuf>,
    /// What the points have in common, as JSON
    #[arg(long, value_name = "SETUP.json")]
    pub(crate) setup: PathBuf,
    /// Write the calibration here; `-` is standard output, and then the tables go to standard error
    #[arg(short, long, value_name = "OUT.json")]
    pub(crate) out: PathBuf,
    /// Constants to be fitted
    #[arg(
        long,
        value_name = "CONSTANTS",
        value_delimiter = ',',
        default_value = "gemmDerate,decodeAttentionBandwidthTbS,stepMs"
    )]
    pub(crate) fit: Vec<String>,
    /// Fit points with this many GPUs only, and see how the constants carry over to others; where a file does not
    /// say how many it is, this is it
    #[arg(long, value_name = "GPUS", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) tp: Option<u32>,
    /// Draws of lengths of each point
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) seeds: u32,
    /// Name of the calibration [default: that of the file without its ending]
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// Date of the calibration [default: today]
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) date: Option<String>,
    #[command(flatten)]
    pub(crate) tables: PerfdataArg,
}

const EXPORT_HELP: &str = "\
CANDIDATE is a RunSpec as JSON, or the result.json of a sweep or the folder that holds it. It is
simulated once, and DIR then holds
  dgd.yaml        a DynamoGraphDeployment for Kubernetes
  serve.sh        commands that start the same engines without Dynamo
  bench.sh        AIPerf with the load that was simulated
  trace.jsonl     the requests that were simulated, for bench.sh
  expected.json   what the simulation says that AIPerf will measure
Whatever is not the same there as in the simulation is listed in these files and on standard error.

Examples:
  dynosim export deployment.json --out handoff
  dynosim export results --candidate 2 --out handoff
  dynosim export deployment.json --out handoff --dynamo-version 1.1.1 --namespace inference";

#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
pub(crate) struct ExportArgs {
    /// What to hand off; `-` reads standard input
    #[arg(value_name = "CANDIDATE")]
    pub(crate) candidate: PathBuf,
    /// Write the files into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Rank of the candidate in the result of a sweep [default: 1]
    #[arg(long = "candidate", value_name = "RANK", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rank: Option<u64>,
    /// Version of Dynamo whose options are written
    #[arg(long, value_name = "X.Y.Z", default_value = "1.6.1")]
    pub(crate) dynamo_version: String,
    /// Version of the manifest's schema [default: the newest that the version of Dynamo knows]
    #[arg(long, value_enum)]
    pub(crate) api_version: Option<ApiVersionArg>,
    /// Name of the deployment
    #[arg(long, default_value = "dynosim")]
    pub(crate) name: String,
    /// Namespace of Kubernetes [default: that of the current context]
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Container image [default: the released one of the version of Dynamo]
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) image: Option<String>,
    #[command(flatten)]
    pub(crate) tables: PerfdataArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApiVersionArg {
    /// For operators older than 1.2.0
    V1alpha1,
    /// Since Dynamo 1.2.0
    V1beta1,
}

impl From<ApiVersionArg> for ApiVersion {
    fn from(arg: ApiVersionArg) -> Self {
        match arg {
            ApiVersionArg::V1alpha1 => Self::V1alpha1,
            ApiVersionArg::V1beta1 => Self::V1beta1,
        }
    }
}

const TIMING_HELP: &str = "\
Columns of POINTS.csv, in any order; further ones are passed through:
  prefill   model, tp, batch, isl, prefix      isl is the whole prompt, prefix its cached part
  decode    model, tp, batch, isl, osl         the time of all steps after the first token
  capacity  model, tp, block_size              blocks per worker
Rows about mixtures of experts may say how a worker's GPUs share the model in `attention_dp` (or
`dp`), `moe_tp` and `moe_ep`: tp x attention_dp must equal moe_tp x moe_ep, and what is left out is
inferred. Their `batch` is that of one of the attention_dp groups of GPUs.
Where a row has a value in one of these, `backend`, `backend_version`, `system`, `memory_fraction` or
`max_num_batched_tokens` (the last two matter for capacity), it wins over the options.

The output has all columns of the input and `predicted`: milliseconds, blocks, or ERR where there
is no answer. The reasons go to standard error, each once. For prefill and decode it also has
`extrapolated_share`: the share of the time, 0 to 1, that rests on extrapolation.

Examples:
  dynosim timing prefill points.csv
  dynosim timing decode points.csv --backend sglang --out predicted.csv
  dynosim timing capacity shapes.csv --system h200_sxm";

#[derive(Debug, Args)]
#[command(after_help = TIMING_HELP)]
pub(crate) struct TimingArgs {
    /// What to predict
    pub(crate) quantity: Quantity,
    /// The points; `-` reads standard input
    #[arg(value_name = "POINTS.csv")]
    pub(crate) points: PathBuf,
    /// Serving engine
    #[arg(long, value_enum, default_value_t = BackendArg::Vllm)]
    pub(crate) backend: BackendArg,
    /// Engine version whose tables are meant [default: 0.14.0 for vllm, 0.5.6.post2 for sglang]
    #[arg(long, value_name = "VERSION")]
    pub(crate) engine_version: Option<String>,
    /// GPU system; see `dynosim systems`
    #[arg(long, default_value = "h200_sxm")]
    pub(crate) system: String,
    /// Where step times come from
    #[arg(long, value_enum, default_value_t = ProviderArg::Table)]
    pub(crate) provider: ProviderArg,
    /// Groups of GPUs of a worker with sequences of their own, for mixtures of experts [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attention_dp: Option<u32>,
    /// Parts that each expert is cut into [default: what --moe-ep leaves of the GPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) moe_tp: Option<u32>,
    /// Groups of GPUs with different experts [default: what --moe-tp leaves of the GPUs; 1 without both]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) moe_ep: Option<u32>,
    /// Replace measurements that cannot be true by sound ones of another version; without it they are
    /// used as published, with a note on standard error
    #[arg(long)]
    pub(crate) repair: bool,
    /// Write here instead of standard output
    #[arg(long, value_name = "OUT.csv")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tables: PerfdataArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Quantity {
    /// Milliseconds to compute prompts
    Prefill,
    /// Milliseconds to generate tokens
    Decode,
    /// KV blocks that fit
    Capacity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProviderArg {
    /// Measured kernel tables
    Table,
    /// Peak rates of the GPU, for any system
    Roofline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    Vllm,
    Sglang,
}

impl From<BackendArg> for Backend {
    fn from(arg: BackendArg) -> Self {
        match arg {
            BackendArg::Vllm => Self::Vllm,
            BackendArg::Sglang => Self::Sglang,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

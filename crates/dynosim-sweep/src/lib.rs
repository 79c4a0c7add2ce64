//! Which deployment to try next: a search over simulated candidates under a GPU budget.
//!
//! A [`Sweep`] takes a spec, a scenario and a timing provider, and looks for the tensor-parallel
//! sizes, worker counts, router settings and engine arguments that serve the load best within latency bounds. Every
//! candidate, a [`State`], is simulated once; its [`Record`] keeps the metrics and the verdict. A
//! search is a descent to the edge of the budget, without proof that nothing better exists, or exhaustive. Its
//! [`Certificate`] says what it has seen.
//!
//! What the crate is not: it reads no files, prints nothing and knows no timing model by name. It does not
//! simulate either: `dynosim-core` does.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `sweep` | the entry: spec, scenario, provider, and what can be asked of them |
//! | `state` | a candidate |
//! | `budget`, `space` | which states there are within the budget, and which of them around a state |
//! | `engine_settings`, `variant` | engine arguments that are searched over, and what is prepared once for each choice |
//! | `descent` | rounds of shape, split, router and engine settings |
//! | `exhaustive`, `prune` | every state; those that are left out on proof |
//! | `certificate` | what a search has seen of the space |
//! | `worker_shapes` | workers of every role and size, bound once; sizes left out |
//! | `equivalence` | which states are the same simulation |
//! | `evaluator` | runs simulations in parallel |
//! | `trial`, `hooks` | how simulations end, and where that is kept; who watches and may ask to stop |
//! | `hopeless` | bounds beyond which a simulation is given up |
//! | `judge` | bounds, budget, score |
//! | `ranking` | which record is better |
//! | `record`, `columns` | what is noted down, and its columns |
//! | `metrics`, `pareto` | figures by name; states that no other one beats in all of some |
//! | `result`, `comparison` | what a search found, as data and as JSON |
//! | `outcome` | which records came out the same |
//! | `left_out` | sizes that cannot be used, each reason once |
//! | `csv_table`, `table` | records as CSV and as text |
//!
//! # Example
//!
//! ```
//! use dynosim_core::Scenario;
//! use dynosim_spec::{
//!     Backend, EngineArgs, EngineSpec, GpuSpec, HardwareSpec, ReplayOptimizeSpec, SlaSpec, SyntheticLoad,
//!     SyntheticWorkload, WorkerRole, Workload, WorkloadSpec,
//! };
//! use dynosim_sweep::{Mode, Sweep, text_table};
//! use dynosim_timing::PolynomialTiming;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut engine = EngineSpec::new("some-model", Backend::Vllm);
//! engine.base_engine_args = EngineArgs { num_gpu_blocks: Some(2000), ..EngineArgs::default() };
//! let load = SyntheticWorkload::new(500, 20, 40, SyntheticLoad::Concurrency(8));
//! let mut spec = ReplayOptimizeSpec::new(
//!     engine,
//!     HardwareSpec::new("h200_sxm").with_budget(4),
//!     WorkloadSpec::Synthetic(load),
//! );
//! spec.sla = SlaSpec { ttft: Some(200.0), ..SlaSpec::default() };
//!
//! let block_size = spec.engine.config(WorkerRole::Prefill).block_size;
//! let workload = Workload::load(&spec.workload, block_size)?;
//! let gpu = GpuSpec::find(&spec.hardware.system)?;
//! let scenario = Scenario::new(spec.engine.clone(), None, gpu, workload);
//!
//! let result = Sweep::new(&spec, scenario, &PolynomialTiming)?.optimize_dense_disagg()?;
//! let best = result.best_feasible.as_ref().ok_or("no feasible state")?;
//! assert_eq!(best.total_gpus_used, 4);
//! assert!(best.metric("mean_ttft_ms") <= Some(200.0));
//! assert!(text_table(&[Mode::Disagg], &result.feasible, 3).lines().count() == 4);
//! # Ok(())
//! # }
//! ```

mod budget;
mod certificate;
mod columns;
mod comparison;
mod csv_table;
mod descent;
mod engine_settings;
mod equivalence;
mod error;
mod evaluator;
mod exhaustive;
mod hooks;
mod hopeless;
mod judge;
mod left_out;
mod metrics;
mod outcome;
mod pareto;
mod prune;
mod ranking;
mod record;
mod result;
mod space;
mod state;
mod sweep;
mod table;
mod trial;
mod variant;
mod worker_shapes;

pub use certificate::{Certificate, Regret};
pub use comparison::Comparison;
pub use csv_table::write_csv;
pub use engine_settings::EngineSettings;
pub use error::SweepError;
pub use exhaustive::Shard;
pub use hooks::{Hooks, Progress};
pub use left_out::left_out_by_reason;
pub use metrics::Metrics;
pub use prune::{Bound, Pruned};
pub use ranking::best_first;
pub use record::Record;
pub use result::OptimizationResult;
pub use state::{Mode, RouterState, State};
pub use sweep::Sweep;
pub use table::text_table;
pub use trial::{Figures, MemoryTrials, Trial, TrialStore};
pub use worker_shapes::{KvCapacity, LeftOutTp};

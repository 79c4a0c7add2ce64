//! Which deployment to try next: a search over simulated candidates under a GPU budget.
//!
//! A [`Sweep`] takes a spec, a scenario and a timing provider, and looks for the tensor-parallel
//! sizes, worker counts and router settings that serve the load best within latency bounds. Every
//! candidate, a [`State`], is simulated once; its [`Record`] keeps the metrics and the verdict. The
//! search is a heuristic descent to the edge of the budget, no proof that nothing better exists.
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
//! | `space` | which states there are around a state, within the budget |
//! | `search` | rounds of shape, split and router |
//! | `worker_shapes` | workers of every role and size, bound once; sizes left out |
//! | `equivalence` | which states are the same simulation |
//! | `evaluator` | runs simulations in parallel |
//! | `hopeless` | bounds beyond which a simulation is given up |
//! | `judge` | bounds, budget, score |
//! | `ranking` | which record is better |
//! | `record` | what is noted down, and its columns |
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
//! assert!(text_table(Mode::Disagg, &result.feasible, 3).lines().count() == 4);
//! # Ok(())
//! # }
//! ```

mod comparison;
mod csv_table;
mod equivalence;
mod error;
mod evaluator;
mod hopeless;
mod judge;
mod left_out;
mod outcome;
mod ranking;
mod record;
mod result;
mod search;
mod space;
mod state;
mod sweep;
mod table;
mod worker_shapes;

pub use comparison::Comparison;
pub use csv_table::write_csv;
pub use error::SweepError;
pub use left_out::left_out_by_reason;
pub use record::Record;
pub use result::OptimizationResult;
pub use state::{Mode, RouterState, State};
pub use sweep::{Progress, Sweep};
pub use table::text_table;
pub use worker_shapes::{KvCapacity, LeftOutTp};

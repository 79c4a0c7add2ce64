//! Why candidates of a sweep do as they do, and what would change it.
//!
//! An [`Explainer`] simulates the best candidates of a [result](OptimizationResult), and those that miss a bound by the
//! least, once more in detail, and searches neighbouring budgets. An [`Explanation`] answers
//!
//! - which bound is the tightest and by what margin it is kept or missed, which pool holds requests up, and what the time
//!   to first token is spent on: [`CandidateExplanation`];
//! - what another GPU buys and what one less costs: [`BudgetChange`];
//! - where nothing is feasible, by how much each bound would have to give way, and how many GPUs would do: [`Relief`].
//!
//! ```
//! use dynosim::explain::Explainer;
//! use dynosim::spec::ReplayOptimizeSpec;
//! use dynosim::sweep::Mode;
//!
//! let spec = ReplayOptimizeSpec::from_json(
//!     r#"{
//!         "engine": { "model": "Qwen/Qwen3-32B", "backend": "vllm" },
//!         "hardware": { "system": "h200_sxm", "totalGpus": 4 },
//!         "workload": { "isl": 2000, "osl": 20, "requestCount": 60, "concurrency": 16 },
//!         "sla": { "p95Ttft": 3000 }
//!     }"#,
//! )?
//! .value;
//! let result = dynosim::sweep(&spec, Mode::Disagg)?;
//! let provider = dynosim::timing_provider(&spec.timing, &spec.engine, None);
//! let scenario = dynosim::sweep_scenario(&spec, &result.modes)?;
//! let explanation = Explainer::new(&result, &scenario, provider.as_ref()).explain()?;
//! println!("{}", explanation.text());
//! let winner = &explanation.candidates[0];
//! assert_eq!(winner.binding.as_ref().map(|bound| bound.name), Some("p95Ttft"));
//! # Ok::<(), dynosim::Error>(())
//! ```

mod candidate;
mod explainer;
mod neighbours;
mod relief;
pub(crate) mod text;

use serde::Serialize;

pub use candidate::{Bottleneck, BoundMargin, CacheUse, CandidateExplanation, Standing};
pub use explainer::{Detailed, Explainer};
pub use neighbours::BudgetChange;
pub use relief::{Relaxation, Relief};

#[expect(unused_imports, reason = "for links in documentation")]
use dynosim_sweep::OptimizationResult;

/// Why the answer of a sweep is what it is. The same for every host and any number of threads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The best candidates, best first, then those that are closest to being feasible.
    pub candidates: Vec<CandidateExplanation>,
    /// What more GPUs buy: one more or, where that does not help, as many as make another worker. `None` if nothing is
    /// feasible.
    pub more_gpus: Option<BudgetChange>,
    /// What one GPU less costs; `None` if nothing is feasible or there is only one.
    pub fewer_gpus: Option<BudgetChange>,
    /// What would make something feasible; `None` if something is.
    pub relief: Option<Relief>,
}

impl Explanation {
    /// The explanation for people.
    pub fn text(&self) -> String {
        text::text(self)
    }
}

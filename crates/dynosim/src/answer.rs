//! Everything that one gets from a sweep: what was found, why, and how sure that is.
//!
//! An [`Answer`] puts together the [result](OptimizationResult) of a search, its [explanation](crate::explain) and the
//! [confidence](crate::confidence) in its order. It is printed as [text](Answer::text), and written as [files](Answer::files):
//!
//! | file | what |
//! |---|---|
//! | `result.json` | everything but tables; its format is [`SCHEMA`] |
//! | `evaluated.csv`, `feasible.csv`, `pareto.csv` | visited states, the feasible ones best first, the trade-off |
//! | `pruned.csv` | states that were left out on proof; not there if there are none |
//! | `requests.csv` | a line per request and explained candidate |
//! | `report.html` | the page; behind the feature `html` |
//!
//! ```
//! use dynosim::answer::{Answering, AnswerOptions};
//! use dynosim::spec::ReplayOptimizeSpec;
//! use dynosim::sweep::Mode;
//!
//! let spec = ReplayOptimizeSpec::from_json(
//!     r#"{
//!         "engine": { "model": "Qwen/Qwen3-32B", "backend": "vllm" },
//!         "hardware": { "system": "h200_sxm", "totalGpus": 4 },
//!         "workload": { "isl": 2000, "osl": 20, "requestCount": 60, "requestRate": 8 },
//!         "sla": { "p95Ttft": 1000 }
//!     }"#,
//! )?
//! .value;
//! let result = dynosim::sweep(&spec, Mode::Agg)?;
//! let scenario = dynosim::sweep_scenario(&spec, &result.modes)?;
//! let provider = dynosim::timing_provider(&spec.timing, &spec.engine, None);
//! let options = AnswerOptions { repeats: 2, load_factors: Vec::new(), ..AnswerOptions::default() };
//! let answer = Answering::new(result, &scenario, provider.as_ref()).with_options(options).answer()?;
//! println!("{}", answer.text(10));
//! assert!(answer.files()?.iter().any(|(name, _)| name == "result.json"));
//! # Ok::<(), dynosim::Error>(())
//! ```

mod answering;
mod document;
#[cfg(feature = "html")]
mod page;

use dynosim_core::Scenario;
use dynosim_spec::{RunSpec, WorkloadSpec};
use dynosim_sweep::{OptimizationResult, SweepError, write_csv};

use crate::confidence::Confidence;
use crate::error::Error;
use crate::explain::{Detailed, Explanation};
use crate::inputs::Inputs;
use crate::requests_csv::write_candidates_csv;
use crate::search::shared_workload;
use crate::step_times::StepTimes;
use crate::summary::summary_with_reservations;

pub use answering::{AnswerOptions, Answering};
pub use document::{SCHEMA, SCHEMA_VERSION, comparison_json};

/// What a sweep found, why, and how sure that is.
#[derive(Debug)]
pub struct Answer {
    /// What was found.
    pub result: OptimizationResult,
    /// Why; `None` if it was not asked for, or somebody asked to stop before it was known.
    pub explanation: Option<Explanation>,
    /// How sure that is; `None` as above.
    pub confidence: Option<Confidence>,
    /// The explained candidates, in detail.
    detailed: Vec<Detailed>,
    /// Whether nothing that was asked for is missing.
    is_whole: bool,
    inputs: Option<Inputs>,
    scenario: Scenario,
    step_times: StepTimes,
}

impl Answer {
    /// Whether nothing that was asked for is missing. Something is if somebody asked to stop.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// What one ought to know before relying on the best state, a sentence each: that it misses a bound in some
    /// repetitions, that another state ranks better as often, that something is missing.
    pub fn reservations(&self) -> Vec<String> {
        let mut reservations = Vec::new();
        if !self.is_whole {
            reservations.push("the sweep was interrupted: this is the result so far".to_owned());
        }
        let Some(repetitions) = self.confidence.as_ref().map(|confidence| &confidence.repetitions) else {
            return reservations;
        };
        let count = repetitions.variations.len();
        let safe = |place: &usize| repetitions.candidates[*place].feasible == count;
        let Some(best) = repetitions
            .candidates
            .first()
            .filter(|_| self.result.best_feasible.is_some())
        else {
            return reservations;
        };
        if best.feasible < count {
            let instead = (1..repetitions.candidates.len()).find(safe);
            let instead = instead.map_or_else(String::new, |place| {
                format!(
                    "; number {} below, {}, keeps them in all",
                    place + 1,
                    self.confidence_name(place)
                )
            });
            reservations.push(format!(
                "the best state keeps all bounds in {} of {count} repetitions only{instead}",
                best.feasible
            ));
        }
        let likely = |chance: Option<f64>| chance.is_some_and(|chance| chance >= 0.5);
        if let Some(pair) = repetitions.pairs.iter().find(|pair| likely(pair.flip_chance)) {
            reservations.push(format!(
                "number {} below, {}, ranks better in {} of {count} repetitions",
                pair.other + 1,
                self.confidence_name(pair.other),
                pair.better
            ));
        }
        reservations
    }

    fn confidence_name(&self, place: usize) -> &str {
        let candidates = self.confidence.as_ref().map(|confidence| &confidence.candidates);
        candidates
            .and_then(|candidates| candidates.get(place))
            .map_or("", String::as_str)
    }

    /// The answer for people, with so many rows in its table.
    pub fn text(&self, rows: usize) -> String {
        let reservations = self.reservations();
        let mut text = summary_with_reservations(&self.result, rows, &self.step_times, &reservations);
        if let Some(explanation) = &self.explanation {
            text.push_str("\nWhy\n");
            text.push_str(&explanation.text());
        }
        if let Some(confidence) = &self.confidence {
            text.push('\n');
            text.push_str(&confidence.text());
        }
        text
    }

    /// Names and contents of all files.
    ///
    /// # Errors
    /// If something cannot be written as JSON or CSV.
    pub fn files(&self) -> Result<Vec<(String, String)>, Error> {
        let result = &self.result;
        let mut files = vec![("result.json".to_owned(), document::json(self)?)];
        for (name, records) in [
            ("evaluated.csv", &result.evaluated),
            ("feasible.csv", &result.feasible),
            ("pareto.csv", &result.pareto),
        ] {
            files.push((
                name.to_owned(),
                text_of(|bytes| write_csv(&result.modes, records, bytes))?,
            ));
        }
        if !result.pruned.is_empty() {
            files.push((
                "pruned.csv".to_owned(),
                text_of(|bytes| result.write_pruned_csv(bytes))?,
            ));
        }
        if !self.detailed.is_empty() {
            files.push(("requests.csv".to_owned(), self.requests_csv()?));
        }
        #[cfg(feature = "html")]
        files.push(("report.html".to_owned(), crate::html_report::render(&self.page())));
        Ok(files)
    }

    /// The simulations of the explained candidates as documents of their own, in order.
    pub fn run_specs(&self) -> Vec<RunSpec> {
        let workload = shared_workload(&self.result.spec, &self.result.modes);
        let runs = self.detailed.iter().map(|candidate| {
            let mut run = candidate.record.state.run_spec(&self.result.spec);
            run.workload = workload.clone();
            if let WorkloadSpec::Synthetic(synthetic) = &mut run.workload {
                let first_role = run.topology.pools()[0].role;
                let own_block_size = run.engine.config(first_role).block_size.tokens();
                // What holds anyway need not be said.
                synthetic.shared_prefix_block_size = synthetic
                    .shared_prefix_block_size
                    .filter(|&size| size != own_block_size);
            }
            run
        });
        runs.collect()
    }

    /// The candidates that the confidence is about.
    #[cfg(feature = "html")]
    fn assessed(&self) -> Vec<&dynosim_sweep::Record> {
        let most = self
            .confidence
            .as_ref()
            .map_or(0, |confidence| confidence.candidates.len());
        answering::assessed(&self.result, most)
    }

    /// What the HTML report shows.
    #[cfg(feature = "html")]
    pub fn page(&self) -> crate::html_report::ReportPage {
        page::page(self)
    }

    fn requests_csv(&self) -> Result<String, Error> {
        let candidates = (1..).zip(self.detailed.iter().map(|candidate| &candidate.outcome));
        text_of(|bytes| {
            write_candidates_csv(self.scenario.workload(), candidates, bytes)?;
            Ok(())
        })
    }
}

/// What `write` writes, as text.
fn text_of(write: impl FnOnce(&mut Vec<u8>) -> Result<(), SweepError>) -> Result<String, Error> {
    let mut bytes = Vec::new();
    write(&mut bytes)?;
    Ok(String::from_utf8(bytes).expect("names and numbers are text"))
}

//! Aggregated against disaggregated deployments.

use serde_json::{Map, Value, json};

use crate::error::SweepError;
use crate::ranking::best;
use crate::record::Record;
use crate::result::OptimizationResult;
use crate::state::Mode;

/// Both searches over one spec, and the better of their best states.
///
/// One of the searches may have failed; then the other one decides.
#[derive(Debug)]
pub struct Comparison {
    /// The search over aggregated deployments.
    pub agg: Result<OptimizationResult, SweepError>,
    /// The search over disaggregated deployments.
    pub disagg: Result<OptimizationResult, SweepError>,
    /// Kind of the chosen state.
    pub chosen_mode: Mode,
    /// The better of the two best states: the feasible one if only one is, the one that is closer
    /// to being feasible if none is; the aggregated one if they rank equally.
    pub chosen_best: Record,
}

impl Comparison {
    /// Chooses between the results of two searches.
    ///
    /// # Errors
    /// [`SweepError::NothingToCompare`] if both failed, [`SweepError::Stopped`] if they were stopped before the first
    /// simulation ended.
    pub(crate) fn new(
        agg: Result<OptimizationResult, SweepError>,
        disagg: Result<OptimizationResult, SweepError>,
    ) -> Result<Self, SweepError> {
        let (agg, disagg) = match (agg, disagg) {
            (Err(agg), Err(disagg)) => {
                return Err(SweepError::NothingToCompare {
                    agg: Box::new(agg),
                    disagg: Box::new(disagg),
                });
            }
            sides => sides,
        };
        let sides = [&agg, &disagg].into_iter().filter_map(|side| side.as_ref().ok());
        // Only a search that was stopped at once has visited no state.
        let chosen_best = best(sides.filter_map(OptimizationResult::best)).cloned();
        let chosen_best = chosen_best.ok_or(SweepError::Stopped)?;
        Ok(Self {
            agg,
            disagg,
            chosen_mode: chosen_best.state.mode(),
            chosen_best,
        })
    }

    /// The comparison as a JSON document, the same for every host and any `maxParallelEvals`.
    ///
    /// # Errors
    /// As [`OptimizationResult::to_json`].
    pub fn to_json(&self) -> Result<String, SweepError> {
        let mut document = Map::new();
        document.insert("chosen_mode".to_owned(), serde_json::to_value(self.chosen_mode)?);
        document.insert("chosen_best".to_owned(), serde_json::to_value(&self.chosen_best)?);
        let spec = [&self.agg, &self.disagg]
            .into_iter()
            .find_map(|side| side.as_ref().ok());
        document.insert("spec".to_owned(), serde_json::to_value(spec.map(|side| &side.spec))?);
        for (mode, side) in [("agg", &self.agg), ("disagg", &self.disagg)] {
            let findings = match side {
                Ok(result) => Value::Object(result.findings()?),
                Err(error) => json!({ "error": error.to_string() }),
            };
            document.insert(mode.to_owned(), findings);
        }
        Ok(format!("{:#}\n", Value::Object(document)))
    }
}

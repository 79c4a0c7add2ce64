//! What a larger or smaller budget would change.

use dynosim_sweep::Record;
use serde::Serialize;

/// The best candidate within another budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BudgetChange {
    /// GPUs of that budget.
    pub budget: u32,
    /// The best feasible candidate within it as text; `None` if none is feasible.
    pub best: Option<String>,
    /// Its score, the more the better.
    pub score: Option<f64>,
    /// Whether every candidate within it is known, so that nothing better exists; otherwise it is what a descent finds.
    pub proven: bool,
    /// By how much it is better than the best one of the sweep, as a share of that one's score: above 0 if it is better.
    pub change: Option<f64>,
}

impl BudgetChange {
    /// What changes for somebody who has `best` if `other` is the best feasible candidate within `budget` GPUs.
    pub(super) fn new(budget: u32, other: Option<&Record>, proven: bool, best: &Record) -> Self {
        let score = other.and_then(|other| other.score);
        let change = score.zip(best.score).map(|(other, best)| (other - best) / best.abs());
        Self {
            budget,
            best: other.map(|other| other.state.to_string()),
            score,
            proven,
            change: change.filter(|change| change.is_finite()),
        }
    }

    /// Whether the other budget has something better.
    pub fn is_better(&self) -> bool {
        self.change.is_some_and(|change| change > 0.0)
    }
}

/// How many more GPUs to try: one, then as many as make another of the workers of `best`, the fewest first.
pub(super) fn more_gpus(best: &Record) -> Vec<u32> {
    let mut steps = vec![1];
    steps.extend(best.state.topology.pools().iter().map(|pool| pool.shape.gpus()));
    steps.sort_unstable();
    steps.dedup();
    steps
}

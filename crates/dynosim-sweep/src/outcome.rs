//! Which records came out the same.

use crate::record::Record;

/// Whether two records have equal workers and equal figures, so that only their routers tell them apart.
pub(crate) fn same_outcome(a: &Record, b: &Record) -> bool {
    if (a.state.topology, a.state.engine) != (b.state.topology, b.state.engine) {
        return false;
    }
    let equal_figures = !a.metrics.is_empty()
        && a.metrics == b.metrics
        && a.rejected_requests == b.rejected_requests
        && a.extrapolated_share == b.extrapolated_share;
    a.simulation == b.simulation || equal_figures
}

/// The first `most` outcomes among records, each with its records, in order of first appearance.
pub(crate) fn outcomes<'a>(records: impl IntoIterator<Item = &'a Record>, most: usize) -> Vec<Vec<&'a Record>> {
    let mut outcomes: Vec<Vec<&Record>> = Vec::new();
    for record in records {
        match outcomes.iter().position(|outcome| same_outcome(outcome[0], record)) {
            Some(index) => outcomes[index].push(record),
            None if outcomes.len() < most => outcomes.push(vec![record]),
            None => {}
        }
    }
    outcomes
}

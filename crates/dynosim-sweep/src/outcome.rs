//! Which records came out the same.

use dynosim_spec::Topology;
use indexmap::IndexMap;

use crate::engine_settings::EngineSettings;
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
    // Equal outcomes have equal workers, so a record is compared with few others.
    let mut by_workers: IndexMap<(Topology, EngineSettings), Vec<usize>> = IndexMap::new();
    for record in records {
        let alike = by_workers
            .entry((record.state.topology, record.state.engine))
            .or_default();
        match alike.iter().find(|&&index| same_outcome(outcomes[index][0], record)) {
            Some(&index) => outcomes[index].push(record),
            None if outcomes.len() < most => {
                alike.push(outcomes.len());
                outcomes.push(vec![record]);
            }
            None => {}
        }
    }
    outcomes
}

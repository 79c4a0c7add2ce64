//! Columns of tables of records.

use std::collections::BTreeSet;

use dynosim_core::Report;

use crate::engine_settings::EngineSettings;
use crate::metrics::{COST, GOODPUT_RPS, GOODPUT_SHARE, THROUGHPUT_PER_GPU};
use crate::record::Record;
use crate::state::Mode;

/// Columns of a router.
pub(crate) const ROUTER_COLUMNS: [&str; 3] = ["router_mode", "overlap_score_credit", "prefill_load_scale"];

const VERDICT_COLUMNS: [&str; 9] = [
    "total_gpus_used",
    "score",
    "objective",
    "feasible",
    "violation_penalty",
    "infeasible_reason",
    "simulation",
    "rejected_requests",
    "extrapolated_share",
];

/// Names of all columns of these records of candidates of these kinds, in order.
///
/// Sizes that only models with experts have, engine arguments that are searched over, goodput and cost are columns if any
/// of the records has them; the kind is one if there are several.
pub(crate) fn columns(modes: &[Mode], records: &[&Record]) -> Vec<String> {
    let mut columns: Vec<&str> = state_columns(modes, records);
    columns.extend(VERDICT_COLUMNS);
    let mut columns: Vec<String> = columns.into_iter().map(str::to_owned).collect();
    columns.extend(Report::default().metrics().into_keys());
    columns.push(THROUGHPUT_PER_GPU.to_owned());
    for metric in [GOODPUT_RPS, GOODPUT_SHARE, COST] {
        if records.iter().any(|record| record.metric(metric).is_some()) {
            columns.push(metric.to_owned());
        }
    }
    columns
}

/// The columns that say which candidates records are of.
pub(crate) fn state_columns(modes: &[Mode], records: &[&Record]) -> Vec<&'static str> {
    let with_experts = records.iter().any(|record| record.has_experts());
    let mut columns: Vec<&str> = Vec::new();
    if modes.len() > 1 {
        columns.push("mode");
    }
    for &mode in modes {
        columns.extend(topology_columns(mode, with_experts));
    }
    columns.extend(ROUTER_COLUMNS);
    let searched: BTreeSet<&str> = records
        .iter()
        .flat_map(|record| {
            let names = EngineSettings::NAMES.into_iter();
            names.filter(|name| record.state.engine.value(name).is_some())
        })
        .collect();
    columns.extend(EngineSettings::NAMES.into_iter().filter(|name| searched.contains(name)));
    columns
}

/// Columns of a topology; those of experts only if they are wanted.
fn topology_columns(mode: Mode, with_experts: bool) -> &'static [&'static str] {
    match (mode, with_experts) {
        (Mode::Agg, false) => &["tp", "workers"],
        (Mode::Agg, true) => &["tp", "attention_dp", "moe_tp", "moe_ep", "workers"],
        (Mode::Disagg, false) => &["prefill_tp", "decode_tp", "prefill_workers", "decode_workers"],
        (Mode::Disagg, true) => &[
            "prefill_tp",
            "prefill_attention_dp",
            "prefill_moe_tp",
            "prefill_moe_ep",
            "decode_tp",
            "decode_attention_dp",
            "decode_moe_tp",
            "decode_moe_ep",
            "prefill_workers",
            "decode_workers",
        ],
    }
}

//! What a sweep notes down about a state.

use dynosim_core::Report;
use dynosim_spec::{Objective, ParallelShape, Topology};
use indexmap::IndexMap;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::state::{Mode, State};

/// One evaluated state.
///
/// Serialises as one flat object: the state, then the verdict, then the metrics of its report.
/// What a state without a report does not have is `null`, and so is an infinite penalty.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The state.
    pub state: State,
    /// Number of the simulation that the figures come from, from 0 in order of first use within one
    /// search or one call. Records with equal numbers are provably the same simulation.
    pub simulation: usize,
    /// The 65 metrics of [`Report::metrics`]; empty if the run ended without a report.
    pub metrics: IndexMap<String, f64>,
    /// Requests that can never run; `None` without a report.
    pub rejected_requests: Option<usize>,
    /// Share of the priced step time that rests on extrapolation; `None` without a report.
    pub extrapolated_share: Option<f64>,
    /// GPUs that the simulated deployment occupies.
    pub total_gpus_used: u64,
    /// What is maximised.
    pub objective: Objective,
    /// Output tokens per second, or a mean latency in milliseconds with its sign turned round: the
    /// more the better. `None` without a report.
    pub score: Option<f64>,
    /// Whether the simulation was given up because a bound was going to be missed.
    pub given_up: bool,
    /// Whether the state serves every request, meets every bound and keeps within the budget.
    pub feasible: bool,
    /// How far the state is from being feasible: the relative excess over each bound, summed up,
    /// plus 1 for exceeding the budget, plus 1 and the share of rejected requests if there are any.
    /// Infinite if the simulation failed, 0 if feasible. If it was given up, an estimate: by how much the bound
    /// would be exceeded if the rest of the requests went on in the same way.
    pub violation_penalty: f64,
    /// What keeps the state from being feasible, and by how much.
    pub infeasible_reason: Option<String>,
}

impl Record {
    /// A metric of the report.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied()
    }

    /// Names of all columns of records of this mode, in order. Sizes that only models with experts have are
    /// columns `with_experts` only.
    pub fn columns(mode: Mode, with_experts: bool) -> Vec<String> {
        let leading = topology_columns(mode, with_experts);
        let leading = leading.iter().chain(&ROUTER_COLUMNS).chain(&VERDICT_COLUMNS);
        let mut columns: Vec<String> = leading.map(|&name| name.to_owned()).collect();
        columns.extend(Report::default().metrics().into_keys());
        columns
    }

    /// The value of a column.
    pub(crate) fn value(&self, column: &str) -> Value<'_> {
        if let Some(count) = self.topology_value(column) {
            return Value::Count(u64::from(count));
        }
        match column {
            "router_mode" => Value::Text(self.state.router.mode_name()),
            "overlap_score_credit" => Value::Number(self.state.router.overlap_score_credit),
            "prefill_load_scale" => Value::Number(self.state.router.prefill_load_scale),
            "total_gpus_used" => Value::Count(self.total_gpus_used),
            "score" => Value::number(self.score),
            "objective" => Value::Text(objective_name(self.objective)),
            "feasible" => Value::Flag(self.feasible),
            "violation_penalty" => Value::Number(self.violation_penalty),
            "infeasible_reason" => self.infeasible_reason.as_deref().map_or(Value::Missing, Value::Text),
            "simulation" => Value::Count(self.simulation as u64),
            "rejected_requests" => self
                .rejected_requests
                .map_or(Value::Missing, |count| Value::Count(count as u64)),
            "extrapolated_share" => Value::number(self.extrapolated_share),
            metric if Report::is_count(metric) => self.metric(metric).map_or(Value::Missing, Value::count),
            metric => Value::number(self.metric(metric)),
        }
    }

    /// Whether the state says how experts are spread.
    pub(crate) fn has_experts(&self) -> bool {
        self.state.pools().iter().any(|pool| pool.shape.moe_ep.is_some())
    }

    fn topology_value(&self, column: &str) -> Option<u32> {
        match self.state.topology {
            Topology::Aggregated { workers, shape } => match column {
                "workers" => Some(workers),
                size => size_value(shape, size),
            },
            Topology::Disaggregated {
                prefill_workers,
                decode_workers,
                prefill_shape,
                decode_shape,
            } => match (column, column.split_once('_')) {
                ("prefill_workers", _) => Some(prefill_workers),
                ("decode_workers", _) => Some(decode_workers),
                (_, Some(("prefill", size))) => size_value(prefill_shape, size),
                (_, Some(("decode", size))) => size_value(decode_shape, size),
                _ => None,
            },
        }
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns = Self::columns(self.state.mode(), self.has_experts());
        let mut map = serializer.serialize_map(Some(columns.len()))?;
        for column in &columns {
            map.serialize_entry(column, &self.value(column))?;
        }
        map.end()
    }
}

/// Columns of a topology; those of experts only if they are wanted.
pub(crate) fn topology_columns(mode: Mode, with_experts: bool) -> &'static [&'static str] {
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

/// A size of a shape by the name of its column.
fn size_value(shape: ParallelShape, column: &str) -> Option<u32> {
    match column {
        "tp" => Some(shape.tp),
        "attention_dp" => Some(shape.attention_dp),
        "moe_tp" => shape.moe_tp,
        "moe_ep" => shape.moe_ep,
        _ => None,
    }
}

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

fn objective_name(objective: Objective) -> &'static str {
    match objective {
        Objective::Throughput => "throughput",
        Objective::MeanTtft => "mean_ttft",
        Objective::MeanE2eLatency => "mean_e2e_latency",
    }
}

/// One cell of a table of records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Count(u64),
    Number(f64),
    Flag(bool),
    Missing,
}

impl Value<'_> {
    fn number(value: Option<f64>) -> Self {
        value.map_or(Self::Missing, Self::Number)
    }

    /// Counts stay below 2^53, where `f64` is exact.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    fn count(value: f64) -> Self {
        Self::Count(value as u64)
    }
}

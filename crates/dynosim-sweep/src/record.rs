//! What a sweep notes down about a state.

use dynosim_core::Report;
use dynosim_spec::{Limit, Objective, ParallelShape, Topology};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::columns::columns;
use crate::engine_settings::Setting;
use crate::metrics::{COST, GPUS, Metrics, THROUGHPUT_PER_GPU};
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
    /// The metrics of [`Report::metrics`], and `goodput_rps` and `goodput_share` if the spec bounds single requests;
    /// empty if the run ended without a report. [`metric`](Self::metric) knows further ones.
    pub metrics: Metrics,
    /// Requests that can never run; `None` without a report.
    pub rejected_requests: Option<usize>,
    /// Share of the priced step time that rests on extrapolation; `None` without a report.
    pub extrapolated_share: Option<f64>,
    /// GPUs that the simulated deployment occupies.
    pub total_gpus_used: u64,
    /// Price of a GPU for an hour, if the spec gives it.
    pub gpu_hour_price: Option<f64>,
    /// What is maximised.
    pub objective: Objective,
    /// The figure that the objective is about; latencies, GPUs and prices with their sign turned round: the
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
    /// A metric by its name: one of [`metrics`](Self::metrics), or `throughput_per_gpu_tok_s`, `total_gpus_used` or, if the
    /// spec gives a price, `cost_per_million_output_tokens`.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let gpus = self.total_gpus_used as f64;
        match name {
            GPUS => Some(gpus),
            THROUGHPUT_PER_GPU => self.metrics.get("output_throughput_tok_s").map(|rate| rate / gpus),
            COST => {
                let hours = self.metrics.get("duration_ms")? / 3_600_000.0;
                let million_tokens = self.metrics.get("total_output_tokens")? / 1e6;
                Some(gpus * self.gpu_hour_price? * hours / million_tokens)
            }
            name => self.metrics.get(name),
        }
    }

    /// Kind of the deployment.
    pub fn mode(&self) -> Mode {
        self.state.mode()
    }

    /// The value of a column.
    pub(crate) fn value(&self, column: &str) -> Value<'_> {
        if let Some(count) = self.topology_value(column) {
            return Value::Count(u64::from(count));
        }
        if let Some(setting) = self.state.engine.value(column) {
            return Value::from(setting);
        }
        match column {
            "mode" => Value::Text(self.mode().name()),
            "router_mode" => Value::Text(self.state.router.mode_name()),
            "overlap_score_credit" => Value::Number(self.state.router.overlap_score_credit),
            "prefill_load_scale" => Value::Number(self.state.router.prefill_load_scale),
            "total_gpus_used" => Value::Count(self.total_gpus_used),
            "score" => Value::number(self.score),
            "objective" => Value::Text(self.objective.name()),
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
        let columns = columns(&[self.mode()], &[self]);
        let mut map = serializer.serialize_map(Some(columns.len()))?;
        for column in &columns {
            map.serialize_entry(column, &self.value(column))?;
        }
        map.end()
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

impl From<Setting> for Value<'_> {
    fn from(setting: Setting) -> Self {
        match setting {
            Setting::Limit(Limit::Unlimited) => Self::Text("unlimited"),
            Setting::Limit(Limit::AtMost(count)) | Setting::Tokens(count) => Self::Count(u64::from(count)),
            Setting::Flag(flag) => Self::Flag(flag),
        }
    }
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A feasible record with these metrics.
    pub(crate) fn record_with(state: State, metrics: &[(&str, f64)]) -> Record {
        Record {
            state,
            simulation: 0,
            metrics: metrics.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
            rejected_requests: Some(0),
            extrapolated_share: Some(0.0),
            total_gpus_used: state.total_gpus(),
            gpu_hour_price: None,
            objective: Objective::Throughput,
            score: metrics.first().map(|&(_, value)| value),
            given_up: false,
            feasible: true,
            violation_penalty: 0.0,
            infeasible_reason: None,
        }
    }
}

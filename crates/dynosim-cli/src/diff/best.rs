//! Best states that are not the same, or do not do the same.

use serde::Serialize;
use serde_json::Value;

/// Figures that are shown first, in this order.
const MAIN: [&str; 12] = [
    "score",
    "total_gpus_used",
    "output_throughput_tok_s",
    "throughput_per_gpu_tok_s",
    "goodput_rps",
    "cost_per_million_output_tokens",
    "mean_ttft_ms",
    "p95_ttft_ms",
    "mean_tpot_ms",
    "p95_tpot_ms",
    "mean_e2e_latency_ms",
    "violation_penalty",
];

/// The first key of a record that says nothing about the state.
const BEHIND_THE_STATE: &str = "total_gpus_used";

/// Two best states that are not the same, or whose figures are not.
#[derive(Debug, Serialize)]
pub(super) struct BestChange {
    /// Which best: `agg` or `disagg` of a comparison, `chosen` between them, empty for that of a single search.
    pub(super) of: String,
    pub(super) old_state: Option<String>,
    pub(super) new_state: Option<String>,
    /// Whether the first one is feasible.
    pub(super) old_feasible: Option<bool>,
    pub(super) new_feasible: Option<bool>,
    /// Figures that differ, the main ones first.
    pub(super) figures: Vec<FigureChange>,
}

/// A figure that is not the same in two records.
#[derive(Debug, Serialize)]
pub(super) struct FigureChange {
    pub(super) name: String,
    pub(super) old: f64,
    pub(super) new: f64,
    /// New less old.
    pub(super) difference: f64,
    /// The difference as a share of the old value; none if that is 0.
    pub(super) relative: Option<f64>,
}

impl BestChange {
    /// What differs; nothing if there is neither or both are the same.
    pub(super) fn between(of: &str, old: Option<&Value>, new: Option<&Value>) -> Option<Self> {
        let is_record = |value: &&Value| value.is_object();
        let (old, new) = (old.filter(is_record), new.filter(is_record));
        if old == new {
            return None;
        }
        Some(Self {
            of: of.to_owned(),
            old_state: old.map(state),
            new_state: new.map(state),
            old_feasible: old.and_then(|record| record["feasible"].as_bool()),
            new_feasible: new.and_then(|record| record["feasible"].as_bool()),
            figures: figures(old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null)),
        })
    }
}

impl FigureChange {
    pub(super) fn new(name: &str, old: f64, new: f64) -> Self {
        let difference = new - old;
        let relative = difference / old.abs();
        Self {
            name: name.to_owned(),
            old,
            new,
            difference,
            relative: relative.is_finite().then_some(relative),
        }
    }

    pub(super) fn is_main(&self) -> bool {
        MAIN.contains(&self.name.as_str())
    }
}

/// A state as text, from the keys of its record and their values; empty values are left out, and so is what round robin
/// does not know.
pub(super) fn state_text<'v>(fields: impl Iterator<Item = (&'v str, String)>) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut is_round_robin = false;
    for (key, value) in fields.take_while(|(key, _)| *key != BEHIND_THE_STATE) {
        match key {
            "router_mode" => {
                is_round_robin = value == "round_robin";
                words.push(value);
            }
            "overlap_score_credit" | "prefill_load_scale" if is_round_robin => {}
            _ if value.is_empty() => {}
            key => words.push(format!("{key}={value}")),
        }
    }
    words.join(" ")
}

fn state(record: &Value) -> String {
    let fields = record.as_object().into_iter().flatten();
    state_text(fields.map(|(key, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (key.as_str(), text)
    }))
}

fn figures(old: &Value, new: &Value) -> Vec<FigureChange> {
    let mut found: Vec<FigureChange> = Vec::new();
    let fields = old.as_object().into_iter().flatten();
    for (name, value) in fields.skip_while(|(key, _)| *key != BEHIND_THE_STATE) {
        if let (Some(old), Some(new)) = (value.as_f64(), new[name].as_f64())
            && old.total_cmp(&new).is_ne()
            // The number of a simulation says nothing about it.
            && name != "simulation"
        {
            found.push(FigureChange::new(name, old, new));
        }
    }
    let place = |figure: &FigureChange| MAIN.iter().position(|name| *name == figure.name).unwrap_or(MAIN.len());
    // Stable: others stay in the order of records.
    found.sort_by_key(place);
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_that_differ_are_shown_main_ones_first() {
        let old = json!({
            "tp": 1, "router_mode": "round_robin", "total_gpus_used": 2, "score": 100.0, "feasible": true,
            "simulation": 3, "max_ttft_ms": 4.0, "mean_ttft_ms": 2.0, "std_ttft_ms": 0.0
        });
        let mut new = old.clone();
        assert!(BestChange::between("", Some(&old), Some(&new)).is_none());
        for (key, value) in [
            ("score", 90.0),
            ("mean_ttft_ms", 3.0),
            ("max_ttft_ms", 5.0),
            ("std_ttft_ms", 1.0),
        ] {
            new[key] = value.into();
        }
        let change = BestChange::between("", Some(&old), Some(&new)).expect("there are differences");
        assert_eq!(change.old_state.as_deref(), Some("tp=1 round_robin"));
        let shown: Vec<(&str, f64, Option<f64>)> = change
            .figures
            .iter()
            .map(|figure| (figure.name.as_str(), figure.difference, figure.relative))
            .collect();
        assert_eq!(
            shown,
            [
                ("score", -10.0, Some(-0.1)),
                ("mean_ttft_ms", 1.0, Some(0.5)),
                ("max_ttft_ms", 1.0, Some(0.25)),
                ("std_ttft_ms", 1.0, None),
            ]
        );
    }

    #[test]
    fn a_best_state_may_be_missing() {
        let record = json!({ "tp": 1, "total_gpus_used": 2, "feasible": false });
        assert!(BestChange::between("", None, Some(&Value::Null)).is_none());
        let change = BestChange::between("agg", Some(&record), None).expect("one is missing");
        assert_eq!((change.old_state.as_deref(), change.new_state), (Some("tp=1"), None));
        assert_eq!((change.old_feasible, change.new_feasible), (Some(false), None));
    }
}

//! Figures of a simulation by name.

use std::sync::Arc;

use dynosim_core::Report;
use dynosim_spec::SlaSpec;
use indexmap::IndexSet;

/// Requests per second that keep to all bounds on single requests.
pub(crate) const GOODPUT_RPS: &str = "goodput_rps";
/// Their share of all requests, 0 to 1.
pub(crate) const GOODPUT_SHARE: &str = "goodput_share";
/// Output tokens per second and GPU.
pub(crate) const THROUGHPUT_PER_GPU: &str = "throughput_per_gpu_tok_s";
/// Price of a million output tokens, in the currency of `hardware.gpuHourPrice`.
pub(crate) const COST: &str = "cost_per_million_output_tokens";
/// GPUs of a candidate.
pub(crate) const GPUS: &str = "total_gpus_used";

/// Names of the metrics of every simulation of a sweep, in order: those of [`Report::metrics`], and those of single
/// requests if the spec bounds these.
pub(crate) fn metric_names(sla: &SlaSpec) -> Arc<IndexSet<String>> {
    let mut names: IndexSet<String> = Report::default().metrics().into_keys().collect();
    if sla.per_request.is_some() {
        names.extend([GOODPUT_RPS, GOODPUT_SHARE].map(str::to_owned));
    }
    Arc::new(names)
}

/// Metrics of one simulation; names are shared between the simulations of a sweep.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    names: Arc<IndexSet<String>>,
    values: Vec<f64>,
}

impl Metrics {
    /// Metrics of these names, in their order; none at all if the numbers of names and values differ.
    pub(crate) fn new(names: &Arc<IndexSet<String>>, values: &[f64]) -> Self {
        if names.len() != values.len() {
            return Self::default();
        }
        Self {
            names: Arc::clone(names),
            values: values.to_vec(),
        }
    }

    /// The value of a metric.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.get(self.names.get_index_of(name)?).copied()
    }

    /// Names and values, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.names.iter().map(String::as_str).zip(self.values.iter().copied())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl PartialEq for Metrics {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values && (Arc::ptr_eq(&self.names, &other.names) || self.names == other.names)
    }
}

impl FromIterator<(String, f64)> for Metrics {
    fn from_iter<I: IntoIterator<Item = (String, f64)>>(metrics: I) -> Self {
        let mut names = IndexSet::new();
        let mut values = Vec::new();
        for (name, value) in metrics {
            if names.insert(name) {
                values.push(value);
            }
        }
        Self {
            names: Arc::new(names),
            values,
        }
    }
}

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Larger,
    Smaller,
}

impl Better {
    /// What is better of a metric by its name; `None` for what is no measure of how good a deployment is.
    pub(crate) fn of(metric: &str) -> Option<Self> {
        if metric.starts_with("std_") {
            return None;
        }
        let larger = metric.contains("throughput")
            || [GOODPUT_RPS, GOODPUT_SHARE, "prefix_cache_reused_ratio"].contains(&metric);
        let smaller = metric.ends_with("_ms") || [GPUS, COST].contains(&metric);
        match (larger, smaller) {
            (true, _) => Some(Self::Larger),
            (false, true) => Some(Self::Smaller),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_found_by_name() {
        let metrics: Metrics = [("a".to_owned(), 1.0), ("b".to_owned(), 2.0)].into_iter().collect();
        assert_eq!((metrics.get("b"), metrics.get("c")), (Some(2.0), None));
        assert_eq!(metrics.iter().collect::<Vec<_>>(), [("a", 1.0), ("b", 2.0)]);
        assert_ne!(metrics, Metrics::default());
        let names = metric_names(&SlaSpec::default());
        assert!(Metrics::new(&names, &[1.0]).is_empty());
        assert!(!names.contains(GOODPUT_RPS));
    }

    #[test]
    fn some_metrics_say_nothing_about_quality() {
        for (metric, expected) in [
            ("output_throughput_tok_s", Some(Better::Larger)),
            ("p95_output_token_throughput_per_user", Some(Better::Larger)),
            ("p95_ttft_ms", Some(Better::Smaller)),
            ("duration_ms", Some(Better::Smaller)),
            (GPUS, Some(Better::Smaller)),
            ("num_requests", None),
            ("std_ttft_ms", None),
        ] {
            assert_eq!(Better::of(metric), expected, "{metric}");
        }
    }
}

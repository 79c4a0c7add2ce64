//! Latency bounds.

use serde::Serialize;

use crate::reader::{Real, Section};

/// Upper bounds on latencies in milliseconds; a candidate that exceeds one is infeasible.
///
/// A bound that is absent or not above 0 is inactive.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlaSpec {
    /// Mean time to first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft: Option<f64>,
    /// Mean time per output token after the first (TPOT, averaged over requests).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itl: Option<f64>,
    /// Mean time from arrival to last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2e_latency: Option<f64>,
    /// Median of the time to first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ttft: Option<f64>,
    /// Median of the time per output token (TPOT of each request).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_itl: Option<f64>,
    /// Median of the time from arrival to last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_e2e_latency: Option<f64>,
    /// 95th percentile of the time to first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ttft: Option<f64>,
    /// 95th percentile of the time per output token (TPOT of each request).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_itl: Option<f64>,
    /// 95th percentile of the time from arrival to last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_e2e_latency: Option<f64>,
    /// 99th percentile of the time to first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ttft: Option<f64>,
    /// 99th percentile of the time per output token (TPOT of each request).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_itl: Option<f64>,
    /// 99th percentile of the time from arrival to last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_e2e_latency: Option<f64>,
    /// What a single request must keep to in order to count as goodput. It makes no candidate infeasible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_request: Option<PerRequestSla>,
}

/// Upper bounds on the latencies of a single request in milliseconds, at least one of them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PerRequestSla {
    /// Its time to first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft: Option<f64>,
    /// Its mean time per output token after the first (TPOT); a request of one token meets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itl: Option<f64>,
    /// Its time from arrival to last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2e_latency: Option<f64>,
}

impl PerRequestSla {
    fn fields(&mut self, section: &mut Section<'_, '_>) {
        let right = [
            section.option("ttft", &mut self.ttft, &Real::above(0.0)),
            section.option("itl", &mut self.itl, &Real::above(0.0)),
            section.option("e2eLatency", &mut self.e2e_latency, &Real::above(0.0)),
        ];
        if right == [true; 3] && *self == Self::default() {
            section.violation("", "needs at least one of ttft, itl, e2eLatency");
        }
    }
}

impl SlaSpec {
    /// The active bounds, each with its name in the spec and the report key it bounds.
    pub fn active_bounds(&self) -> impl Iterator<Item = SlaBound> {
        [
            ("ttft", "mean_ttft_ms", self.ttft),
            ("itl", "mean_tpot_ms", self.itl),
            ("e2eLatency", "mean_e2e_latency_ms", self.e2e_latency),
            ("p50Ttft", "median_ttft_ms", self.p50_ttft),
            ("p50Itl", "median_tpot_ms", self.p50_itl),
            ("p50E2eLatency", "median_e2e_latency_ms", self.p50_e2e_latency),
            ("p95Ttft", "p95_ttft_ms", self.p95_ttft),
            ("p95Itl", "p95_tpot_ms", self.p95_itl),
            ("p95E2eLatency", "p95_e2e_latency_ms", self.p95_e2e_latency),
            ("p99Ttft", "p99_ttft_ms", self.p99_ttft),
            ("p99Itl", "p99_tpot_ms", self.p99_itl),
            ("p99E2eLatency", "p99_e2e_latency_ms", self.p99_e2e_latency),
        ]
        .into_iter()
        .filter_map(|(name, metric, bound)| {
            let bound_ms = bound.filter(|ms| *ms > 0.0)?;
            Some(SlaBound { name, metric, bound_ms })
        })
    }

    /// Walks the fields.
    pub(super) fn fields(&mut self, section: &mut Section<'_, '_>) {
        let bounds = [
            ("ttft", &mut self.ttft),
            ("itl", &mut self.itl),
            ("e2eLatency", &mut self.e2e_latency),
            ("p50Ttft", &mut self.p50_ttft),
            ("p50Itl", &mut self.p50_itl),
            ("p50E2eLatency", &mut self.p50_e2e_latency),
            ("p95Ttft", &mut self.p95_ttft),
            ("p95Itl", &mut self.p95_itl),
            ("p95E2eLatency", &mut self.p95_e2e_latency),
            ("p99Ttft", &mut self.p99_ttft),
            ("p99Itl", &mut self.p99_itl),
            ("p99E2eLatency", &mut self.p99_e2e_latency),
        ];
        for (key, bound) in bounds {
            section.option(key, bound, &Real::any());
            if bound.is_some_and(|ms| ms <= 0.0) {
                section.warn(key, "is no bound, because it is not above 0");
            }
        }
        let blank = PerRequestSla::default();
        section.optional_object("perRequest", &mut self.per_request, blank, PerRequestSla::fields);
        for key in [
            "tpot",
            "meanTpot",
            "mean_tpot",
            "tpotMs",
            "tpot_ms",
            "timePerOutputToken",
        ] {
            section.hint(key, "`itl` bounds the mean TPOT");
        }
        for key in ["p95Tpot", "p95_tpot", "p95_tpot_ms"] {
            section.hint(key, "`p95Itl` bounds the 95th percentile of TPOT");
        }
    }
}

/// One active latency bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlaBound {
    /// Its key in the `sla` object.
    pub name: &'static str,
    /// Report key of what it bounds.
    pub metric: &'static str,
    /// The bound in milliseconds, above 0.
    pub bound_ms: f64,
}

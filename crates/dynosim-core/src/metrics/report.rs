//! The metrics of a finished run.

use dynosim_spec::{SimDuration, Workload};
use indexmap::IndexMap;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::breakdown::Breakdown;
use super::distribution::Distribution;
use super::gap_tally::CountedGaps;
use super::latency::Latency;
use super::phases::TtftParts;
use super::pool_use::{PoolEnd, PoolUse};
use super::recorder::{Recorder, RequestRecord};

/// A request that was never served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// Index of the request.
    pub request: u32,
    /// Session it belongs to.
    pub session: u32,
    /// Its turn within the session, from 0.
    pub turn: u32,
    /// Why it can never run.
    pub reason: String,
}

/// Metrics of one run. Times are milliseconds, rates are per second of simulated time.
///
/// Serialises as one flat object: 65 metrics under the names of the reference, then
/// `rejected_requests`, `rejections`, `warnings`, `extrapolated_share`, `calibration`, `error_bands`
/// and `pools`; if asked for, `breakdown`, an object.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Requests of the workload.
    pub num_requests: u64,
    /// Requests that were admitted and emitted at least one token.
    pub completed_requests: u64,
    /// Prompt tokens of completed requests.
    pub total_input_tokens: u64,
    /// Tokens that they emitted.
    pub total_output_tokens: u64,
    /// Latest token of all, from the start of the run.
    pub duration_ms: f64,
    /// Share of prompt tokens found in a cache (per request, the most over its admissions).
    pub prefix_cache_reused_ratio: f64,
    /// First token after arrival.
    pub ttft: Distribution,
    /// Second token after the first.
    pub ttst: Distribution,
    /// Per request, mean gap between its tokens.
    pub tpot: Distribution,
    /// Every gap between two tokens of a request.
    pub itl: Distribution,
    /// Last token after arrival.
    pub e2e_latency: Distribution,
    /// Tokens per second that a user sees, one value per gap.
    pub output_token_throughput_per_user: Distribution,
    /// Requests that can never run, with the reason.
    pub rejections: Vec<Rejection>,
    /// What the user ought to know about the input.
    pub warnings: Vec<String>,
    /// Share of the priced step time that rests on extrapolation beyond the timing model's data.
    pub extrapolated_share: f64,
    /// What each pool did: the aggregated one, or the prefill and the decode pool.
    pub pools: Vec<PoolUse>,
    /// What step time was spent on, if that was asked for.
    pub breakdown: Option<Breakdown>,
    /// Name of the calibration whose constants were added to kernels; `None` under rules that add nothing.
    pub calibration: Option<String>,
    /// Where measurements are to be expected; `None` if nothing comparable was validated.
    pub error_bands: Option<ErrorBands>,
}

/// Where nine in ten measured means are to be expected by a validation of simulations, milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorBands {
    /// The measurements that simulations were compared with.
    pub basis: String,
    /// Mean time to first token, from and to; `None` if it was not validated.
    pub mean_ttft_ms: Option<[f64; 2]>,
    /// Mean time per output token, from and to; `None` if it was not validated.
    pub mean_tpot_ms: Option<[f64; 2]>,
}

impl Report {
    /// Sums up the notes of a run.
    pub(crate) fn new(
        workload: &Workload,
        recorder: &Recorder,
        pools: &[PoolEnd<'_, impl CountedGaps>],
        rejections: Vec<Rejection>,
        warnings: Vec<String>,
    ) -> Self {
        let served = || recorder.requests.iter().filter(|record| record.counts());
        let lengths = workload.requests().iter().zip(&recorder.requests);
        let input_tokens: u64 = lengths
            .filter(|(_, record)| record.counts())
            .map(|(request, _)| u64::from(request.input_tokens))
            .sum();
        let reused_tokens: u64 = served().map(|record| u64::from(record.reused_tokens)).sum();
        let gaps_in_runs: Vec<_> = pools.iter().map(|pool| pool.gaps_in_runs).collect();
        let last_token = served().map(|record| record.last_token).max();
        let duration_ms = last_token.unwrap_or_default().as_ms();
        let step_time: SimDuration = pools.iter().map(|pool| pool.tally.step_time).sum();
        let extrapolated_time: SimDuration = pools.iter().map(|pool| pool.tally.extrapolated_time).sum();
        let mut values = Vec::new();
        let mut distribution = |ms: &dyn Fn(&RequestRecord) -> Option<f64>| {
            values.clear();
            values.extend(served().filter_map(ms));
            Distribution::of(&mut values)
        };
        let (itl, output_token_throughput_per_user) = recorder.gaps.distributions(&gaps_in_runs);
        Self {
            num_requests: workload.requests().len() as u64,
            completed_requests: served().count() as u64,
            total_input_tokens: input_tokens,
            total_output_tokens: served().map(|record| u64::from(record.output_tokens)).sum(),
            duration_ms,
            prefix_cache_reused_ratio: ratio(reused_tokens as f64, input_tokens as f64),
            ttft: distribution(&|record| Latency::Ttft.ms(record)),
            ttst: distribution(&|record| {
                (record.output_tokens >= 2).then(|| (record.second_token - record.first_token).as_ms())
            }),
            tpot: distribution(&|record| Latency::Tpot.ms(record)),
            itl,
            e2e_latency: distribution(&|record| Latency::E2e.ms(record)),
            output_token_throughput_per_user,
            rejections,
            warnings,
            extrapolated_share: ratio(extrapolated_time.as_ms(), step_time.as_ms()),
            pools: pools
                .iter()
                .map(|pool| pool.pool_use(duration_ms, input_tokens))
                .collect(),
            breakdown: recorder.breakdown.clone().map(|breakdown| Breakdown {
                ttft: TtftParts::mean_of(recorder.phases().flatten()),
                ..breakdown
            }),
            calibration: None,
            error_bands: None,
        }
    }

    /// The 65 metrics by name, in the order of the reference's report.
    pub fn metrics(&self) -> IndexMap<String, f64> {
        let mut metrics = IndexMap::with_capacity(65);
        let seconds = (self.duration_ms / 1000.0).max(1e-9);
        let tokens = self.total_input_tokens + self.total_output_tokens;
        for (key, value) in [
            ("num_requests", self.num_requests as f64),
            ("completed_requests", self.completed_requests as f64),
            ("total_input_tokens", self.total_input_tokens as f64),
            ("total_output_tokens", self.total_output_tokens as f64),
            ("duration_ms", self.duration_ms),
            ("request_throughput_rps", self.completed_requests as f64 / seconds),
            ("input_throughput_tok_s", self.total_input_tokens as f64 / seconds),
            ("output_throughput_tok_s", self.output_throughput_tok_s()),
            ("total_throughput_tok_s", tokens as f64 / seconds),
            ("processed_tokens", tokens as f64),
            ("prefix_cache_reused_ratio", self.prefix_cache_reused_ratio),
        ] {
            metrics.insert(key.to_owned(), value);
        }
        for (name, distribution) in [
            (Latency::Ttft.key(), &self.ttft),
            ("ttst_ms", &self.ttst),
            (Latency::Tpot.key(), &self.tpot),
            ("itl_ms", &self.itl),
            (Latency::E2e.key(), &self.e2e_latency),
            (
                "output_token_throughput_per_user",
                &self.output_token_throughput_per_user,
            ),
        ] {
            for (figure, value) in distribution.figures() {
                metrics.insert(format!("{figure}_{name}"), value);
            }
        }
        metrics
    }

    /// Output tokens per second of simulated time.
    pub fn output_throughput_tok_s(&self) -> f64 {
        self.total_output_tokens as f64 / (self.duration_ms / 1000.0).max(1e-9)
    }

    /// Names of metrics that are counts.
    pub fn is_count(metric: &str) -> bool {
        matches!(
            metric,
            "num_requests" | "completed_requests" | "total_input_tokens" | "total_output_tokens" | "processed_tokens"
        )
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let metrics = self.metrics();
        let mut map = serializer.serialize_map(Some(metrics.len() + 7 + usize::from(self.breakdown.is_some())))?;
        for (key, value) in &metrics {
            if Self::is_count(key) {
                // Counts stay below 2^53, where f64 is exact.
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
                map.serialize_entry(key, &(*value as u64))?;
            } else {
                map.serialize_entry(key, value)?;
            }
        }
        map.serialize_entry("rejected_requests", &self.rejections.len())?;
        map.serialize_entry("rejections", &self.rejections)?;
        map.serialize_entry("warnings", &self.warnings)?;
        map.serialize_entry("extrapolated_share", &self.extrapolated_share)?;
        map.serialize_entry("calibration", &self.calibration)?;
        map.serialize_entry("error_bands", &self.error_bands)?;
        map.serialize_entry("pools", &self.pools)?;
        if let Some(breakdown) = &self.breakdown {
            map.serialize_entry("breakdown", breakdown)?;
        }
        map.end()
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

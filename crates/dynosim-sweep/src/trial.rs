//! How simulations of candidates end, and where that is kept.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dynosim_core::{Latency, Outcome, RequestRecord};
use dynosim_spec::PerRequestSla;
use serde::{Deserialize, Serialize};

/// How a simulation ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trial {
    /// With these figures.
    Finished(Figures),
    /// Without any, for this reason.
    Failed(String),
    /// Before its end, because a bound will be missed whatever comes.
    GivenUp {
        /// Which bound, and when that was clear.
        reason: String,
        /// By how much the bound would be exceeded if the rest went on in the same way.
        expected_excess: f64,
    },
}

/// What a verdict needs of a report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Metrics, without their names, in the order that all simulations of a sweep share.
    pub(crate) metrics: Vec<f64>,
    pub(crate) rejected_requests: usize,
    /// Why the first of them is rejected.
    pub(crate) first_rejection: Option<String>,
    pub(crate) extrapolated_share: f64,
}

impl Figures {
    /// The figures of a run, with its goodput if single requests are bounded.
    pub(crate) fn of(outcome: &Outcome, per_request: Option<&PerRequestSla>) -> Self {
        let report = &outcome.report;
        let mut metrics: Vec<f64> = report.metrics().into_values().collect();
        if let Some(sla) = per_request {
            let good = outcome.requests.iter().filter(|record| is_good(record, sla)).count() as f64;
            let seconds = (report.duration_ms / 1000.0).max(1e-9);
            let requests = (report.num_requests as f64).max(1.0);
            metrics.extend([good / seconds, good / requests]);
        }
        Self {
            metrics,
            rejected_requests: report.rejections.len(),
            first_rejection: report.rejections.first().map(|rejection| rejection.reason.clone()),
            extrapolated_share: report.extrapolated_share,
        }
    }
}

/// Whether a request was served within all bounds. Of a latency that it does not have, it keeps every bound.
fn is_good(record: &RequestRecord, sla: &PerRequestSla) -> bool {
    let keeps = |latency: Latency, bound: Option<f64>| match (latency.ms(record), bound) {
        (Some(ms), Some(bound)) => ms <= bound,
        _ => true,
    };
    record.counts()
        && keeps(Latency::Ttft, sla.ttft)
        && keeps(Latency::Tpot, sla.itl)
        && keeps(Latency::E2e, sla.e2e_latency)
}

/// Keeps how simulations ended, so that none is made twice: within a process, or over several of them.
///
/// Keys name a candidate completely. They are good for one engine, workload, timing provider, set of router settings and
/// seed; the budget, bounds and objective may differ.
pub trait TrialStore: Sync {
    /// How the simulation with this key ended, if that is known.
    fn find(&self, key: &str) -> Option<Trial>;

    /// Notes how a simulation ended. Called from several threads, once for each simulation that is made.
    fn keep(&self, key: &str, trial: &Trial);
}

/// Trials in memory.
#[derive(Debug, Default)]
pub struct MemoryTrials {
    trials: Mutex<BTreeMap<String, Trial>>,
}

impl MemoryTrials {
    fn trials(&self) -> MutexGuard<'_, BTreeMap<String, Trial>> {
        // A map is whole between two calls, whatever happened to the thread that held it.
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrialStore for MemoryTrials {
    fn find(&self, key: &str) -> Option<Trial> {
        self.trials().get(key).cloned()
    }

    fn keep(&self, key: &str, trial: &Trial) {
        self.trials().insert(key.to_owned(), trial.clone());
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{SimDuration, SimTime};

    use super::*;

    fn record(ttft_ms: u64, gap_ms: u64, tokens: u32) -> RequestRecord {
        let at = |ms: u64| SimTime::ZERO + SimDuration::from_nanos(ms * 1_000_000);
        RequestRecord {
            arrival: Some(at(5)),
            first_admission: Some(at(5)),
            first_token: at(5 + ttft_ms),
            last_token: at(5 + ttft_ms + gap_ms * u64::from(tokens - 1)),
            output_tokens: tokens,
            ..RequestRecord::default()
        }
    }

    #[test]
    fn good_requests_keep_every_bound() {
        let sla = PerRequestSla {
            ttft: Some(100.0),
            itl: Some(10.0),
            e2e_latency: Some(150.0),
        };
        assert!(is_good(&record(100, 10, 6), &sla));
        assert!(!is_good(&record(101, 10, 5), &sla), "ttft");
        assert!(!is_good(&record(50, 11, 5), &sla), "itl");
        assert!(!is_good(&record(100, 10, 7), &sla), "e2e");
        assert!(is_good(&record(100, 0, 1), &sla), "one token has no gap");
        assert!(!is_good(&RequestRecord::default(), &sla), "never served");
    }

    #[test]
    fn trials_survive_being_written_down() {
        let figures = Figures {
            metrics: vec![0.1 + 0.2, 1e-300, 12_345.678_901_234_567],
            rejected_requests: 2,
            first_rejection: Some("too \"long\"".to_owned()),
            extrapolated_share: 1.0 / 3.0,
        };
        for trial in [
            Trial::Finished(figures),
            Trial::Failed("no".to_owned()),
            Trial::GivenUp {
                reason: "late".to_owned(),
                expected_excess: 0.7,
            },
        ] {
            let text = serde_json::to_string(&trial).expect("plain values");
            let read: Trial = serde_json::from_str(&text).expect("what was written");
            assert_eq!(read, trial);
        }
    }
}

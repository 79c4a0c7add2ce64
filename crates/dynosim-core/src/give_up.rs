//! Giving up a run whose latencies can no longer keep to a bound.

use dynosim_spec::SimDuration;

use crate::metrics::{Latency, RequestRecord, rank};

/// What is bounded of the latencies of all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// Their arithmetic mean.
    Mean,
    /// Their nearest-rank percentile, from 0 to 100; larger ones are taken for 100.
    Percentile(u8),
}

impl Statistic {
    /// Those of which a report has the figures.
    const REPORTED: [Self; 8] = [
        Self::Mean,
        Self::Percentile(0),
        Self::Percentile(50),
        Self::Percentile(75),
        Self::Percentile(90),
        Self::Percentile(95),
        Self::Percentile(99),
        Self::Percentile(100),
    ];

    /// Its name in the keys of a report.
    fn name(self) -> String {
        match self {
            Self::Mean => "mean".to_owned(),
            Self::Percentile(0) => "min".to_owned(),
            Self::Percentile(50) => "median".to_owned(),
            Self::Percentile(100..) => "max".to_owned(),
            Self::Percentile(percent) => format!("p{percent}"),
        }
    }
}

/// An upper bound on the latencies of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyBound {
    /// What is bounded of them.
    pub statistic: Statistic,
    /// Which latency.
    pub latency: Latency,
    /// The bound in milliseconds.
    pub limit_ms: f64,
}

impl LatencyBound {
    /// A bound on a metric of [`Report::metrics`](crate::Report::metrics); `None` if the metric is no mean, extreme or
    /// percentile of a [`Latency`].
    ///
    /// ```
    /// use dynosim_core::{Latency, LatencyBound, Statistic};
    ///
    /// let bound = LatencyBound::on_metric("p95_ttft_ms", 200.0).expect("requests have a TTFT each");
    /// assert_eq!((bound.statistic, bound.latency), (Statistic::Percentile(95), Latency::Ttft));
    /// assert_eq!(bound.metric(), "p95_ttft_ms");
    /// assert_eq!(LatencyBound::on_metric("p95_itl_ms", 200.0), None);
    /// ```
    pub fn on_metric(metric: &str, limit_ms: f64) -> Option<Self> {
        let (figure, key) = metric.split_once('_')?;
        let mut statistics = Statistic::REPORTED.into_iter();
        let statistic = statistics.find(|statistic| statistic.name() == figure)?;
        let latency = Latency::ALL.into_iter().find(|latency| latency.key() == key)?;
        Some(Self {
            statistic,
            latency,
            limit_ms,
        })
    }

    /// The metric that is bounded, in the way of the keys of a report.
    pub fn metric(&self) -> String {
        format!("{}_{}", self.statistic.name(), self.latency.key())
    }
}

/// What finished requests say about bounds.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    tallies: Vec<Tally>,
}

impl Watch {
    /// Watches these bounds. `requests_with` says how many requests there will be at most that emit as many tokens.
    pub(crate) fn new(bounds: &[LatencyBound], requests_with: impl Fn(u32) -> u64) -> Self {
        let tally = |bound: &LatencyBound| Tally::new(*bound, requests_with(bound.latency.least_tokens()));
        Self {
            tallies: bounds.iter().filter_map(tally).collect(),
        }
    }

    /// Whether there is nothing to watch.
    pub(crate) fn is_idle(&self) -> bool {
        self.tallies.is_empty()
    }

    /// Takes in one more finished request: the first bound that is missed for certain, whatever the others come to.
    pub(crate) fn finished(&mut self, record: &RequestRecord) -> Option<LatencyBound> {
        let mut missed = None;
        for tally in &mut self.tallies {
            tally.add(record);
            if missed.is_none() && tally.so_far > tally.most {
                missed = Some(tally.bound);
            }
        }
        missed
    }
}

/// A sum over finished requests that a run within a bound cannot exceed.
///
/// Each request adds something that is not negative, so what is exceeded once stays exceeded. Let `count` be the largest
/// number of requests that may come to have the latency, and `n` their number in the end.
///
/// A mean within the limit is one whose sum is at most `n * limit`, hence at most `count * limit`: requests add
/// their latency.
///
/// A percentile within the limit is one above whose rank lie at most `n - 1 - rank(n)` values that exceed the limit:
/// requests that exceed it add 1. From one `n` to the next, a rank grows by 0 or 1, so this number never falls, and is
/// largest for `count`.
#[derive(Debug)]
struct Tally {
    bound: LatencyBound,
    /// What counts as exceeding the bound.
    limit: SimDuration,
    so_far: u128,
    most: u128,
}

impl Tally {
    /// Limits are raised by this share of themselves (and by a nanosecond, because they are rounded).
    ///
    /// Tallies are whole numbers and latencies rounded down, so a tally is never too large. But a report divides and sums
    /// up in floating point: its mean of `n` latencies may fall short by a share of `n / 2^53`, which is less than half
    /// of this for any `n` below 2^32.
    const MARGIN: f64 = 1e-6;

    /// `None` if nothing can be proven, because the limit is no time or no request has the latency.
    fn new(bound: LatencyBound, count: u64) -> Option<Self> {
        let raised = SimDuration::from_ms(bound.limit_ms * (1.0 + Self::MARGIN))?;
        let limit = raised + SimDuration::from_nanos(1);
        let last = count.checked_sub(1)?;
        let most = match bound.statistic {
            Statistic::Mean => u128::from(count) * u128::from(limit.as_nanos()),
            Statistic::Percentile(percent) => u128::from(last - rank(count, u64::from(percent.min(100)))),
        };
        Some(Self {
            bound,
            limit,
            so_far: 0,
            most,
        })
    }

    fn add(&mut self, record: &RequestRecord) {
        let Some(nanos) = self.bound.latency.nanos(record) else {
            return;
        };
        self.so_far += match self.bound.statistic {
            Statistic::Mean => u128::from(nanos),
            Statistic::Percentile(_) => u128::from(nanos > self.limit.as_nanos()),
        };
    }
}

#[cfg(test)]
mod tests;

//! Latencies of single requests.

use dynosim_spec::SimDuration;

use super::recorder::RequestRecord;

/// A latency of a request, as a report counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// First token after arrival.
    Ttft,
    /// Mean gap between its tokens; only requests with at least two tokens have one.
    Tpot,
    /// Last token after arrival.
    E2e,
}

impl Latency {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Ttft, Self::Tpot, Self::E2e];

    /// Its name in the keys of a report.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Ttft => "ttft_ms",
            Self::Tpot => "tpot_ms",
            Self::E2e => "e2e_latency_ms",
        }
    }

    /// Tokens without which a request does not have it.
    pub(crate) fn least_tokens(self) -> u32 {
        match self {
            Self::Ttft | Self::E2e => 1,
            Self::Tpot => 2,
        }
    }

    /// That of a request in milliseconds; `None` if the request does not count or does not have it.
    pub fn ms(self, record: &RequestRecord) -> Option<f64> {
        let (span, parts) = self.span(record)?;
        Some(span.as_ms() / f64::from(parts))
    }

    /// That of a request in whole nanoseconds, rounded down; `None` as for [`Self::ms`].
    pub(crate) fn nanos(self, record: &RequestRecord) -> Option<u64> {
        let (span, parts) = self.span(record)?;
        Some(span.as_nanos() / u64::from(parts))
    }

    /// A span of which the latency is an equal part, and the number of its parts.
    fn span(self, record: &RequestRecord) -> Option<(SimDuration, u32)> {
        if !record.counts() || record.output_tokens < self.least_tokens() {
            return None;
        }
        let arrival = record.arrival.unwrap_or_default();
        Some(match self {
            Self::Ttft => (record.first_token - arrival, 1),
            Self::Tpot => (record.last_token - record.first_token, record.output_tokens - 1),
            Self::E2e => (record.last_token - arrival, 1),
        })
    }
}

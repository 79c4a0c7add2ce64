//! The two latencies that simulations are compared with measurements on.

use serde::Serialize;

/// A latency whose mean over requests is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LatencyKind {
    /// Time to first token: first token less arrival.
    Ttft,
    /// Time per output token after the first: (last token less first) / (tokens - 1), per request.
    Tpot,
}

impl LatencyKind {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Ttft, Self::Tpot];

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
        }
    }
}

/// Something that there is for each of the two latencies.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PerLatency<T> {
    /// That of the time to first token.
    pub ttft: T,
    /// That of the time per output token.
    pub tpot: T,
}

impl<T> PerLatency<T> {
    /// Made for one latency after the other.
    pub fn of(mut make: impl FnMut(LatencyKind) -> T) -> Self {
        Self {
            ttft: make(LatencyKind::Ttft),
            tpot: make(LatencyKind::Tpot),
        }
    }

    /// That of one latency.
    pub const fn get(&self, kind: LatencyKind) -> &T {
        match kind {
            LatencyKind::Ttft => &self.ttft,
            LatencyKind::Tpot => &self.tpot,
        }
    }
}

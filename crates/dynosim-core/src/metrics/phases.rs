//! The phases of a request's life up to its first token.

use dynosim_spec::{SimDuration, SimTime};
use serde::Serialize;

use super::recorder::RequestRecord;

/// The time to first token in the order in which it passes; the parts sum up to it.
///
/// Of one request the parts are exact, in whole nanoseconds. Means over requests are `f64` milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TtftParts<T = f64> {
    /// From the client to the router.
    pub ingress: T,
    /// From there to the start of the first step that the request is part of: in the router's queue, and then in the
    /// worker's.
    pub queue: T,
    /// From there to the end of the prompt's computation; in an aggregated run, to the first token.
    pub prefill: T,
    /// The KV cache on its way to the decode pool; nothing in an aggregated run.
    pub transfer: T,
    /// From there to the start of the first step on a decode worker: in the queue of the decode pool's router, and
    /// then in the worker's. Nothing in an aggregated run.
    pub decode_queue: T,
    /// From there to the first token; nothing in an aggregated run.
    pub first_step: T,
    /// From the engine to the client.
    pub egress: T,
}

/// How a request came to its first token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPhases {
    /// Its time to first token.
    pub ttft: TtftParts<SimDuration>,
    /// When its prompt was computed; in an aggregated run, when its first token left the engine.
    pub prompt_done: SimTime,
    /// When its KV cache was in the decode pool; `None` in an aggregated run.
    pub kv_landed: Option<SimTime>,
    /// When a decode worker first scheduled it; `None` in an aggregated run.
    pub decode_admission: Option<SimTime>,
}

/// What is noted of a request for its phases, besides its record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    /// How long it was on its way from the client to the router.
    pub(super) way: SimDuration,
    /// When a prefill worker was done with it.
    pub(super) prompt_done: Option<SimTime>,
    pub(super) kv_landed: Option<SimTime>,
    pub(super) decode_admission: Option<SimTime>,
}

impl<T: Copy> TtftParts<T> {
    /// Each part with its name.
    pub fn named(&self) -> [(&'static str, T); 7] {
        [
            ("ingress", self.ingress),
            ("queue", self.queue),
            ("prefill", self.prefill),
            ("transfer", self.transfer),
            ("decode_queue", self.decode_queue),
            ("first_step", self.first_step),
            ("egress", self.egress),
        ]
    }
}

impl TtftParts<SimDuration> {
    /// The time to first token.
    pub fn total(&self) -> SimDuration {
        self.named().into_iter().map(|(_, part)| part).sum()
    }
}

impl TtftParts {
    /// Means over these requests, milliseconds; zero if there are none.
    pub(super) fn mean_of(requests: impl Iterator<Item = RequestPhases>) -> Self {
        let (mut count, mut sum) = (0_u32, Self::default());
        for RequestPhases { ttft, .. } in requests {
            count += 1;
            sum = sum.plus(ttft.map(SimDuration::as_ms));
        }
        sum.map(|part| if count == 0 { 0.0 } else { part / f64::from(count) })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            ingress: self.ingress + other.ingress,
            queue: self.queue + other.queue,
            prefill: self.prefill + other.prefill,
            transfer: self.transfer + other.transfer,
            decode_queue: self.decode_queue + other.decode_queue,
            first_step: self.first_step + other.first_step,
            egress: self.egress + other.egress,
        }
    }
}

impl<T> TtftParts<T> {
    fn map<U>(self, change: impl Fn(T) -> U) -> TtftParts<U> {
        TtftParts {
            ingress: change(self.ingress),
            queue: change(self.queue),
            prefill: change(self.prefill),
            transfer: change(self.transfer),
            decode_queue: change(self.decode_queue),
            first_step: change(self.first_step),
            egress: change(self.egress),
        }
    }
}

impl RequestPhases {
    /// The phases of a request whose tokens take `egress` to the client; `None` if it was not served.
    pub(super) fn of(record: &RequestRecord, marks: &Marks, egress: SimDuration) -> Option<Self> {
        let (sent, admitted) = (record.arrival?, record.first_admission?);
        if !record.counts() {
            return None;
        }
        let at_router = sent + marks.way;
        let first_token = SimTime::ZERO + (record.first_token - (SimTime::ZERO + egress));
        let prompt_done = marks.prompt_done.unwrap_or(first_token);
        let kv_landed = marks.kv_landed.unwrap_or(prompt_done);
        let decode_admission = marks.decode_admission.unwrap_or(kv_landed);
        Some(Self {
            ttft: TtftParts {
                ingress: at_router - sent,
                queue: admitted - at_router,
                prefill: prompt_done - admitted,
                transfer: kv_landed - prompt_done,
                decode_queue: decode_admission - kv_landed,
                first_step: first_token - decode_admission,
                egress,
            },
            prompt_done,
            kv_landed: marks.kv_landed,
            decode_admission: marks.decode_admission,
        })
    }
}

//! What happens to requests, noted down while the run goes on.

use dynosim_spec::{RequestId, SimDuration, SimTime, WorkerId};
use dynosim_timing::Price;
use rustc_hash::FxHashMap;

/// The life of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestRecord {
    /// When it became ready to be served: its scheduled time, or the moment a closed loop let it in.
    pub arrival: Option<SimTime>,
    /// When a worker first scheduled it.
    pub first_admission: Option<SimTime>,
    /// Prompt tokens found in the cache, the most over all its admissions.
    pub reused_tokens: u32,
    /// When its first token left the engine.
    pub first_token: SimTime,
    /// When its second token left the engine.
    pub second_token: SimTime,
    /// When its latest token left the engine.
    pub last_token: SimTime,
    /// Tokens emitted so far; the three times above mean nothing before there are as many.
    pub output_tokens: u32,
    /// How often it lost its blocks to another request.
    pub preemptions: u32,
    /// Worker that computed its prompt.
    pub prefill_worker: Option<WorkerId>,
    /// Worker that generated its tokens; the same as the prefill worker in an aggregated run.
    pub decode_worker: Option<WorkerId>,
}

impl RequestRecord {
    /// Whether it counts in latency statistics: it was admitted and emitted a token.
    pub fn counts(&self) -> bool {
        self.first_admission.is_some() && self.output_tokens > 0
    }
}

/// Notes of one run.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(super) requests: Vec<RequestRecord>,
    pub(super) gaps: GapTally,
    token_times: Option<Vec<Vec<SimTime>>>,
    pub(super) priced_ms: f64,
    pub(super) extrapolated_ms: f64,
}

impl Recorder {
    /// Nothing noted yet about `requests` requests.
    pub(crate) fn new(requests: usize, keep_token_times: bool) -> Self {
        Self {
            requests: vec![RequestRecord::default(); requests],
            gaps: GapTally::default(),
            token_times: keep_token_times.then(|| vec![Vec::new(); requests]),
            priced_ms: 0.0,
            extrapolated_ms: 0.0,
        }
    }

    /// The records so far.
    pub(crate) fn into_parts(self) -> (Vec<RequestRecord>, Option<Vec<Vec<SimTime>>>) {
        (self.requests, self.token_times)
    }

    pub(crate) fn arrived(&mut self, request: RequestId, at: SimTime) {
        self.requests[request.index()].arrival = Some(at);
    }

    pub(crate) fn sent_to_prefill(&mut self, request: RequestId, worker: WorkerId) {
        self.requests[request.index()].prefill_worker = Some(worker);
    }

    pub(crate) fn sent_to_decode(&mut self, request: RequestId, worker: WorkerId) {
        self.requests[request.index()].decode_worker = Some(worker);
    }

    /// A worker has scheduled a request that waited, finding `reused_tokens` of its prompt cached.
    pub(crate) fn admitted(&mut self, request: RequestId, at: SimTime, reused_tokens: u32) {
        let record = &mut self.requests[request.index()];
        record.first_admission.get_or_insert(at);
        record.reused_tokens = record.reused_tokens.max(reused_tokens);
    }

    pub(crate) fn preempted(&mut self, request: RequestId) {
        self.requests[request.index()].preemptions += 1;
    }

    /// A token of a request leaves the engine.
    pub(crate) fn token(&mut self, request: RequestId, at: SimTime) {
        let record = &mut self.requests[request.index()];
        match record.output_tokens {
            0 => record.first_token = at,
            1 => record.second_token = at,
            _ => {}
        }
        if record.output_tokens > 0 {
            self.gaps.add(at - record.last_token);
        }
        record.last_token = at;
        record.output_tokens += 1;
        if let Some(times) = &mut self.token_times {
            times[request.index()].push(at);
        }
    }

    /// A step, or a part of one, was priced.
    pub(crate) fn priced(&mut self, price: Price) {
        self.priced_ms += price.ms;
        self.extrapolated_ms += price.extrapolated_ms;
    }
}

/// How often each gap between two tokens of a request occurred.
#[derive(Debug, Default)]
pub(super) struct GapTally {
    /// The latest gap and its count, kept apart: the sequences of a batch share their gaps.
    latest: (SimDuration, u64),
    counts: FxHashMap<SimDuration, u64>,
}

impl GapTally {
    fn add(&mut self, gap: SimDuration) {
        if self.latest.0 != gap {
            self.flush();
            self.latest.0 = gap;
        }
        self.latest.1 += 1;
    }

    fn flush(&mut self) {
        let (gap, count) = std::mem::take(&mut self.latest);
        if count > 0 {
            *self.counts.entry(gap).or_default() += count;
        }
    }

    /// All gaps with their counts, ascending.
    pub(super) fn ascending(&mut self) -> Vec<(SimDuration, u64)> {
        self.flush();
        let mut pairs: Vec<_> = self.counts.iter().map(|(&gap, &count)| (gap, count)).collect();
        pairs.sort_unstable();
        pairs
    }
}

//! What happens to requests, noted down while the run goes on.

use dynosim_spec::{RequestId, SimDuration, SimTime, WorkerId};

use super::breakdown::Breakdown;
use super::gap_tally::GapTally;
use super::phases::{Marks, RequestPhases};
use super::token_trail::TokenTrail;
use crate::client::ClientPath;

/// The life of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestRecord {
    /// When it became ready to be served: its scheduled time, or the moment a closed loop let it in.
    pub arrival: Option<SimTime>,
    /// When a worker first scheduled it.
    pub first_admission: Option<SimTime>,
    /// Prompt tokens found in the cache, the most over all its admissions.
    pub reused_tokens: u32,
    /// When its first token reached the client.
    pub first_token: SimTime,
    /// When its second token reached the client.
    pub second_token: SimTime,
    /// When its latest token reached the client.
    pub last_token: SimTime,
    /// Tokens emitted when it was finished; the three times above mean nothing without as many.
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
    pub(crate) gaps: GapTally,
    /// The way between clients and the scheduler.
    pub(super) client: ClientPath,
    token_times: Option<Vec<Vec<SimTime>>>,
    /// What the time of steps was spent on, if that was asked for.
    pub(crate) breakdown: Option<Breakdown>,
    /// What is noted for the phases of each request, if that was asked for. Apart from the records, of which there
    /// may be a million, so that these stay small.
    marks: Option<Vec<Marks>>,
}

impl Recorder {
    /// Nothing noted yet about `requests` requests of clients that are so far away.
    pub(crate) fn new(requests: usize, client: ClientPath) -> Self {
        Self {
            client,
            requests: vec![RequestRecord::default(); requests],
            gaps: GapTally::default(),
            token_times: None,
            breakdown: None,
            marks: None,
        }
    }

    /// The life of a request so far.
    pub(crate) fn record(&self, request: RequestId) -> &RequestRecord {
        &self.requests[request.index()]
    }

    /// The records so far.
    pub(crate) fn into_parts(self) -> (Vec<RequestRecord>, Option<Vec<Vec<SimTime>>>) {
        (self.requests, self.token_times)
    }

    pub(crate) fn arrived(&mut self, request: RequestId, at: SimTime) {
        self.requests[request.index()].arrival = Some(at);
    }

    /// Keeps the time of every token from now on.
    pub(crate) fn keep_token_times(&mut self) {
        self.token_times = Some(vec![Vec::new(); self.requests.len()]);
    }

    /// Notes what time is spent on from now on.
    pub(crate) fn keep_breakdown(&mut self) {
        self.breakdown = Some(Breakdown::default());
        self.keep_phases();
    }

    /// Notes the phases of requests from now on.
    pub(crate) fn keep_phases(&mut self) {
        self.marks = Some(vec![Marks::default(); self.requests.len()]);
    }

    /// Whether phases are noted.
    pub(crate) fn keeps_phases(&self) -> bool {
        self.marks.is_some()
    }

    /// The phases of each request so far, if they are noted; `None` for a request that was not served.
    pub(crate) fn phases(&self) -> impl Iterator<Item = Option<RequestPhases>> {
        let marks = self.marks.iter().flatten();
        let requests = self.requests.iter().zip(marks);
        requests.map(|(record, marks)| RequestPhases::of(record, marks, self.client.egress()))
    }

    /// A request takes this long from the client to the router.
    pub(crate) fn on_the_way(&mut self, request: RequestId, way: SimDuration) {
        if let Some(marks) = self.marks_of(request) {
            marks.way = way;
        }
    }

    /// A prefill worker is done with a request.
    pub(crate) fn prompt_done(&mut self, request: RequestId, at: SimTime) {
        if let Some(marks) = self.marks_of(request) {
            marks.prompt_done = Some(at);
        }
    }

    /// The KV of a request is in the decode pool.
    pub(crate) fn kv_landed(&mut self, request: RequestId, at: SimTime) {
        if let Some(marks) = self.marks_of(request) {
            marks.kv_landed = Some(at);
        }
    }

    pub(crate) fn sent_to_prefill(&mut self, request: RequestId, worker: WorkerId) {
        self.requests[request.index()].prefill_worker = Some(worker);
    }

    pub(crate) fn sent_to_decode(&mut self, request: RequestId, worker: WorkerId) {
        self.requests[request.index()].decode_worker = Some(worker);
    }

    /// A worker has scheduled a request that waited, finding `reused_tokens` of its prompt cached. Returns by how much
    /// that is more than ever before.
    pub(super) fn admitted(&mut self, request: RequestId, at: SimTime, reused_tokens: u32) -> u32 {
        let record = &mut self.requests[request.index()];
        record.first_admission.get_or_insert(at);
        let more = reused_tokens.saturating_sub(record.reused_tokens);
        record.reused_tokens += more;
        if let Some(marks) = self.marks_of(request)
            && marks.kv_landed.is_some()
        {
            marks.decode_admission.get_or_insert(at);
        }
        more
    }

    pub(super) fn preempted(&mut self, request: RequestId) {
        self.requests[request.index()].preemptions += 1;
    }

    /// A request has emitted all its tokens.
    pub(crate) fn finished(&mut self, request: RequestId, tokens: &TokenTrail) {
        let record = &mut self.requests[request.index()];
        record.first_token = tokens.first + self.client.egress();
        record.second_token = tokens.second + self.client.egress();
        record.last_token = tokens.last + self.client.egress();
        record.output_tokens = tokens.tokens;
    }

    /// Whether the time of every token is kept.
    pub(crate) fn keeps_token_times(&self) -> bool {
        self.token_times.is_some()
    }

    /// Notes the time of one token, if such times are kept.
    pub(crate) fn keep_token_time(&mut self, request: RequestId, at: SimTime) {
        if let Some(times) = &mut self.token_times {
            times[request.index()].push(at + self.client.egress());
        }
    }

    fn marks_of(&mut self, request: RequestId) -> Option<&mut Marks> {
        self.marks.as_mut().map(|marks| &mut marks[request.index()])
    }
}

//! Which requests are ready to enter the system, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dynosim_spec::{Admission, RequestId, SimTime, Workload};

/// Requests that have not entered yet, in the order (ready time, session, turn).
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// First turns, ascending by ready time.
    first_turns: Vec<RequestId>,
    /// Their ready times; none in a closed loop, where all are ready at the start.
    ready_times: Vec<SimTime>,
    next_first: usize,
    /// Later turns whose predecessor has completed. Ids are in session order, so they break ties as sessions do.
    follow_ups: BinaryHeap<Reverse<(SimTime, RequestId)>>,
    concurrency: Option<u32>,
    in_flight: u32,
}

impl Arrivals {
    /// All sessions of a workload whose first turn is `accepted`.
    pub(crate) fn new(workload: &Workload, accepted: impl Fn(RequestId) -> bool) -> Self {
        let concurrency = match workload.admission() {
            Admission::OpenLoop => None,
            Admission::ClosedLoop { concurrency } => Some(concurrency),
        };
        let mut first_turns: Vec<RequestId> = (0..)
            .map(RequestId::new)
            .zip(workload.requests())
            .filter(|&(id, request)| request.turn == 0 && accepted(id))
            .map(|(id, _)| id)
            .collect();
        let mut ready_times = Vec::new();
        if concurrency.is_none() {
            let ready = |&id: &RequestId| SimTime::ZERO + workload.request(id).delay;
            first_turns.sort_by_key(ready);
            ready_times = first_turns.iter().map(ready).collect();
        }
        Self {
            first_turns,
            ready_times,
            next_first: 0,
            follow_ups: BinaryHeap::new(),
            concurrency,
            in_flight: 0,
        }
    }

    /// Whether requests are let in by completions instead of by the clock.
    pub(crate) fn is_closed_loop(&self) -> bool {
        self.concurrency.is_some()
    }

    /// When the next request could enter, if nothing else happens; `None` if it waits for a slot or there is none.
    pub(crate) fn next_time(&self) -> Option<SimTime> {
        self.has_slot().then(|| self.peek()).flatten().map(|(ready, _)| ready)
    }

    /// Takes the next request that may enter at `now`, with its arrival time: when it became
    /// ready, or `now` in a closed loop.
    pub(crate) fn pop(&mut self, now: SimTime) -> Option<(RequestId, SimTime)> {
        let (ready, id) = self.peek().filter(|&(ready, _)| ready <= now && self.has_slot())?;
        if self.first_turns.get(self.next_first) == Some(&id) {
            self.next_first += 1;
        } else {
            self.follow_ups.pop();
        }
        self.in_flight += 1;
        Some((id, if self.is_closed_loop() { now } else { ready }))
    }

    /// The next turn of a session will be ready at `ready`.
    pub(crate) fn follow_up(&mut self, request: RequestId, ready: SimTime) {
        self.follow_ups.push(Reverse((ready, request)));
    }

    /// One request less counts as in flight.
    pub(crate) fn left_flight(&mut self) {
        self.in_flight -= 1;
    }

    /// A request counts as in flight again.
    pub(crate) fn rejoined_flight(&mut self) {
        self.in_flight += 1;
    }

    fn has_slot(&self) -> bool {
        self.concurrency.is_none_or(|concurrency| self.in_flight < concurrency)
    }

    fn peek(&self) -> Option<(SimTime, RequestId)> {
        let first_turn = self.first_turns.get(self.next_first).map(|&id| {
            let ready = self.ready_times.get(self.next_first);
            (ready.copied().unwrap_or(SimTime::ZERO), id)
        });
        let follow_up = self.follow_ups.peek().map(|&Reverse(entry)| entry);
        match (first_turn, follow_up) {
            (Some(first_turn), Some(follow_up)) => Some(first_turn.min(follow_up)),
            (first_turn, follow_up) => first_turn.or(follow_up),
        }
    }
}

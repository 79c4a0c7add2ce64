//! What will happen, ordered by content: never by the order in which it was planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dynosim_spec::{RequestId, SimTime, WorkerId};

/// A pool of the topology: 0 is where requests arrive.
pub(crate) type PoolIndex = usize;

/// The end of a pass. The order of the fields is the order of events.
///
/// Simultaneous ends are told apart by when their passes began and then by worker, which is the
/// same however many steps were computed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PassEnd {
    pub(crate) time: SimTime,
    pub(crate) started: SimTime,
    pub(crate) pool: PoolIndex,
    pub(crate) worker: WorkerId,
}

/// The arrival of a request's KV at the decode pool; `number` counts transfers as they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TransferEnd {
    pub(crate) time: SimTime,
    pub(crate) number: u32,
    pub(crate) request: RequestId,
}

/// Everything planned. At one instant passes end before transfers.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pass_ends: BinaryHeap<Reverse<PassEnd>>,
    transfer_ends: BinaryHeap<Reverse<TransferEnd>>,
    transfers: u32,
}

impl Events {
    pub(crate) fn plan_pass_end(&mut self, end: PassEnd) {
        self.pass_ends.push(Reverse(end));
    }

    pub(crate) fn plan_transfer_end(&mut self, time: SimTime, request: RequestId) {
        let number = self.transfers;
        self.transfers += 1;
        self.transfer_ends.push(Reverse(TransferEnd { time, number, request }));
    }

    /// Time of the next event.
    pub(crate) fn next_time(&self) -> Option<SimTime> {
        let pass_end = self.pass_ends.peek().map(|end| end.0.time);
        let transfer_end = self.transfer_ends.peek().map(|end| end.0.time);
        pass_end.into_iter().chain(transfer_end).min()
    }

    /// Takes the next pass that ends at `now`.
    pub(crate) fn pop_pass_end(&mut self, now: SimTime) -> Option<PassEnd> {
        let due = self.pass_ends.peek()?.0.time == now;
        due.then(|| self.pass_ends.pop()).flatten().map(|end| end.0)
    }

    /// Takes the next transfer that ends at `now`.
    pub(crate) fn pop_transfer_end(&mut self, now: SimTime) -> Option<RequestId> {
        let due = self.transfer_ends.peek()?.0.time == now;
        due.then(|| self.transfer_ends.pop()).flatten().map(|end| end.0.request)
    }
}

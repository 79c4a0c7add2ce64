//! What will happen, ordered by content: never by the order in which it was planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dynosim_spec::{RequestId, SimTime, WorkerId};

/// A pool of the topology: 0 is where requests arrive.
pub(crate) type PoolIndex = usize;

/// The end of a pass. The order of the fields is the order of events.
///
/// Simultaneous ends are told apart by when their last steps began and then by worker, which is the
/// same however many steps were computed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PassEnd {
    pub(crate) time: SimTime,
    pub(crate) last_step_start: SimTime,
    pub(crate) pool: PoolIndex,
    pub(crate) worker: WorkerId,
}

/// The arrival of a request's KV at the decode pool; `number` counts transfers as they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TransferEnd {
    time: SimTime,
    number: u32,
    request: RequestId,
}

/// Everything planned. At one instant passes end before transfers.
#[derive(Debug)]
pub(crate) struct Events {
    pass_ends: PassEnds,
    transfer_ends: BinaryHeap<Reverse<TransferEnd>>,
    transfers: u32,
}

impl Events {
    /// Nothing planned for pools of these sizes.
    pub(crate) fn new(pool_sizes: &[usize]) -> Self {
        Self {
            pass_ends: PassEnds::new(pool_sizes),
            transfer_ends: BinaryHeap::new(),
            transfers: 0,
        }
    }

    /// Plans the end of a worker's pass, in place of the one planned before.
    pub(crate) fn plan_pass_end(&mut self, end: PassEnd) {
        self.pass_ends.set(end.pool, end.worker, Some(end));
    }

    /// A worker is in no pass any more.
    pub(crate) fn drop_pass_end(&mut self, pool: PoolIndex, worker: WorkerId) {
        self.pass_ends.set(pool, worker, None);
    }

    pub(crate) fn plan_transfer_end(&mut self, time: SimTime, request: RequestId) {
        let number = self.transfers;
        self.transfers += 1;
        self.transfer_ends.push(Reverse(TransferEnd { time, number, request }));
    }

    /// Time of the next event.
    pub(crate) fn next_time(&self) -> Option<SimTime> {
        let pass_end = self.pass_ends.first().map(|end| end.time);
        let transfer_end = self.transfer_ends.peek().map(|end| end.0.time);
        pass_end.into_iter().chain(transfer_end).min()
    }

    /// Takes the next pass that ends at `now`.
    pub(crate) fn pop_pass_end(&mut self, now: SimTime) -> Option<PassEnd> {
        let end = self.pass_ends.first().filter(|end| end.time == now)?;
        self.pass_ends.set(end.pool, end.worker, None);
        Some(end)
    }

    /// Takes the next transfer that ends at `now`.
    pub(crate) fn pop_transfer_end(&mut self, now: SimTime) -> Option<RequestId> {
        let due = self.transfer_ends.peek()?.0.time == now;
        due.then(|| self.transfer_ends.pop()).flatten().map(|end| end.0.request)
    }
}

/// At most one pass end per worker, in a tournament: every node of a complete binary tree holds the
/// earlier of its children, the leaves are the workers.
#[derive(Debug)]
struct PassEnds {
    /// Leaf of the first worker of each pool.
    first_leaf: Vec<usize>,
    nodes: Vec<Option<PassEnd>>,
}

impl PassEnds {
    fn new(pool_sizes: &[usize]) -> Self {
        let workers: usize = pool_sizes.iter().sum();
        let leaves = workers.next_power_of_two();
        let first_leaf = pool_sizes
            .iter()
            .scan(leaves, |next, &size| {
                let first = *next;
                *next += size;
                Some(first)
            })
            .collect();
        Self {
            first_leaf,
            nodes: vec![None; 2 * leaves],
        }
    }

    fn first(&self) -> Option<PassEnd> {
        self.nodes[1]
    }

    fn set(&mut self, pool: PoolIndex, worker: WorkerId, end: Option<PassEnd>) {
        let mut node = self.first_leaf[pool] + worker.index();
        self.nodes[node] = end;
        while node > 1 {
            node /= 2;
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            let winner = match (left, right) {
                (Some(left), Some(right)) => Some(left.min(right)),
                (left, right) => left.or(right),
            };
            if self.nodes[node] == winner {
                return;
            }
            self.nodes[node] = winner;
        }
    }
}

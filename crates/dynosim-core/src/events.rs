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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        let pass_end = self.pass_ends.first_time();
        let transfer_end = self.transfer_ends.peek().map(|end| end.0.time);
        pass_end.into_iter().chain(transfer_end).min()
    }

    /// Takes the next pass that ends at `now`.
    pub(crate) fn pop_pass_end(&mut self, now: SimTime) -> Option<PassEnd> {
        self.pass_ends.first_time().filter(|&time| time == now)?;
        let end = self.pass_ends.first()?;
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
    nodes: Vec<Entry>,
    /// Leaf of the first worker of each pool.
    first_leaf: Vec<u32>,
}

/// A pass end in short: leaves are in the order of pools and workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: SimTime,
    last_step_start: SimTime,
    leaf: u32,
}

/// Later than every pass end.
const NONE: Entry = Entry {
    time: SimTime::MAX,
    last_step_start: SimTime::MAX,
    leaf: u32::MAX,
};

impl PassEnds {
    fn new(pool_sizes: &[usize]) -> Self {
        let workers: usize = pool_sizes.iter().sum();
        let leaves = workers.next_power_of_two();
        let first_leaf = pool_sizes.iter().scan(leaves, |next, &size| {
            let first = *next;
            *next += size;
            Some(u32::try_from(first).expect("workers are counted by u32"))
        });
        Self {
            first_leaf: first_leaf.collect(),
            nodes: vec![NONE; 2 * leaves],
        }
    }

    fn first(&self) -> Option<PassEnd> {
        let entry = self.nodes[1];
        (entry != NONE).then(|| {
            let pool = self.first_leaf.partition_point(|&first| first <= entry.leaf) - 1;
            PassEnd {
                time: entry.time,
                last_step_start: entry.last_step_start,
                pool,
                worker: WorkerId::new(entry.leaf - self.first_leaf[pool]),
            }
        })
    }

    fn first_time(&self) -> Option<SimTime> {
        let entry = self.nodes[1];
        (entry != NONE).then_some(entry.time)
    }

    fn set(&mut self, pool: PoolIndex, worker: WorkerId, end: Option<PassEnd>) {
        let leaf = self.first_leaf[pool] + worker.get();
        let entry = end.map_or(NONE, |end| Entry {
            time: end.time,
            last_step_start: end.last_step_start,
            leaf,
        });
        let mut node = leaf as usize;
        self.nodes[node] = entry;
        while node > 1 {
            let winner = self.nodes[node].min(self.nodes[node ^ 1]);
            node /= 2;
            if self.nodes[node] == winner {
                return;
            }
            self.nodes[node] = winner;
        }
    }
}

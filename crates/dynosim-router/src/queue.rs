//! Requests that a router keeps back while all workers are busy.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use dynosim_spec::{BlockSize, QueuePolicy, RequestId, SegmentId, SimTime};

/// A request that waits, with the cache overlaps it had when it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    /// Its identity.
    pub(crate) request: RequestId,
    /// Prompt length in tokens.
    pub(crate) input_tokens: u32,
    /// Shared segments of its prompt.
    pub(crate) prompt: Vec<SegmentId>,
    /// Blocks of its prompt that each worker held.
    pub(crate) overlaps: Vec<u32>,
}

/// The queue of one router: lowest key first, and first in, first out among equal keys.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    policy: QueuePolicy,
    block_size: BlockSize,
    entries: BinaryHeap<Entry>,
    pushed: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    key: u64,
    order: u64,
    waiting: Waiting,
}

impl Queue {
    /// An empty queue served by `policy`.
    pub(crate) fn new(policy: QueuePolicy, block_size: BlockSize) -> Self {
        Self {
            policy,
            block_size,
            entries: BinaryHeap::new(),
            pushed: 0,
        }
    }

    /// Enqueues a request that arrives now.
    pub(crate) fn push(&mut self, now: SimTime, waiting: Waiting) {
        let key = match self.policy {
            QueuePolicy::Fcfs => now.as_nanos(),
            QueuePolicy::Lcfs => u64::MAX - now.as_nanos(),
            QueuePolicy::Wspt => self.uncached_tokens(&waiting).max(1),
        };
        self.entries.push(Entry {
            key,
            order: self.pushed,
            waiting,
        });
        self.pushed += 1;
    }

    /// Takes the request whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        self.entries.pop().map(|entry| entry.waiting)
    }

    /// Prompt tokens left to compute on the worker that holds most of the prompt.
    fn uncached_tokens(&self, waiting: &Waiting) -> u64 {
        let best_overlap = waiting.overlaps.iter().copied().max().unwrap_or(0);
        let cached_tokens = u64::from(best_overlap) * u64::from(self.block_size.tokens());
        u64::from(waiting.input_tokens).saturating_sub(cached_tokens)
    }
}

impl Ord for Entry {
    /// The heap serves its greatest entry first, so lower keys and earlier entries are greater.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.key, other.order).cmp(&(self.key, self.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Order in which requests of (arrival in ms, tokens, overlap in blocks of 4) are served.
    #[track_caller]
    fn check(policy: QueuePolicy, requests: &[(u64, u32, u32)], expected: &[u32]) {
        let mut queue = Queue::new(policy, BlockSize::new(4).expect("not zero"));
        for (request, &(arrival_ms, input_tokens, overlap)) in (0..).zip(requests) {
            let waiting = Waiting {
                request: RequestId::new(request),
                input_tokens,
                prompt: Vec::new(),
                overlaps: vec![0, overlap],
            };
            queue.push(SimTime::from_nanos(arrival_ms * 1_000_000), waiting);
        }
        let served: Vec<u32> = std::iter::from_fn(|| queue.pop())
            .map(|waiting| waiting.request.get())
            .collect();
        assert_eq!(served, expected);
    }

    #[test]
    fn policies_order_by_their_keys() {
        let requests = [(1, 24, 0), (2, 40, 0), (3, 4, 0)];
        check(QueuePolicy::Fcfs, &requests, &[0, 1, 2]);
        check(QueuePolicy::Lcfs, &requests, &[2, 1, 0]);
        check(QueuePolicy::Wspt, &requests, &[2, 0, 1]);
    }

    #[test]
    fn equal_keys_are_served_in_order_of_arrival() {
        let requests = [(1, 8, 0), (1, 8, 0), (1, 8, 0), (1, 8, 0)];
        for policy in [QueuePolicy::Fcfs, QueuePolicy::Lcfs, QueuePolicy::Wspt] {
            check(policy, &requests, &[0, 1, 2, 3]);
        }
    }

    #[test]
    fn cached_tokens_are_no_work() {
        check(QueuePolicy::Wspt, &[(1, 24, 0), (2, 40, 5), (3, 24, 1)], &[1, 2, 0]);
        check(QueuePolicy::Wspt, &[(1, 1, 0), (2, 40, 10)], &[0, 1]);
    }
}

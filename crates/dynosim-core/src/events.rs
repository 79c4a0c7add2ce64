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

/// Where a request, or news of it, gets to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Its last token, to the client.
    Client,
    /// The request, to the first pool's router.
    Router,
    /// Its KV, to the decode pool.
    DecodePool,
}

/// The arrival of something at a place; `number` counts what sets off, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Transit {
    time: SimTime,
    number: u64,
    request: RequestId,
    place: Place,
}

/// Everything planned. At one instant passes end before anything gets anywhere.
#[derive(Debug)]
pub(crate) struct Events {
    pass_ends: PassEnds,
    transits: BinaryHeap<Reverse<Transit>>,
    set_off: u64,
}

impl Events {
    /// Nothing planned for pools of these sizes.
    pub(crate) fn new(pool_sizes: &[usize]) -> Self {
        Self {
            pass_ends: PassEnds::new(pool_sizes),
            transits: BinaryHeap::new(),
            set_off: 0,
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

    /// A request, or news of it, will get to a place.
    pub(crate) fn plan_transit(&mut self, time: SimTime, request: RequestId, place: Place) {
        let number = self.set_off;
        self.set_off += 1;
        self.transits.push(Reverse(Transit {
            time,
            number,
            request,
            place,
        }));
    }

    /// Time of the next event.
    pub(crate) fn next_time(&self) -> Option<SimTime> {
        let pass_end = self.pass_ends.first_time();
        let transit = self.transits.peek().map(|transit| transit.0.time);
        earlier(pass_end, transit)
    }

    /// Takes the next pass that ends at `now`.
    pub(crate) fn pop_pass_end(&mut self, now: SimTime) -> Option<PassEnd> {
        self.pass_ends.first_time().filter(|&time| time == now)?;
        let end = self.pass_ends.first()?;
        self.pass_ends.set(end.pool, end.worker, None);
        Some(end)
    }

    /// Takes the next request that gets somewhere at `now`.
    pub(crate) fn pop_transit(&mut self, now: SimTime) -> Option<(RequestId, Place)> {
        let due = self.transits.peek()?.0.time == now;
        let Reverse(transit) = due.then(|| self.transits.pop()).flatten()?;
        Some((transit.request, transit.place))
    }
}

/// The earlier of two times, of which there need not be any.
pub(crate) fn earlier(one: Option<SimTime>, other: Option<SimTime>) -> Option<SimTime> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// At most one pass end per worker, in a tournament: every node of a complete binary tree names that
/// worker below it whose pass ends first.
///
/// Workers are known by their places, in the order of pools and ids; the earlier place wins a tie.
#[derive(Debug)]
struct PassEnds {
    /// By place: the time of the end and, below it, when the last step starts.
    keys: Vec<u128>,
    /// Winners below the left and the right side of each node. The root is node 1; below node `n` are nodes `2n`
    /// and `2n + 1` or, at the last nodes, two places.
    winners: Vec<[u32; 2]>,
    /// Winner of all.
    first: u32,
    /// Place of the first worker of each pool.
    first_place: Vec<u32>,
}

/// The key of a worker that is in no pass: later than every pass end.
const NEVER: u128 = u128::MAX;

fn key(end: PassEnd) -> u128 {
    let key = u128::from(end.time.as_nanos()) << 64 | u128::from(end.last_step_start.as_nanos());
    // Also at the end of the clock there is an end.
    key.min(NEVER - 1)
}

#[expect(clippy::cast_possible_truncation, reason = "each half of a key is a time")]
fn times(key: u128) -> (SimTime, SimTime) {
    (SimTime::from_nanos((key >> 64) as u64), SimTime::from_nanos(key as u64))
}

impl PassEnds {
    fn new(pool_sizes: &[usize]) -> Self {
        let count = |workers: usize| u32::try_from(workers).expect("workers are counted by u32");
        let places = pool_sizes.iter().sum::<usize>().next_power_of_two().max(2);
        let first_place = pool_sizes.iter().scan(0, |next, &size| {
            let first = *next;
            *next += count(size);
            Some(first)
        });
        // While nobody is in a pass, the first place wins everywhere.
        let mut winners = vec![[0; 2]; places];
        for node in (1..places).rev() {
            winners[node] = [2 * node, 2 * node + 1].map(|below| match below.checked_sub(places) {
                Some(place) => count(place),
                None => winners[below][0],
            });
        }
        Self {
            first_place: first_place.collect(),
            keys: vec![NEVER; places],
            winners,
            first: 0,
        }
    }

    fn first(&self) -> Option<PassEnd> {
        let place = self.first;
        let key = self.keys[place as usize];
        (key != NEVER).then(|| {
            let pool = self.first_place.partition_point(|&first| first <= place) - 1;
            let (time, last_step_start) = times(key);
            PassEnd {
                time,
                last_step_start,
                pool,
                worker: WorkerId::new(place - self.first_place[pool]),
            }
        })
    }

    fn first_time(&self) -> Option<SimTime> {
        let key = self.keys[self.first as usize];
        (key != NEVER).then(|| times(key).0)
    }

    fn set(&mut self, pool: PoolIndex, worker: WorkerId, end: Option<PassEnd>) {
        let place = self.first_place[pool] + worker.get();
        self.keys[place as usize] = end.map_or(NEVER, key);
        let mut node = usize::midpoint(self.keys.len(), place as usize);
        loop {
            let [left, right] = self.winners[node];
            let right_wins = self.keys[right as usize] < self.keys[left as usize];
            let winner = if right_wins { right } else { left };
            if node == 1 {
                self.first = winner;
                return;
            }
            let winner_before = &mut self.winners[node / 2][node % 2];
            if *winner_before == winner && winner != place {
                // Nothing has changed for the nodes above.
                return;
            }
            *winner_before = winner;
            node /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(time: u64, last_step_start: u64, pool: PoolIndex, worker: u32) -> PassEnd {
        PassEnd {
            time: SimTime::from_nanos(time),
            last_step_start: SimTime::from_nanos(last_step_start),
            pool,
            worker: WorkerId::new(worker),
        }
    }

    /// All ends planned at first, in the order in which they come.
    fn order(pool_sizes: &[usize], ends: &[PassEnd]) -> Vec<PassEnd> {
        let mut events = Events::new(pool_sizes);
        for &end in ends {
            events.plan_pass_end(end);
        }
        std::iter::from_fn(|| {
            let next = events.next_time()?;
            events.pop_pass_end(next)
        })
        .collect()
    }

    #[test]
    fn ends_come_by_time_start_pool_and_worker() {
        let expected = [
            end(4, 3, 1, 1),
            end(5, 1, 1, 0),
            end(5, 2, 0, 2),
            end(5, 2, 1, 3),
            end(9, 0, 0, 0),
        ];
        for rotation in 0..expected.len() {
            let mut ends = expected;
            ends.rotate_left(rotation);
            assert_eq!(order(&[3, 4], &ends), expected);
        }
    }

    #[test]
    fn a_planned_end_takes_the_place_of_the_one_before() {
        let mut events = Events::new(&[1]);
        events.plan_pass_end(end(7, 0, 0, 0));
        events.plan_pass_end(end(5, 4, 0, 0));
        assert_eq!(events.next_time(), Some(SimTime::from_nanos(5)));
        events.drop_pass_end(0, WorkerId::new(0));
        assert_eq!(events.next_time(), None);
    }

    #[test]
    fn the_end_of_the_clock_is_an_end_too() {
        for last_step_start in [0, u64::MAX] {
            let mut events = Events::new(&[2]);
            events.plan_pass_end(end(u64::MAX, last_step_start, 0, 1));
            assert_eq!(events.next_time(), Some(SimTime::MAX));
        }
    }
}

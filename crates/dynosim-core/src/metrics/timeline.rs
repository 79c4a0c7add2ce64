//! The state of pools at evenly spaced instants.

use dynosim_spec::{SimDuration, SimTime, WorkerRole};
use serde::Serialize;

/// The shortest time between two instants: a sixty-fourth of a millisecond.
const FINEST_PERIOD: SimDuration = SimDuration::from_nanos(15_625);

/// The most instants of a run; if there were more, every second one is dropped.
const MOST_INSTANTS: u64 = 400;

/// One pool over a whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolTimeline {
    /// Which part of a request's life the pool serves.
    pub role: WorkerRole,
    /// Number of workers.
    pub workers: u32,
    /// KV blocks of all workers.
    pub kv_blocks: u64,
    /// Time between two samples, of which the first is taken at the start of the run: a millisecond times or over a
    /// power of two, such that there are more than 200 samples and up to 400. Only a run of less than 3.125 ms has
    /// fewer, 15.625 us apart.
    pub period: SimDuration,
    /// The samples; the last one is taken at the end of the run or less than a period before it.
    pub samples: Vec<PoolSample>,
}

/// A pool at one instant, when everything that happens at this instant has happened.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PoolSample {
    /// Requests in the queue of the pool's router and in those of its workers.
    pub waiting: u32,
    /// Requests in the batches of its workers.
    pub running: u32,
    /// Workers that are in a step.
    pub busy_workers: u32,
    /// Share of all KV blocks, 0 to 1, that running requests hold in the steps under way.
    pub kv_in_use: f64,
    /// Share of all KV blocks, 0 to 1, that nobody holds but that are still cached.
    pub kv_cached: f64,
}

impl PoolTimeline {
    /// Nothing yet of a pool of so many workers with so many blocks together.
    pub(crate) fn new(role: WorkerRole, workers: u32, kv_blocks: u64) -> Self {
        Self {
            role,
            workers,
            kv_blocks,
            period: FINEST_PERIOD,
            samples: Vec::new(),
        }
    }

    /// The samples with their instants.
    pub fn at_instants(&self) -> impl Iterator<Item = (SimTime, &PoolSample)> {
        let instants = (0..).map(|index| SimTime::ZERO + self.period * index);
        instants.zip(&self.samples)
    }
}

/// Timelines of all pools while a run goes on. How long it takes is not known beforehand, so samples are taken
/// closely at first, and thinned out as time passes.
#[derive(Debug)]
pub(crate) struct Timelines {
    pools: Vec<PoolTimeline>,
    period: SimDuration,
    /// Instants at which samples were taken.
    instants: u64,
}

impl Timelines {
    /// Timelines that have no samples yet.
    pub(crate) fn new(pools: impl Iterator<Item = PoolTimeline>) -> Self {
        Self {
            pools: pools.collect(),
            period: FINEST_PERIOD,
            instants: 0,
        }
    }

    /// Samples all pools, known by their index, at those instants before `until` that come next. The run lasts until
    /// then at least.
    #[cold]
    pub(crate) fn sample_before(&mut self, until: SimTime, sample: impl Fn(usize, SimTime) -> PoolSample) {
        // Instants that would be dropped anyway are left out.
        while SimTime::ZERO + self.period * MOST_INSTANTS < until {
            self.drop_every_second();
        }
        loop {
            let at = SimTime::ZERO + self.period * self.instants;
            if at >= until {
                return;
            }
            for (index, pool) in self.pools.iter_mut().enumerate() {
                pool.samples.push(sample(index, at));
            }
            self.instants += 1;
        }
    }

    /// The timelines, ended.
    pub(crate) fn into_pools(self) -> Vec<PoolTimeline> {
        self.pools
    }

    fn drop_every_second(&mut self) {
        self.period = self.period * 2;
        self.instants = self.instants.div_ceil(2);
        for pool in &mut self.pools {
            pool.period = self.period;
            let mut kept = false;
            pool.samples.retain(|_| {
                kept = !kept;
                kept
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples that say at which nanosecond they were taken, of a run whose events come at these times.
    fn sampled(events: &[u64]) -> Vec<(SimTime, u64)> {
        let mut timelines = Timelines::new([PoolTimeline::new(WorkerRole::Aggregated, 1, 1)].into_iter());
        for &event in events {
            timelines.sample_before(SimTime::from_nanos(event), |_, at| PoolSample {
                kv_in_use: at.as_nanos() as f64,
                ..PoolSample::default()
            });
        }
        let pools = timelines.into_pools();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time of the test"
        )]
        let noted = |sample: &PoolSample| sample.kv_in_use as u64;
        pools[0].at_instants().map(|(at, sample)| (at, noted(sample))).collect()
    }

    #[test]
    fn samples_are_evenly_spaced_whatever_the_events() {
        for end in [
            1,
            15_625,
            15_626,
            6_250_000,
            6_250_001,
            77_000_000_000,
            3_600_000_000_000,
        ] {
            let whole = sampled(&[end]);
            let in_parts: Vec<u64> = (1..=997).map(|part| end / 997 * part).chain([end]).collect();
            assert_eq!(sampled(&in_parts), whole, "{end}");
            assert!(whole.iter().all(|&(at, noted)| at.as_nanos() == noted), "{end}");
            assert!(
                whole.len() <= 400 && (whole.len() > 200 || end <= 3_125_000),
                "{end}: {}",
                whole.len()
            );
        }
    }

    #[test]
    fn a_run_may_last_to_the_end_of_the_clock() {
        assert!(sampled(&[5, u64::MAX]).len() > 200);
    }
}

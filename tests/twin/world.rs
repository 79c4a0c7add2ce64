//! Clock, load, round robin and pools around the workers.

use std::collections::BTreeSet;
use std::sync::Arc;

use dynosim::spec::{
    Admission, EngineConfig, EngineSpec, RequestId, Rules, SimDuration, Topology, WorkerRole, Workload,
};
use dynosim::timing::TimingModel;

use super::token::prompt;
use super::worker::{Pass, Worker};

/// Passes in a row without progress after which a worker counts as stuck.
const STUCK_AFTER: u32 = 2_000;

/// What happened to one request. Times are nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) arrival: Option<u64>,
    pub(crate) first_admission: Option<u64>,
    pub(crate) reused_tokens: usize,
    pub(crate) token_times: Vec<u64>,
    pub(crate) preemptions: usize,
    pub(crate) prefill_worker: Option<usize>,
    pub(crate) decode_worker: Option<usize>,
    pub(crate) rejected: bool,
}

/// A finished run.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) lives: Vec<Life>,
    pub(crate) evictions: u64,
}

/// Some worker passes on and on without progress.
#[derive(Debug)]
pub(crate) struct Stuck;

/// Simulates a workload under round robin.
pub(crate) fn simulate(
    engine: &EngineSpec,
    topology: &Topology,
    workload: &Workload,
    timing: &Arc<dyn TimingModel>,
) -> Result<History, Stuck> {
    let mut world = World::new(engine, topology, workload, timing);
    while world.unfinished() {
        world.drain()?;
        match world.next_instant() {
            Some(next) => world.now = next,
            None => assert!(!world.unfinished(), "nothing is left to happen, but work is"),
        }
    }
    Ok(History {
        evictions: world
            .pools
            .iter()
            .flat_map(|pool| &pool.workers)
            .map(|seat| seat.worker.evictions())
            .sum(),
        lives: world.lives,
    })
}

struct World<'a> {
    workload: &'a Workload,
    rules: Rules,
    /// Aggregated alone, or prefill and decode.
    pools: Vec<Pool>,
    now: u64,
    /// Ready to arrive: time, session, turn, request.
    ready: BTreeSet<(u64, u32, u32, usize)>,
    /// Requests that take up a slot of a closed loop.
    in_flight: BTreeSet<usize>,
    /// On the way to a decode worker: time of landing, order of departure, request.
    transfers: BTreeSet<(u64, usize, usize)>,
    departures: usize,
    done: usize,
    lives: Vec<Life>,
}

struct Pool {
    config: EngineConfig,
    workers: Vec<Seat>,
    sent: usize,
}

struct Seat {
    worker: Worker,
    busy: Option<Busy>,
    fruitless_passes: u32,
}

struct Busy {
    start: u64,
    pass: Pass,
}

impl<'a> World<'a> {
    fn new(engine: &EngineSpec, topology: &Topology, workload: &'a Workload, timing: &Arc<dyn TimingModel>) -> Self {
        let shapes = match *topology {
            Topology::Aggregated { workers, .. } => vec![(WorkerRole::Aggregated, workers)],
            Topology::Disaggregated {
                prefill_workers,
                decode_workers,
                ..
            } => {
                vec![
                    (WorkerRole::Prefill, prefill_workers),
                    (WorkerRole::Decode, decode_workers),
                ]
            }
        };
        let pool = |&(role, workers): &(WorkerRole, u32)| {
            let config = engine.config(role);
            let seat = |_| Seat {
                worker: Worker::new(config.clone(), engine.rules, Arc::clone(timing)),
                busy: None,
                fruitless_passes: 0,
            };
            Pool {
                workers: (0..workers).map(seat).collect(),
                config: config.clone(),
                sent: 0,
            }
        };
        let mut world = Self {
            workload,
            rules: engine.rules,
            pools: shapes.iter().map(pool).collect(),
            now: 0,
            ready: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            transfers: BTreeSet::new(),
            departures: 0,
            done: 0,
            lives: vec![Life::default(); workload.requests().len()],
        };
        world.reject();
        for (index, request) in workload.requests().iter().enumerate() {
            if request.turn == 0 && !world.lives[index].rejected {
                let start = match workload.admission() {
                    Admission::OpenLoop => request.delay.as_nanos(),
                    Admission::ClosedLoop { .. } => 0,
                };
                world.ready.insert((start, request.session, 0, index));
            }
        }
        world
    }

    /// Rejects what can never run, and whatever follows it in its session.
    fn reject(&mut self) {
        let mut rejected_session = None;
        for (index, request) in self.workload.requests().iter().enumerate() {
            let impossible = request.output_tokens == 0
                || self
                    .pools
                    .iter()
                    .any(|pool| never_runs(&pool.config, self.rules, request.input_tokens, request.output_tokens));
            if impossible || rejected_session == Some(request.session) {
                rejected_session = Some(request.session);
                self.lives[index].rejected = true;
                self.done += 1;
            }
        }
    }

    fn unfinished(&self) -> bool {
        self.done < self.lives.len()
    }

    /// The next instant at which something happens.
    fn next_instant(&self) -> Option<u64> {
        let seats = self.pools.iter().flat_map(|pool| &pool.workers);
        let ends = seats.filter_map(|seat| seat.busy.as_ref()).map(|busy| busy.pass.end);
        let landings = self.transfers.iter().map(|&(time, ..)| time);
        let arrivals = self
            .ready
            .iter()
            .map(|&(time, ..)| time)
            .filter(|_| self.doors_open() && self.free_slots() > 0);
        ends.chain(landings)
            .chain(arrivals)
            .min()
            .map(|next| next.max(self.now))
    }

    /// Everything that happens at this instant.
    fn drain(&mut self) -> Result<(), Stuck> {
        loop {
            let ended = self.end_passes();
            let landed = self.land_transfers();
            let arrived = self.let_in();
            let started = self.start_passes()?;
            if !(ended || landed || arrived || started) {
                return Ok(());
            }
        }
    }

    fn end_passes(&mut self) -> bool {
        let mut ending = BTreeSet::new();
        for (pool_index, pool) in self.pools.iter().enumerate() {
            for (worker_index, seat) in pool.workers.iter().enumerate() {
                if let Some(busy) = seat.busy.as_ref().filter(|busy| busy.pass.end == self.now) {
                    ending.insert((busy.start, pool_index, worker_index));
                }
            }
        }
        for &(_, pool, worker) in &ending {
            let busy = self.pools[pool].workers[worker].busy.take().expect("it was busy");
            self.tell(pool, &busy.pass);
        }
        !ending.is_empty()
    }

    fn land_transfers(&mut self) -> bool {
        let landing: Vec<_> = self
            .transfers
            .iter()
            .copied()
            .take_while(|&(time, ..)| time == self.now)
            .collect();
        for &transfer in &landing {
            self.transfers.remove(&transfer);
            self.dispatch(1, transfer.2);
        }
        !landing.is_empty()
    }

    /// Whether arrivals are looked at now: the reference's loop for a single worker does so between passes only.
    fn doors_open(&self) -> bool {
        let closed_loop = matches!(self.workload.admission(), Admission::ClosedLoop { .. });
        let single = self.pools.len() == 1 && self.pools[0].workers.len() == 1;
        let busy = self.pools[0].workers[0].busy.is_some();
        !(self.rules == Rules::Dynosim12 && closed_loop && single && busy)
    }

    fn free_slots(&self) -> usize {
        match self.workload.admission() {
            Admission::OpenLoop => usize::MAX,
            Admission::ClosedLoop { concurrency } => (concurrency as usize).saturating_sub(self.in_flight.len()),
        }
    }

    fn let_in(&mut self) -> bool {
        if !self.doors_open() {
            return false;
        }
        let due = self.ready.iter().copied().take_while(|&(time, ..)| time <= self.now);
        let entering: Vec<_> = due.take(self.free_slots()).collect();
        for &entry in &entering {
            self.ready.remove(&entry);
            let (ready, .., request) = entry;
            self.lives[request].arrival = Some(match self.workload.admission() {
                Admission::OpenLoop => ready,
                Admission::ClosedLoop { .. } => self.now,
            });
            self.dispatch(0, request);
        }
        !entering.is_empty()
    }

    fn start_passes(&mut self) -> Result<bool, Stuck> {
        let mut started = false;
        for pool in 0..self.pools.len() {
            while let Some(worker) = self.pools[pool].workers.iter().position(Seat::can_start) {
                started = true;
                let now = self.now;
                let seat = &mut self.pools[pool].workers[worker];
                let pass = seat.worker.pass(now);
                seat.fruitless_passes = if pass.progress { 0 } else { seat.fruitless_passes + 1 };
                if seat.fruitless_passes > STUCK_AFTER {
                    return Err(Stuck);
                }
                self.note(pool, &pass);
                if pass.end == now {
                    self.tell(pool, &pass);
                } else {
                    self.pools[pool].workers[worker].busy = Some(Busy { start: now, pass });
                }
            }
        }
        Ok(started)
    }

    /// Writes down what happens to requests in a pass that begins now.
    fn note(&mut self, pool: usize, pass: &Pass) {
        for &(request, reused) in &pass.admissions {
            let life = &mut self.lives[request];
            life.first_admission.get_or_insert(self.now);
            life.reused_tokens = life.reused_tokens.max(reused);
        }
        for &request in &pass.preemptions {
            self.lives[request].preemptions += 1;
        }
        if self.pools[pool].config.role != WorkerRole::Prefill {
            for &(request, at) in &pass.tokens {
                self.lives[request].token_times.push(at);
            }
        }
    }

    /// What the world learns when a pass ends.
    fn tell(&mut self, pool: usize, pass: &Pass) {
        for &request in &pass.finished {
            if self.pools[pool].config.role == WorkerRole::Prefill {
                self.hand_over(request);
            } else {
                self.finish(request);
            }
        }
    }

    fn hand_over(&mut self, request: usize) {
        let config = &self.pools[0].config;
        let delay = transfer_time(config, self.workload.requests()[request].input_tokens);
        if delay == 0 {
            self.in_flight.remove(&request);
            self.dispatch(1, request);
            return;
        }
        if self.rules == Rules::Dynosim12 {
            self.in_flight.remove(&request);
        }
        self.departures += 1;
        self.transfers.insert((self.now + delay, self.departures, request));
    }

    fn finish(&mut self, request: usize) {
        self.in_flight.remove(&request);
        self.done += 1;
        let id = RequestId::new(u32::try_from(request).expect("few requests"));
        if let Some(next) = self.workload.next_turn(id)
            && !self.lives[next.index()].rejected
        {
            let turn = self.workload.request(next);
            let ready = self.now + turn.delay.as_nanos();
            self.ready.insert((ready, turn.session, turn.turn, next.index()));
        }
    }

    fn dispatch(&mut self, pool: usize, request: usize) {
        self.in_flight.insert(request);
        let prompt = prompt(self.workload, request);
        let wanted = self.workload.requests()[request].output_tokens as usize;
        let pool = &mut self.pools[pool];
        let worker = pool.sent % pool.workers.len();
        pool.sent += 1;
        let life = &mut self.lives[request];
        let output_tokens = match pool.config.role {
            WorkerRole::Prefill => 1,
            WorkerRole::Aggregated | WorkerRole::Decode => wanted,
        };
        if pool.config.role != WorkerRole::Decode {
            life.prefill_worker = Some(worker);
        }
        if pool.config.role != WorkerRole::Prefill {
            life.decode_worker = Some(worker);
        }
        pool.workers[worker].worker.enqueue(request, prompt, output_tokens);
    }
}

impl Seat {
    fn can_start(&self) -> bool {
        self.busy.is_none() && self.worker.has_work()
    }
}

fn never_runs(config: &EngineConfig, rules: Rules, input_tokens: u32, output_tokens: u32) -> bool {
    let output_tokens = if config.role == WorkerRole::Prefill {
        1
    } else {
        output_tokens
    };
    let tokens = match rules {
        Rules::VllmV1 | Rules::VllmV1Async => input_tokens + output_tokens - 1,
        Rules::Dynosim12 => input_tokens + output_tokens,
    };
    let too_large = config
        .num_gpu_blocks
        .is_some_and(|blocks| config.block_size.blocks_for(tokens) > blocks);
    let arrives_whole = rules != Rules::Dynosim12 && config.role == WorkerRole::Decode;
    let too_long = !config.enable_chunked_prefill
        && !arrives_whole
        && config
            .max_num_batched_tokens
            .is_some_and(|budget| input_tokens > budget);
    too_large || too_long
}

fn transfer_time(config: &EngineConfig, input_tokens: u32) -> u64 {
    match (config.kv_bytes_per_token, config.kv_transfer_bandwidth) {
        (Some(bytes), Some(bandwidth)) if bandwidth > 0.0 => {
            let bytes = (u64::from(input_tokens) * bytes) as f64;
            let ms = bytes / (bandwidth * 1e9) * 1000.0;
            SimDuration::from_ms(ms).expect("a transfer ends").as_nanos()
        }
        _ => 0,
    }
}

//! The event loop.

use std::cmp::Ordering;
use std::sync::Arc;

use dynosim_router::{Router, WorkerReport};
use dynosim_spec::{
    Deployment, PromptSegments, Request, RequestId, Rules, SimDuration, SimTime, WorkerId, WorkerRole, Workload,
};
use dynosim_timing::TimingModel;

use crate::arrivals::Arrivals;
use crate::client::{ClientPath, Tokenisers};
use crate::engine::{Incoming, PassTimes, PoolSetup, Signal, Stepping};
use crate::error::SimError;
use crate::events::{Events, PassEnd, Place, PoolIndex, earlier};
use crate::give_up::{LatencyBound, Watch};
use crate::metrics::{Details, Recorder, Rejection, Report, RequestRecord, Timelines};
use crate::pool::{Moment, Pool};
use crate::rejection::{Room, output_tokens_on, rejections};
use crate::rules::{EngineRules, FollowUpStamp};

/// One pool of a run: workers, what they are, how fast they are and who routes to them.
#[derive(Debug)]
pub struct PoolPlan {
    /// Number of workers, at least 1.
    pub workers: u32,
    /// Model, GPU and engine settings of each.
    pub deployment: Deployment,
    /// KV blocks of each.
    pub num_gpu_blocks: u32,
    /// Prices its steps.
    pub timing: Arc<dyn TimingModel>,
    /// Routes requests to the workers.
    pub router: Box<dyn Router>,
    /// Prompts in blocks of the engine's size.
    pub prompts: Arc<PromptSegments>,
}

/// What a run leaves behind.
#[derive(Debug)]
pub struct Outcome {
    /// Metrics.
    pub report: Report,
    /// The life of each request, indexed by [`RequestId`].
    pub requests: Vec<RequestRecord>,
    /// When each token of each request was emitted, if that was asked for.
    pub token_times: Option<Vec<Vec<SimTime>>>,
    /// Blocks evicted from all caches.
    pub evictions: u64,
    /// Phases of requests and timelines of pools, if that was asked for.
    pub details: Option<Details>,
}

/// A run over one workload.
///
/// At one instant passes end, transfers land and requests arrive, in this order, before idle
/// workers start passes, prefill pools first and workers by id; this repeats until nothing changes.
#[derive(Debug)]
pub struct Simulation<'w> {
    workload: &'w Workload,
    rules: EngineRules,
    client: ClientPath,
    tokenisers: Tokenisers,
    /// The aggregated pool, or the prefill and the decode pool.
    pools: Vec<Pool>,
    now: SimTime,
    /// Pool and worker up to which workers have had their turn to start passes at this instant.
    turn: (PoolIndex, u32),
    events: Events,
    arrivals: Arrivals,
    recorder: Recorder,
    timelines: Option<Timelines>,
    rejections: Vec<Rejection>,
    accepted: Vec<bool>,
    unfinished: usize,
    watch: Watch,
    signals: Vec<Signal>,
}

impl<'w> Simulation<'w> {
    /// A run of `workload` on one aggregated pool, or on a prefill pool and a decode pool.
    ///
    /// # Errors
    /// If the pools' roles are not one of these two shapes, a pool has no workers, or every
    /// request is rejected.
    pub fn new(workload: &'w Workload, rules: Rules, pools: Vec<PoolPlan>) -> Result<Self, SimError> {
        let roles: Vec<WorkerRole> = pools.iter().map(|plan| plan.deployment.engine.role).collect();
        if roles != [WorkerRole::Aggregated] && roles != [WorkerRole::Prefill, WorkerRole::Decode] {
            let message = format!("pools must be one aggregated, or one prefill and one decode pool, got {roles:?}");
            return Err(SimError::Setup(message));
        }
        if let Some(plan) = pools.iter().find(|plan| plan.workers == 0 || plan.num_gpu_blocks == 0) {
            let message = format!(
                "the {:?} pool has no workers or no KV blocks",
                plan.deployment.engine.role
            );
            return Err(SimError::Setup(message));
        }
        let physics = pools.iter().find_map(|plan| plan.deployment.physics.clone());
        let rules = match &physics {
            Some(physics) => EngineRules::of(rules).with(physics),
            None => EngineRules::of(rules),
        };
        let client = physics.as_deref().map_or_else(ClientPath::default, ClientPath::of);
        let pools: Vec<Pool> = pools.into_iter().map(|plan| pool(plan, rules)).collect();
        let rooms: Vec<Room<'_>> = pools.iter().map(|pool| pool.setup.room()).collect();
        let rejections = rejections(workload, &rooms);
        let mut accepted = vec![true; workload.requests().len()];
        for rejection in &rejections {
            accepted[rejection.request as usize] = false;
        }
        if let Some(first) = rejections.first().filter(|_| rejections.len() == accepted.len()) {
            return Err(SimError::AllRejected {
                reason: first.reason.clone(),
            });
        }
        Ok(Self {
            workload,
            rules,
            client,
            tokenisers: Tokenisers::new(pools[0].len()),
            now: SimTime::ZERO,
            turn: (0, 0),
            events: Events::new(&pools.iter().map(Pool::len).collect::<Vec<_>>()),
            arrivals: Arrivals::new(workload, |id| accepted[id.index()]),
            recorder: Recorder::new(accepted.len(), client),
            timelines: None,
            unfinished: accepted.len() - rejections.len(),
            rejections,
            accepted,
            watch: Watch::default(),
            signals: Vec::new(),
            pools,
        })
    }

    /// Keeps the time of every token, for [`Outcome::token_times`]; costs memory.
    #[must_use]
    pub fn keep_token_times(mut self) -> Self {
        self.recorder.keep_token_times();
        self
    }

    /// Notes what step time and the time to first tokens are spent on, for [`Report::breakdown`]; then steps are
    /// computed one by one, which is slow.
    #[must_use]
    pub fn keep_breakdown(mut self) -> Self {
        self.recorder.keep_breakdown();
        self.stepping(Stepping::Single)
    }

    /// Keeps the phases of every request and the state of every pool over time, for [`Outcome::details`]. The results
    /// are the same.
    #[must_use]
    pub fn keep_details(mut self) -> Self {
        self.recorder.keep_phases();
        self.timelines = Some(Timelines::new(self.pools.iter().map(Pool::new_timeline)));
        self
    }

    /// Gives the run up as soon as one of these bounds is missed for certain, whatever the unfinished requests come to.
    ///
    /// A run that keeps to all bounds by its report is never given up, and its outcome is the same. A run that
    /// misses one need not be given up. Bounds that are no times, such as negative ones, never end a run.
    #[must_use]
    pub fn giving_up_beyond(mut self, bounds: &[LatencyBound]) -> Self {
        let requests = self.workload.requests().iter().zip(&self.accepted);
        let requests_with = |least_tokens: u32| {
            let counts = |(request, accepted): &(&Request, &bool)| **accepted && request.output_tokens >= least_tokens;
            requests.clone().filter(counts).count() as u64
        };
        self.watch = Watch::new(bounds, requests_with);
        self
    }

    /// Computes decode steps in this way; the results are the same.
    #[doc(hidden)]
    #[must_use]
    pub fn stepping(mut self, stepping: Stepping) -> Self {
        for pool in &mut self.pools {
            pool.set_stepping(stepping);
        }
        self
    }

    /// Runs to the end. `warnings` go into the report.
    ///
    /// # Errors
    /// If a worker makes no progress, a router never releases requests or names a worker that does
    /// not exist, the timing model returns something that is not a time, or the run is
    /// [given up](Self::giving_up_beyond).
    pub fn run(mut self, warnings: Vec<String>) -> Result<Outcome, SimError> {
        loop {
            self.settle()?;
            let Some(next) = self.next_time() else { break };
            if next == SimTime::MAX {
                return Err(SimError::ClockExhausted);
            }
            self.sample_before(next);
            self.now = next;
        }
        self.sample_before(self.now + SimDuration::from_nanos(1));
        if self.unfinished > 0 {
            return Err(self.never_released());
        }
        let evictions = self.pools.iter().map(Pool::evictions).sum();
        let pools: Vec<_> = self.pools.iter().map(Pool::at_end).collect();
        let report = Report::new(self.workload, &self.recorder, &pools, self.rejections, warnings);
        let details = self.timelines.map(|timelines| Details {
            requests: self.recorder.phases().collect(),
            timelines: timelines.into_pools(),
        });
        let (requests, token_times) = self.recorder.into_parts();
        Ok(Outcome {
            report,
            requests,
            token_times,
            evictions,
            details,
        })
    }

    fn next_time(&self) -> Option<SimTime> {
        // What is ready by now waits for the end of a pass.
        let arrival = self.arrivals.next_time().filter(|&ready| ready > self.now);
        let next = earlier(self.events.next_time(), arrival);
        debug_assert!(next.is_none_or(|next| next >= self.now), "the clock never goes back");
        next
    }

    /// Notes the state of pools at the instants from now on and before `until`, up to which nothing happens.
    #[inline]
    fn sample_before(&mut self, until: SimTime) {
        if let Some(timelines) = &mut self.timelines {
            let pools = &self.pools;
            timelines.sample_before(until, |pool, at| pools[pool].sample(at));
        }
    }

    /// Lets everything happen that happens at this instant.
    fn settle(&mut self) -> Result<(), SimError> {
        self.turn = (0, 0);
        loop {
            let mut changed = false;
            while let Some(end) = self.events.pop_pass_end(self.now) {
                self.on_pass_end(end)?;
                changed = true;
            }
            while let Some((request, place)) = self.events.pop_transit(self.now) {
                self.on_transit_end(request, place)?;
                changed = true;
            }
            changed |= self.let_arrivals_in()?;
            for pool in 0..self.pools.len() {
                changed |= self.start_passes(pool)?;
                if self.turn.0 <= pool {
                    self.turn = (pool + 1, 0);
                }
            }
            if !changed {
                return Ok(());
            }
        }
    }

    fn let_arrivals_in(&mut self) -> Result<bool, SimError> {
        let mut changed = false;
        while self.arrivals.next_time().is_some_and(|ready| ready <= self.now) {
            if self.arrivals_wait_for_pass_end() {
                self.cut_run(0, WorkerId::new(0))?;
            }
            if self.arrivals_wait_for_pass_end() {
                break;
            }
            let Some((request, arrival)) = self.arrivals.pop(self.now) else {
                break;
            };
            self.recorder.arrived(request, arrival);
            self.set_off_to_router(request, arrival)?;
            changed = true;
        }
        Ok(changed)
    }

    /// Whether arrivals have to wait because the single worker is in a pass.
    fn arrivals_wait_for_pass_end(&self) -> bool {
        self.has_arrivals_at_pass_ends() && self.pools[0].is_in_pass()
    }

    /// Whether arrivals are looked at between the passes of a single worker only.
    fn has_arrivals_at_pass_ends(&self) -> bool {
        self.rules.follow_up_stamp == FollowUpStamp::AtPassEnd
            && self.arrivals.is_closed_loop()
            && self.pools[0].is_single_aggregated_vllm()
    }

    fn start_passes(&mut self, pool: PoolIndex) -> Result<bool, SimError> {
        let mut changed = false;
        while let Some((worker, times)) = self.pools[pool].start_pass(self.now, &mut self.recorder)? {
            self.turn = self.turn.max((pool, worker.get()));
            let end = pass_end(pool, worker, times);
            if end.time == self.now {
                self.on_pass_end(end)?;
            } else {
                self.events.plan_pass_end(end);
            }
            changed = true;
        }
        Ok(changed)
    }

    fn on_pass_end(&mut self, end: PassEnd) -> Result<(), SimError> {
        let mut signals = std::mem::take(&mut self.signals);
        self.pools[end.pool].end_pass(self.now, end.worker, &mut self.recorder, &mut signals);
        for signal in signals.drain(..) {
            self.on_signal(end, signal)?;
        }
        self.signals = signals;
        Ok(())
    }

    fn on_signal(&mut self, end: PassEnd, signal: Signal) -> Result<(), SimError> {
        let worker = end.worker;
        if matches!(signal, Signal::Completed(_)) {
            self.pools[end.pool].left();
        }
        match (self.pools[end.pool].setup.config.role, signal) {
            (WorkerRole::Aggregated, Signal::FirstToken(request)) => {
                self.tell_router(end.pool, WorkerReport::PrefillDone { worker, request })
            }
            (WorkerRole::Prefill, Signal::Completed(request)) => {
                self.tell_router(end.pool, WorkerReport::PrefillDone { worker, request })?;
                self.tell_router(end.pool, WorkerReport::Finished { worker, request })?;
                self.on_prompt_done(request)
            }
            (WorkerRole::Aggregated | WorkerRole::Decode, Signal::Completed(request)) => {
                self.on_completion(request)?;
                self.tell_router(end.pool, WorkerReport::Finished { worker, request })
            }
            // A prefill worker generates one token only; a decode pool's router has no prefills.
            (WorkerRole::Prefill | WorkerRole::Decode, Signal::FirstToken(_)) => Ok(()),
        }
    }

    /// A request is sent at `sent`, which is not later than now.
    fn set_off_to_router(&mut self, request: RequestId, sent: SimTime) -> Result<(), SimError> {
        let tokenising = self.client.tokenising(self.workload.request(request).input_tokens);
        if self.client.ingress() + tokenising == SimDuration::ZERO {
            return self.send(0, request);
        }
        let tokenised = self.tokenisers.take(sent, tokenising);
        let arrival = (tokenised + self.client.ingress()).max(self.now);
        self.recorder.on_the_way(request, arrival.since(sent));
        self.events.plan_transit(arrival, request, Place::Router);
        Ok(())
    }

    fn on_completion(&mut self, request: RequestId) -> Result<(), SimError> {
        self.unfinished -= 1;
        if !self.watch.is_idle() {
            self.give_up_if_hopeless(request)?;
        }
        let turnaround = self.client.turnaround();
        if turnaround == SimDuration::ZERO {
            self.on_known_to_client(request);
        } else {
            self.events.plan_transit(self.now + turnaround, request, Place::Client);
        }
        Ok(())
    }

    /// The client has all tokens of a request and goes on to the next one.
    fn on_known_to_client(&mut self, request: RequestId) {
        self.arrivals.left_flight();
        if let Some(next) = self
            .workload
            .next_turn(request)
            .filter(|next| self.accepted[next.index()])
        {
            let think_time = self.workload.request(next).delay;
            self.arrivals.follow_up(next, self.now + think_time);
        }
    }

    fn give_up_if_hopeless(&mut self, finished: RequestId) -> Result<(), SimError> {
        let Some(bound) = self.watch.finished(self.recorder.record(finished)) else {
            return Ok(());
        };
        let requests = self.accepted.len() - self.rejections.len();
        Err(SimError::GivenUp {
            bound,
            finished: requests - self.unfinished,
            requests,
        })
    }

    /// A prefill worker is done with a request: its KV goes to the decode pool.
    fn on_prompt_done(&mut self, request: RequestId) -> Result<(), SimError> {
        let input_tokens = self.workload.request(request).input_tokens;
        let delay = self.pools[0].transfer_time(input_tokens);
        self.recorder.prompt_done(request, self.now);
        if delay == SimDuration::ZERO {
            return self.on_kv_landed(request);
        }
        if !self.rules.transfers_in_flight {
            self.arrivals.left_flight();
        }
        self.events.plan_transit(self.now + delay, request, Place::DecodePool);
        Ok(())
    }

    fn on_transit_end(&mut self, request: RequestId, place: Place) -> Result<(), SimError> {
        match place {
            Place::Client => {
                self.on_known_to_client(request);
                Ok(())
            }
            Place::Router => self.send(0, request),
            Place::DecodePool => {
                if !self.rules.transfers_in_flight {
                    self.arrivals.rejoined_flight();
                }
                self.on_kv_landed(request)
            }
        }
    }

    fn on_kv_landed(&mut self, request: RequestId) -> Result<(), SimError> {
        self.recorder.kv_landed(request, self.now);
        self.send(1, request)
    }

    fn tell_router(&mut self, pool: PoolIndex, report: WorkerReport) -> Result<(), SimError> {
        self.pools[pool].report(self.now, report);
        while let Some((request, worker_id)) = self.pools[pool].released(self.now) {
            self.dispatch(pool, request, worker_id)?;
        }
        Ok(())
    }

    fn send(&mut self, pool: PoolIndex, request: RequestId) -> Result<(), SimError> {
        let incoming = self.incoming(pool, request);
        let moment = self.moment(pool);
        match self.pools[pool].route(moment, incoming, &mut self.recorder) {
            Some(worker_id) => self.dispatch(pool, request, worker_id),
            None => Ok(()),
        }
    }

    fn dispatch(&mut self, pool: PoolIndex, request: RequestId, worker_id: WorkerId) -> Result<(), SimError> {
        let role = self.pools[pool].setup.config.role;
        if role != WorkerRole::Decode {
            self.recorder.sent_to_prefill(request, worker_id);
        }
        if role != WorkerRole::Prefill {
            self.recorder.sent_to_decode(request, worker_id);
        }
        let incoming = self.incoming(pool, request);
        self.pools[pool].enqueue(worker_id, incoming)?;
        self.cut_run(pool, worker_id)
    }

    /// Ends a run of a worker, if it is in one, after the step that is under way.
    fn cut_run(&mut self, pool: PoolIndex, worker_id: WorkerId) -> Result<(), SimError> {
        let moment = self.moment(pool);
        let Some(times) = self.pools[pool].cut_run(moment, worker_id) else {
            return Ok(());
        };
        let end = pass_end(pool, worker_id, times);
        if end.time == self.now {
            self.events.drop_pass_end(pool, worker_id);
            self.on_pass_end(end)
        } else {
            self.events.plan_pass_end(end);
            Ok(())
        }
    }

    fn moment(&self, pool: PoolIndex) -> Moment {
        let (turn_pool, turn_worker) = self.turn;
        let turn = match pool.cmp(&turn_pool) {
            Ordering::Less => u32::MAX,
            Ordering::Equal => turn_worker,
            Ordering::Greater => 0,
        };
        Moment { now: self.now, turn }
    }

    fn incoming(&self, pool: PoolIndex, request: RequestId) -> Incoming {
        let shape = self.workload.request(request);
        Incoming {
            request,
            input_tokens: shape.input_tokens,
            output_tokens: output_tokens_on(self.pools[pool].setup.config.role, shape.output_tokens),
        }
    }

    fn never_released(self) -> SimError {
        let waiting = self.recorder.into_parts().0;
        let first = waiting
            .iter()
            .zip(self.workload.requests())
            .position(|(record, request)| record.output_tokens < request.output_tokens);
        SimError::NeverReleased {
            pool: self.pools[0].setup.name(),
            waiting: self.unfinished,
            request: u32::try_from(first.unwrap_or(0)).expect("requests are indexed by u32"),
        }
    }
}

fn pass_end(pool: PoolIndex, worker: WorkerId, times: PassTimes) -> PassEnd {
    PassEnd {
        time: times.end,
        last_step_start: times.last_step_start,
        pool,
        worker,
    }
}

fn pool(plan: PoolPlan, rules: EngineRules) -> Pool {
    let setup = PoolSetup {
        config: plan.deployment.engine,
        num_gpu_blocks: plan.num_gpu_blocks,
        timing: plan.timing,
        rules,
        prompts: plan.prompts,
    };
    Pool::new(setup, plan.workers, plan.router)
}

//! The vLLM-style engine of one worker, pass by pass.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use dynosim::spec::{EngineConfig, PreemptionMode, Rules, SimDuration, WorkerRole};
use dynosim::timing::{StepShape, TimingModel};

use super::blocks::Blocks;
use super::job::{Block, Job};
use super::token::Token;

/// What a worker is and what it has to do.
#[derive(Debug)]
pub(super) struct Worker {
    config: EngineConfig,
    rules: Rules,
    timing: Arc<dyn TimingModel>,
    blocks: Blocks,
    jobs: BTreeMap<usize, Job>,
    waiting: VecDeque<usize>,
    running: Vec<usize>,
    /// Passes begun so far.
    passes: usize,
    /// Where passes are scheduled one ahead: requests that the scheduler has not seen, with the passes begun before they
    /// came, and the pass in which each finished request finished whose blocks and place are not free yet.
    unseen: VecDeque<(usize, usize)>,
    leaving: Vec<(usize, Job)>,
}

/// What comes of one pass.
#[derive(Debug, Default)]
pub(super) struct Pass {
    pub(super) end: u64,
    /// Requests and the prompt tokens that they found cached.
    pub(super) admissions: Vec<(usize, usize)>,
    pub(super) preemptions: Vec<usize>,
    /// Requests and the time of the token they emit, in running order.
    pub(super) tokens: Vec<(usize, u64)>,
    pub(super) finished: Vec<usize>,
    /// Whether more of some prompt is computed than ever before, or a token emitted.
    pub(super) progress: bool,
}

/// What has been scheduled in a pass so far.
struct Schedule {
    budget: usize,
    parts: BTreeMap<usize, Part>,
    preempted: bool,
}

/// One request's share of a pass.
struct Part {
    used: usize,
    prompt_before: usize,
    prompt_tokens: usize,
}

#[derive(Debug, PartialEq)]
enum Attempt {
    Scheduled { cached: usize, used: usize },
    Blocked,
    SelfPreempted,
}

impl Worker {
    pub(super) fn new(config: EngineConfig, rules: Rules, timing: Arc<dyn TimingModel>) -> Self {
        let blocks = Blocks::new(
            config.block_size.tokens() as usize,
            config.num_gpu_blocks.expect("the twin needs pinned pools") as usize,
            config.enable_prefix_caching,
        );
        Self {
            config,
            rules,
            timing,
            blocks,
            jobs: BTreeMap::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            passes: 0,
            unseen: VecDeque::new(),
            leaving: Vec::new(),
        }
    }

    pub(super) fn enqueue(&mut self, request: usize, prompt: Vec<Token>, output_tokens: usize) {
        let job = Job::new(request, prompt, output_tokens, &mut self.blocks);
        self.jobs.insert(request, job);
        if self.looks_ahead() {
            self.unseen.push_back((self.passes, request));
        } else {
            self.waiting.push_back(request);
        }
    }

    /// Whether a pass is scheduled when the one before it begins.
    fn looks_ahead(&self) -> bool {
        self.rules == Rules::VllmV1Async
    }

    /// Lets the scheduler see what was known when this many passes had not begun yet.
    fn see(&mut self, passes: usize) {
        while let Some(&(begun, request)) = self.unseen.front()
            && begun < passes
        {
            self.unseen.pop_front();
            self.waiting.push_back(request);
        }
        let blocks = &mut self.blocks;
        self.leaving.retain_mut(|(finished_in, job)| {
            let stays = *finished_in >= passes;
            if !stays {
                job.release(blocks);
            }
            stays
        });
    }

    pub(super) fn has_work(&self) -> bool {
        !self.jobs.is_empty()
    }

    pub(super) fn evictions(&self) -> u64 {
        self.blocks.evictions
    }

    /// Runs one pass that begins at `now`.
    pub(super) fn pass(&mut self, now: u64) -> Pass {
        let mut pass = Pass::default();
        self.passes += 1;
        // What came before the last pass began, and what finished before it.
        self.see(self.passes - 1);
        if self.waiting.is_empty() && self.unseen.is_empty() {
            // Nobody waits for what is not free yet.
            self.see(usize::MAX);
        }
        let mut schedule = self.schedule(&mut pass);
        if self.running.is_empty() {
            // Nothing could be scheduled ahead.
            self.see(usize::MAX);
            schedule = self.schedule(&mut pass);
        }
        // Blocks of requests that finished in the last pass are free once this one is scheduled.
        self.see_finished();
        self.emit(&schedule, now, &mut pass);
        pass.progress |= !pass.tokens.is_empty();
        pass
    }

    fn see_finished(&mut self) {
        for (_, mut job) in std::mem::take(&mut self.leaving) {
            job.release(&mut self.blocks);
        }
    }

    fn schedule(&mut self, pass: &mut Pass) -> Schedule {
        let mut schedule = Schedule {
            budget: self
                .config
                .max_num_batched_tokens
                .map_or(usize::MAX, |tokens| tokens as usize),
            parts: BTreeMap::new(),
            preempted: false,
        };
        self.schedule_running(&mut schedule, pass);
        self.admit_waiting(&mut schedule, pass);
        schedule
    }

    fn schedule_running(&mut self, schedule: &mut Schedule, pass: &mut Pass) {
        let mut index = 0;
        while index < self.running.len() && schedule.budget > 0 {
            let id = self.running[index];
            let after: Vec<usize> = self.running[index + 1..].to_vec();
            match self.attempt(id, false, schedule, pass) {
                Attempt::Blocked => break,
                Attempt::Scheduled { .. } => index += 1,
                Attempt::SelfPreempted => {}
            }
            if self.rules != Rules::Dynosim12 {
                // The next one is the next one, whoever left the list before it.
                let next = after
                    .iter()
                    .find_map(|id| self.running.iter().position(|other| other == id));
                index = next.unwrap_or(self.running.len());
            }
        }
    }

    fn admit_waiting(&mut self, schedule: &mut Schedule, pass: &mut Pass) {
        let limit = self.config.max_num_seqs.map_or(usize::MAX, |seqs| seqs as usize);
        while !schedule.preempted
            && self.running.len() + self.leaving.len() < limit
            && let Some(&id) = self.waiting.front()
        {
            let Attempt::Scheduled { cached, used } = self.attempt(id, true, schedule, pass) else {
                break;
            };
            // Those preempted in its favour have been put in front of it.
            self.waiting.retain(|&other| other != id);
            self.running.push(id);
            pass.admissions.push((id, cached));
            if used == 0 && schedule.budget == 0 && !self.takes_prompts_whole() {
                break;
            }
        }
    }

    /// Whether prompts arrive complete, outside the token budget.
    fn takes_prompts_whole(&self) -> bool {
        self.rules != Rules::Dynosim12 && self.config.role == WorkerRole::Decode
    }

    fn attempt(&mut self, id: usize, waits: bool, schedule: &mut Schedule, pass: &mut Pass) -> Attempt {
        let whole = waits && self.takes_prompts_whole();
        let rules = self.rules;
        let cached = self.cached_tokens(id);
        let job = self.jobs.get_mut(&id).expect("it is here");
        let base = job.computed + cached;
        let missing = job.tokens.len() - base;
        let prompt_before = base.min(job.prompt_tokens);
        let prompt_missing = job.prompt_tokens - prompt_before;
        if !whole && !self.config.enable_chunked_prefill && prompt_missing > schedule.budget {
            return Attempt::Blocked;
        }
        let want = if whole { missing } else { missing.min(schedule.budget) };
        if want == 0 && missing > 0 {
            return Attempt::Blocked;
        }
        let target = base + want;
        if rules != Rules::Dynosim12 {
            if waits && !Self::fits(job, target, &self.blocks) {
                return Attempt::Blocked;
            }
            job.open_block(&mut self.blocks);
        }
        loop {
            let job = self.jobs.get_mut(&id).expect("it is here");
            if job.hold(target, &mut self.blocks) {
                break;
            }
            let victim = self.victim().expect("a request alone fits the pool, or it is rejected");
            self.preempt(victim, pass);
            schedule.take_back(victim);
            if victim == id {
                return Attempt::SelfPreempted;
            }
        }
        let used = if whole { 0 } else { target - base };
        let job = self.jobs.get_mut(&id).expect("it is here");
        job.computed = target;
        let prompt_computed = target.min(job.prompt_tokens);
        pass.progress |= prompt_computed > job.furthest;
        job.furthest = job.furthest.max(prompt_computed);
        schedule.budget -= used;
        schedule.parts.insert(
            id,
            Part {
                used,
                prompt_before,
                prompt_tokens: prompt_computed - prompt_before,
            },
        );
        Attempt::Scheduled { cached, used }
    }

    /// Prompt tokens of a request at its beginning whose KV is there already.
    fn cached_tokens(&self, id: usize) -> usize {
        let job = &self.jobs[&id];
        if job.computed > 0 || !self.config.enable_prefix_caching {
            return 0;
        }
        let resident = |block: &&Block| matches!(**block, Block::Full(id) if self.blocks.is_resident(id));
        let mut run = job.layout.iter().take_while(resident).count();
        if self.rules != Rules::Dynosim12 {
            run = run.min((job.tokens.len() - 1) / self.blocks.block_size);
        }
        (run * self.blocks.block_size).min(job.prompt_tokens)
    }

    /// Whether blocks for the first `target` tokens can be had without preempting anybody.
    fn fits(job: &Job, target: usize, blocks: &Blocks) -> bool {
        let needed = (0..target.div_ceil(blocks.block_size))
            .filter(|&index| !matches!(job.layout.get(index), Some(Block::Full(id)) if blocks.is_held(*id)))
            .count();
        needed <= blocks.obtainable()
    }

    fn victim(&self) -> Option<usize> {
        match self.config.preemption_mode {
            PreemptionMode::Lifo => self.running.last().copied(),
            PreemptionMode::Fifo => self.running.first().copied(),
        }
    }

    fn preempt(&mut self, id: usize, pass: &mut Pass) {
        self.running.retain(|&other| other != id);
        self.waiting.push_front(id);
        self.jobs.get_mut(&id).expect("it is here").release(&mut self.blocks);
        pass.preemptions.push(id);
    }

    /// The prompts that a pass computes; `None` if there are none.
    fn prompts(&self, schedule: &Schedule) -> Option<StepShape> {
        if self.config.role == WorkerRole::Decode {
            return None;
        }
        let mut step = StepShape::default();
        for part in schedule.parts.values().filter(|part| part.prompt_tokens > 0) {
            step.prefill_seqs += 1;
            step.prefill_tokens += (part.prompt_before + part.prompt_tokens) as u64;
            step.prefill_prefix_tokens += part.prompt_before as u64;
        }
        (step.prefill_seqs > 0).then_some(step)
    }

    /// The tokens that a pass generates; `None` if there are none.
    fn decodes(&self, batch: &[usize]) -> Option<StepShape> {
        if batch.is_empty() || self.config.role == WorkerRole::Prefill {
            return None;
        }
        let mut step = StepShape::default();
        for id in batch {
            step.decode_seqs += 1;
            step.decode_context_tokens += self.jobs[id].tokens.len() as u64;
        }
        let block_size = u64::from(self.config.block_size.tokens());
        step.active_kv_tokens = self.blocks.active() as u64 * block_size;
        step.total_kv_tokens = u64::from(self.config.num_gpu_blocks.unwrap_or_default()) * block_size;
        Some(step)
    }

    /// When the prompts of a pass that begins at `now` are computed, and when everybody else has a token.
    fn ends(&self, now: u64, schedule: &Schedule, batch: &[usize]) -> (u64, u64) {
        let prompts = self.prompts(schedule).map(|step| self.timing.prefill(&step).ms);
        let decodes = self.decodes(batch).map(|step| self.timing.decode(&step).ms);
        let ratio = self.config.speedup_ratio;
        if let (true, Some(prompts)) = (self.looks_ahead(), prompts) {
            // All in one.
            let end = now + nanos(prompts + decodes.unwrap_or(0.0), ratio);
            return (end, end);
        }
        let prefill_end = now + prompts.map_or(0, |ms| nanos(ms, ratio));
        let decode_ratio = ratio * self.config.decode_speedup_ratio;
        (
            prefill_end,
            prefill_end + decodes.map_or(0, |ms| nanos(ms, decode_ratio)),
        )
    }

    fn emit(&mut self, schedule: &Schedule, now: u64, pass: &mut Pass) {
        let ready: Vec<usize> = self
            .running
            .iter()
            .copied()
            .filter(|id| self.jobs[id].is_ready())
            .collect();
        let first_tokens: Vec<usize> = match (self.rules, self.config.role) {
            (Rules::VllmV1 | Rules::VllmV1Async, WorkerRole::Aggregated) => {
                let given_prompt = |id: &&usize| schedule.parts.get(id).is_some_and(|part| part.prompt_tokens > 0);
                ready.iter().filter(given_prompt).copied().collect()
            }
            _ => Vec::new(),
        };
        let batch: Vec<usize> = ready.iter().filter(|id| !first_tokens.contains(id)).copied().collect();
        let (prefill_end, decode_end) = self.ends(now, schedule, &batch);

        for id in ready {
            if !self.running.contains(&id) || !self.emit_token(id, pass) {
                continue;
            }
            let at = if first_tokens.contains(&id) {
                prefill_end
            } else {
                decode_end
            };
            pass.tokens.push((id, at));
            if self.jobs[&id].remaining == 0 {
                self.running.retain(|&other| other != id);
                let mut job = self.jobs.remove(&id).expect("it is here");
                if self.looks_ahead() {
                    self.leaving.push((self.passes, job));
                } else {
                    job.release(&mut self.blocks);
                }
                pass.finished.push(id);
            }
        }
        pass.end = if pass.tokens.is_empty() {
            prefill_end
        } else {
            decode_end
        };
    }

    /// Generates one token; `false` if the request lost its blocks over it.
    fn emit_token(&mut self, id: usize, pass: &mut Pass) -> bool {
        loop {
            let job = self.jobs.get_mut(&id).expect("it is here");
            job.append();
            if self.rules != Rules::Dynosim12 {
                return true;
            }
            let blocks = job.layout.len();
            job.open_block(&mut self.blocks);
            if job.hold(job.tokens.len(), &mut self.blocks) {
                return true;
            }
            assert!(job.layout.len() > blocks, "only a new block can be missing");
            job.close_block();
            job.undo();
            let victim = self.victim().expect("this one runs");
            self.preempt(victim, pass);
            if victim == id {
                return false;
            }
        }
    }
}

impl Schedule {
    /// Cancels what a victim was going to do in this pass.
    fn take_back(&mut self, victim: usize) {
        self.preempted = true;
        if let Some(part) = self.parts.remove(&victim) {
            self.budget += part.used;
        }
    }
}

fn nanos(ms: f64, speed_up: f64) -> u64 {
    let time = SimDuration::from_ms(ms).expect("prices are finite and not negative");
    time.sped_up(speed_up).as_nanos()
}

//! Workloads drawn from numbers: requests with optional prefix groups and turns.

use std::ops::RangeInclusive;
use std::vec;

use crate::random::{GroupDraws, LengthDraws, PoissonGaps};
use crate::units::{BlockSize, SimDuration};
use crate::workload::{Admission, Request, Workload, WorkloadBuilder};
use crate::workload_checks as checks;
use crate::workload_error::{MAX_REQUESTS, WorkloadError};
use crate::workload_spec::{SyntheticLoad, SyntheticWorkload};

/// Draws the workload; prompts share whole blocks of `block_size` tokens, unless the spec says otherwise.
pub(crate) fn generate(spec: &SyntheticWorkload, block_size: BlockSize) -> Result<Workload, WorkloadError> {
    check(spec)?;
    let admission = match spec.load {
        SyntheticLoad::Concurrency(concurrency) => Admission::ClosedLoop { concurrency },
        SyntheticLoad::RequestRate(_) | SyntheticLoad::ArrivalIntervalMs(_) => Admission::OpenLoop,
    };
    let speedup = match admission {
        Admission::OpenLoop => spec.arrival_speedup_ratio,
        Admission::ClosedLoop { .. } => 1.0,
    };
    let think_time = SimDuration::from_ms(spec.inter_turn_delay_ms / speedup)
        .ok_or_else(|| beyond_clock("interTurnDelayMs", spec.inter_turn_delay_ms))?;
    let mut arrivals = Arrivals::new(spec);
    let mut prompts = Prompts::new(spec, block_size);
    let mut lengths = Lengths::new(spec);
    let mut builder = WorkloadBuilder::new(prompts.content_block);
    for session in 0..spec.request_count {
        let arrival_ms = arrivals.next_ms() / speedup;
        let arrival = SimDuration::from_ms(arrival_ms).ok_or_else(|| arrival_beyond_clock(spec.load))?;
        let shared_prefix = prompts.draw();
        for turn in 0..spec.turns_per_session {
            let (input_tokens, output_tokens) = lengths.next();
            let request = Request {
                session,
                turn,
                input_tokens,
                output_tokens,
                delay: if turn == 0 { arrival } else { think_time },
            };
            builder.push(request, shared_prefix);
        }
    }
    Ok(builder.build(admission))
}

/// Blocks at the beginning of a prompt of `tokens` tokens that are common to its group.
pub(crate) fn shared_blocks(block_size: BlockSize, tokens: u32, ratio: f64) -> u32 {
    let blocks = block_size.blocks_for(tokens);
    let shared = (f64::from(blocks) * ratio).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and no share of a u32 exceeds it"
    )]
    let shared = shared as u32;
    shared.min(blocks)
}

fn check(spec: &SyntheticWorkload) -> Result<(), WorkloadError> {
    checks::count("isl", spec.isl)?;
    checks::count("osl", spec.osl)?;
    checks::count("requestCount", spec.request_count)?;
    checks::count("turnsPerSession", spec.turns_per_session)?;
    checks::share_above_zero("lengthRangeRatio", spec.length_range_ratio)?;
    checks::share("sharedPrefixRatio", spec.shared_prefix_ratio)?;
    checks::milliseconds("interTurnDelayMs", spec.inter_turn_delay_ms)?;
    match spec.load {
        SyntheticLoad::Concurrency(concurrency) => {
            checks::count("concurrency", concurrency)?;
        }
        SyntheticLoad::RequestRate(per_second) => {
            checks::positive("requestRate", per_second)?;
            checks::positive("arrivalSpeedupRatio", spec.arrival_speedup_ratio)?;
        }
        SyntheticLoad::ArrivalIntervalMs(interval_ms) => {
            checks::milliseconds("arrivalIntervalMs", interval_ms)?;
            checks::positive("arrivalSpeedupRatio", spec.arrival_speedup_ratio)?;
        }
    }
    if u64::from(spec.request_count) * u64::from(spec.turns_per_session) > MAX_REQUESTS {
        return Err(WorkloadError::TooManyRequests);
    }
    Ok(())
}

fn beyond_clock(field: &'static str, value: f64) -> WorkloadError {
    checks::impossible(field, value, "such that no time exceeds the 584 years of the clock")
}

fn arrival_beyond_clock(load: SyntheticLoad) -> WorkloadError {
    match load {
        SyntheticLoad::Concurrency(concurrency) => beyond_clock("concurrency", f64::from(concurrency)),
        SyntheticLoad::RequestRate(per_second) => beyond_clock("requestRate", per_second),
        SyntheticLoad::ArrivalIntervalMs(interval_ms) => beyond_clock("arrivalIntervalMs", interval_ms),
    }
}

/// Whether the reference draws this workload request by request, without sessions.
///
/// The two ways differ in the last bits of equally spaced arrivals.
fn is_plain(spec: &SyntheticWorkload) -> bool {
    spec.turns_per_session == 1
        && spec.num_prefix_groups == 0
        && spec.shared_prefix_ratio <= 0.0
        && spec.inter_turn_delay_ms <= 0.0
}

/// Lengths of prompt and output, request by request.
enum Lengths {
    /// All are equal.
    Equal { input_tokens: u32, output_tokens: u32 },
    /// Prompt lengths are drawn ahead, so that those of all requests come before all output lengths.
    Drawn {
        inputs: vec::IntoIter<u32>,
        outputs: RangeInclusive<u32>,
        draws: Box<LengthDraws>,
    },
}

impl Lengths {
    fn new(spec: &SyntheticWorkload) -> Self {
        if !spec.lengths_differ() {
            return Self::Equal {
                input_tokens: spec.isl,
                output_tokens: spec.osl,
            };
        }
        let mut draws = Box::new(LengthDraws::new(spec.length_seed));
        let range = |most_tokens| spec.least_tokens(most_tokens)..=most_tokens;
        let inputs = range(spec.isl);
        let requests = u64::from(spec.request_count) * u64::from(spec.turns_per_session);
        let inputs: Vec<u32> = (0..requests).map(|_| draws.draw(&inputs)).collect();
        Self::Drawn {
            inputs: inputs.into_iter(),
            outputs: range(spec.osl),
            draws,
        }
    }

    /// Prompt and output tokens of the next request.
    fn next(&mut self) -> (u32, u32) {
        match self {
            Self::Equal {
                input_tokens,
                output_tokens,
            } => (*input_tokens, *output_tokens),
            Self::Drawn { inputs, outputs, draws } => {
                let input_tokens = inputs.next().expect("one was drawn for each request");
                (input_tokens, draws.draw(outputs))
            }
        }
    }
}

/// Arrival times of the sessions in milliseconds, before any speed-up.
struct Arrivals {
    gaps: Gaps,
    drawn: u32,
    last_ms: f64,
}

enum Gaps {
    /// Everything at once.
    None,
    /// Session i arrives at i times the gap.
    Multiples(f64),
    /// Every session arrives a gap after the one before.
    Sum(f64),
    /// Every session arrives a random gap after the one before.
    Poisson(Box<PoissonGaps>),
}

impl Arrivals {
    fn new(spec: &SyntheticWorkload) -> Self {
        let gaps = match spec.load {
            SyntheticLoad::Concurrency(_) => Gaps::None,
            SyntheticLoad::ArrivalIntervalMs(interval_ms) if is_plain(spec) => Gaps::Multiples(interval_ms),
            SyntheticLoad::ArrivalIntervalMs(interval_ms) if interval_ms <= 0.0 => Gaps::None,
            // By way of a rate per second, as the reference goes.
            SyntheticLoad::ArrivalIntervalMs(interval_ms) => Gaps::Sum(1000.0 / (1000.0 / interval_ms)),
            SyntheticLoad::RequestRate(per_second) => {
                Gaps::Poisson(Box::new(PoissonGaps::new(per_second, spec.arrival_seed)))
            }
        };
        Self {
            gaps,
            drawn: 0,
            last_ms: 0.0,
        }
    }

    fn next_ms(&mut self) -> f64 {
        if self.drawn > 0 {
            self.last_ms = match &mut self.gaps {
                Gaps::None => 0.0,
                Gaps::Multiples(gap_ms) => f64::from(self.drawn) * *gap_ms,
                Gaps::Sum(gap_ms) => self.last_ms + *gap_ms,
                Gaps::Poisson(gaps) => self.last_ms + gaps.draw_ms(),
            };
        }
        self.drawn += 1;
        self.last_ms
    }
}

/// Content of the prompts: what a session shares with its group; the rest is private.
struct Prompts {
    /// The whole shared prefix: one block instead of many is the same content at less cost.
    content_block: BlockSize,
    groups: Option<GroupDraws>,
}

impl Prompts {
    fn new(spec: &SyntheticWorkload, block_size: BlockSize) -> Self {
        let prefix_block = spec.shared_prefix_block_size.and_then(BlockSize::new);
        let prefix_block = prefix_block.unwrap_or(block_size);
        let shared_blocks = shared_blocks(prefix_block, spec.isl, spec.shared_prefix_ratio);
        let shared_tokens = shared_blocks.saturating_mul(prefix_block.tokens()).min(spec.isl);
        Self {
            content_block: BlockSize::new(shared_tokens).unwrap_or(block_size),
            groups: GroupDraws::new(spec.num_prefix_groups).filter(|_| shared_tokens > 0),
        }
    }

    /// The shared prefix of the next session, if there is one.
    fn draw(&mut self) -> Option<u64> {
        self.groups.as_mut().map(GroupDraws::draw)
    }
}

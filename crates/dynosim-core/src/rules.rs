//! The points at which named rule sets differ, as values.
//!
//! The scheduler reads these and never asks for the name of a rule set: a further set is a further
//! value here.

use dynosim_spec::{EnginePhysics, Rules, StepTerm};

/// When a request whose prompt is finished gets its first token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstToken {
    /// As output of the prompt computation, at the end of the step's prefill part.
    AfterPrefill,
    /// By a decode step in the same pass, like any other token.
    WithDecode,
}

/// When the KV block of a token is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockTaken {
    /// When the step that computes the token is scheduled; the last token of a request needs none.
    WhenScheduled,
    /// When the token is emitted, preempting others if need be; the last token needs one, too.
    WhenEmitted,
}

/// What a waiting request does for which there are not enough free blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionShortage {
    /// It waits, and the queue waits behind it.
    Waits,
    /// It preempts running requests.
    PreemptsRunning,
}

/// How a decode worker takes in a prompt computed elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecodeIntake {
    /// In one step outside the token budget: its KV arrives complete.
    Whole,
    /// By chunks inside the token budget.
    Chunked,
}

/// What a prompt costs whose every block is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FullHit {
    /// Its last block is computed again.
    RecomputesLastBlock,
    /// Nothing.
    Free,
}

/// Which request a scan over the running list looks at after one at its front was preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanAfterPreemption {
    /// The one after the current one.
    Continues,
    /// The next index, which skips as many as were removed before it.
    SkipsShifted,
}

/// When the follow-up turns of a closed loop are stamped on a single aggregated worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowUpStamp {
    /// When their think time is over.
    WhenReady,
    /// At the end of the pass during which that happens.
    AtPassEnd,
}

/// How the prompts and the generated tokens of one step share the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepPasses {
    /// In two passes, prompts first.
    PromptsThenDecodes,
    /// In one, at whose end every token comes out.
    Fused,
}

/// What a step's scheduling knows of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScheduledWhen {
    /// All that has happened when the step starts.
    StepStarts,
    /// All that had happened when the step before it started: scheduling runs one step ahead. Who arrived during
    /// that step waits for another one, and what its finished requests held is not free yet.
    StepBeforeStarts,
}

/// Engine behaviour at every point where rule sets differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EngineRules {
    pub(crate) first_token: FirstToken,
    pub(crate) block_taken: BlockTaken,
    pub(crate) admission_shortage: AdmissionShortage,
    pub(crate) decode_intake: DecodeIntake,
    pub(crate) full_hit: FullHit,
    pub(crate) scan_after_preemption: ScanAfterPreemption,
    pub(crate) follow_up_stamp: FollowUpStamp,
    pub(crate) step_passes: StepPasses,
    pub(crate) scheduled_when: ScheduledWhen,
    /// Whether a closed loop counts requests whose KV is in transfer as in flight.
    pub(crate) transfers_in_flight: bool,
}

impl EngineRules {
    /// The behaviour that a rule set stands for.
    pub(crate) const fn of(rules: Rules) -> Self {
        match rules {
            Rules::VllmV1Async => Self {
                step_passes: StepPasses::Fused,
                scheduled_when: ScheduledWhen::StepBeforeStarts,
                ..Self::of(Rules::VllmV1)
            },
            Rules::VllmV1 => Self {
                first_token: FirstToken::AfterPrefill,
                block_taken: BlockTaken::WhenScheduled,
                admission_shortage: AdmissionShortage::Waits,
                decode_intake: DecodeIntake::Whole,
                full_hit: FullHit::RecomputesLastBlock,
                scan_after_preemption: ScanAfterPreemption::Continues,
                follow_up_stamp: FollowUpStamp::WhenReady,
                step_passes: StepPasses::PromptsThenDecodes,
                scheduled_when: ScheduledWhen::StepStarts,
                transfers_in_flight: true,
            },
            Rules::Dynosim12 => Self {
                first_token: FirstToken::WithDecode,
                block_taken: BlockTaken::WhenEmitted,
                admission_shortage: AdmissionShortage::PreemptsRunning,
                decode_intake: DecodeIntake::Chunked,
                full_hit: FullHit::Free,
                scan_after_preemption: ScanAfterPreemption::SkipsShifted,
                follow_up_stamp: FollowUpStamp::AtPassEnd,
                step_passes: StepPasses::PromptsThenDecodes,
                scheduled_when: ScheduledWhen::StepStarts,
                transfers_in_flight: false,
            },
        }
    }

    /// The same behaviour without the parts that `physics` leaves out.
    #[must_use]
    pub(crate) fn with(self, physics: &EnginePhysics) -> Self {
        let mut rules = self;
        if !physics.has(StepTerm::FusedPass) {
            rules.step_passes = StepPasses::PromptsThenDecodes;
        }
        if !physics.has(StepTerm::Pipeline) {
            rules.scheduled_when = ScheduledWhen::StepStarts;
        }
        rules
    }

    /// Tokens whose blocks a request holds at most, of `input_tokens` given and `output_tokens` generated.
    pub(crate) fn resident_tokens(self, input_tokens: u32, output_tokens: u32) -> u64 {
        let tokens = u64::from(input_tokens) + u64::from(output_tokens);
        match self.block_taken {
            BlockTaken::WhenScheduled => tokens.saturating_sub(1),
            BlockTaken::WhenEmitted => tokens,
        }
    }
}

//! A request on a vLLM-style worker.

use dynosim_spec::RequestId;

use crate::engine::Incoming;
use crate::kv::KvHold;
use crate::metrics::TokenTrail;

/// Progress of one request.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    pub(super) request: RequestId,
    pub(super) input_tokens: u32,
    pub(super) output_tokens: u32,
    pub(super) generated: u32,
    /// Tokens whose KV is computed; 0 while waiting.
    pub(super) computed: u32,
    /// The most prompt tokens that were ever computed.
    pub(super) furthest: u32,
    pub(super) hold: KvHold,
    pub(super) running: bool,
    pub(super) tokens: TokenTrail,
    pub(super) share: StepShare,
}

/// What a sequence was given in the step with number `step`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepShare {
    pub(super) step: u64,
    pub(super) tokens: u64,
    pub(super) prompt_before: u32,
    pub(super) prompt_tokens: u32,
}

impl Sequence {
    pub(super) fn new(incoming: Incoming, hold: KvHold) -> Self {
        Self {
            request: incoming.request,
            input_tokens: incoming.input_tokens,
            output_tokens: incoming.output_tokens,
            generated: 0,
            computed: 0,
            furthest: 0,
            hold,
            running: false,
            tokens: TokenTrail::default(),
            share: StepShare::default(),
        }
    }

    /// Tokens that must be resident before the next one can be generated.
    pub(super) fn length(&self) -> u32 {
        self.input_tokens + self.generated
    }

    /// Whether all it has to do in a step is to generate its next token.
    pub(super) fn only_decodes(&self) -> bool {
        self.computed >= self.input_tokens && self.computed + 1 == self.length()
    }

    /// Whether everything before the next token is computed.
    pub(super) fn is_ready(&self) -> bool {
        self.computed >= self.length() && self.generated < self.output_tokens
    }
}

/// Blocks of `block_tokens` tokens that a sequence begins in `steps` steps, of which `before` pass before the first
/// one in which it begins a block.
pub(super) fn blocks_begun(before: u32, steps: u32, block_tokens: u32) -> u32 {
    if steps > before {
        (steps - 1 - before) / block_tokens + 1
    } else {
        0
    }
}

/// Handle of a sequence in a [`SequenceSlab`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SequenceKey(u32);

/// The sequences of one worker, in slots that are used again.
#[derive(Debug, Default)]
pub(super) struct SequenceSlab {
    slots: Vec<Sequence>,
    unused: Vec<SequenceKey>,
}

impl SequenceSlab {
    pub(super) fn insert(&mut self, sequence: Sequence) -> SequenceKey {
        if let Some(key) = self.unused.pop() {
            self[key] = sequence;
            key
        } else {
            self.slots.push(sequence);
            SequenceKey(u32::try_from(self.slots.len() - 1).expect("requests are indexed by u32"))
        }
    }

    pub(super) fn remove(&mut self, key: SequenceKey) {
        self.unused.push(key);
    }
}

impl std::ops::Index<SequenceKey> for SequenceSlab {
    type Output = Sequence;

    fn index(&self, key: SequenceKey) -> &Sequence {
        &self.slots[key.0 as usize]
    }
}

impl std::ops::IndexMut<SequenceKey> for SequenceSlab {
    fn index_mut(&mut self, key: SequenceKey) -> &mut Sequence {
        &mut self.slots[key.0 as usize]
    }
}

//! Prompts that share beginnings, block by block.

use std::sync::Arc;

use dynosim_spec::{
    Admission, BlockSize, PromptSegments, Request, RequestId, SegmentId, SimDuration, Workload, WorkloadBuilder,
};
use proptest::prelude::*;

/// Blocks that any request may come to have, its output included.
const LONGEST: u32 = 40;

/// A block, told apart by everything up to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Block {
    /// Content that other prompts may have, too.
    Content(u32),
    /// Block of one request alone.
    Private(u32, u32),
}

/// A few requests with their prompts cut into segments.
#[derive(Debug, Clone)]
pub(super) struct Prompts {
    pub(super) workload: Workload,
    pub(super) segments: Arc<PromptSegments>,
    /// All blocks of each request, in order.
    pub(super) blocks: Vec<Vec<Block>>,
}

impl Prompts {
    /// Two to six prompts of up to seven blocks, and a part of one.
    pub(super) fn any() -> impl Strategy<Value = Self> {
        let prompt = (prop::collection::vec(0_u64..3, 0..7), 0_u32..9);
        (1_u32..4, prop::collection::vec(prompt, 2..7)).prop_map(|(block_tokens, prompts)| {
            let block_size = BlockSize::new(block_tokens).expect("at least 1");
            let mut builder = WorkloadBuilder::new(block_size);
            for (session, (content, private_tokens)) in (0..).zip(&prompts) {
                let shared_tokens = u32::try_from(content.len()).expect("few") * block_tokens;
                let request = Request {
                    session,
                    turn: 0,
                    input_tokens: (shared_tokens + private_tokens).max(1),
                    output_tokens: 1,
                    delay: SimDuration::ZERO,
                };
                builder.push(request, content.iter().copied());
            }
            Self::of(builder.build(Admission::OpenLoop), block_size)
        })
    }

    fn of(workload: Workload, block_size: BlockSize) -> Self {
        let requests = u32::try_from(workload.requests().len()).expect("few");
        let blocks = (0..requests).map(|request| {
            let content = workload.prompts().path(RequestId::new(request));
            let content = content.iter().map(|&node| Block::Content(node));
            let private = (0..LONGEST).map(|index| Block::Private(request, index));
            content.chain(private).collect()
        });
        Self {
            blocks: blocks.collect(),
            segments: Arc::new(PromptSegments::new(&workload, block_size)),
            workload,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn path(&self, request: usize) -> &[SegmentId] {
        self.segments.path(id(request))
    }

    pub(super) fn input_tokens(&self, request: usize) -> u32 {
        self.workload.request(id(request)).input_tokens
    }
}

pub(super) fn id(request: usize) -> RequestId {
    RequestId::new(u32::try_from(request).expect("few"))
}

//! Prompts cut into the longest stretches of engine blocks that are always shared together.
//!
//! Every full engine block of a prompt is identified by all content up to its end. Count the
//! requests whose prompt contains a block: along a prompt this count never rises, and where it
//! stays equal the very same requests share both blocks. A maximal stretch of equal count above 1
//! is a **segment**. As all prompts are known before the run, segments never split while it runs,
//! and a prompt is a short list of segments followed by a private tail, whatever the block size.

use rustc_hash::FxHashMap;

use crate::ids::{RequestId, SegmentId};
use crate::units::BlockSize;
use crate::workload::{PromptPaths, Workload};

/// The shared segments of a workload's prompts for one engine block size.
#[derive(Debug, Clone)]
pub struct PromptSegments {
    block_size: BlockSize,
    segment_blocks: Vec<u32>,
    paths: Vec<SegmentId>,
    requests: Vec<RequestPrompt>,
}

#[derive(Debug, Clone, Copy)]
struct RequestPrompt {
    path_end: usize,
    full_blocks: u32,
    shared_blocks: u32,
}

impl PromptSegments {
    /// Cuts the prompts of `workload` into segments of blocks of `block_size` tokens.
    pub fn new(workload: &Workload, block_size: BlockSize) -> Self {
        let pieces = Pieces::count(workload, block_size);
        pieces.into_segments(workload, block_size)
    }

    /// Tokens per block.
    pub fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Number of segments; segment ids are below it.
    pub fn segment_count(&self) -> usize {
        self.segment_blocks.len()
    }

    /// Blocks in a segment, at least 1.
    pub fn segment_blocks(&self, segment: SegmentId) -> u32 {
        self.segment_blocks[segment.index()]
    }

    /// The shared segments of a prompt from its first block on; its other full blocks are private.
    pub fn path(&self, request: RequestId) -> &[SegmentId] {
        let index = request.index();
        let start = if index == 0 {
            0
        } else {
            self.requests[index - 1].path_end
        };
        &self.paths[start..self.requests[index].path_end]
    }

    /// Full blocks of a prompt.
    pub fn full_blocks(&self, request: RequestId) -> u32 {
        self.requests[request.index()].full_blocks
    }

    /// Full blocks of a prompt that lie in shared segments.
    pub fn shared_blocks(&self, request: RequestId) -> u32 {
        self.requests[request.index()].shared_blocks
    }
}

/// A stretch of one node's engine blocks in which no prompt ends.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Engine blocks of the prompt up to the end of the piece.
    end: u32,
    /// Requests whose prompt contains the piece.
    requests: u32,
    segment: Option<SegmentId>,
}

/// How often each stretch of the prompts is used.
struct Pieces<'a> {
    prompts: &'a PromptPaths,
    /// One piece for each node as a whole.
    whole: Vec<Piece>,
    /// Nodes inside which some prompt ends, in several pieces.
    cut: FxHashMap<u32, Vec<Piece>>,
}

impl<'a> Pieces<'a> {
    fn count(workload: &'a Workload, block_size: BlockSize) -> Self {
        let prompts = workload.prompts();
        let unused = Piece {
            end: 0,
            requests: 0,
            segment: None,
        };
        let mut whole = vec![unused; prompts.node_count() as usize];
        let mut prompt_ends: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (index, request) in workload.requests().iter().enumerate() {
            let full_blocks = block_size.full_blocks(request.input_tokens);
            for (node, blocks) in nodes_with_blocks(prompts, index, block_size, full_blocks) {
                let piece = &mut whole[node as usize];
                piece.requests += 1;
                piece.end = blocks.end;
                if full_blocks < blocks.end {
                    prompt_ends.entry(node).or_default().push(full_blocks);
                }
            }
        }
        let cut = prompt_ends
            .into_iter()
            .map(|(node, ends)| (node, cut_at(ends, whole[node as usize])))
            .collect();
        Self { prompts, whole, cut }
    }

    fn into_segments(mut self, workload: &Workload, block_size: BlockSize) -> PromptSegments {
        let mut segments = PromptSegments {
            block_size,
            segment_blocks: Vec::new(),
            paths: Vec::new(),
            requests: Vec::with_capacity(workload.requests().len()),
        };
        for (index, request) in workload.requests().iter().enumerate() {
            let full_blocks = block_size.full_blocks(request.input_tokens);
            let shared_blocks = self.walk(index, full_blocks, &mut segments);
            segments.requests.push(RequestPrompt {
                path_end: segments.paths.len(),
                full_blocks,
                shared_blocks,
            });
        }
        segments
    }

    /// Appends the path of one prompt, making or extending the segments it is the first to meet.
    fn walk(&mut self, index: usize, full_blocks: u32, segments: &mut PromptSegments) -> u32 {
        let mut done = 0;
        let mut last: Option<(SegmentId, u32)> = None;
        for (node, _) in nodes_with_blocks(self.prompts, index, segments.block_size, full_blocks) {
            let pieces = match self.cut.get_mut(&node) {
                Some(pieces) => pieces.as_mut_slice(),
                None => std::slice::from_mut(&mut self.whole[node as usize]),
            };
            for piece in pieces.iter_mut().take_while(|piece| piece.end <= full_blocks) {
                if piece.requests < 2 {
                    return done;
                }
                let piece_blocks = piece.end - done;
                let segment = match (piece.segment, last) {
                    (Some(segment), _) => segment,
                    // The same requests share both stretches, so the one before was new as well.
                    (None, Some((segment, requests))) if requests == piece.requests => {
                        segments.segment_blocks[segment.index()] += piece_blocks;
                        segment
                    }
                    (None, _) => {
                        let segment = SegmentId::new(
                            u32::try_from(segments.segment_blocks.len()).expect("fewer segments than nodes"),
                        );
                        segments.segment_blocks.push(piece_blocks);
                        segment
                    }
                };
                piece.segment = Some(segment);
                if last.is_none_or(|(previous, _)| previous != segment) {
                    segments.paths.push(segment);
                }
                last = Some((segment, piece.requests));
                done = piece.end;
            }
        }
        done
    }
}

/// The nodes of a prompt in which at least one of its full engine blocks ends, with those blocks.
fn nodes_with_blocks(
    prompts: &PromptPaths,
    index: usize,
    block_size: BlockSize,
    full_blocks: u32,
) -> impl Iterator<Item = (u32, std::ops::Range<u32>)> + use<'_> {
    let content_tokens = u64::from(prompts.content_block().tokens());
    let block_tokens = u64::from(block_size.tokens());
    let blocks_until = move |depth: u64| u32::try_from(depth * content_tokens / block_tokens).unwrap_or(u32::MAX);
    let request = RequestId::new(u32::try_from(index).expect("requests are indexed by u32"));
    (0_u64..)
        .zip(prompts.path(request))
        .map(move |(depth, &node)| (node, blocks_until(depth)..blocks_until(depth + 1)))
        .filter(|(_, blocks)| !blocks.is_empty())
        .take_while(move |(_, blocks)| blocks.start < full_blocks)
}

/// Pieces of a node between the prompts that end inside it; the last one runs to the node's end.
fn cut_at(mut ends: Vec<u32>, whole: Piece) -> Vec<Piece> {
    ends.sort_unstable();
    let mut remaining = whole.requests;
    let mut pieces = Vec::with_capacity(ends.len() + 1);
    for same_end in ends.chunk_by(|a, b| a == b) {
        pieces.push(Piece {
            end: same_end[0],
            requests: remaining,
            segment: None,
        });
        remaining -= u32::try_from(same_end.len()).expect("no more ends than requests");
    }
    pieces.push(Piece {
        end: whole.end,
        requests: remaining,
        segment: None,
    });
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::SimDuration;
    use crate::workload::{Admission, Request, WorkloadBuilder};

    fn block(tokens: u32) -> BlockSize {
        BlockSize::new(tokens).expect("not zero")
    }

    fn workload(content_block: u32, prompts: &[(u32, Vec<u64>)]) -> Workload {
        let mut builder = WorkloadBuilder::new(block(content_block));
        for (session, (input_tokens, ids)) in (0..).zip(prompts) {
            let request = Request {
                session,
                turn: 0,
                input_tokens: *input_tokens,
                output_tokens: 1,
                delay: SimDuration::ZERO,
            };
            builder.push(request, ids.iter().copied());
        }
        builder.build(Admission::OpenLoop)
    }

    /// Full engine blocks that two prompts have in common, token by token.
    fn common_blocks(content_block: u32, engine_block: u32, a: &(u32, Vec<u64>), b: &(u32, Vec<u64>)) -> u32 {
        let token = |prompt: &(u32, Vec<u64>), at: u32| {
            (at < prompt.0)
                .then(|| prompt.1.get((at / content_block) as usize).copied())
                .flatten()
        };
        let same = (0..=a.0)
            .take_while(|&at| token(a, at).is_some() && token(a, at) == token(b, at))
            .count();
        u32::try_from(same).expect("short") / engine_block
    }

    proptest! {
        #[test]
        fn oracle_shared_prefixes_are_found(
            content_block in 1_u32..6,
            engine_block in 1_u32..9,
            prompts in prop::collection::vec((1_u32..40, prop::collection::vec(0_u64..2, 0..12)), 1..12),
        ) {
            let prompts: Vec<(u32, Vec<u64>)> = prompts;
            let workload = workload(content_block, &prompts);
            let segments = PromptSegments::new(&workload, block(engine_block));
            for (i, a) in prompts.iter().enumerate() {
                let id = RequestId::new(u32::try_from(i).expect("few"));
                let path_blocks: u32 = segments.path(id).iter().map(|&s| segments.segment_blocks(s)).sum();
                prop_assert_eq!(path_blocks, segments.shared_blocks(id));
                prop_assert!(path_blocks <= segments.full_blocks(id));
                prop_assert_eq!(segments.full_blocks(id), a.0 / engine_block);
                let mut most_shared = 0;
                for (j, b) in prompts.iter().enumerate().filter(|&(j, _)| j != i) {
                    let other = RequestId::new(u32::try_from(j).expect("few"));
                    let common: u32 = segments
                        .path(id)
                        .iter()
                        .zip(segments.path(other))
                        .take_while(|(a, b)| a == b)
                        .map(|(&s, _)| segments.segment_blocks(s))
                        .sum();
                    prop_assert_eq!(common, common_blocks(content_block, engine_block, a, b));
                    most_shared = most_shared.max(common);
                }
                prop_assert_eq!(most_shared, path_blocks, "what nobody shares is private");
            }
        }
    }

    #[test]
    fn equal_use_makes_one_segment() {
        let ids: Vec<u64> = (0..64).collect();
        let workload = workload(512, &[(64 * 512, ids.clone()), (64 * 512, ids)]);
        let segments = PromptSegments::new(&workload, block(64));
        assert_eq!(segments.segment_count(), 1);
        assert_eq!(segments.segment_blocks(SegmentId::new(0)), 512);
    }
}

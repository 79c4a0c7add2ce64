//! `trace.jsonl`: the requests of a workload, whatever it was made from, as a Mooncake trace.
//!
//! AIPerf makes a prompt by writing one text for every id of its `hash_ids`, so equal ids are equal text; and it refuses an
//! id that stands for texts of different lengths, as one does that is cut off by the end of one prompt and not of
//! another. Then blocks are made smaller, until whole ones hold everything that engines can share.
//!
//! It also repeats earlier turns of a session within the prompt, whereas lengths here are those of whole prompts. Therefore
//! every turn is a row of its own, at the time at which it arrived in the simulation.

use std::cmp::Reverse;
use std::fmt::Write;

use dynosim_core::Outcome;
use dynosim_spec::{Admission, BlockSize, PromptPaths, Request, RequestId, Workload};
use serde_json::json;

/// Tokens of a block where prompts have nothing in common: those of Mooncake's traces.
const USUAL_BLOCK: u32 = 512;

/// The file, and what there is to say about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TraceFile {
    pub(super) text: String,
    /// Tokens per id.
    pub(super) block_tokens: u32,
    pub(super) rows: usize,
    /// Requests in flight of a closed loop; without it, rows have timestamps.
    pub(super) concurrency: Option<u32>,
    /// Whether rows were turns of sessions.
    pub(super) has_turns: bool,
    /// Requests that were not served, and are not in the file.
    pub(super) left_out: usize,
}

impl TraceFile {
    /// The served requests of `workload`, in the order of their arrival; `engine_block` is what engines share prompts by.
    pub(super) fn new(workload: &Workload, outcome: &Outcome, engine_block: BlockSize) -> Self {
        let mut rows = Row::served(workload, outcome);
        let (has_turns, left_out) = (
            rows.iter().any(|row| row.request.turn > 0),
            workload.requests().len() - rows.len(),
        );
        rows.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms));
        let blocks = Blocks::new(workload.prompts(), &rows, engine_block);
        let mut fresh_id = blocks.first_free_id();
        let mut text = String::new();
        for row in &rows {
            let ids = blocks.ids(row, &mut fresh_id);
            let line = match workload.admission() {
                Admission::OpenLoop => json!({
                    "timestamp": row.time_ms,
                    "input_length": row.request.input_tokens,
                    "output_length": row.request.output_tokens,
                    "hash_ids": ids,
                }),
                Admission::ClosedLoop { .. } => json!({
                    "input_length": row.request.input_tokens,
                    "output_length": row.request.output_tokens,
                    "hash_ids": ids,
                }),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        }
        let most = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        Self {
            text,
            block_tokens: blocks.tokens,
            rows: rows.len(),
            concurrency: match workload.admission() {
                Admission::OpenLoop => None,
                Admission::ClosedLoop { concurrency } => Some(concurrency.min(most)),
            },
            has_turns,
            left_out,
        }
    }
}

/// A request and when it is sent.
struct Row {
    id: RequestId,
    request: Request,
    time_ms: f64,
}

impl Row {
    fn served(workload: &Workload, outcome: &Outcome) -> Vec<Self> {
        let requests = workload.requests().iter().zip(&outcome.requests);
        let rows = (0..).zip(requests).filter(|(_, (_, record))| record.counts());
        rows.map(|(id, (request, record))| {
            let at_given_time = request.turn == 0 && workload.admission() == Admission::OpenLoop;
            Self {
                id: RequestId::new(id),
                request: *request,
                time_ms: if at_given_time {
                    request.delay.as_ms()
                } else {
                    record.arrival.unwrap_or_default().as_ms()
                },
            }
        })
        .collect()
    }
}

/// How prompts are cut into blocks with ids.
struct Blocks<'a> {
    prompts: &'a PromptPaths,
    tokens: u32,
    /// Blocks of a node, and whether only whole blocks are shared; without it, nothing is shared.
    sharing: Option<Sharing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// A node is a block.
    Nodes,
    /// A node is so many blocks, and those that prompts cut off are nobody else's.
    WholeParts(u32),
}

impl<'a> Blocks<'a> {
    fn new(prompts: &'a PromptPaths, rows: &[Row], engine_block: BlockSize) -> Self {
        let node_tokens = prompts.content_block().tokens();
        let (tokens, sharing) = match node_sizes(prompts, rows) {
            NodeSizes::NoneShared => (USUAL_BLOCK, None),
            NodeSizes::Equal => (node_tokens, Some(Sharing::Nodes)),
            NodeSizes::Different => {
                let tokens = greatest_common_divisor(node_tokens, engine_block.tokens());
                (tokens, Some(Sharing::WholeParts(node_tokens / tokens)))
            }
        };
        Self {
            prompts,
            tokens,
            sharing,
        }
    }

    /// Ids from here on are nobody's.
    fn first_free_id(&self) -> u64 {
        let parts = match self.sharing {
            None => 0,
            Some(Sharing::Nodes) => 1,
            Some(Sharing::WholeParts(parts)) => parts,
        };
        u64::from(self.prompts.node_count()) * u64::from(parts)
    }

    /// The ids of a prompt, as many as it has blocks.
    fn ids(&self, row: &Row, fresh_id: &mut u64) -> Vec<u64> {
        let blocks = row.request.input_tokens.div_ceil(self.tokens) as usize;
        let whole_blocks = (row.request.input_tokens / self.tokens) as usize;
        let path = self.prompts.path(row.id).iter().map(|&node| u64::from(node));
        let mut ids: Vec<u64> = match self.sharing {
            None => Vec::new(),
            Some(Sharing::Nodes) => path.collect(),
            Some(Sharing::WholeParts(parts)) => {
                let parts = u64::from(parts);
                path.flat_map(|node| node * parts..(node + 1) * parts)
                    .take(whole_blocks)
                    .collect()
            }
        };
        while ids.len() < blocks {
            ids.push(*fresh_id);
            *fresh_id += 1;
        }
        ids
    }
}

enum NodeSizes {
    /// No two prompts have a node in common.
    NoneShared,
    /// Every node is as long in all prompts that it is in.
    Equal,
    /// Some node is cut off by the end of a prompt, and longer in another.
    Different,
}

fn node_sizes(prompts: &PromptPaths, rows: &[Row]) -> NodeSizes {
    let block = prompts.content_block().tokens();
    let mut sizes: Vec<Option<u32>> = vec![None; prompts.node_count() as usize];
    let mut shared = false;
    for row in rows {
        let mut left = row.request.input_tokens;
        for &node in prompts.path(row.id) {
            let size = left.min(block);
            left -= size;
            let known = sizes[node as usize].replace(size);
            shared |= known.is_some();
            if known.is_some_and(|known| known != size) {
                return NodeSizes::Different;
            }
        }
    }
    if shared {
        NodeSizes::Equal
    } else {
        NodeSizes::NoneShared
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    let (mut large, mut small) = if Reverse(a) < Reverse(b) { (a, b) } else { (b, a) };
    while small > 0 {
        (large, small) = (small, large % small);
    }
    large
}

//! Agentic traces: one session of tool calls per line.
//!
//! A session starts with a prompt and answers it in several steps. After each step the answer and
//! the output of the tool it called are appended, and the longer prompt is sent once the tool has
//! returned.

use std::io::BufRead;

use super::agentic_row::{AgenticSession, ToolCall};
use super::lines::Lines;
use super::row_error::TraceRowError;
use crate::synthetic::shared_blocks;
use crate::units::{BlockSize, SimDuration};
use crate::workload::{Admission, Request, Workload, WorkloadBuilder};
use crate::workload_error::{MAX_REQUESTS, WorkloadError};

/// Content blocks that all prompts together may have: they are made up here, so that a small
/// file could ask for any number.
const MAX_BLOCKS: u64 = 1 << 27;

/// How the first prompts of sessions overlap.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedPrefixes {
    /// Share of a first prompt's blocks that is common to its group, 0 to 1.
    pub(super) ratio: f64,
    /// Groups, dealt to the lines in turn.
    pub(super) groups: u32,
}

/// Reads a whole trace.
pub(super) fn read<R: BufRead>(
    mut lines: Lines<'_, R>,
    block_size: BlockSize,
    concurrency: u32,
    prefixes: SharedPrefixes,
) -> Result<Workload, WorkloadError> {
    let path = lines.path();
    let mut sessions = Sessions {
        builder: WorkloadBuilder::new(block_size),
        block_size,
        prefixes,
        count: 0,
        requests: 0,
        blocks: 0,
    };
    while let Some((line, text)) = lines.next_row()? {
        let session = AgenticSession::parse(text);
        session
            .and_then(|session| sessions.add(line, &session))
            .map_err(|problem| problem.at(path, line))?;
        if sessions.requests > MAX_REQUESTS {
            return Err(WorkloadError::TooManyRequests);
        }
    }
    if sessions.count == 0 {
        return Err(WorkloadError::Empty { path: path.to_owned() });
    }
    Ok(sessions.builder.build(Admission::ClosedLoop { concurrency }))
}

/// The sessions read so far.
struct Sessions {
    builder: WorkloadBuilder,
    block_size: BlockSize,
    prefixes: SharedPrefixes,
    count: u32,
    requests: u64,
    blocks: u64,
}

impl Sessions {
    fn add(&mut self, line: usize, session: &AgenticSession) -> Result<(), TraceRowError> {
        let SharedPrefixes { ratio, groups } = self.prefixes;
        let group = (line as u64 - 1).checked_rem(u64::from(groups));
        let shared = group.map_or(0, |_| {
            shared_blocks(self.block_size, session.first_prompt_tokens, ratio)
        });
        let first_private_id = self.blocks;
        let content = |block: u32| match group {
            // Blocks of a prefix differ by what precedes them, so one id per group is enough.
            Some(group) if block < shared => u64::MAX - group,
            _ => first_private_id + u64::from(block),
        };
        let mut input_tokens = session.first_prompt_tokens;
        let mut delay = SimDuration::ZERO;
        for turn in 0_u32.. {
            let blocks = self.block_size.blocks_for(input_tokens);
            self.blocks += u64::from(blocks);
            self.requests += 1;
            if self.blocks > MAX_BLOCKS {
                return Err(TraceRowError::TooManyBlocks {
                    max: MAX_BLOCKS,
                    block_tokens: self.block_size.tokens(),
                });
            }
            let call = session.tool_calls.get(turn as usize);
            let request = Request {
                session: self.count,
                turn,
                input_tokens,
                output_tokens: call.map_or(session.final_output_tokens, |call| call.output_tokens),
                delay,
            };
            self.builder.push(request, (0..blocks).map(content));
            let Some(call) = call else { break };
            input_tokens = longer_prompt(input_tokens, call)?;
            delay = call.latency;
        }
        self.count += 1;
        Ok(())
    }
}

fn longer_prompt(prompt_tokens: u32, call: &ToolCall) -> Result<u32, TraceRowError> {
    let tokens = u64::from(prompt_tokens) + u64::from(call.output_tokens) + u64::from(call.tool_tokens);
    u32::try_from(tokens).map_err(|_| TraceRowError::PromptTooLong { tokens })
}

//! Tokens, told apart as far as caching can.

use dynosim::spec::{RequestId, Workload};

/// What a token is, as far as caching can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Token {
    /// A prompt token of a content block (its node, which stands for everything before it, too).
    Content(u32),
    /// A token that only one request has: the tail of its prompt, or generated.
    Private {
        /// The request.
        request: usize,
        /// Place within its prompt and output.
        position: usize,
    },
    /// Content that equals nothing else, as all content does without prefix caching.
    Fresh(usize),
}

/// The tokens of a prompt: those of its content blocks, then its own.
pub(super) fn prompt(workload: &Workload, request: usize) -> Vec<Token> {
    let id = RequestId::new(u32::try_from(request).expect("few requests"));
    let content = workload.prompts().path(id);
    let content_block = workload.prompts().content_block().tokens() as usize;
    (0..workload.request(id).input_tokens as usize)
        .map(|position| match content.get(position / content_block) {
            Some(&node) => Token::Content(node),
            None => Token::Private { request, position },
        })
        .collect()
}

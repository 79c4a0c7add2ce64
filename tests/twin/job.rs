//! A request on a worker.

use super::blocks::{Blocks, ChainId};
use super::token::Token;

/// One block of a request's layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    /// Full of tokens, shareable.
    Full(ChainId),
    /// Being filled, never shared.
    Partial,
}

/// A request with its tokens, and the blocks that they need.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: usize,
    /// Prompt and generated tokens.
    pub(super) tokens: Vec<Token>,
    pub(super) prompt_tokens: usize,
    /// Tokens still to be generated.
    pub(super) remaining: usize,
    /// Blocks of its tokens, whether held or not.
    pub(super) layout: Vec<Block>,
    /// How many of them are held, from the first one on.
    pub(super) held: usize,
    /// Tokens whose KV is there.
    pub(super) computed: usize,
    /// The most prompt tokens ever computed.
    pub(super) furthest: usize,
}

impl Job {
    pub(super) fn new(request: usize, prompt: Vec<Token>, output_tokens: usize, pool: &mut Blocks) -> Self {
        let mut layout = Vec::new();
        for start in (0..prompt.len()).step_by(pool.block_size) {
            let end = start + pool.block_size;
            layout.push(if end <= prompt.len() {
                Block::Full(pool.full_block(&prompt[..end]))
            } else {
                Block::Partial
            });
        }
        Self {
            request,
            prompt_tokens: prompt.len(),
            tokens: prompt,
            remaining: output_tokens,
            layout,
            held: 0,
            computed: 0,
            furthest: 0,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.computed >= self.tokens.len() && self.remaining > 0
    }

    /// Appends a generated token.
    pub(super) fn append(&mut self) {
        let position = self.tokens.len();
        self.tokens.push(Token::Private {
            request: self.request,
            position,
        });
        self.remaining -= 1;
    }

    /// Takes the last token back.
    pub(super) fn undo(&mut self) {
        self.tokens.pop();
        self.remaining += 1;
    }

    /// Adds the block of the last token to the layout if it is the first one in it; the block before is full then.
    pub(super) fn open_block(&mut self, pool: &mut Blocks) {
        let blocks = self.tokens.len().div_ceil(pool.block_size);
        if blocks <= self.layout.len() {
            return;
        }
        let last = self.layout.len() - 1;
        if self.layout[last] == Block::Partial {
            let id = pool.full_block(&self.tokens[..self.layout.len() * pool.block_size]);
            self.layout[last] = Block::Full(id);
            if self.held == self.layout.len() {
                pool.promote(id);
            }
        }
        self.layout.push(Block::Partial);
        assert_eq!(self.layout.len(), blocks, "tokens come one at a time");
    }

    /// Removes the last block, opened in vain.
    pub(super) fn close_block(&mut self) {
        assert_eq!(self.layout.pop(), Some(Block::Partial), "an opened block is partial");
    }

    /// Takes hold of the blocks of the first `tokens` tokens in order; `false` if they run out.
    pub(super) fn hold(&mut self, tokens: usize, pool: &mut Blocks) -> bool {
        while self.held < tokens.div_ceil(pool.block_size) {
            let taken = match self.layout[self.held] {
                Block::Full(id) => pool.hold_full(id),
                Block::Partial => pool.hold_partial(),
            };
            if !taken {
                return false;
            }
            self.held += 1;
        }
        true
    }

    /// Gives all blocks back, the last one first.
    pub(super) fn release(&mut self, pool: &mut Blocks) {
        while self.held > 0 {
            self.held -= 1;
            match self.layout[self.held] {
                Block::Full(id) => pool.release_full(id),
                Block::Partial => pool.release_partial(),
            }
        }
        self.computed = 0;
    }
}

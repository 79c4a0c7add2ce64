//! KV blocks of one worker, one by one: who holds which content, what is idle, which block goes first.

use std::collections::BTreeMap;

use super::token::Token;

/// A full block, told apart by all tokens from the first one to its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChainId(usize);

/// The pool of one worker.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) block_size: usize,
    prefix_caching: bool,
    total: usize,
    /// Blocks without content.
    blank: usize,
    /// Blocks that requests are still filling.
    partial: usize,
    /// Full blocks that requests hold, and how many do.
    held: BTreeMap<ChainId, usize>,
    /// Full blocks that nobody holds, and when they became idle.
    idle: BTreeMap<ChainId, u64>,
    chains: BTreeMap<Vec<Token>, ChainId>,
    /// The block before each block, by [`ChainId`].
    parents: Vec<Option<ChainId>>,
    ticks: u64,
    pub(super) evictions: u64,
}

impl Blocks {
    pub(super) fn new(block_size: usize, total: usize, prefix_caching: bool) -> Self {
        Self {
            block_size,
            prefix_caching,
            total,
            blank: total,
            partial: 0,
            held: BTreeMap::new(),
            idle: BTreeMap::new(),
            chains: BTreeMap::new(),
            parents: Vec::new(),
            ticks: 0,
            evictions: 0,
        }
    }

    /// The full block that ends these tokens.
    pub(super) fn full_block(&mut self, tokens: &[Token]) -> ChainId {
        if self.prefix_caching {
            self.chain(tokens)
        } else {
            self.chain(&[Token::Fresh(self.parents.len())])
        }
    }

    fn chain(&mut self, tokens: &[Token]) -> ChainId {
        if let Some(&id) = self.chains.get(tokens) {
            return id;
        }
        let before = tokens.len().saturating_sub(self.block_size);
        let parent = (before > 0).then(|| self.chain(&tokens[..before]));
        let id = ChainId(self.parents.len());
        self.parents.push(parent);
        self.chains.insert(tokens.to_vec(), id);
        id
    }

    /// Blocks in use.
    pub(super) fn active(&self) -> usize {
        let active = self.held.len() + self.partial;
        assert_eq!(
            active + self.idle.len() + self.blank,
            self.total,
            "blocks are neither made nor lost"
        );
        active
    }

    /// Blocks that could be had, by eviction if need be.
    pub(super) fn obtainable(&self) -> usize {
        self.blank + self.idle.len()
    }

    pub(super) fn is_held(&self, id: ChainId) -> bool {
        self.held.contains_key(&id)
    }

    pub(super) fn is_resident(&self, id: ChainId) -> bool {
        self.is_held(id) || self.idle.contains_key(&id)
    }

    /// Holds a full block, wherever it comes from; `false` if no block can be had.
    pub(super) fn hold_full(&mut self, id: ChainId) -> bool {
        if self.idle.remove(&id).is_none() && !self.is_held(id) && !self.take() {
            return false;
        }
        *self.held.entry(id).or_insert(0) += 1;
        true
    }

    /// Holds a block to be filled; `false` if none can be had.
    pub(super) fn hold_partial(&mut self) -> bool {
        let taken = self.take();
        self.partial += usize::from(taken);
        taken
    }

    /// A held partial block is full now.
    pub(super) fn promote(&mut self, id: ChainId) {
        self.partial -= 1;
        // Should its content exist already, that block is held instead.
        self.blank += 1;
        assert!(self.hold_full(id), "a block has just been given back");
    }

    pub(super) fn release_full(&mut self, id: ChainId) {
        let holders = self.held.get_mut(&id).expect("only held blocks are released");
        *holders -= 1;
        if *holders == 0 {
            self.held.remove(&id);
            self.ticks += 1;
            self.idle.insert(id, self.ticks);
        }
    }

    pub(super) fn release_partial(&mut self) {
        self.partial -= 1;
        self.blank += 1;
    }

    fn take(&mut self) -> bool {
        if self.blank == 0 && !self.evict() {
            return false;
        }
        self.blank -= 1;
        true
    }

    /// Evicts the idle block that has been idle longest among those without an idle descendant.
    fn evict(&mut self) -> bool {
        let victim = self
            .idle
            .iter()
            .filter(|&(&id, _)| !self.idle.keys().any(|&other| self.descends(other, id)))
            .min_by_key(|&(_, &tick)| tick)
            .map(|(&id, _)| id);
        let Some(victim) = victim else { return false };
        self.idle.remove(&victim);
        self.blank += 1;
        self.evictions += 1;
        true
    }

    fn descends(&self, mut block: ChainId, ancestor: ChainId) -> bool {
        while let Some(parent) = self.parents[block.0] {
            if parent == ancestor {
                return true;
            }
            block = parent;
        }
        false
    }
}

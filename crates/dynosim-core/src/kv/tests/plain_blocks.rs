//! Full blocks one by one, with the leaf rule spelled out.

use std::collections::BTreeMap;

use super::prompts::Block;

/// Who holds which block, and since when the others are idle.
#[derive(Debug, Default)]
pub(super) struct PlainBlocks {
    held: BTreeMap<Block, u32>,
    idle: BTreeMap<Block, u32>,
    releases: u32,
    pub(super) evictions: u64,
}

impl PlainBlocks {
    pub(super) fn held(&self) -> u64 {
        self.held.len() as u64
    }

    pub(super) fn idle(&self) -> u64 {
        self.idle.len() as u64
    }

    pub(super) fn is_held(&self, block: Block) -> bool {
        self.held.contains_key(&block)
    }

    pub(super) fn is_resident(&self, block: Block) -> bool {
        self.is_held(block) || self.idle.contains_key(&block)
    }

    /// Leading blocks of these that are resident.
    pub(super) fn resident_prefix(&self, blocks: &[Block]) -> u32 {
        let resident = blocks.iter().take_while(|&&block| self.is_resident(block));
        u32::try_from(resident.count()).expect("few")
    }

    pub(super) fn hold(&mut self, block: Block) {
        self.idle.remove(&block);
        *self.held.entry(block).or_insert(0) += 1;
    }

    pub(super) fn release(&mut self, block: Block) {
        let holders = self.held.get_mut(&block).expect("it is held");
        *holders -= 1;
        if *holders == 0 {
            self.held.remove(&block);
            self.releases += 1;
            self.idle.insert(block, self.releases);
        }
    }

    /// Evicts the block that has been idle longest of those that no idle block follows in any chain.
    pub(super) fn evict(&mut self, chains: &[Vec<Block>]) -> bool {
        let has_idle_descendant = |block: Block| {
            chains.iter().any(|chain| {
                let mut after = chain.iter().skip_while(|&&other| other != block).skip(1);
                after.any(|other| self.idle.contains_key(other))
            })
        };
        let leaves = self.idle.iter().filter(|&(&block, _)| !has_idle_descendant(block));
        let Some((&victim, _)) = leaves.min_by_key(|&(_, &since)| since) else {
            return false;
        };
        self.idle.remove(&victim);
        self.evictions += 1;
        true
    }
}

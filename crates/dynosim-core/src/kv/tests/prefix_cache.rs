//! [`PrefixCache`] against [`PlainBlocks`].

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::plain_blocks::PlainBlocks;
use super::prompts::{Prompts, id};
use crate::kv::prefix_cache::Growth;
use crate::kv::{PrefixCache, PrefixHold};

#[derive(Debug, Clone)]
enum Action {
    /// A request holds so many blocks more.
    Extend { request: usize, blocks: u32 },
    /// A request gives all blocks back.
    Release { request: usize },
    /// A request gives all blocks back and is never seen again.
    Retire { request: usize },
    /// Room is made.
    Evict { blocks: u64 },
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0_usize..6, 1_u32..6).prop_map(|(request, blocks)| Action::Extend { request, blocks }),
        3 => (0_usize..6).prop_map(|request| Action::Release { request }),
        1 => (0_usize..6).prop_map(|request| Action::Retire { request }),
        2 => (1_u64..6).prop_map(|blocks| Action::Evict { blocks }),
    ]
}

proptest! {
    #[test]
    fn differential_equals_plain_blocks(
        prompts in Prompts::any(),
        actions in prop::collection::vec(action(), 0..60),
    ) {
        let mut twins = Twins::new(&prompts);
        for action in actions {
            twins.act(&action)?;
            twins.compare()?;
        }
    }
}

/// The cache and its model, side by side.
struct Twins<'a> {
    prompts: &'a Prompts,
    cache: PrefixCache,
    holds: Vec<PrefixHold>,
    plain: PlainBlocks,
    held: Vec<u32>,
    retired: Vec<bool>,
    /// Resident blocks of each segment as the cache has published them.
    published: BTreeMap<u32, u32>,
}

impl<'a> Twins<'a> {
    fn new(prompts: &'a Prompts) -> Self {
        let mut cache = PrefixCache::for_prompts(&prompts.segments);
        cache.publish_changes();
        Self {
            prompts,
            cache,
            holds: vec![PrefixHold::new(); prompts.len()],
            plain: PlainBlocks::default(),
            held: vec![0; prompts.len()],
            retired: vec![false; prompts.len()],
            published: BTreeMap::new(),
        }
    }

    fn act(&mut self, action: &Action) -> Result<(), TestCaseError> {
        match *action {
            Action::Extend { request, .. } | Action::Release { request } | Action::Retire { request }
                if self.retired[request % self.prompts.len()] => {}
            Action::Extend { request, blocks } => {
                let request = request % self.prompts.len();
                let to = (self.held[request] + blocks).min(30);
                let expected = self.plain_growth(request, to);
                let path = self.prompts.path(request);
                prop_assert_eq!(self.cache.growth(path, self.holds[request], to), expected);
                prop_assert_eq!(self.cache.extend(path, &mut self.holds[request], to), expected);
                for index in self.held[request]..to {
                    self.plain.hold(self.prompts.blocks[request][index as usize]);
                }
                self.held[request] = to;
            }
            Action::Release { request } => {
                let request = request % self.prompts.len();
                self.cache.release(self.prompts.path(request), &mut self.holds[request]);
                self.plain_release(request);
            }
            Action::Retire { request } => {
                let request = request % self.prompts.len();
                self.cache.retire(self.prompts.path(request), self.holds[request]);
                self.plain_release(request);
                self.retired[request] = true;
            }
            Action::Evict { blocks } => {
                let evicted = (0..blocks)
                    .take_while(|_| self.plain.evict(&self.prompts.blocks))
                    .count();
                prop_assert_eq!(self.cache.evict(blocks), evicted as u64);
            }
        }
        Ok(())
    }

    fn plain_release(&mut self, request: usize) {
        for index in (0..self.held[request]).rev() {
            self.plain.release(self.prompts.blocks[request][index as usize]);
        }
        self.held[request] = 0;
    }

    fn plain_growth(&self, request: usize, to: u32) -> Growth {
        let mut growth = Growth::default();
        for index in self.held[request]..to {
            let block = self.prompts.blocks[request][index as usize];
            growth.fresh += u32::from(!self.plain.is_resident(block));
            growth.reactivated += u32::from(self.plain.is_resident(block) && !self.plain.is_held(block));
        }
        growth
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.cache.held_blocks(), self.plain.held());
        prop_assert_eq!(self.cache.idle_blocks(), self.plain.idle());
        prop_assert_eq!(self.cache.evictions(), self.plain.evictions);
        let published = &mut self.published;
        self.cache.take_changes(|segment, blocks| {
            published.insert(segment.get(), blocks);
        });
        for (request, blocks) in self.prompts.blocks.iter().enumerate() {
            let path = self.prompts.path(request);
            let resident = self.plain.resident_prefix(blocks);
            if !self.retired[request] {
                prop_assert_eq!(self.cache.resident_prefix(path, self.holds[request]), resident);
            }
            let mut known = 0;
            for segment in path {
                let blocks = self.published.get(&segment.get()).copied().unwrap_or_default();
                known += blocks;
                if blocks < self.prompts.segments.segment_blocks(*segment) {
                    break;
                }
            }
            prop_assert_eq!(known, resident.min(self.prompts.segments.shared_blocks(id(request))));
        }
        Ok(())
    }
}

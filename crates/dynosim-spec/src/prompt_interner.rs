//! Numbers for content blocks, each told apart by its id and everything before it.

use rustc_hash::FxHashMap;

/// Gives every (parent node, content id) pair a node, numbered in order of first appearance.
///
/// Traces number their ids densely, and almost every id always follows the same parent. Such ids
/// are found by index; the rest go through a hash map, which is several times slower.
#[derive(Debug, Default)]
pub(crate) struct PromptInterner {
    node_count: u32,
    by_id: Vec<Entry>,
    others: FxHashMap<(u32, u64), u32>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    parent: u32,
    node: u32,
}

impl Entry {
    const FREE: Self = Self {
        parent: PromptInterner::ROOT,
        node: u32::MAX,
    };
}

impl PromptInterner {
    /// Parent of a prompt's first block.
    pub(crate) const ROOT: u32 = u32::MAX;

    /// Number of nodes given out.
    pub(crate) fn node_count(&self) -> u32 {
        self.node_count
    }

    /// The node of block `id` after `parent`.
    pub(crate) fn node(&mut self, parent: u32, id: u64) -> u32 {
        let index = usize::try_from(id).unwrap_or(usize::MAX);
        let entry = self.by_id.get(index).copied().unwrap_or(Entry::FREE);
        let is_free = entry.node == u32::MAX;
        if entry.parent == parent && !is_free {
            return entry.node;
        }
        if let Some(&node) = self.others.get(&(parent, id)) {
            return node;
        }
        let node = self.node_count;
        self.node_count += 1;
        if is_free && index < self.index_limit() {
            if index >= self.by_id.len() {
                self.by_id.resize(index + 1, Entry::FREE);
            }
            self.by_id[index] = Entry { parent, node };
        } else {
            self.others.insert((parent, id), node);
        }
        node
    }

    /// Ids below it may be kept by index without the index outgrowing the nodes.
    fn index_limit(&self) -> usize {
        4 * self.node_count as usize + 1024
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn differential_equals_a_plain_map(
            blocks in prop::collection::vec((0_u32..4, prop_oneof![0_u64..6, 1000_u64..9000, any::<u64>()]), 0..200),
        ) {
            let mut interner = PromptInterner::default();
            let mut plain: FxHashMap<(u32, u64), u32> = FxHashMap::default();
            let seen = blocks.iter().chain(&blocks);
            for &(parent, id) in seen {
                let parent = if parent == 0 { PromptInterner::ROOT } else { parent };
                let next = u32::try_from(plain.len()).expect("few");
                let expected = *plain.entry((parent, id)).or_insert(next);
                prop_assert_eq!(interner.node(parent, id), expected);
            }
            prop_assert_eq!(interner.node_count() as usize, plain.len());
        }
    }
}

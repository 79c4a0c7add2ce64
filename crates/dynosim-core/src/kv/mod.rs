//! The KV cache of one worker.
//!
//! Everything here rests on one fact: **residency is prefix-closed**. A request holds its prompt
//! from the first block on, gives blocks back from the last to the first, and eviction takes only
//! blocks that nothing deeper depends on. So a stretch of blocks needs no set, only depths: how
//! many of its blocks are resident, and how many of those are held.

mod block_pool;
mod idle_list;
mod prefix_cache;
#[cfg(test)]
mod tests;

pub(crate) use block_pool::{BlockPool, KvHold};
pub(crate) use prefix_cache::{PrefixCache, PrefixHold};

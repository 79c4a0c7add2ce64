//! The SGLang-style engine: a pool of pages under a radix cache, prefill batches before decode,
//! room reserved for outputs at admission, retraction when it runs out after all.
//!
//! Three simplifications against the original, none of which changes who fits: pages are evicted
//! one at a time and not by tree node; "last used" is when a page was given back; and an unfinished
//! prompt keeps its place in front of the queue whatever the queue's order. An empty worker admits
//! any request that fits, even where the output reserve would forbid it for ever.

mod admission;
mod engine;
mod page_pool;
mod sequence;

pub(crate) use engine::SglangEngine;

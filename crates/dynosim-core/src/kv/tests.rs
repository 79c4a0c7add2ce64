//! The cache and the pool against a model that keeps every block by itself.

mod block_pool;
mod plain_blocks;
mod prefix_cache;
mod prompts;

//! A second, plain simulator of the vLLM-style engine under round robin, written from the description
//! of its rules: token by token, block by block, with nothing kept that could be counted again.
//! The real one must give the same results to the nanosecond.

mod blocks;
mod case;
mod differential;
mod found;
mod golden;
mod job;
mod token;
mod toy_timing;
mod worker;
mod world;

pub(crate) use case::Case;
pub(crate) use world::{History, Life, Stuck, simulate};

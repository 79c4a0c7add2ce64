//! What holds across crates.

mod golden;
mod layering;

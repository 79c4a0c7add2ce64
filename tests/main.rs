//! What holds across crates.

mod code_map;
mod golden;
mod invariants;
mod layering;
mod limits;
mod random_cases;
mod sglang_examples;
mod twin;
mod validation;

//! What holds across crates.

mod async_examples;
mod calibrate;
mod code_map;
mod confidence;
mod golden;
mod invariants;
mod layering;
mod limits;
mod one_worker;
mod random_cases;
mod sglang_examples;
mod table_warnings;
mod twin;
mod validation;

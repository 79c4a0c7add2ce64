//! What holds across crates.

mod code_map;
mod golden;
mod layering;
mod random_cases;
mod twin;

//! What holds across crates.

mod golden;
mod layering;
mod random_cases;
mod twin;

//! What holds across crates.

mod answer;
mod async_examples;
mod calibrate;
mod code_map;
mod confidence;
mod details_examples;
mod golden;
#[cfg(feature = "html")]
mod html_report;
mod invariants;
mod layering;
mod limits;
mod one_worker;
mod random_cases;
mod sglang_examples;
mod table_warnings;
mod twin;
mod validation;

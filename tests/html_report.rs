//! HTML reports as a browser shows them.

mod browser;
#[path = "../examples/html_report/sample.rs"]
mod sample;

//! How far a search has come, on a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over simulations. It is drawn to standard error, and only if that is a terminal.
pub(crate) fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} simulations, {elapsed}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Moves the bar. The plan grows as a search goes on.
pub(crate) fn show_progress(bar: &ProgressBar, done: usize, planned: usize) {
    bar.set_length(planned as u64);
    bar.set_position(done as u64);
}

//! How far a sweep is: a bar on a terminal, a line now and then elsewhere.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Lines that a rate is taken over, so that what a journal knows already does not count for long.
const WINDOW: usize = 6;

/// Shows on standard error how many simulations are done, how many are planned so far, how fast they are and how long
/// the rest takes at that rate.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    counts: Arc<Counts>,
    lines: Option<Lines>,
}

#[derive(Debug, Default)]
struct Counts {
    done: AtomicUsize,
    planned: AtomicUsize,
}

/// A thread that prints until its sender is dropped.
#[derive(Debug)]
struct Lines {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Progress {
    /// Shows a bar on a terminal, else a line every so many seconds; nothing if that is 0.
    pub(crate) fn every(seconds: u64) -> Self {
        let counts = Arc::new(Counts::default());
        let is_on = seconds > 0;
        let on_terminal = io::stderr().is_terminal();
        let bar = if is_on && on_terminal {
            ProgressBar::new(0).with_style(style())
        } else {
            ProgressBar::hidden()
        };
        let lines = (is_on && !on_terminal).then(|| print_lines(Arc::clone(&counts), seconds));
        Self { bar, counts, lines }
    }

    /// Notes how far it is. The plan grows as a search goes on.
    pub(crate) fn show(&self, done: usize, planned: usize) {
        self.counts.done.store(done, Ordering::Relaxed);
        self.counts.planned.store(planned, Ordering::Relaxed);
        self.bar.set_length(planned as u64);
        self.bar.set_position(done as u64);
    }

    /// Takes the bar away and prints no more lines.
    pub(crate) fn end(self) {
        self.bar.finish_and_clear();
        if let Some(Lines { end, thread }) = self.lines {
            drop(end);
            // It does nothing but print.
            let _ = thread.join();
        }
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} simulations, {per_sec}, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn print_lines(counts: Arc<Counts>, seconds: u64) -> Lines {
    let (end, ended) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let mut window = VecDeque::from([0]);
        while ended.recv_timeout(Duration::from_secs(seconds)) == Err(RecvTimeoutError::Timeout) {
            let done = counts.done.load(Ordering::Relaxed);
            let planned = counts.planned.load(Ordering::Relaxed);
            output::note(&line(done, planned, rate(&mut window, done, seconds)));
        }
    });
    Lines { end, thread }
}

/// Simulations per second since the oldest count in the window, which moves on.
fn rate(window: &mut VecDeque<usize>, done: usize, seconds: u64) -> f64 {
    if window.back().is_some_and(|&last| last > done) {
        // Another search has begun.
        *window = VecDeque::from([0]);
    }
    window.push_back(done);
    if window.len() > WINDOW + 1 {
        window.pop_front();
    }
    let oldest = window.front().copied().unwrap_or(0);
    let intervals = window.len() - 1;
    done.saturating_sub(oldest) as f64 / (intervals as f64 * seconds as f64)
}

fn line(done: usize, planned: usize, rate: f64) -> String {
    let counts = format!("{done} of {planned} simulations");
    if rate <= 0.0 {
        return counts;
    }
    let seconds = planned.saturating_sub(done) as f64 / rate;
    let left = if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else if seconds < 7200.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    };
    format!("{counts}, {rate:.3} per second, {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_minute() {
        let mut window = VecDeque::from([0]);
        // What a journal knows comes at once.
        let rates: Vec<f64> = [1000, 1020, 1040, 1060, 1080, 1100, 1120]
            .into_iter()
            .map(|done| rate(&mut window, done, 10))
            .collect();
        assert_eq!((rates[0], rates[1], rates[6]), (100.0, 51.0, 2.0));
    }

    #[test]
    fn another_search_begins_at_zero() {
        let mut window = VecDeque::from([0, 50, 100]);
        assert_eq!(
            line(20, 20, rate(&mut window, 20, 10)),
            "20 of 20 simulations, 2.000 per second, 0 s left"
        );
    }

    #[test]
    fn lines_say_how_long_the_rest_takes() {
        assert_eq!(line(0, 40, 0.0), "0 of 40 simulations");
        assert_eq!(line(20, 40, 2.0), "20 of 40 simulations, 2.000 per second, 10 s left");
        assert_eq!(
            line(0, 7200, 1.0),
            "0 of 7200 simulations, 1.000 per second, 2.0 h left"
        );
        assert_eq!(line(0, 300, 1.0), "0 of 300 simulations, 1.000 per second, 5 min left");
    }
}

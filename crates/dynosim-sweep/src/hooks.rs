//! What a search takes from whoever started it, besides its question.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::trial::TrialStore;

/// Is told how many simulations are done and how many are planned so far; the plan grows as a
/// search goes on. Called from several threads, so numbers may arrive out of order.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Somebody who keeps simulations, somebody who watches, and somebody who may ask to stop; nobody by default. None of
/// them changes what comes of a search that goes on to its end.
#[derive(Clone, Copy, Default)]
pub struct Hooks<'a> {
    /// Knows how simulations ended, and is told how others end.
    pub trials: Option<&'a dyn TrialStore>,
    /// Is told how far a search is.
    pub progress: Option<Progress<'a>>,
    /// No further simulation is begun once this is true.
    pub stop: Option<&'a AtomicBool>,
}

impl Hooks<'_> {
    /// Whether somebody has asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

//! What can be wrong with the wish to know how sure an answer is.

use thiserror::Error;

/// Why nothing is said on how sure an answer is.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ConfidenceError {
    /// There is no candidate.
    #[error("no candidates are given; pass the best states of a sweep, best first")]
    NoCandidates,
    /// Too few repetitions for a spread, or too many.
    #[error("repeats is {given}; it must be from {least} to {most}")]
    Repeats {
        /// What was asked for.
        given: u32,
        /// The fewest that have a spread.
        least: u32,
        /// The most.
        most: u32,
    },
    /// A load that cannot be.
    #[error("load factor {value} (number {number}) must be above 0 and at most {most}")]
    LoadFactor {
        /// Its place in the list, from 1.
        number: usize,
        /// What was asked for.
        value: f64,
        /// The largest.
        most: f64,
    },
    /// The caller wanted no more.
    #[error("cancelled after {done} simulations")]
    Cancelled {
        /// Simulations made until then.
        done: usize,
    },
}

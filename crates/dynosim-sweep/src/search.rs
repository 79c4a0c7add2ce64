//! The search: rounds of shape, split and router, each under what the others have come to.

use std::mem;

use indexmap::{IndexMap, IndexSet};

use crate::evaluator::Evaluate;
use crate::ranking::best_first;
use crate::record::Record;
use crate::space::Space;
use crate::state::{RouterState, State};

/// Rounds after which a search ends even if it still moves.
const MOST_ROUNDS: u32 = 3;

/// All records of a search through `space`, in the order in which its states were first visited.
///
/// A round has three blocks. The first evaluates every tensor-parallel shape behind the router of
/// the incumbent. The second evaluates the worker splits of the `beam` best of these shapes; the
/// best split is the new incumbent, even where its shape did better in the first block. The third
/// puts every router in front of it, and the best is the incumbent again. A block without states
/// changes nothing. Rounds end when one leaves the incumbent as it was. Every state is evaluated
/// once. The first round starts with `first_router`.
pub(crate) fn search(
    space: &dyn Space,
    first_router: RouterState,
    beam: usize,
    evaluator: &mut impl Evaluate,
) -> Vec<Record> {
    let mut visited = Visited {
        evaluator,
        records: IndexMap::new(),
    };
    let Some(mut incumbent) = space.shapes(first_router).first().copied() else {
        return Vec::new();
    };
    for _ in 0..MOST_ROUNDS {
        let mut shapes = visited.ranked(space.shapes(incumbent.router));
        shapes.truncate(beam.max(1));
        let splits = shapes.iter().flat_map(|shape| space.splits(shape)).collect();
        let split = visited.ranked(splits).first().copied().unwrap_or(incumbent);
        let routed = visited.ranked(space.routers(&split)).first().copied().unwrap_or(split);
        if mem::replace(&mut incumbent, routed) == routed {
            break;
        }
    }
    visited.records.into_values().collect()
}

struct Visited<'e, E> {
    evaluator: &'e mut E,
    records: IndexMap<State, Record>,
}

impl<E: Evaluate> Visited<'_, E> {
    /// Visits those of the states that are new, and puts all of them in order, best first.
    fn ranked(&mut self, mut states: Vec<State>) -> Vec<State> {
        let new: IndexSet<State> = states
            .iter()
            .filter(|&state| !self.records.contains_key(state))
            .copied()
            .collect();
        let new: Vec<State> = new.into_iter().collect();
        let records = self.evaluator.evaluate(&new);
        self.records.extend(new.into_iter().zip(records));
        // Stable: among equals, the order of enumeration decides.
        states.sort_by(|a, b| best_first(&self.records[a], &self.records[b]));
        states
    }
}

#[cfg(test)]
mod tests;

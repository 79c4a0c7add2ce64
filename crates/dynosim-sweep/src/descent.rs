//! The descent: rounds of shape, split, router and engine settings, each under what the others have come to.

use std::mem;

use dynosim_spec::ParallelShape;
use indexmap::{IndexMap, IndexSet};

use crate::engine_settings::EngineSettings;
use crate::evaluator::Evaluate;
use crate::ranking::best_first;
use crate::record::Record;
use crate::space::Space;
use crate::state::{RouterState, State};

/// Rounds after which a search ends even if it still moves.
const MOST_ROUNDS: u32 = 3;

/// The spaces of one kind of deployment, by their engine settings.
pub(crate) type Spaces = IndexMap<EngineSettings, Box<dyn Space>>;

/// All records of a descent through `spaces`, in the order in which its states were first visited.
///
/// A round has four blocks. The first evaluates every tensor-parallel shape behind the router of
/// the incumbent. The second evaluates the worker splits of the `beam` best of these shapes; the
/// best split is the new incumbent, even where its shape did better in the first block. The third
/// puts every router in front of it, and the best is the incumbent again. So it is with the fourth, which gives its
/// workers every choice of engine settings. A block without states
/// changes nothing. Rounds end when one leaves the incumbent as it was. Every state is evaluated
/// once. The first round starts with `first_router` and the first engine settings. Somebody who asks to stop ends it early.
pub(crate) fn descend(
    spaces: &Spaces,
    first_router: RouterState,
    beam: usize,
    evaluator: &mut impl Evaluate,
) -> IndexMap<State, Record> {
    let mut visited = Visited {
        evaluator,
        records: IndexMap::new(),
    };
    let mut first_shapes = spaces.values().flat_map(|space| space.shapes(first_router));
    let Some(mut incumbent) = first_shapes.next() else {
        return visited.records;
    };
    for _ in 0..MOST_ROUNDS {
        let Some(space) = spaces.get(&incumbent.engine) else {
            break;
        };
        let shapes = visited.ranked(space.shapes(incumbent.router));
        let shapes = distinct_shapes(&shapes, beam.max(1));
        let splits = shapes.iter().flat_map(|shape| space.splits(shape)).collect();
        let split = visited.ranked(splits).first().copied().unwrap_or(incumbent);
        let routed = visited.ranked(space.routers(&split)).first().copied().unwrap_or(split);
        let tuned = visited.ranked(with_every_setting(spaces, &routed));
        let tuned = tuned.first().copied().unwrap_or(routed);
        if visited.evaluator.is_interrupted() || mem::replace(&mut incumbent, tuned) == tuned {
            break;
        }
    }
    visited.records
}

/// The first `most` of these states whose workers have different shapes.
fn distinct_shapes(ranked: &[State], most: usize) -> Vec<State> {
    let mut shapes: IndexMap<Vec<ParallelShape>, State> = IndexMap::new();
    for state in ranked {
        let pools = state.pools().into_iter();
        shapes.entry(pools.map(|pool| pool.shape).collect()).or_insert(*state);
    }
    shapes.into_values().take(most).collect()
}

/// The workers and the router of a state with every choice of engine settings that has such workers; none if there is
/// nothing to choose.
fn with_every_setting(spaces: &Spaces, of: &State) -> Vec<State> {
    if spaces.len() < 2 {
        return Vec::new();
    }
    let tuned = spaces
        .iter()
        .map(|(&settings, space)| (of.with_engine(settings), space));
    tuned
        .filter(|(state, space)| space.contains(state))
        .map(|(state, _)| state)
        .collect()
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
        self.records
            .extend(records.into_iter().map(|record| (record.state, record)));
        states.retain(|state| self.records.contains_key(state));
        // Stable: among equals, the order of enumeration decides.
        states.sort_by(|a, b| best_first(&self.records[a], &self.records[b]));
        states
    }
}

#[cfg(test)]
mod tests;

//! The search through every state.

use indexmap::IndexMap;

use crate::evaluator::Evaluator;
use crate::prune::{Pruned, Pruner};
use crate::record::Record;
use crate::state::State;

/// What is left to do of an exhaustive search after a descent.
#[derive(Debug)]
pub(crate) struct Plan {
    /// States that are to be visited, in the order of the space; those that the descent has visited are among them.
    pub(crate) states: Vec<State>,
    /// States that are left out on proof.
    pub(crate) pruned: Vec<Pruned>,
}

impl Plan {
    /// What to do about `states`, all states there are. What was visited is never left out; nor is anything if nothing
    /// would remain, so that there always are records to learn from.
    pub(crate) fn new(states: Vec<State>, visited: &IndexMap<State, Record>, pruner: &mut Pruner<'_, '_, '_>) -> Self {
        let mut proof = |state: &State| {
            let is_new = !visited.contains_key(state);
            is_new.then(|| pruner.proof(*state)).flatten()
        };
        let proofs: Vec<Option<Pruned>> = states.iter().map(&mut proof).collect();
        if proofs.iter().all(Option::is_some) {
            return Self {
                states,
                pruned: Vec::new(),
            };
        }
        let kept = states.iter().zip(&proofs).filter(|(_, proof)| proof.is_none());
        Self {
            states: kept.map(|(&state, _)| state).collect(),
            pruned: proofs.into_iter().flatten().collect(),
        }
    }
}

/// A part of the simulations of an exhaustive search: those whose number leaves a remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 0.
    pub index: u32,
    /// Parts in all, more than `index`.
    pub count: u32,
}

impl Shard {
    /// Makes the simulations of this part; their number.
    pub(crate) fn simulate(self, states: &[State], evaluator: &mut Evaluator<'_, '_>) -> usize {
        let (index, count) = (self.index as usize, self.count.max(1) as usize);
        let pending = evaluator.pending(states);
        let part: Vec<State> = pending.into_iter().skip(index).step_by(count).collect();
        let before = evaluator.simulations();
        evaluator.simulate_all(&part);
        evaluator.simulations() - before
    }
}

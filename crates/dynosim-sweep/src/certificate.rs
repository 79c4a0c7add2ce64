//! What a search has seen of the space, so that anybody can check the sum.

use std::fmt::{self, Write};

use dynosim_spec::{Prune, SearchStrategy};
use indexmap::IndexMap;
use serde::Serialize;

use crate::prune::Bound;

/// Counts of states and simulations of a search.
///
/// Every state of the space is visited, pruned or unvisited, and every visited one is a simulation or the same as one:
/// `space = visited + pruned + unvisited` and `visited = simulations + deduplicated`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Certificate {
    /// How states were chosen.
    pub strategy: SearchStrategy,
    /// States of the space: every shape, every worker split within the budget, every router and every engine setting.
    pub space: u64,
    /// States that have a record.
    pub visited: u64,
    /// Simulations that these come from.
    pub simulations: u64,
    /// Visited states that are provably the same simulation as another visited state.
    pub deduplicated: u64,
    /// States that were left out on proof, by what proves it.
    pub pruned: IndexMap<&'static str, u64>,
    /// All other states.
    pub unvisited: u64,
    /// Simulations that ended without figures, because they cannot run: most often, every request is rejected.
    pub failed: u64,
    /// Simulations that were ended early, because they proved that a bound will be missed.
    pub given_up: u64,
    /// Whether the search came to its end. One that was interrupted did not.
    pub finished: bool,
    /// What the descent missed; exhaustive searches that came to their end only.
    pub regret: Option<Regret>,
}

/// How far the best state that the descent finds is from the best state of all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Regret {
    /// States that the descent visits.
    pub descent_visited: u64,
    /// The best feasible state that it finds, as text; `None` if it finds none.
    pub descent_best: Option<String>,
    /// The score of that state.
    pub descent_score: Option<f64>,
    /// The best score of all feasible states; `None` if there is none.
    pub best_score: Option<f64>,
    /// The difference as a share of the best score, at least 0; `None` without two scores, or if the best is 0.
    pub share: Option<f64>,
}

impl Regret {
    /// The share that follows from two scores.
    pub(crate) fn share_of(descent_score: Option<f64>, best_score: Option<f64>) -> Option<f64> {
        let (descent, best) = (descent_score?, best_score?);
        let share = (best - descent) / best.abs();
        share.is_finite().then(|| share.max(0.0))
    }
}

impl Certificate {
    /// Whether every state of the space was visited or left out on proof, so that no better one can exist.
    pub fn is_complete(&self) -> bool {
        self.unvisited == 0
    }

    /// Whether the counts add up.
    pub fn reconciles(&self) -> bool {
        let pruned: u64 = self.pruned.values().sum();
        self.space == self.visited + pruned + self.unvisited && self.visited == self.simulations + self.deduplicated
    }

    /// Counts of pruned states, each beginning with zero.
    pub(crate) fn no_pruned(prune: Prune, strategy: SearchStrategy) -> IndexMap<&'static str, u64> {
        let bounds: &[Bound] = match (strategy, prune) {
            (SearchStrategy::Descent, _) | (_, Prune::None) => &[],
            (_, Prune::Infeasible) => &[Bound::RejectsRequest],
            (_, Prune::Worse) => &[Bound::RejectsRequest, Bound::ScoreBound],
        };
        bounds.iter().map(|bound| (bound.name(), 0)).collect()
    }
}

/// The sum in words, on two lines or three.
impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sum = format!("{} visited", self.visited);
        for (bound, count) in &self.pruned {
            write!(sum, " + {count} pruned ({bound})")?;
        }
        write!(sum, " + {} not visited", self.unvisited)?;
        let strategy = match self.strategy {
            SearchStrategy::Descent => "Descent",
            SearchStrategy::Exhaustive => "Exhaustive search",
        };
        writeln!(f, "{strategy}: {} states = {sum}", self.space)?;
        write!(
            f,
            "{} visited = {} simulations + {} that are provably the same as one of them",
            self.visited, self.simulations, self.deduplicated
        )?;
        let mut without = Vec::new();
        if self.failed > 0 {
            without.push(format!("{} without figures", self.failed));
        }
        if self.given_up > 0 {
            without.push(format!("{} given up on proof", self.given_up));
        }
        if !without.is_empty() {
            write!(f, " ({})", without.join(", "))?;
        }
        f.write_str("\n")?;
        if !self.finished {
            return writeln!(f, "Interrupted: the result is that of the part which was simulated");
        }
        match (&self.regret, self.strategy) {
            (Some(regret), _) => writeln!(f, "{regret}"),
            (None, SearchStrategy::Descent) => {
                writeln!(
                    f,
                    "No proof that nothing better exists: search.strategy exhaustive gives one"
                )
            }
            (None, SearchStrategy::Exhaustive) => Ok(()),
        }
    }
}

impl fmt::Display for Regret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let visited = self.descent_visited;
        match (&self.descent_best, self.best_score, self.share) {
            (_, None, _) => write!(f, "Proof: no state is feasible"),
            (None, Some(_), _) => write!(f, "The descent, with {visited} visited states, finds no feasible state"),
            (Some(best), Some(_), Some(share)) if share > 0.0 => write!(
                f,
                "The descent, with {visited} visited states, ends {:.2} % worse than the best: {best}",
                100.0 * share
            ),
            (Some(_), Some(_), _) => write!(
                f,
                "The descent, with {visited} visited states, finds a state that is as good as the best"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> Certificate {
        Certificate {
            strategy: SearchStrategy::Exhaustive,
            space: 20,
            visited: 15,
            simulations: 9,
            deduplicated: 6,
            pruned: IndexMap::from([("rejects_request", 4)]),
            unvisited: 1,
            failed: 2,
            given_up: 0,
            finished: true,
            regret: None,
        }
    }

    #[test]
    fn counts_add_up() {
        let whole = certificate();
        assert!(whole.reconciles() && !whole.is_complete());
        assert!(
            !Certificate {
                space: 21,
                ..certificate()
            }
            .reconciles()
        );
        assert!(
            !Certificate {
                deduplicated: 5,
                ..certificate()
            }
            .reconciles()
        );
        assert_eq!(
            whole.to_string(),
            "Exhaustive search: 20 states = 15 visited + 4 pruned (rejects_request) + 1 not visited\n\
             15 visited = 9 simulations + 6 that are provably the same as one of them (2 without figures)\n"
        );
    }

    #[test]
    fn regret_is_a_share_of_the_best() {
        let check = |descent: Option<f64>, best: Option<f64>, expected: Option<f64>| {
            assert_eq!(Regret::share_of(descent, best), expected);
        };
        check(Some(90.0), Some(100.0), Some(0.1));
        check(Some(-110.0), Some(-100.0), Some(0.1));
        check(Some(100.0), Some(100.0), Some(0.0));
        check(None, Some(100.0), None);
        check(Some(0.0), Some(0.0), None);
    }
}

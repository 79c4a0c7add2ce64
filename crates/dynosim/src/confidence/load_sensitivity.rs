//! The same candidates under a share and under multiples of the load.

use dynosim_core::Scenario;
use dynosim_spec::ReplayOptimizeSpec;
use dynosim_sweep::{Record, State, best_first};
use serde::Serialize;

use super::load::{LoadQuantity, load_of, scaled};
use super::loads::{AS_IT_IS, FiguresAtLoad, Loads};
use super::narrowing::narrow;
use super::simulations::Simulations;
use crate::error::Error;

/// Share of requests that must keep all bounds per request for goodput to follow the load.
const FOLLOWS: f64 = 0.95;

/// How candidates do under other loads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadSensitivity {
    /// What loads are measured in.
    pub quantity: LoadQuantity,
    /// The candidates, in order.
    pub candidates: Vec<CandidateLoads>,
    /// How far down the load may go before another candidate ranks better than the first one.
    pub winner_below: WinnerEdge,
    /// How far up it may go.
    pub winner_above: WinnerEdge,
}

/// One candidate under other loads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateLoads {
    /// Its figures, by ascending factor: at all factors that were asked for, at 1, and where edges were looked for.
    pub loads: Vec<FiguresAtLoad>,
    /// Up to which load it keeps up.
    pub knee: Knee,
}

/// Up to which load a candidate keeps up.
///
/// It keeps up if it is feasible and, where the spec bounds single requests, if at least 95 % of requests keep all of
/// these bounds (their share is goodput over offered load: the same requests in the same time). The knee is before the
/// smallest factor at which it does not, narrowed down to 0.05; should it keep up again under more load, that does not
/// count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Knee {
    /// It keeps up to a factor within the range.
    Within {
        /// The largest factor at which it was seen to keep up, before the first at which it does not.
        factor: f64,
        /// The first at which it does not, at most 0.05 more.
        fails_at: f64,
    },
    /// It does not even keep up at the smallest factor.
    Below {
        /// The smallest factor.
        factor: f64,
    },
    /// It keeps up at every factor.
    Above {
        /// The largest factor.
        factor: f64,
    },
    /// The spec has no bounds, so no load is too much.
    NoBounds,
}

impl Knee {
    /// The largest factor at which the candidate was seen to keep up before it first does not; 0 if there is none.
    pub fn reach(&self) -> f64 {
        match *self {
            Self::Within { factor, .. } | Self::Above { factor } => factor,
            Self::Below { .. } => 0.0,
            Self::NoBounds => f64::INFINITY,
        }
    }
}

/// How far the load may change in one direction, from 1 on, before another candidate ranks better than the first one,
/// by the ranking of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WinnerEdge {
    /// None does.
    Stays {
        /// The last factor in this direction.
        factor: f64,
    },
    /// One does.
    Changes {
        /// The last factor at which the first candidate was seen to be best; `None` if it is not even at 1.
        best_until: Option<f64>,
        /// The first factor at which another one is, at most 0.05 away; 1 if that holds there.
        changes_at: f64,
        /// Place of the best candidate there, from 0.
        to: usize,
    },
}

impl LoadSensitivity {
    /// Simulates the candidates at these factors and where edges lie between them. `base` holds the records of the
    /// load as it is. `None` if the load cannot be scaled.
    pub(super) fn simulate(
        spec: &ReplayOptimizeSpec,
        scenario: &Scenario,
        states: &[State],
        factors: &[f64],
        base: Vec<Record>,
        simulations: &mut Simulations<'_>,
    ) -> Result<Option<Self>, Error> {
        if scaled(&spec.workload, AS_IT_IS).is_none() {
            return Ok(None);
        }
        let mut loads = Loads::new(spec, scenario, states, base, simulations);
        let factors = with_one(factors);
        let all = loads.places();
        for &factor in &factors {
            loads.records(factor, &all)?;
        }
        let knees: Vec<Knee> = all
            .iter()
            .map(|&place| loads.knee(place, &factors))
            .collect::<Result<_, Error>>()?;
        let at_one = factors.iter().position(|&factor| factor >= AS_IT_IS).unwrap_or(0);
        let downwards: Vec<f64> = factors[..=at_one].iter().rev().copied().collect();
        let winner_below = loads.winner_edge(&downwards)?;
        let winner_above = loads.winner_edge(&factors[at_one..])?;
        let candidates = knees.into_iter().enumerate().map(|(place, knee)| CandidateLoads {
            loads: loads.figures(place),
            knee,
        });
        Ok(Some(Self {
            quantity: load_of(&spec.workload).1,
            candidates: candidates.collect(),
            winner_below,
            winner_above,
        }))
    }
}

/// The factors ascending, each once, and 1.
fn with_one(factors: &[f64]) -> Vec<f64> {
    let mut factors = factors.to_vec();
    factors.push(AS_IT_IS);
    factors.sort_unstable_by(f64::total_cmp);
    factors.dedup();
    factors
}

/// Whether a candidate keeps up with the load, as [`Knee`] says.
fn keeps_up(record: &Record) -> bool {
    let share = record.metric("goodput_share");
    record.feasible && share.is_none_or(|share| share >= FOLLOWS)
}

/// Where candidates stop keeping up, and stop being the best.
impl Loads<'_, '_> {
    fn knee(&mut self, place: usize, factors: &[f64]) -> Result<Knee, Error> {
        if !self.has_bounds() {
            return Ok(Knee::NoBounds);
        }
        let mut last_holding = None;
        for &factor in factors {
            if self.keeps_up_at(factor, place)? {
                last_holding = Some(factor);
                continue;
            }
            let Some(holding) = last_holding else {
                return Ok(Knee::Below { factor });
            };
            let [factor, fails_at] = narrow(holding, factor, |factor| self.keeps_up_at(factor, place))?;
            return Ok(Knee::Within { factor, fails_at });
        }
        Ok(Knee::Above {
            factor: last_holding.unwrap_or(AS_IT_IS),
        })
    }

    fn keeps_up_at(&mut self, factor: f64, place: usize) -> Result<bool, Error> {
        Ok(self.records(factor, &[place])?.iter().all(keeps_up))
    }

    /// Goes through these factors, the first of which is 1.
    fn winner_edge(&mut self, factors: &[f64]) -> Result<WinnerEdge, Error> {
        let mut best_until = None;
        for &factor in factors {
            if self.best_at(factor)? == 0 {
                best_until = Some(factor);
                continue;
            }
            let mut changes_at = factor;
            if let Some(holding) = best_until {
                let [holding, failing] = narrow(holding, factor, |factor| Ok::<_, Error>(self.best_at(factor)? == 0))?;
                (best_until, changes_at) = (Some(holding), failing);
            }
            return Ok(WinnerEdge::Changes {
                best_until,
                changes_at,
                to: self.best_at(changes_at)?,
            });
        }
        Ok(WinnerEdge::Stays {
            factor: best_until.unwrap_or(AS_IT_IS),
        })
    }

    /// Place of the best candidate at a factor.
    fn best_at(&mut self, factor: f64) -> Result<usize, Error> {
        let all = self.places();
        let records = self.records(factor, &all)?;
        // The first one among equals.
        let best = records.iter().enumerate().min_by(|(_, a), (_, b)| best_first(a, b));
        Ok(best.map_or(0, |(place, _)| place))
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{Objective, ParallelShape, Topology};
    use dynosim_sweep::RouterState;

    use super::*;

    #[track_caller]
    fn check(feasible: bool, goodput_share: Option<f64>, expected: bool) {
        let share = goodput_share.map(|share| ("goodput_share".to_owned(), share));
        let shape = ParallelShape::tensor(1);
        let state = State::new(Topology::Aggregated { workers: 1, shape }, RouterState::round_robin());
        let record = Record {
            state,
            simulation: 0,
            metrics: share.into_iter().collect(),
            rejected_requests: Some(0),
            extrapolated_share: None,
            total_gpus_used: 1,
            gpu_hour_price: None,
            objective: Objective::Throughput,
            score: None,
            given_up: false,
            feasible,
            violation_penalty: 0.0,
            infeasible_reason: None,
        };
        assert_eq!(keeps_up(&record), expected);
    }

    #[test]
    fn goodput_follows_while_nearly_all_requests_keep_their_bounds() {
        check(true, None, true);
        check(false, None, false);
        check(true, Some(0.95), true);
        check(true, Some(0.949), false);
        check(true, Some(f64::NAN), false);
        check(false, Some(1.0), false);
    }

    #[test]
    fn the_load_as_it_is_belongs_to_all() {
        assert_eq!(with_one(&[2.0, 0.5, 2.0]), [0.5, 1.0, 2.0]);
        assert_eq!(with_one(&[]), [1.0]);
    }
}

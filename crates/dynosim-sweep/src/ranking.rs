//! Which of two records is better.

use std::cmp::Ordering;

use ordered_float::OrderedFloat;

use crate::record::Record;

/// Orders records best first. Sorting by it must be stable: records that rank equally stay in the
/// order in which they were enumerated.
///
/// Feasible records come first, by score, output throughput, mean end-to-end latency and GPUs;
/// then the others by penalty, output throughput and mean end-to-end latency. What is not a number
/// ranks last.
pub fn best_first(a: &Record, b: &Record) -> Ordering {
    key(a).cmp(&key(b))
}

/// The best of all; the earliest among equals.
pub(crate) fn best<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<&'a Record> {
    records.into_iter().min_by(|a, b| best_first(a, b))
}

type Key = (bool, OrderedFloat<f64>, OrderedFloat<f64>, OrderedFloat<f64>, u64);

/// The less, the better.
fn key(record: &Record) -> Key {
    let (leading, gpus) = if record.feasible {
        (-record.score.unwrap_or(f64::NAN), record.total_gpus_used)
    } else {
        (record.violation_penalty, 0)
    };
    let throughput = record.metric("output_throughput_tok_s").unwrap_or(f64::NAN);
    let latency = record.metric("mean_e2e_latency_ms").unwrap_or(f64::NAN);
    (
        !record.feasible,
        OrderedFloat(leading),
        OrderedFloat(-throughput),
        OrderedFloat(latency),
        gpus,
    )
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{ParallelShape, Topology};

    use super::*;
    use crate::record::tests::record_with;
    use crate::state::{RouterState, State};

    /// A record of as many one-GPU workers as its place in the list.
    fn record(workers: u32, figures: Figures) -> Record {
        let Figures {
            feasible,
            leading,
            throughput,
            latency,
            gpus,
        } = figures;
        let shape = ParallelShape::tensor(1);
        let state = State::new(Topology::Aggregated { workers, shape }, RouterState::round_robin());
        let metrics = [
            ("output_throughput_tok_s", throughput),
            ("mean_e2e_latency_ms", latency),
        ];
        Record {
            total_gpus_used: gpus,
            score: feasible.then_some(leading),
            feasible,
            violation_penalty: if feasible { 0.0 } else { leading },
            ..record_with(state, &metrics)
        }
    }

    #[derive(Clone, Copy)]
    struct Figures {
        feasible: bool,
        /// Score, or penalty.
        leading: f64,
        throughput: f64,
        latency: f64,
        gpus: u64,
    }

    const GOOD: Figures = Figures {
        feasible: true,
        leading: 10.0,
        throughput: 10.0,
        latency: 5.0,
        gpus: 8,
    };

    const BAD: Figures = Figures {
        feasible: false,
        leading: 0.5,
        ..GOOD
    };

    #[track_caller]
    fn check(figures: &[Figures], expected: &[u32]) {
        let records: Vec<Record> = (0..)
            .zip(figures)
            .map(|(place, &figures)| record(place, figures))
            .collect();
        let mut ranked: Vec<&Record> = records.iter().collect();
        ranked.sort_by(|a, b| best_first(a, b));
        let places: Vec<u32> = ranked.iter().map(|record| place(record)).collect();
        assert_eq!(places, expected);
        assert_eq!(best(&records).map(place), expected.first().copied());
    }

    fn place(record: &Record) -> u32 {
        match record.state.topology {
            Topology::Aggregated { workers, .. } => workers,
            Topology::Disaggregated { .. } => u32::MAX,
        }
    }

    #[test]
    fn feasible_records_go_by_score_throughput_latency_and_gpus() {
        check(
            &[
                GOOD,
                Figures {
                    leading: 11.0,
                    throughput: 1.0,
                    ..GOOD
                },
            ],
            &[1, 0],
        );
        check(
            &[
                GOOD,
                Figures {
                    throughput: 11.0,
                    latency: 9.0,
                    ..GOOD
                },
            ],
            &[1, 0],
        );
        check(
            &[
                GOOD,
                Figures {
                    latency: 4.0,
                    gpus: 9,
                    ..GOOD
                },
            ],
            &[1, 0],
        );
        check(&[GOOD, Figures { gpus: 7, ..GOOD }], &[1, 0]);
    }

    #[test]
    fn infeasible_records_go_by_penalty_throughput_and_latency() {
        check(&[BAD, GOOD], &[1, 0]);
        check(
            &[
                BAD,
                Figures {
                    leading: 0.4,
                    throughput: 1.0,
                    ..BAD
                },
            ],
            &[1, 0],
        );
        check(
            &[
                BAD,
                Figures {
                    throughput: 11.0,
                    latency: 9.0,
                    ..BAD
                },
            ],
            &[1, 0],
        );
        check(&[BAD, Figures { latency: 4.0, ..BAD }], &[1, 0]);
        // GPUs do not matter to those.
        check(&[BAD, Figures { gpus: 1, ..BAD }], &[0, 1]);
    }

    #[test]
    fn equals_stay_in_order() {
        check(&[BAD, GOOD, GOOD, BAD, GOOD], &[1, 2, 4, 0, 3]);
    }

    #[test]
    fn what_is_not_a_number_ranks_last() {
        let nan = f64::NAN;
        check(
            &[
                Figures { leading: nan, ..GOOD },
                GOOD,
                Figures {
                    throughput: nan,
                    ..GOOD
                },
            ],
            &[1, 2, 0],
        );
        let failed = Figures {
            leading: f64::INFINITY,
            throughput: nan,
            latency: nan,
            ..BAD
        };
        check(
            &[
                failed,
                Figures {
                    leading: f64::INFINITY,
                    ..BAD
                },
                BAD,
                failed,
            ],
            &[2, 1, 0, 3],
        );
    }
}

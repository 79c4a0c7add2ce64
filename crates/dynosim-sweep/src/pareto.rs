//! Trade-offs: states that no other state beats in every metric.

use dynosim_core::Report;
use dynosim_spec::{ReplayOptimizeSpec, nearest};

use crate::error::SweepError;
use crate::metrics::{Better, COST, GOODPUT_RPS, GOODPUT_SHARE, GPUS, THROUGHPUT_PER_GPU};
use crate::record::Record;

/// The metrics of a trade-off.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    metrics: Vec<(String, Better)>,
}

impl Front {
    /// The trade-off that a spec asks for.
    ///
    /// # Errors
    /// If it is about something that is no metric, or that the spec gives no means to know.
    pub(crate) fn new(spec: &ReplayOptimizeSpec) -> Result<Self, SweepError> {
        let mut known: Vec<String> = Report::default().metrics().into_keys().collect();
        known.extend([THROUGHPUT_PER_GPU, GPUS].map(str::to_owned));
        if spec.sla.per_request.is_some() {
            known.extend([GOODPUT_RPS, GOODPUT_SHARE].map(str::to_owned));
        }
        if spec.hardware.gpu_hour_price.is_some() {
            known.push(COST.to_owned());
        }
        known.retain(|metric| Better::of(metric).is_some());
        let metric = |name: &String| match Better::of(name) {
            Some(better) if known.contains(name) => Ok((name.clone(), better)),
            _ => Err(SweepError::NoTradeOff {
                metric: name.clone(),
                hint: hint(name, &known),
            }),
        };
        Ok(Self {
            metrics: spec.pareto.iter().map(metric).collect::<Result<_, _>>()?,
        })
    }

    /// Indices of the records that no other record beats, best in the first metric first; equal ones are all kept. Feasible
    /// records take part or, if there are none, those of deployments that serve every request.
    pub(crate) fn of(&self, records: &[Record]) -> Vec<usize> {
        let any_feasible = records.iter().any(|record| record.feasible);
        let takes_part = |record: &Record| record.feasible || (!any_feasible && record.rejected_requests == Some(0));
        let mut points: Vec<(usize, Vec<f64>)> = records
            .iter()
            .enumerate()
            .filter(|(_, record)| takes_part(record))
            .filter_map(|(index, record)| Some((index, self.losses(record)?)))
            .collect();
        // Ascending in the first metric, then the next: only earlier points can beat later ones.
        points.sort_by(|a, b| {
            let losses = a.1.iter().zip(&b.1).map(|(a, b)| a.total_cmp(b));
            losses.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        });
        let mut front: Vec<(usize, Vec<f64>)> = Vec::new();
        for (index, losses) in points {
            if !front.iter().any(|(_, other)| beats(other, &losses)) {
                front.push((index, losses));
            }
        }
        front.into_iter().map(|(index, _)| index).collect()
    }

    /// The metrics of a record, turned so that less is better.
    fn losses(&self, record: &Record) -> Option<Vec<f64>> {
        let loss = |(name, better): &(String, Better)| {
            let value = record.metric(name).filter(|value| !value.is_nan())?;
            Some(match better {
                Better::Larger => -value,
                Better::Smaller => value,
            })
        };
        self.metrics.iter().map(loss).collect()
    }
}

/// Whether `a` is nowhere worse than `b`, and somewhere better.
fn beats(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a <= b) && a != b
}

fn hint(name: &str, known: &[String]) -> String {
    match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("it can be about {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{ParallelShape, Topology};
    use proptest::prelude::*;

    use super::*;
    use crate::record::tests::record_with;
    use crate::state::{RouterState, State};

    fn front() -> Front {
        Front {
            metrics: vec![
                ("output_throughput_tok_s".to_owned(), Better::Larger),
                ("mean_ttft_ms".to_owned(), Better::Smaller),
            ],
        }
    }

    fn records(points: &[(f64, f64)]) -> Vec<Record> {
        let record = |&(throughput, ttft): &(f64, f64)| {
            let shape = ParallelShape::tensor(1);
            let state = State::new(Topology::Aggregated { workers: 1, shape }, RouterState::round_robin());
            record_with(
                state,
                &[("output_throughput_tok_s", throughput), ("mean_ttft_ms", ttft)],
            )
        };
        points.iter().map(record).collect()
    }

    #[test]
    fn beaten_points_are_left_out() {
        let records = records(&[
            (10.0, 5.0),
            (20.0, 9.0),
            (10.0, 6.0),
            (20.0, 9.0),
            (5.0, 1.0),
            (f64::NAN, 0.0),
        ]);
        assert_eq!(front().of(&records), [1, 3, 0, 4]);
    }

    #[test]
    fn feasible_records_come_first() {
        let mut records = records(&[(10.0, 5.0), (20.0, 1.0)]);
        records[1].feasible = false;
        assert_eq!(front().of(&records), [0]);
        records[0].feasible = false;
        assert_eq!(front().of(&records), [1]);
        records[1].rejected_requests = Some(1);
        assert_eq!(front().of(&records), [0]);
    }

    proptest! {
        #[test]
        fn fronts_are_what_every_pair_says(points in prop::collection::vec((0_u8..9, 0_u8..9), 0..30)) {
            let points: Vec<(f64, f64)> = points.iter().map(|&(a, b)| (f64::from(a), f64::from(b))).collect();
            let mut found = front().of(&records(&points));
            found.sort_unstable();
            let beaten = |&(a, b): &(f64, f64)| points.iter().any(|&(c, d)| c >= a && d <= b && (c, d) != (a, b));
            let expected: Vec<usize> = (0..points.len()).filter(|&index| !beaten(&points[index])).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

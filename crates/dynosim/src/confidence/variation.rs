//! What differs between the repetitions of a simulation.

use dynosim_spec::{ReplayOptimizeSpec, SyntheticLoad, SyntheticWorkload, WorkloadSpec};
use serde::Serialize;

/// One variation of a workload: other random numbers, and another point of itself at which it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Variation {
    /// Seed of router ties and router temperature.
    pub seed: u64,
    /// Seed of Poisson arrivals; `None` if arrivals are not drawn.
    pub arrival_seed: Option<u64>,
    /// Seed of lengths; `None` if lengths are not drawn.
    pub length_seed: Option<u64>,
    /// Number of the session that comes first; see [`Workload::rotated`](dynosim_spec::Workload::rotated).
    pub first_session: usize,
}

impl Variation {
    /// Variation `number` of `repeats`, from 0: every seed that counts is larger by `number`, and the first `number /
    /// repeats` of the sessions move to the end. Number 0 is the workload itself.
    pub(super) fn new(spec: &ReplayOptimizeSpec, sessions: usize, number: u32, repeats: u32) -> Self {
        let seed = |seed: u64| seed.wrapping_add(number.into());
        let synthetic = match &spec.workload {
            WorkloadSpec::Synthetic(synthetic) => Some(synthetic),
            WorkloadSpec::Trace(_) => None,
        };
        let is_poisson = |load: &SyntheticWorkload| matches!(load.load, SyntheticLoad::RequestRate(_));
        let shift = sessions as u64 * u64::from(number) / u64::from(repeats);
        Self {
            seed: seed(spec.seed),
            arrival_seed: synthetic
                .filter(|load| is_poisson(load))
                .map(|load| seed(load.arrival_seed)),
            length_seed: synthetic
                .filter(|load| load.lengths_differ())
                .map(|load| seed(load.length_seed)),
            first_session: usize::try_from(shift).unwrap_or(0),
        }
    }

    /// The spec with these seeds.
    pub(super) fn seeded(&self, spec: &ReplayOptimizeSpec) -> ReplayOptimizeSpec {
        let mut spec = ReplayOptimizeSpec {
            seed: self.seed,
            ..spec.clone()
        };
        if let WorkloadSpec::Synthetic(synthetic) = &mut spec.workload {
            synthetic.arrival_seed = self.arrival_seed.unwrap_or(synthetic.arrival_seed);
            synthetic.length_seed = self.length_seed.unwrap_or(synthetic.length_seed);
        }
        spec
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{Backend, EngineSpec, HardwareSpec};

    use super::*;

    fn spec(load: SyntheticLoad, length_range_ratio: f64) -> ReplayOptimizeSpec {
        let workload = SyntheticWorkload {
            length_range_ratio,
            length_seed: 7,
            ..SyntheticWorkload::new(100, 10, 10, load)
        };
        let mut spec = ReplayOptimizeSpec::new(
            EngineSpec::new("model", Backend::Vllm),
            HardwareSpec::new("h200_sxm").with_budget(1),
            WorkloadSpec::Synthetic(workload),
        );
        spec.seed = 3;
        spec
    }

    #[test]
    fn only_what_is_drawn_has_a_seed() {
        let poisson = spec(SyntheticLoad::RequestRate(1.0), 0.5);
        let expected = Variation {
            seed: 5,
            arrival_seed: Some(44),
            length_seed: Some(9),
            first_session: 4,
        };
        assert_eq!(Variation::new(&poisson, 10, 2, 5), expected);
        let closed = spec(SyntheticLoad::Concurrency(1), 1.0);
        let expected = Variation {
            arrival_seed: None,
            length_seed: None,
            ..expected
        };
        assert_eq!(Variation::new(&closed, 10, 2, 5), expected);
    }

    #[test]
    fn the_first_variation_is_the_spec_itself() {
        let spec = spec(SyntheticLoad::RequestRate(1.0), 0.5);
        let first = Variation::new(&spec, 10, 0, 5);
        assert_eq!((first.seeded(&spec), first.first_session), (spec, 0));
    }

    #[test]
    fn seeds_get_into_the_spec() {
        let spec = spec(SyntheticLoad::RequestRate(1.0), 0.5);
        let seeded = Variation::new(&spec, 10, 2, 5).seeded(&spec);
        let WorkloadSpec::Synthetic(workload) = &seeded.workload else {
            panic!("it stays what it was");
        };
        assert_eq!((seeded.seed, workload.arrival_seed, workload.length_seed), (5, 44, 9));
    }
}

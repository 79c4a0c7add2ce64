//! Picking a worker from the costs of all.

use dynosim_spec::{WorkerId, WorkerRole};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

/// Picks the cheapest worker or, above temperature 0, a random one that is probably cheap.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    temperature: f64,
    stream: ChaCha12Rng,
    probabilities: Vec<f64>,
}

impl Choice {
    /// A choice whose random draws come from `stream`.
    pub(crate) fn new(temperature: f64, stream: ChaCha12Rng) -> Self {
        Self {
            temperature,
            stream,
            probabilities: Vec::new(),
        }
    }

    /// The worker to take at these costs, of which there is at least one.
    ///
    /// Draws from the stream only where chance decides, so a run without ties is the same for every seed.
    pub(crate) fn choose(&mut self, costs: &[f64]) -> WorkerId {
        let (lowest, workers_at_lowest) = lowest(costs);
        if self.temperature > 0.0 {
            let highest = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if lowest < highest {
                return self.draw_by_cost(costs, lowest, highest);
            }
        }
        let passed_over = if workers_at_lowest > 1 {
            self.stream.random_range(0..workers_at_lowest)
        } else {
            0
        };
        WorkerId::new(place_of(costs, lowest, passed_over).unwrap_or(0))
    }

    /// Each worker with its softmax probability.
    fn draw_by_cost(&mut self, costs: &[f64], lowest: f64, highest: f64) -> WorkerId {
        softmax(costs, lowest, highest, self.temperature, &mut self.probabilities);
        let drawn: f64 = self.stream.random();
        let mut cumulated = 0.0;
        let worker = self.probabilities.iter().position(|probability| {
            cumulated += probability;
            cumulated >= drawn
        });
        // Rounding may leave the sum of all just below the number drawn.
        let worker = worker.unwrap_or(costs.len() - 1);
        WorkerId::new(u32::try_from(worker).expect("workers are indexed by u32"))
    }
}

/// The random stream of the router of a pool, independent of that of any other role.
pub(crate) fn stream(seed: u64, role: WorkerRole) -> ChaCha12Rng {
    let mut stream = ChaCha12Rng::seed_from_u64(seed);
    // Stream 0 is left to the workload generator, whose seed may be the same number.
    stream.set_stream(match role {
        WorkerRole::Aggregated => 1,
        WorkerRole::Prefill => 2,
        WorkerRole::Decode => 3,
    });
    stream
}

/// The lowest cost and how many workers have exactly that; nobody if no cost is a number.
fn lowest(costs: &[f64]) -> (f64, usize) {
    // Several minima side by side, so that a processor can compare several costs at once.
    const SIDES: usize = 8;
    let mut lowest = [f64::INFINITY; SIDES];
    let (chunks, rest) = costs.as_chunks::<SIDES>();
    for chunk in chunks {
        for (lowest, &cost) in lowest.iter_mut().zip(chunk) {
            *lowest = if cost < *lowest { cost } else { *lowest };
        }
    }
    let lowest = lowest.iter().chain(rest).copied().fold(f64::INFINITY, f64::min);
    (lowest, workers_at(costs, lowest))
}

/// Index of the first cost that is `lowest`, after `passed_over` others.
fn place_of(costs: &[f64], lowest: f64, mut passed_over: usize) -> Option<u32> {
    const CHUNK: usize = 32;
    for (first, chunk) in (0..).step_by(CHUNK).zip(costs.chunks(CHUNK)) {
        let found = workers_at(chunk, lowest);
        if passed_over < found {
            let mut cheapest = (first..).zip(chunk).filter(|&(_, &cost)| cost <= lowest);
            return cheapest.nth(passed_over).map(|(worker, _)| worker);
        }
        passed_over -= found;
    }
    None
}

/// How many costs are `lowest`, of which none is below that.
fn workers_at(costs: &[f64], lowest: f64) -> usize {
    costs.iter().filter(|&&cost| cost <= lowest).count()
}

/// Writes probabilities that fall exponentially with the position of a cost between the `lowest` and the `highest`.
///
/// Only relative positions count: stretching or shifting all costs changes nothing.
fn softmax(costs: &[f64], lowest: f64, highest: f64, temperature: f64, probabilities: &mut Vec<f64>) {
    let range = (highest - lowest) * temperature;
    probabilities.clear();
    probabilities.extend(costs.iter().map(|cost| (-(cost - lowest) / range).exp()));
    let total: f64 = probabilities.iter().sum();
    for probability in probabilities {
        *probability /= total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(temperature: f64, seed: u64) -> Choice {
        Choice::new(temperature, stream(seed, WorkerRole::Aggregated))
    }

    /// How often each of `costs.len()` workers is chosen in `draws` draws.
    fn frequencies(choice: &mut Choice, costs: &[f64], draws: u32) -> Vec<f64> {
        let mut chosen = vec![0.0; costs.len()];
        for _ in 0..draws {
            chosen[choice.choose(costs).index()] += 1.0 / f64::from(draws);
        }
        chosen
    }

    #[track_caller]
    fn assert_close(actual: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(actual.len(), expected.len());
        for (actual, expected) in actual.iter().zip(expected) {
            assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
        }
    }

    #[test]
    fn softmax_depends_on_relative_position() {
        #[track_caller]
        fn check(costs: &[f64], temperature: f64, expected: &[f64]) {
            let lowest = costs.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut probabilities = Vec::new();
            softmax(costs, lowest, highest, temperature, &mut probabilities);
            assert_close(&probabilities, expected, 1e-6);
        }
        check(&[0.0, 3.0, 9.0], 1.0, &[0.479_752, 0.343_757, 0.176_491]);
        check(&[8.0, 8.0, 16.0], 0.5, &[0.468_311, 0.468_311, 0.063_379]);
        check(&[10.0, 12.0], 0.1, &[0.999_955, 0.000_045]);
        check(
            &[4.0, 4.0, 8.0, 12.0],
            1.0,
            &[0.336_201, 0.336_201, 0.203_916, 0.123_681],
        );
    }

    #[test]
    fn draws_follow_their_probabilities() {
        #[track_caller]
        fn check(costs: &[f64], temperature: f64, expected: &[f64]) {
            let chosen = frequencies(&mut choice(temperature, 7), costs, 40_000);
            assert_close(&chosen, expected, 0.01);
        }
        check(&[0.0, 3.0, 9.0], 1.0, &[0.479_752, 0.343_757, 0.176_491]);
        check(&[5.0, 5.0], 0.3, &[0.5, 0.5]);
        check(&[5.0, 5.0, 6.0], 0.0, &[0.5, 0.5, 0.0]);
        check(&[9.0, 2.0, 2.0, 2.0], 0.0, &[0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
    }

    #[test]
    fn the_first_tie_is_fair_over_seeds() {
        let mut chosen = [0.0; 4];
        for seed in 0..4000 {
            chosen[choice(0.0, seed).choose(&[8.0; 4]).index()] += 1.0 / 4000.0;
        }
        assert_close(&chosen, &[0.25; 4], 0.03);
    }

    #[test]
    fn chance_is_asked_only_where_it_decides() {
        let mut choice = choice(0.0, 1);
        let untouched = choice.stream.clone();
        assert_eq!(choice.choose(&[3.0, 2.0, 4.0]), WorkerId::new(1));
        assert_eq!(choice.choose(&[3.0]), WorkerId::new(0));
        assert_eq!(choice.stream, untouched);
    }

    #[test]
    fn pools_draw_from_streams_of_their_own() {
        let draws = |role| {
            let mut choice = Choice::new(0.0, stream(3, role));
            (0..64).map(|_| choice.choose(&[1.0; 8])).collect::<Vec<_>>()
        };
        assert_ne!(draws(WorkerRole::Prefill), draws(WorkerRole::Decode));
        assert_ne!(draws(WorkerRole::Prefill), draws(WorkerRole::Aggregated));
        assert_eq!(draws(WorkerRole::Prefill), draws(WorkerRole::Prefill));
    }

    #[test]
    fn costs_that_are_no_numbers_still_choose_somebody() {
        for costs in [[f64::NAN; 2], [f64::NAN, 1.0], [f64::INFINITY, 1.0], [f64::INFINITY; 2]] {
            for temperature in [0.0, 1.0, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN] {
                assert!(choice(temperature, 5).choose(&costs).index() < 2);
            }
        }
    }
}

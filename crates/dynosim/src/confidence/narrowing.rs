//! Where something stops holding, by halving.

/// Load factors are told apart on a grid with this many lines to 1: to 0.05.
const GRID: f64 = 20.0;

/// Moves the two factors, at the first of which something holds and at the second of which it does not, towards each
/// other until they are at most 0.05 apart. `holds` is asked about multiples of 0.05 between them; the first factor may
/// be the larger one.
///
/// # Errors
/// What `holds` fails with.
pub(super) fn narrow<E>(
    holding: f64,
    failing: f64,
    mut holds: impl FnMut(f64) -> Result<bool, E>,
) -> Result<[f64; 2], E> {
    let [mut holding, mut failing] = [holding, failing];
    while let Some(middle) = between(holding, failing) {
        if holds(middle)? {
            holding = middle;
        } else {
            failing = middle;
        }
    }
    Ok([holding, failing])
}

/// The line of the grid next to the middle of two factors that are more than a cell apart: it lies between them.
fn between(a: f64, b: f64) -> Option<f64> {
    // Multiples of 0.05 differ by it but for their last bits.
    let apart = (a - b).abs() * GRID > 1.0 + 1e-9;
    apart.then(|| (0.5 * (a + b) * GRID).round() / GRID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(holding: f64, failing: f64, holds: impl Fn(f64) -> bool, expected: [f64; 2], most_asked: usize) {
        let mut asked = 0;
        let found = narrow(holding, failing, |factor| {
            asked += 1;
            Ok::<bool, ()>(holds(factor))
        });
        assert_eq!(found, Ok(expected));
        assert!(asked <= most_asked, "asked {asked} times");
    }

    #[test]
    fn edges_are_found_to_a_twentieth() {
        check(0.75, 1.0, |factor| factor < 0.87, [0.85, 0.9], 3);
        check(1.0, 2.0, |factor| factor <= 1.0, [1.0, 1.05], 5);
        check(1.0, 2.0, |_| true, [1.95, 2.0], 5);
        check(0.77, 1.0, |factor| factor < 0.8, [0.77, 0.8], 3);
    }

    #[test]
    fn edges_below_are_found_downwards() {
        check(1.0, 0.5, |factor| factor > 0.62, [0.65, 0.6], 4);
    }

    #[test]
    fn neighbours_are_left_alone() {
        check(1.0, 1.05, |_| panic!("nothing is between"), [1.0, 1.05], 0);
    }
}

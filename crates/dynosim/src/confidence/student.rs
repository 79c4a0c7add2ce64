//! Quantiles of Student's t distribution.

/// 95 % quantiles for 1 to 30 degrees of freedom.
const QUANTILES: [f64; 30] = [
    6.313_752, 2.919_986, 2.353_363, 2.131_847, 2.015_048, 1.943_180, 1.894_579, 1.859_548, 1.833_113, 1.812_461,
    1.795_885, 1.782_288, 1.770_933, 1.761_310, 1.753_050, 1.745_884, 1.739_607, 1.734_064, 1.729_133, 1.724_718,
    1.720_743, 1.717_144, 1.713_872, 1.710_882, 1.708_141, 1.705_618, 1.703_288, 1.701_131, 1.699_127, 1.697_261,
];

/// 95 % quantile of the normal distribution.
const NORMAL: f64 = 1.644_853_627;

/// The value that Student's t with this many degrees of freedom, at least 1, exceeds with a probability of 5 %. Between
/// its negative and itself lie 90 %.
///
/// Beyond 30 degrees by the expansion of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5, to three
/// terms, which is right to 1e-6 there.
pub(super) fn t_95(degrees: usize) -> f64 {
    if let Some(quantile) = QUANTILES.get(degrees.saturating_sub(1)) {
        return *quantile;
    }
    let (x, nu) = (NORMAL, degrees as f64);
    let first = (x.powi(3) + x) / 4.0;
    let second = (5.0 * x.powi(5) + 16.0 * x.powi(3) + 3.0 * x) / 96.0;
    let third = (3.0 * x.powi(7) + 19.0 * x.powi(5) + 17.0 * x.powi(3) - 15.0 * x) / 384.0;
    x + first / nu + second / nu.powi(2) + third / nu.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probability between -t and t: the density, summed up by Simpson's rule.
    fn mass_within(t: f64, degrees: u32) -> f64 {
        const PANELS: u32 = 2000;
        // Of the gamma functions of (nu + 1) / 2 and nu / 2, from one degree to the next.
        let mut ratio = 1.0 / std::f64::consts::PI.sqrt();
        for nu in 1..degrees {
            ratio = f64::from(nu) / 2.0 / ratio;
        }
        let nu = f64::from(degrees);
        let scale = ratio / (nu * std::f64::consts::PI).sqrt();
        let density = |x: f64| scale * (1.0 + x * x / nu).powf(-0.5 * (nu + 1.0));
        let width = t / f64::from(PANELS);
        let weighted = (0..=PANELS).map(|panel| {
            let weight = match panel {
                0 | PANELS => 1.0,
                odd if odd % 2 == 1 => 4.0,
                _ => 2.0,
            };
            weight * density(f64::from(panel) * width)
        });
        2.0 * weighted.sum::<f64>() * width / 3.0
    }

    #[test]
    fn nine_in_ten_lie_within() {
        for degrees in (1..=40).chain([60, 99, 500]) {
            let mass = mass_within(t_95(degrees as usize), degrees);
            assert!((mass - 0.9).abs() < 1e-6, "{degrees}: {mass}");
        }
    }

    #[test]
    fn quantiles_fall_towards_the_normal_distribution() {
        assert!((1..200).all(|degrees| t_95(degrees) > t_95(degrees + 1)));
        assert!(t_95(1_000_000) - NORMAL < 1e-5);
    }
}

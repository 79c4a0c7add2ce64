//! Points simulated: every one with several draws of lengths.

use dynosim_spec::{Calibration, LoadPoint, MeasuredSetup, SyntheticWorkload};
use dynosim_timing::TimingProvider;
use rayon::prelude::*;
use serde::Serialize;

use super::latencies::PerLatency;
use crate::error::Error;
use crate::run::Run;

/// How points are simulated.
#[derive(Clone, Copy)]
pub(crate) struct Simulator<'a> {
    /// What the points have in common.
    pub(crate) setup: &'a MeasuredSetup,
    /// Draws of lengths, at least 1.
    pub(crate) seeds: u32,
    /// Prices steps; one for all points, because tables are read once by each.
    pub(crate) timing: &'a dyn TimingProvider,
    /// What is added to kernels instead of what the setup names.
    pub(crate) calibration: Option<&'a Calibration>,
}

/// A load as simulated: means over draws of lengths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimulatedPoint {
    /// Means over requests; TPOT is absent if no request has two tokens.
    pub mean_ms: PerLatency<Option<SimulatedMean>>,
    /// Output tokens per second and GPU that follow from the latencies; absent where one of them is. It is
    /// concurrency x n / (TTFT + TPOT x (n - 1)) / GPUs, n being the middle of the range of output lengths.
    pub output_tok_s_per_gpu: Option<f64>,
    /// Largest share of step time, of all draws, that rests on extrapolation.
    pub extrapolated_share: f64,
    /// Most requests, of all draws, that can never run.
    pub rejected_requests: usize,
    /// Every draw by itself.
    pub seeds: Vec<SeedMeans>,
    /// What the simulations warn of, each once.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// A mean over requests, over all draws of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SimulatedMean {
    /// Mean over draws in milliseconds.
    pub ms: f64,
    /// Standard deviation over draws (dividing by their number less 1) as a share of the mean; absent for one draw.
    pub spread: Option<f64>,
}

/// What came of one draw of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SeedMeans {
    /// The seed of the draw.
    pub seed: u64,
    /// Means over requests in milliseconds.
    pub mean_ms: PerLatency<Option<f64>>,
}

/// Simulates every load with all draws, in parallel; the results come in order and do not depend on threads.
pub(crate) fn simulate(simulator: Simulator<'_>, loads: &[LoadPoint]) -> Vec<Result<SimulatedPoint, Error>> {
    let seeds = draws(simulator.setup, simulator.seeds);
    let jobs: Vec<(&LoadPoint, u64)> = loads
        .iter()
        .flat_map(|load| (0..seeds).map(move |seed| (load, u64::from(seed))))
        .collect();
    let drawn: Vec<Result<Drawn, Error>> = jobs
        .into_par_iter()
        .map(|(load, seed)| simulator.draw(load, seed))
        .collect();
    let mut drawn = drawn.into_iter();
    loads
        .iter()
        .map(|load| {
            let of_load: Vec<Result<Drawn, Error>> = drawn.by_ref().take(seeds as usize).collect();
            let of_load = of_load.into_iter().collect::<Result<Vec<Drawn>, Error>>()?;
            Ok(point(simulator.setup, load, &of_load))
        })
        .collect()
}

/// Draws that are worth simulating: one if there is nothing to draw.
pub(crate) fn draws(setup: &MeasuredSetup, seeds: u32) -> u32 {
    if setup.workload.length_range_ratio < 1.0 {
        seeds.max(1)
    } else {
        1
    }
}

/// Output tokens per second and GPU that follow from mean latencies in a closed loop.
///
/// concurrency x n / (TTFT + TPOT x (n - 1)) / GPUs, n being the mean number of output tokens, that is the middle of
/// their range. Measured and simulated figures are compared by this one formula, which knows no start and no end of a run.
pub(crate) fn output_tok_s_per_gpu(
    setup: &MeasuredSetup,
    load: &LoadPoint,
    mean_ms: &PerLatency<Option<f64>>,
) -> Option<f64> {
    let workload: SyntheticWorkload = setup.requests(load, 0);
    let tokens = f64::midpoint(f64::from(workload.least_tokens(load.osl)), f64::from(load.osl));
    let tpot_ms = match mean_ms.tpot {
        None if load.osl == 1 => 0.0,
        tpot_ms => tpot_ms?,
    };
    let request_ms = mean_ms.ttft? + tpot_ms * (tokens - 1.0);
    Some(1000.0 * f64::from(load.concurrency) * tokens / request_ms / f64::from(load.tp))
}

/// One simulation.
struct Drawn {
    means: SeedMeans,
    extrapolated_share: f64,
    rejected_requests: usize,
    warnings: Vec<String>,
}

impl Simulator<'_> {
    fn draw(self, load: &LoadPoint, seed: u64) -> Result<Drawn, Error> {
        let spec = self.setup.run(load, seed);
        let mut run = Run::new(&spec).timing(self.timing);
        if let Some(calibration) = self.calibration {
            run = run.calibration(calibration.clone());
        }
        let report = run.simulate()?.report;
        let means = SeedMeans {
            seed,
            mean_ms: PerLatency {
                ttft: Some(report.ttft.mean),
                tpot: Some(report.tpot.mean).filter(|_| report.tpot.max > 0.0),
            },
        };
        Ok(Drawn {
            means,
            extrapolated_share: report.extrapolated_share,
            rejected_requests: report.rejections.len(),
            warnings: report.warnings,
        })
    }
}

fn point(setup: &MeasuredSetup, load: &LoadPoint, draws: &[Drawn]) -> SimulatedPoint {
    let seeds: Vec<SeedMeans> = draws.iter().map(|drawn| drawn.means).collect();
    let mean_ms = PerLatency::of(|kind| {
        let values: Option<Vec<f64>> = seeds.iter().map(|means| *means.mean_ms.get(kind)).collect();
        values.map(|values| SimulatedMean::of(&values))
    });
    let plain_ms = PerLatency::of(|kind| mean_ms.get(kind).as_ref().map(|mean| mean.ms));
    let mut warnings: Vec<String> = Vec::new();
    for warning in draws.iter().flat_map(|drawn| &drawn.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    SimulatedPoint {
        mean_ms,
        output_tok_s_per_gpu: output_tok_s_per_gpu(setup, load, &plain_ms),
        extrapolated_share: draws.iter().map(|drawn| drawn.extrapolated_share).fold(0.0, f64::max),
        rejected_requests: draws.iter().map(|drawn| drawn.rejected_requests).max().unwrap_or(0),
        seeds,
        warnings,
    }
}

impl SimulatedMean {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let ms = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - ms) * (value - ms)).sum();
        Self {
            ms,
            spread: (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt() / ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{Backend, EngineSpec, HardwareSpec};

    use super::*;

    #[test]
    fn a_spread_is_a_share_of_the_mean() {
        let mean = SimulatedMean::of(&[9.0, 10.0, 11.0]);
        assert_eq!((mean.ms, mean.spread), (10.0, Some(0.1)));
        assert_eq!(SimulatedMean::of(&[9.0]).spread, None);
    }

    #[test]
    fn throughput_follows_from_latencies() {
        let mut setup = MeasuredSetup::new(EngineSpec::new("m", Backend::Vllm), HardwareSpec::new("h200_sxm"));
        let ms = |ttft, tpot| PerLatency { ttft, tpot };
        let load = LoadPoint::new(2, 100, 11, 4);
        // 4 requests of 11 tokens in 100 + 10 x 10 ms on 2 GPUs.
        let figure = output_tok_s_per_gpu(&setup, &load, &ms(Some(100.0), Some(10.0)));
        assert_eq!(figure, Some(110.0));
        // 8 tokens on average.
        setup.workload.length_range_ratio = 0.5;
        let figure = output_tok_s_per_gpu(&setup, &load, &ms(Some(100.0), Some(10.0)));
        assert_eq!(figure, Some(1000.0 * 4.0 * 8.0 / 170.0 / 2.0));
        assert_eq!(output_tok_s_per_gpu(&setup, &load, &ms(None, Some(10.0))), None);
        let single = LoadPoint::new(1, 100, 1, 4);
        assert_eq!(
            output_tok_s_per_gpu(&setup, &single, &ms(Some(100.0), None)),
            Some(40.0)
        );
    }
}

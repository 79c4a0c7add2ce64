//! Matrix multiplications from measured tables.

use dynosim_spec::GpuSpec;

use crate::curve::{Above, Curve};
use crate::grid::{Grid, Growth, Targets};
use crate::plane::Plane;
use crate::reading::Place;
use crate::table_file::GemmSlice;
use crate::work::{Rates, Work};

/// Token counts that every densified table has.
const TOKENS: [u64; 32] = [
    1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 2048, 4096,
    8192, 16384, 32768, 131_072, 524_288, 1_048_576, 16_777_216,
];

/// Feature counts that every densified table has, output and input alike.
const FEATURES: [u64; 31] = [
    32, 64, 128, 256, 512, 768, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336,
    16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536, 131_072, 262_144,
];

/// Densified latencies over (tokens, output features, input features) of one number format.
#[derive(Debug)]
pub(crate) struct GemmGrid {
    grid: Grid,
}

impl GemmGrid {
    /// No latency is below the GPU's roofline.
    pub(crate) fn densified(slice: &GemmSlice, gpu: &GpuSpec) -> Self {
        let rates = Rates::gemm(gpu, slice.dtype);
        let targets = Targets {
            keys: [&TOKENS, &FEATURES, &FEATURES],
            second_axis: Growth::Linear,
        };
        let grid = Grid::densified([&slice.m, &slice.n, &slice.k], &slice.ms, targets, |[m, n, k]| {
            Work::gemm(slice.dtype, m as f64, n as f64, k as f64).ms(rates)
        });
        Self { grid }
    }

    /// Latency over tokens for a weight of `n` output and `k` input features; `None` if it is larger or
    /// smaller than anything in the table.
    ///
    /// A weight on the grid is a column of it, whose ends go on in straight lines. For any other, the
    /// latency at each token count lies on the plane of that count, and above the largest count it
    /// grows in proportion.
    pub(crate) fn column(&self, n: u64, k: u64) -> Option<Curve> {
        self.column_on_grid(n, k).or_else(|| self.column_between(n, k))
    }

    /// Smallest and largest feature count of the grid.
    pub(crate) fn features(&self) -> (u64, u64) {
        let of = |axis| self.grid.axis(axis).iter().copied();
        let (least, most) = (of(1).min().max(of(2).min()), of(1).max().min(of(2).max()));
        (least.unwrap_or_default(), most.unwrap_or_default())
    }

    fn column_on_grid(&self, n: u64, k: u64) -> Option<Curve> {
        let (Place::At(y), Place::At(z)) = (Place::of(&n, self.grid.axis(1)), Place::of(&k, self.grid.axis(2))) else {
            return None;
        };
        let tokens = self.grid.axis(0).iter().enumerate();
        let points: Vec<_> = tokens
            .filter_map(|(x, &m)| Some(m).zip(self.grid.leaf(x, y, z)))
            .collect();
        if points.len() < 2 {
            return None;
        }
        Curve::new(points, Above::Line)
    }

    fn column_between(&self, n: u64, k: u64) -> Option<Curve> {
        let points = self.grid.axis(0).iter().enumerate().filter_map(|(x, &m)| {
            let plane = Plane::of(&self.grid, x).filter(|plane| plane.contains(n, k))?;
            Some((m, plane.cubic(n, k)))
        });
        Curve::new(points, Above::Proportional)
    }
}

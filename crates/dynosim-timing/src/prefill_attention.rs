//! Attention of prompts from measured tables.

use crate::grid::{Grid, Growth, Targets};
use crate::head_planes::{HeadPlanes, MAX_TOKENS, Reach, head_counts_around};
use crate::operators::PromptBatch;
use crate::reading::Reading;
use crate::repair::Standing;
use crate::surface::Surface;
use crate::table_file::PrefillAttentionSlice;

/// Batch sizes that every table has; 512 is filled in before 384, which is then read between 256 and 512.
const BATCHES: [u64; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 384, 1024, 2048];

/// Prompt lengths that every table has.
fn lengths() -> Vec<u64> {
    let sparse = [1, 16, 32, 64, 128, 256, 512, 1024, 2048];
    (sparse.into_iter())
        .chain((4096..32_768).step_by(2048))
        .chain((32_768..131_072).step_by(16_384))
        .chain((131_072..524_288).step_by(32_768))
        .chain((524_288..=1_048_576).step_by(65_536))
        .collect()
}

/// Prefill attention of one deployment, one call (one layer).
#[derive(Debug)]
pub(crate) struct PrefillAttention {
    /// Over prompt length and sequences.
    planes: HeadPlanes<Surface>,
    lengths: Reach,
    batches: Reach,
    standing: Standing,
}

impl PrefillAttention {
    /// `None` if there are more or fewer query heads than anywhere in the table.
    ///
    /// Along the length, the square root of latency runs straight, also beyond the measured lengths.
    pub(crate) fn of(slice: &PrefillAttentionSlice, heads: u64, standing: Standing) -> Option<Self> {
        let targets = Targets {
            keys: [&head_counts_around(heads, &slice.n), &lengths(), &BATCHES],
            second_axis: Growth::Quadratic,
        };
        let no_floor = |_| f64::NEG_INFINITY;
        let grid = Grid::densified([&slice.n, &slice.s, &slice.b], &slice.ms, targets, no_floor);
        let planes = HeadPlanes::of(&grid, heads)?;
        Some(Self {
            lengths: planes.rows(),
            batches: planes.columns(),
            planes: planes.map(Surface::new),
            standing,
        })
    }

    /// Largest full prompt length and batch in the densified table.
    pub(crate) const fn limits(&self) -> (u64, u64) {
        (self.lengths.last, self.batches.last)
    }

    /// The cost of the whole prompt times the share of its causal area that is new.
    ///
    /// Beyond the densified lengths and batches it grows with their square and in proportion.
    pub(crate) fn at(&self, prompts: PromptBatch) -> Reading {
        let full = prompts.full_tokens().min(MAX_TOKENS);
        if full == 0 || prompts.batch == 0 {
            return Reading::ZERO;
        }
        let prefix = prompts.prefix.min(full) as f64;
        let (length, batch) = (self.lengths.bring_in(full), self.batches.bring_in(prompts.batch));
        let whole = (self.planes)
            .read(|surface| surface.cubic(length.value, batch.value))
            .scaled(length.stretch * length.stretch * batch.stretch)
            .or_extrapolated(length.moved || batch.moved || self.standing == Standing::Extrapolated);
        let area = full as f64 * full as f64;
        Reading {
            ms: whole.ms * (area - prefix * prefix) / area,
            ..whole
        }
    }
}

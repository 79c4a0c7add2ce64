//! Attention of generated tokens from measured tables.

use dynosim_spec::GpuSpec;

use crate::grid::{Grid, Growth, Targets};
use crate::head_planes::{HeadPlanes, MAX_TOKENS, Reach, head_counts_around};
use crate::plane::Plane;
use crate::reading::Reading;
use crate::table_file::DecodeAttentionSlice;
use crate::work::{Heads, Rates};

/// Batch sizes that every table has.
const BATCHES: [u64; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 1024, 2048, 8192];

/// Relative distances from the asked KV length at which attention is sampled.
const WINDOW: (f64, f64) = (0.9, 1.1);
const SAMPLES: u64 = 5;

/// KV lengths that every table has.
fn lengths() -> Vec<u64> {
    (0..=18).map(|power| 1 << power).chain([16_777_216]).collect()
}

/// Decode attention of one deployment, one call (one layer).
#[derive(Debug)]
pub(crate) struct DecodeAttention {
    /// Over sequences and KV length.
    planes: HeadPlanes<Plane>,
    batches: Reach,
    lengths: Reach,
}

impl DecodeAttention {
    /// `None` if there are more or fewer query heads than anywhere in the table. No latency is below the
    /// GPU's roofline.
    pub(crate) fn of(slice: &DecodeAttentionSlice, heads: u64, gpu: &GpuSpec) -> Option<Self> {
        let targets = Targets {
            keys: [&head_counts_around(heads, &slice.n), &BATCHES, &lengths()],
            second_axis: Growth::Linear,
        };
        let rates = Rates::attention(gpu, slice.kv_dtype);
        let grid = Grid::densified([&slice.n, &slice.b, &slice.s], &slice.ms, targets, |[n, b, s]| {
            let kv = if slice.kv_heads == 0 { n } else { slice.kv_heads };
            let heads = Heads {
                query: n as f64,
                kv: kv as f64,
                dim: slice.head_dim as f64,
            };
            heads.decode_work(slice.kv_dtype, b as f64, s as f64).ms(rates)
        });
        let planes = HeadPlanes::of(&grid, heads)?;
        Some(Self {
            batches: planes.rows(),
            lengths: planes.columns(),
            planes,
        })
    }

    /// Largest KV length and batch in the densified table.
    pub(crate) const fn limits(&self) -> (u64, u64) {
        (self.lengths.last, self.batches.last)
    }

    /// The longest KV length that is read for `kv_tokens`.
    pub(crate) fn longest_sample(kv_tokens: u64) -> u64 {
        kv_window(kv_tokens).1
    }

    /// Mean over five KV lengths around the asked one, because sequences of a batch differ.
    ///
    /// Beyond the densified lengths and batches it grows in proportion.
    pub(crate) fn at(&self, batch: u64, kv_tokens: u64) -> Reading {
        if batch == 0 {
            return Reading::ZERO;
        }
        let (shortest, longest) = kv_window(kv_tokens.min(MAX_TOKENS));
        let batch = self.batches.bring_in(batch);
        let mut sum = Reading::ZERO.or_extrapolated(batch.moved);
        for sample in 0..SAMPLES {
            let length = shortest + (longest - shortest) * sample / (SAMPLES - 1);
            let length = self.lengths.bring_in(length);
            let reading = self.planes.read(|plane| plane.bilinear(batch.value, length.value));
            sum.ms += reading.ms * (length.stretch * batch.stretch);
            sum = sum.or_extrapolated(reading.extrapolated || length.moved);
        }
        sum.ms /= SAMPLES as f64;
        sum
    }
}

/// Shortest and longest KV length that stand for `kv_tokens`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the fraction is dropped on purpose; the values are not negative"
)]
fn kv_window(kv_tokens: u64) -> (u64, u64) {
    let shortest = ((kv_tokens as f64 * WINDOW.0) as u64).max(1);
    let longest = ((kv_tokens as f64 * WINDOW.1) as u64).max(shortest);
    (shortest, longest)
}

//! Attention from measured tables.

use dynosim_spec::GpuSpec;

use crate::grid::{Grid, Growth, Targets};
use crate::operators::PromptBatch;
use crate::plane::Plane;
use crate::reading::{Place, Reading, line_between};
use crate::table_file::{DecodeAttentionSlice, PrefillAttentionSlice};
use crate::work::{Heads, Rates};

/// Query heads that every densified table has, from the smallest measured count on.
const HEADS: [u64; 24] = [
    1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 40, 48, 56, 72, 96, 128,
];

/// Largest number of query heads in a densified table.
pub(crate) const MAX_HEADS: u64 = HEADS[HEADS.len() - 1];

/// Batch sizes of prefill; 512 is filled in before 384, which is then read between 256 and 512.
const PREFILL_BATCHES: [u64; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 384, 1024, 2048];

const DECODE_BATCHES: [u64; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 1024, 2048, 8192];

/// Longest sequences that are told apart: 2^60 tokens stand for any more.
const MAX_TOKENS: u64 = 1 << 60;

/// Relative distances from the asked KV length at which decode attention is sampled.
const DECODE_WINDOW: (f64, f64) = (0.9, 1.1);
const DECODE_SAMPLES: u64 = 5;

fn prefill_lengths() -> Vec<u64> {
    let sparse = [1, 16, 32, 64, 128, 256, 512, 1024, 2048];
    (sparse.into_iter())
        .chain((4096..32_768).step_by(2048))
        .chain((32_768..131_072).step_by(16_384))
        .chain((131_072..524_288).step_by(32_768))
        .chain((524_288..=1_048_576).step_by(65_536))
        .collect()
}

fn decode_lengths() -> Vec<u64> {
    (0..=18).map(|power| 1 << power).chain([16_777_216]).collect()
}

fn heads_from(smallest: u64) -> Vec<u64> {
    HEADS.into_iter().filter(|&heads| heads >= smallest).collect()
}

/// Densified prefill attention: (query heads, prompt length, sequences).
///
/// Along the length, the square root of latency runs straight, also beyond the measured lengths.
pub(crate) fn densify_prefill(slice: &PrefillAttentionSlice) -> Grid {
    let heads = heads_from(slice.n.first().copied().unwrap_or_default());
    let targets = Targets {
        keys: [&heads, &prefill_lengths(), &PREFILL_BATCHES],
        second_axis: Growth::Quadratic,
    };
    let no_floor = |_| f64::NEG_INFINITY;
    Grid::densified([&slice.n, &slice.s, &slice.b], &slice.ms, targets, no_floor)
}

/// Densified decode attention: (query heads, sequences, KV length). No latency is below the GPU's
/// roofline.
pub(crate) fn densify_decode(slice: &DecodeAttentionSlice, gpu: &GpuSpec) -> Grid {
    let heads = heads_from(slice.n.first().copied().unwrap_or_default());
    let targets = Targets {
        keys: [&heads, &DECODE_BATCHES, &decode_lengths()],
        second_axis: Growth::Linear,
    };
    let rates = Rates::attention(gpu, slice.kv_dtype);
    Grid::densified([&slice.n, &slice.b, &slice.s], &slice.ms, targets, |[n, b, s]| {
        let kv = if slice.kv_heads == 0 { n } else { slice.kv_heads };
        let heads = Heads {
            query: n as f64,
            kv: kv as f64,
            dim: slice.head_dim as f64,
        };
        heads.decode_work(slice.kv_dtype, b as f64, s as f64).ms(rates)
    })
}

/// The part of a densified table that belongs to one number of query heads.
#[derive(Debug, Clone, PartialEq)]
struct HeadPlanes {
    heads: u64,
    keys: (u64, u64),
    lower: Plane,
    /// Absent if the number of heads is on the grid.
    upper: Option<Plane>,
}

impl HeadPlanes {
    /// `None` if there are more or fewer heads than anywhere in the table.
    fn of(grid: &Grid, heads: u64) -> Option<Self> {
        let place = Place::of(&heads, grid.axis(0));
        if place.is_beyond() {
            return None;
        }
        let (lower, upper) = place.ends();
        Some(Self {
            heads,
            keys: (grid.axis(0)[lower], grid.axis(0)[upper]),
            lower: Plane::of(grid, lower)?,
            upper: if lower == upper {
                None
            } else {
                Some(Plane::of(grid, upper)?)
            },
        })
    }

    fn read(&self, at: impl Fn(&Plane) -> Reading) -> Reading {
        let lower = at(&self.lower);
        match &self.upper {
            None => lower,
            Some(upper) => line_between(self.keys, (lower, at(upper)), self.heads),
        }
    }

    fn rows(&self) -> Reach {
        self.reach(Plane::rows)
    }

    fn columns(&self) -> Reach {
        self.reach(Plane::columns)
    }

    fn reach(&self, keys: impl Fn(&Plane) -> &[u64]) -> Reach {
        let of = |plane| match keys(plane) {
            [only] => (*only, *only),
            [first, .., last] => (*first, *last),
            [] => (0, 0),
        };
        let (lower, upper) = (of(&self.lower), of(self.upper.as_ref().unwrap_or(&self.lower)));
        Reach {
            first: lower.0.max(upper.0),
            last: lower.1.min(upper.1),
        }
    }
}

/// The keys of one axis that can be read without leaving it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reach {
    first: u64,
    last: u64,
}

/// A value brought into [`Reach`].
#[derive(Debug, Clone, Copy, PartialEq)]
struct Within {
    value: u64,
    /// How many times larger the value was; 1 below the reach, where the first key stands for all.
    stretch: f64,
    moved: bool,
}

impl Reach {
    fn bring_in(self, value: u64) -> Within {
        let inside = value.min(self.last).max(self.first);
        let stretch = if value > inside {
            value as f64 / inside as f64
        } else {
            1.0
        };
        Within {
            value: inside,
            stretch,
            moved: value != inside,
        }
    }
}

/// Prefill attention of one deployment, one call (one layer).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PrefillAttention {
    planes: HeadPlanes,
    lengths: Reach,
    batches: Reach,
}

impl PrefillAttention {
    pub(crate) fn of(grid: &Grid, heads: u64) -> Option<Self> {
        let planes = HeadPlanes::of(grid, heads)?;
        Some(Self {
            lengths: planes.rows(),
            batches: planes.columns(),
            planes,
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
            .read(|plane| plane.cubic(length.value, batch.value))
            .scaled(length.stretch * length.stretch * batch.stretch)
            .or_extrapolated(length.moved || batch.moved);
        let area = full as f64 * full as f64;
        Reading {
            ms: whole.ms * (area - prefix * prefix) / area,
            ..whole
        }
    }
}

/// Decode attention of one deployment, one call (one layer).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecodeAttention {
    planes: HeadPlanes,
    batches: Reach,
    lengths: Reach,
}

impl DecodeAttention {
    pub(crate) fn of(grid: &Grid, heads: u64) -> Option<Self> {
        let planes = HeadPlanes::of(grid, heads)?;
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
        for sample in 0..DECODE_SAMPLES {
            let length = shortest + (longest - shortest) * sample / (DECODE_SAMPLES - 1);
            let length = self.lengths.bring_in(length);
            let reading = self.planes.read(|plane| plane.bilinear(batch.value, length.value));
            sum.ms += reading.ms * (length.stretch * batch.stretch);
            sum = sum.or_extrapolated(reading.extrapolated || length.moved);
        }
        sum.ms /= DECODE_SAMPLES as f64;
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
    let shortest = ((kv_tokens as f64 * DECODE_WINDOW.0) as u64).max(1);
    let longest = ((kv_tokens as f64 * DECODE_WINDOW.1) as u64).max(shortest);
    (shortest, longest)
}

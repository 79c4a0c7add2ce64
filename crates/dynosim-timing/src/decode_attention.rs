//! Attention of generated tokens from measured tables.

use std::ops::Range;
use std::sync::Arc;

use dynosim_spec::GpuSpec;

use crate::axis::Axis;
use crate::grid::{Grid, Growth, Targets};
use crate::head_planes::{HeadPlanes, MAX_TOKENS, Reach, head_counts_around};
use crate::operators::AttentionOverContext;
use crate::plane::Plane;
use crate::reading::Reading;
use crate::repair::Standing;
use crate::table_file::DecodeAttentionSlice;
use crate::work::{Heads, Rates};

/// Batch sizes that every table has.
const BATCHES: [u64; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 1024, 2048, 8192];

/// Between which tenths of the asked KV length attention is sampled.
const WINDOW_TENTHS: (u64, u64) = (9, 11);
const SAMPLES: usize = 5;

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
    /// KV lengths between which latency is a straight line at any batch size.
    knots: Arc<Axis>,
    standing: Standing,
}

impl DecodeAttention {
    /// `None` if there are more or fewer query heads than anywhere in the table. No latency is below the
    /// GPU's roofline.
    pub(crate) fn of(slice: &DecodeAttentionSlice, heads: u64, gpu: &GpuSpec, standing: Standing) -> Option<Self> {
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
            heads
                .decode_work(slice.kv_dtype, b as f64, tokens_in_sight(s, slice.window) as f64)
                .ms(rates)
        });
        let planes = HeadPlanes::of(&grid, heads)?;
        Some(Self {
            batches: planes.rows(),
            lengths: planes.columns(),
            knots: Arc::new(Axis::new(planes.column_keys())),
            planes,
            standing,
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

    /// Latency at one batch size. Beyond the densified batches it grows in proportion.
    pub(crate) fn at_batch(&self, batch: u64) -> AttentionRow {
        let within = self.batches.bring_in(batch);
        let knot = |&length: &u64| {
            let reading = self.planes.read(|plane| plane.bilinear(within.value, length));
            let doubtful = within.moved || self.standing == Standing::Extrapolated;
            reading.scaled(within.stretch).or_extrapolated(doubtful)
        };
        let readings: Vec<Reading> = if batch == 0 {
            vec![Reading::ZERO; self.knots.keys().len()]
        } else {
            self.knots.keys().iter().map(knot).collect()
        };
        AttentionRow::new(Arc::clone(&self.knots), &readings)
    }
}

/// KV tokens, the new one included, that a window leaves to look at; a window of 0 is none.
pub(crate) const fn tokens_in_sight(kv_tokens: u64, window: u64) -> u64 {
    if window == 0 || kv_tokens <= window {
        return kv_tokens;
    }
    window + 1
}

/// Decode attention at one batch size: straight lines between knots.
#[derive(Debug)]
pub(crate) struct AttentionRow {
    knots: Arc<Axis>,
    /// Before the first knot, after it, after the second and so on.
    lines: Box<[Line]>,
}

/// A straight line over KV length.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    /// The knot that it starts from, and the one at which the next line begins.
    start: u64,
    end: u64,
    start_ms: f64,
    ms_per_token: f64,
    /// Whether the start is extrapolated, and whether the points after it are.
    start_extrapolated: bool,
    extrapolated: bool,
}

impl AttentionRow {
    /// The row through `readings` at the `knots`. Below the first it is level, above the last it grows in
    /// proportion.
    fn new(knots: Arc<Axis>, readings: &[Reading]) -> Self {
        let points = || knots.keys().iter().copied().zip(readings.iter().copied());
        let line = |(start, reading): (u64, Reading), end, ms_per_token, extrapolated| Line {
            start,
            end,
            start_ms: reading.ms,
            ms_per_token,
            start_extrapolated: reading.extrapolated,
            extrapolated,
        };
        let below = points().take(1).map(|first| line(first, first.0, 0.0, true));
        let between = points().zip(points().skip(1)).map(|(start, (end, next))| {
            let slope = (next.ms - start.1.ms) / (end as f64 - start.0 as f64);
            line(start, end, slope, start.1.extrapolated || next.extrapolated)
        });
        let above = points()
            .next_back()
            .map(|last| line(last, u64::MAX, last.1.ms / last.0 as f64, true));
        Self {
            lines: below.chain(between).chain(above).collect(),
            knots,
        }
    }

    /// The lines from the one on that `length` lies on.
    fn lines_from(&self, length: u64) -> &[Line] {
        &self.lines[self.knots.keys_up_to(length)..]
    }
}

/// Mean over samples, the shortest of which lies on the first of `lines`.
#[inline]
fn mean(lines: &[Line], samples: Samples) -> Reading {
    let sum = match lines.first() {
        Some(line) if samples.longest() < line.end => {
            let (count, tokens) = samples.beyond(0);
            line.sum(count, tokens)
        }
        _ => sum_over_lines(lines, samples),
    };
    sum.scaled(1.0 / SAMPLES as f64)
}

/// Sum over samples that lie on several lines.
#[inline(never)]
fn sum_over_lines(lines: &[Line], samples: Samples) -> Reading {
    let mut sum = Reading::ZERO;
    let (mut left, mut tokens_left) = samples.beyond(0);
    for line in lines {
        let (later, tokens_later) = samples.beyond(line.end);
        let on_line = line.sum(left - later, tokens_left - tokens_later);
        sum.ms += on_line.ms;
        sum.extrapolated |= on_line.extrapolated && left > later;
        if later == 0 {
            break;
        }
        (left, tokens_left) = (later, tokens_later);
    }
    sum
}

impl Line {
    /// Sum over `count` lengths on this line that are `tokens` together.
    fn sum(&self, count: u64, tokens: u64) -> Reading {
        // Conversions of signed integers are single instructions.
        let beyond_start = tokens.cast_signed() - (count * self.start).cast_signed();
        Reading {
            ms: count.cast_signed() as f64 * self.start_ms + self.ms_per_token * beyond_start as f64,
            extrapolated: self.start_extrapolated || (self.extrapolated && beyond_start != 0),
        }
    }
}

impl AttentionOverContext for AttentionRow {
    /// Mean over five KV lengths around the asked one, because sequences of a batch differ.
    fn at(&self, kv_tokens: u64) -> Reading {
        let samples = Samples::around(kv_tokens);
        mean(self.lines_from(samples.shortest()), samples)
    }

    fn over(&self, kv_tokens: Range<u64>, mut found: impl FnMut(Reading)) {
        let mut lines = self.lines_from(Samples::around(kv_tokens.start).shortest());
        for kv_tokens in kv_tokens {
            let samples = Samples::around(kv_tokens);
            // Lengths ascend, so the lines before the present one are done with.
            while let [line, later @ ..] = lines
                && line.end <= samples.shortest()
            {
                lines = later;
            }
            found(mean(lines, samples));
        }
    }
}

/// KV lengths at which attention is read: ascending, equally far apart, rounded down.
#[derive(Debug, Clone, Copy)]
struct Samples([u64; SAMPLES]);

impl Samples {
    /// Those that stand for `kv_tokens`.
    fn around(kv_tokens: u64) -> Self {
        let (shortest, longest) = kv_window(kv_tokens);
        let width = longest - shortest;
        Self([
            shortest,
            shortest + width / 4,
            shortest + width / 2,
            shortest + width * 3 / 4,
            longest,
        ])
    }

    /// How many of them are at least so long, and their sum.
    #[inline]
    fn beyond(self, length: u64) -> (u64, u64) {
        // No branches: which lengths are beyond changes all the time.
        let mut found = (0, 0);
        for sample in self.0 {
            let is_beyond = u64::from(sample >= length);
            found.0 += is_beyond;
            found.1 += is_beyond * sample;
        }
        found
    }

    fn shortest(&self) -> u64 {
        self.0[0]
    }

    fn longest(&self) -> u64 {
        self.0[SAMPLES - 1]
    }
}

/// Shortest and longest KV length that stand for `kv_tokens`; whole numbers of tokens, rounded down.
fn kv_window(kv_tokens: u64) -> (u64, u64) {
    let tokens = kv_tokens.min(MAX_TOKENS);
    let shortest = (tokens * WINDOW_TENTHS.0 / 10).max(1);
    let longest = (tokens * WINDOW_TENTHS.1 / 10).max(shortest);
    (shortest, longest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::precision::AttentionDtype;

    /// [`DecodeAttention::at_batch`] and [`AttentionRow::at`] without anything prepared: at each of the five
    /// lengths straight lines are drawn along length, batch and heads of the table.
    fn walk(attention: &DecodeAttention, batch: u64, kv_tokens: u64) -> Reading {
        let tokens = kv_tokens.min(MAX_TOKENS) as f64;
        let shortest = whole(tokens * 0.9).max(1);
        let longest = whole(tokens * 1.1).max(shortest);
        let batch = attention.batches.bring_in(batch);
        let mut sum = Reading::ZERO.or_extrapolated(batch.moved);
        for sample in 0..5 {
            let length = shortest + (longest - shortest) * sample / 4;
            let length = attention.lengths.bring_in(length);
            let reading = (attention.planes).read(|plane| plane.bilinear(batch.value, length.value));
            sum.ms += reading.ms * (length.stretch * batch.stretch);
            sum = sum.or_extrapolated(reading.extrapolated || length.moved);
        }
        sum.scaled(1.0 / 5.0)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and not negative"
    )]
    fn whole(value: f64) -> u64 {
        value.trunc() as u64
    }

    fn check(attention: &DecodeAttention, batch: u64, kv_tokens: u64) -> Result<(), TestCaseError> {
        let (found, expected) = (
            attention.at_batch(batch).at(kv_tokens),
            walk(attention, batch, kv_tokens),
        );
        let close = (found.ms - expected.ms).abs() <= 1e-12 * expected.ms;
        prop_assert!(close, "{batch} x {kv_tokens}: {found:?}, {expected:?}");
        prop_assert_eq!(found.extrapolated, expected.extrapolated, "{} x {}", batch, kv_tokens);
        Ok(())
    }

    fn h200() -> GpuSpec {
        GpuSpec::find("h200_sxm").expect("is known")
    }

    /// Small and large counts alike.
    fn count() -> impl Strategy<Value = u64> {
        (0_u32..63, 1_u64..).prop_map(|(shift, bits)| (bits >> shift).max(1))
    }

    /// Up to seven keys, not only powers of two.
    fn keys(upper: u64) -> impl Strategy<Value = Vec<u64>> {
        prop::collection::btree_set(1..upper, 1..8).prop_map(|keys| keys.into_iter().collect())
    }

    fn slice() -> impl Strategy<Value = DecodeAttentionSlice> {
        (keys(100), keys(300), keys(70_000)).prop_flat_map(|(n, b, s)| {
            let leaf = (1.0_f64..10.0).prop_map(Some);
            prop::collection::vec(leaf, n.len() * b.len() * s.len()).prop_map(move |ms| DecodeAttentionSlice {
                kv_dtype: AttentionDtype::Bfloat16,
                kv_heads: 1,
                head_dim: 128,
                window: 0,
                sources: Vec::new(),
                n: n.clone(),
                b: b.clone(),
                s: s.clone(),
                ms,
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        #[test]
        fn differential_rows_price_as_the_walk(
            slice in slice(),
            heads in 1_u64..130,
            points in prop::collection::vec((count(), count()), 50),
        ) {
            let Some(attention) = DecodeAttention::of(&slice, heads, &h200(), Standing::Measured) else { return Ok(()) };
            let on_keys = slice.b.iter().flat_map(|&batch| slice.s.iter().map(move |&length| (batch, length)));
            for (batch, kv_tokens) in points.into_iter().chain(on_keys) {
                check(&attention, batch, kv_tokens)?;
            }
        }
    }

    #[cfg(feature = "bundled")]
    #[test]
    fn differential_rows_price_as_the_walk_on_the_built_in_tables() {
        use crate::perfdata::Perfdata;
        use dynosim_spec::Backend;

        let config = ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(500)
        };
        for (backend, version) in [(Backend::Vllm, "0.14.0"), (Backend::Sglang, "0.5.6.post2")] {
            let set = Perfdata::Bundled.find("h200_sxm", backend, version).expect("is there");
            for slice in set.load::<DecodeAttentionSlice>().expect("is valid").slices {
                for heads in [16, 30, 50] {
                    let attention = DecodeAttention::of(&slice, heads, &h200(), Standing::Measured);
                    let attention = attention.expect("between the smallest and the largest");
                    proptest!(config.clone(), |(batch in count(), kv_tokens in count())| {
                        check(&attention, batch, kv_tokens)?;
                    });
                }
            }
        }
    }

    #[test]
    fn head_counts_without_a_common_length_can_be_read_between() {
        let slice = DecodeAttentionSlice {
            kv_dtype: AttentionDtype::Bfloat16,
            kv_heads: 1,
            head_dim: 128,
            window: 0,
            sources: Vec::new(),
            n: vec![16, 18],
            b: vec![1],
            s: vec![64, 128],
            ms: vec![Some(1.0), None, None, Some(2.0)],
        };
        let attention = DecodeAttention::of(&slice, 17, &h200(), Standing::Measured).expect("between the two");
        for kv_tokens in [1, 64, 100, 128, 1000] {
            check(&attention, 1, kv_tokens).expect("rows price as the walk");
        }
    }

    #[test]
    fn windows_drop_fractions() {
        let windows = [
            (0, (1, 1)),
            (1, (1, 1)),
            (9, (8, 9)),
            (10, (9, 11)),
            (1001, (900, 1101)),
        ];
        for (kv_tokens, window) in windows {
            assert_eq!(kv_window(kv_tokens), window);
        }
    }
}

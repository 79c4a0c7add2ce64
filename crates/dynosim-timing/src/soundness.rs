//! Whether a slice of a table can be true at all.
//!
//! A collector can go wrong in ways that no single figure shows: a kernel that computes only a part of its
//! work, a clock that stops early, a first call that pays for warming up. What physics forbids shows it:
//!
//! * **Peak rates.** No call is shorter than its arithmetic, its memory traffic and what it sends take at
//!   peak. The slack is [`Resource::slack`]. In sound slices of the built-in tables prompts' attention stays at or
//!   below 76 % of the peak arithmetic rate, exchanges between GPUs at 75 % of the link; the faulty ones exceed the peak up to
//!   260 times.
//! * **More work does not take less time.** A larger all-reduce is not faster than a smaller one, and neither is
//!   prompts' attention with more query heads. Sound all-reduces fall by up to 4.5 % (noise of 2 %, and
//!   the change from one algorithm to the next), faulty ones by 11.6 % or more. Attention falls by more than half for at
//!   most 0.3 % of the points of a sound slice (single calls that were disturbed) and for 15 % or more of a faulty one.
//!
//! Nothing is asked of matrix products over tokens or features: libraries choose kernels by shape, and the
//! jumps between 16 and 17 or 64 and 65 tokens are real. Decode attention jumps in the same way where the
//! KV cache is split over more or fewer blocks, so only the peak is asked of it.

use std::fmt;

use dynosim_spec::GpuSpec;

use crate::decode_attention::tokens_in_sight;
use crate::experts::ExpertShape;
use crate::operators::PromptBatch;
use crate::table_file::{
    AllReduceSlice, DecodeAttentionSlice, GemmSlice, MoeSlice, NcclSlice, PrefillAttentionSlice, TableSlice,
};
use crate::work::{Heads, Rates, Work};

/// How much of the latency for less work a larger all-reduce takes at least.
const ALL_REDUCE_RISE: Rise = Rise {
    least_ratio: 0.925,
    tolerated_share: 0.0,
};

/// How much of the latency for fewer heads prefill attention takes at least, but for single points.
const PREFILL_ATTENTION_RISE: Rise = Rise {
    least_ratio: 0.5,
    tolerated_share: 0.02,
};

/// What a kernel keeps busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Arithmetic units.
    Arithmetic,
    /// Memory.
    Memory,
    /// Links to other GPUs.
    Links,
}

impl Resource {
    /// How many times the data-sheet rate is still believed.
    ///
    /// Arithmetic and links 1.1: data sheets give the rate at the boost clock, and the highest clock is 8 % above
    /// it (H100 and H200: 1980 against 1830 MHz). Memory 2: what lies in the cache of the GPU (50 MB on H200) is
    /// read faster than memory, and tables are measured in loops over the same data.
    pub const fn slack(self) -> f64 {
        match self {
            Self::Arithmetic | Self::Links => 1.1,
            Self::Memory => 2.0,
        }
    }

    const fn work(self) -> &'static str {
        match self {
            Self::Arithmetic => "the arithmetic takes",
            Self::Memory => "the memory traffic takes",
            Self::Links => "sending the message once takes",
        }
    }
}

/// Why a slice cannot be true; shown as half a sentence.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SliceFlaw {
    /// Latencies are shorter than the GPU's peak rates allow.
    BeyondPeak {
        /// Such latencies.
        latencies: usize,
        /// All latencies of the slice.
        of: usize,
        /// What the worst one exceeds.
        resource: Resource,
        /// Where the worst one is, axis by axis.
        at: String,
        /// Milliseconds measured there.
        ms: f64,
        /// Milliseconds that it takes at the peak rate.
        peak_ms: f64,
    },
    /// Latencies fall although the work grows.
    Falling {
        /// Latencies that are shorter than one for less work by more than is tolerated.
        latencies: usize,
        /// All latencies that can be compared with one for less work.
        of: usize,
        /// Where the worst one is, axis by axis.
        at: String,
        /// Milliseconds measured there.
        ms: f64,
        /// Milliseconds measured for less work.
        less_work_ms: f64,
    },
}

impl fmt::Display for SliceFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondPeak {
                latencies,
                of,
                resource,
                at,
                ms,
                peak_ms,
            } => write!(
                f,
                "{latencies} of {of} latencies exceed the peak of the GPU (worst: {ms:.4} ms at {at}, where {} \
                 {peak_ms:.4} ms at the peak rate)",
                resource.work()
            ),
            Self::Falling {
                latencies,
                of,
                at,
                ms,
                less_work_ms,
            } => write!(
                f,
                "{latencies} of {of} latencies fall although the work grows (worst: {ms:.4} ms at {at} after \
                 {less_work_ms:.4} ms for less)"
            ),
        }
    }
}

/// What a call keeps busy, and for how many milliseconds at the peak rate.
pub(crate) type Need = (Resource, f64);

/// Keys of a cell on up to three axes, slowest first; unused ones are 0.
pub(crate) type Keys = [u64; 3];

/// A slice whose latencies can be held against the figures of a GPU.
pub(crate) trait PhysicalSlice: TableSlice + Clone {
    /// What the call at `keys` needs on `gpu`.
    fn needs(&self, keys: Keys, gpu: &GpuSpec) -> [Need; 2];

    /// How latency has to rise along the first axis; `None` if it need not.
    fn rise(&self) -> Option<Rise>;

    /// The same slice with other latencies, as many as [`TableSlice::ms`].
    fn with_ms(self, ms: Vec<Option<f64>>) -> Self;

    /// Why the slice cannot have been measured on `gpu`; `None` if nothing speaks against it.
    fn flaw(&self, gpu: &GpuSpec) -> Option<SliceFlaw> {
        beyond_peak(self, gpu).or_else(|| self.rise().and_then(|rise| rise.broken_by(self)))
    }
}

/// The longest of several needs: the time on the roofline, ms.
pub(crate) fn roofline_ms(needs: [Need; 2]) -> f64 {
    needs[0].1.max(needs[1].1)
}

/// Measured latencies with their keys.
pub(crate) fn cells<S: TableSlice>(slice: &S) -> impl Iterator<Item = (Keys, Option<f64>)> {
    let axes: Vec<&[u64]> = slice.axes().into_iter().map(|(_, keys)| keys).collect();
    slice.ms().iter().enumerate().map(move |(mut index, &ms)| {
        let mut keys = [0; 3];
        for (key, axis) in keys[..axes.len()].iter_mut().zip(&axes).rev() {
            *key = axis[index % axis.len()];
            index /= axis.len();
        }
        (keys, ms)
    })
}

fn place<S: TableSlice>(slice: &S, keys: Keys) -> String {
    let axes = slice.axes();
    let named: Vec<String> = axes
        .iter()
        .zip(keys)
        .map(|((name, _), key)| format!("{name} = {key}"))
        .collect();
    named.join(", ")
}

fn beyond_peak<S: PhysicalSlice>(slice: &S, gpu: &GpuSpec) -> Option<SliceFlaw> {
    let (mut of, mut latencies) = (0, 0);
    let mut worst: Option<(f64, Keys, f64, Need)> = None;
    for (keys, ms) in cells(slice) {
        let Some(ms) = ms else { continue };
        of += 1;
        // What is furthest beyond its slack; above 1 it is not believed.
        let excess = |need: Need| need.1 / ms / need.0.slack();
        let [first, second] = slice.needs(keys, gpu);
        let need = if excess(first) >= excess(second) { first } else { second };
        let excess = excess(need);
        if excess > 1.0 {
            latencies += 1;
            if worst.is_none_or(|worst| excess > worst.0) {
                worst = Some((excess, keys, ms, need));
            }
        }
    }
    let (_, keys, ms, (resource, peak_ms)) = worst?;
    Some(SliceFlaw::BeyondPeak {
        latencies,
        of,
        resource,
        at: place(slice, keys),
        ms,
        peak_ms,
    })
}

/// How latency rises along the first axis of a slice, everything else being equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rise {
    /// Least ratio to the longest latency for less work.
    least_ratio: f64,
    /// Share of latencies that may be below that.
    tolerated_share: f64,
}

impl Rise {
    fn broken_by<S: TableSlice>(self, slice: &S) -> Option<SliceFlaw> {
        let line_count = slice.axes().iter().skip(1).map(|(_, keys)| keys.len()).product();
        let mut longest: Vec<Option<f64>> = vec![None; line_count];
        let (mut of, mut latencies) = (0_usize, 0_usize);
        let mut worst: Option<(f64, Keys, f64, f64)> = None;
        for (index, (keys, ms)) in cells(slice).enumerate() {
            let Some(ms) = ms else { continue };
            let longest = &mut longest[index % line_count];
            let Some(less_work_ms) = *longest else {
                *longest = Some(ms);
                continue;
            };
            *longest = Some(less_work_ms.max(ms));
            of += 1;
            let ratio = ms / less_work_ms;
            if ratio < self.least_ratio {
                latencies += 1;
                if worst.is_none_or(|worst| ratio < worst.0) {
                    worst = Some((ratio, keys, ms, less_work_ms));
                }
            }
        }
        let (_, keys, ms, less_work_ms) = worst.filter(|_| latencies as f64 > self.tolerated_share * of as f64)?;
        Some(SliceFlaw::Falling {
            latencies,
            of,
            at: place(slice, keys),
            ms,
            less_work_ms,
        })
    }
}

fn on_gpu(work: Work, rates: Rates) -> [Need; 2] {
    [
        (Resource::Arithmetic, 1e3 * work.flops / rates.flops),
        (Resource::Memory, 1e3 * work.bytes / rates.bytes),
    ]
}

fn heads(query: u64, kv: u64, dim: u64) -> Heads {
    Heads {
        query: query as f64,
        // 0 stands for as many as query heads.
        kv: if kv == 0 { query as f64 } else { kv as f64 },
        dim: dim as f64,
    }
}

impl PhysicalSlice for GemmSlice {
    fn needs(&self, [m, n, k]: Keys, gpu: &GpuSpec) -> [Need; 2] {
        let work = Work::gemm(self.dtype, m as f64, n as f64, k as f64);
        on_gpu(work, Rates::gemm(gpu, self.dtype))
    }

    fn rise(&self) -> Option<Rise> {
        None
    }

    fn with_ms(self, ms: Vec<Option<f64>>) -> Self {
        Self { ms, ..self }
    }
}

impl PhysicalSlice for PrefillAttentionSlice {
    fn needs(&self, [n, s, b]: Keys, gpu: &GpuSpec) -> [Need; 2] {
        let heads = heads(n, self.kv_heads, self.head_dim);
        let prompts = PromptBatch {
            batch: b,
            new_tokens: s,
            prefix: 0,
        };
        let mut work = heads.prefill_work(self.kv_dtype, prompts, self.window);
        if self.window > 0 && s > self.window {
            // The first tokens see less than a window.
            work.flops *= 1.0 - self.window as f64 / (2.0 * s as f64);
        }
        on_gpu(work, Rates::attention(gpu, self.fmha_dtype))
    }

    fn rise(&self) -> Option<Rise> {
        Some(PREFILL_ATTENTION_RISE)
    }

    fn with_ms(self, ms: Vec<Option<f64>>) -> Self {
        Self { ms, ..self }
    }
}

impl PhysicalSlice for DecodeAttentionSlice {
    fn needs(&self, [n, b, s]: Keys, gpu: &GpuSpec) -> [Need; 2] {
        let heads = heads(n, self.kv_heads, self.head_dim);
        let in_sight = tokens_in_sight(s, self.window);
        let work = heads.decode_work(self.kv_dtype, b as f64, in_sight as f64);
        on_gpu(work, Rates::attention(gpu, self.kv_dtype))
    }

    fn rise(&self) -> Option<Rise> {
        None
    }

    fn with_ms(self, ms: Vec<Option<f64>>) -> Self {
        Self { ms, ..self }
    }
}

impl PhysicalSlice for AllReduceSlice {
    /// However it is done, a GPU has to send its part of the sum once; a ring sends up to twice as much, but
    /// switches that add can do without.
    fn needs(&self, [elements, ..]: Keys, gpu: &GpuSpec) -> [Need; 2] {
        let sent_ms = 1e3 * 2.0 * elements as f64 / gpu.intra_node_bandwidth;
        [(Resource::Links, sent_ms), (Resource::Arithmetic, 0.0)]
    }

    fn rise(&self) -> Option<Rise> {
        Some(ALL_REDUCE_RISE)
    }

    fn with_ms(self, ms: Vec<Option<f64>>) -> Self {
        Self { ms, ..self }
    }
}

impl PhysicalSlice for MoeSlice {
    /// Those of an average GPU; the measured one, the busiest, computes more. Traffic counts as many experts as there can
    /// be, and an uneven load needs fewer of them: that is within the slack of memory.
    fn needs(&self, [tokens, ..]: Keys, gpu: &GpuSpec) -> [Need; 2] {
        let shape = ExpertShape::measured(self);
        on_gpu(shape.work(tokens), shape.rates(gpu))
    }

    fn rise(&self) -> Option<Rise> {
        None
    }

    fn with_ms(self, ms: Vec<Option<f64>>) -> Self {
        Self { ms, ..self }
    }
}

impl PhysicalSlice for NcclSlice {
    /// A GPU sends its part to every other one, or gets theirs.
    fn needs(&self, [elements, ..]: Keys, gpu: &GpuSpec) -> [Need; 2] {
        let others = self.gpus.saturating_sub(1) as f64 / self.gpus.max(1) as f64;
        let sent_ms = 1e3 * 2.0 * elements as f64 * others / gpu.intra_node_bandwidth;
        [(Resource::Links, sent_ms), (Resource::Arithmetic, 0.0)]
    }

    fn rise(&self) -> Option<Rise> {
        None
    }

    fn with_ms(self, ms: Vec<Option<f64>>) -> Self {
        Self { ms, ..self }
    }
}

#[cfg(test)]
mod tests;

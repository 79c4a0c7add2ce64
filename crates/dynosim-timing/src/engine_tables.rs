//! The tables of one engine version, loaded and densified once and shared by all deployments.

use dynosim_spec::GpuSpec;

use crate::all_reduce::AllReduce;
use crate::attention::{DecodeAttention, MAX_HEADS, PrefillAttention, densify_decode, densify_prefill};
use crate::error::TimingError;
use crate::gemm::GemmGrid;
use crate::grid::Grid;
use crate::operators::{DenseShape, Gemm};
use crate::perfdata::TableSet;
use crate::reading::Curve;
use crate::table_file::{
    AllReduceSlice, DecodeAttentionSlice, GemmSlice, PrefillAttentionSlice, TableFile, TableSlice, kv_heads_name,
};

/// Tables of one engine version on one GPU system.
#[derive(Debug)]
pub(crate) struct EngineTables {
    set: TableSet,
    /// Roofline floors depend on the GPU's figures.
    gpu: GpuSpec,
    gemm: Table<GemmSlice, GemmGrid>,
    prefill_attention: Table<PrefillAttentionSlice, Grid>,
    decode_attention: Table<DecodeAttentionSlice, Grid>,
    all_reduce: Table<AllReduceSlice, ()>,
}

/// A table, read at first use; `G` is the densified form of a slice.
#[derive(Debug)]
struct Table<S, G> {
    loaded: Option<Loaded<S, G>>,
}

#[derive(Debug)]
struct Loaded<S, G> {
    file: TableFile<S>,
    densified: Vec<Option<G>>,
}

/// Whom an uncovered shape is reported for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client<'a> {
    pub(crate) model: &'a str,
    pub(crate) shape: &'a DenseShape,
}

impl<S: TableSlice, G> Table<S, G> {
    const fn new() -> Self {
        Self { loaded: None }
    }

    fn load(&mut self, set: &TableSet) -> Result<&mut Loaded<S, G>, TimingError> {
        match &mut self.loaded {
            Some(loaded) => Ok(loaded),
            absent @ None => {
                let file = set.load::<S>()?;
                let densified = file.slices.iter().map(|_| None).collect();
                Ok(absent.insert(Loaded { file, densified }))
            }
        }
    }
}

impl<S: TableSlice, G> Loaded<S, G> {
    fn slice(&self, fits: impl Fn(&S) -> bool) -> Option<&S> {
        self.file.slices.iter().find(|slice| fits(slice))
    }

    fn densified(&mut self, fits: impl Fn(&S) -> bool, densify: impl FnOnce(&S) -> G) -> Option<&G> {
        let index = self.file.slices.iter().position(fits)?;
        let slice = &self.file.slices[index];
        Some(self.densified[index].get_or_insert_with(|| densify(slice)))
    }

    /// The different values of one property of the slices, for messages.
    fn offered(&self, property: impl Fn(&S) -> String) -> String {
        let mut values: Vec<String> = self.file.slices.iter().map(property).collect();
        values.sort_unstable();
        values.dedup();
        values.join(", ")
    }
}

impl EngineTables {
    pub(crate) const fn new(set: TableSet, gpu: GpuSpec) -> Self {
        Self {
            set,
            gpu,
            gemm: Table::new(),
            prefill_attention: Table::new(),
            decode_attention: Table::new(),
            all_reduce: Table::new(),
        }
    }

    pub(crate) fn is_for(&self, set: &TableSet, gpu: &GpuSpec) -> bool {
        self.set == *set && self.gpu == *gpu
    }

    /// Where a table is, for messages.
    pub(crate) fn path<S: TableSlice>(&self) -> String {
        self.set.path::<S>()
    }

    /// A matrix multiplication over tokens.
    pub(crate) fn gemm(&mut self, client: Client<'_>, gemm: Gemm) -> Result<Curve, TimingError> {
        let (n, k, dtype) = client.shape.weight(gemm);
        let gpu = &self.gpu;
        let table = self.gemm.load(&self.set)?;
        let grid = table.densified(|slice| slice.dtype == dtype, |slice| GemmGrid::densified(slice, gpu));
        let Some(grid) = grid else {
            let available = table.offered(|slice| slice.dtype.name().to_owned());
            return Err(client.uncovered::<GemmSlice>(&self.set, dtype.name().to_owned(), available));
        };
        grid.column(n, k).ok_or_else(|| {
            let (least, most) = grid.features();
            let missing = format!("weight of {n} x {k}");
            client.uncovered::<GemmSlice>(&self.set, missing, format!("{least} to {most} features"))
        })
    }

    /// Attention of prompts.
    pub(crate) fn prefill_attention(&mut self, client: Client<'_>) -> Result<PrefillAttention, TimingError> {
        let shape = client.shape;
        let (fmha, kv) = (shape.precision.prefill_attention, shape.precision.kv);
        let (kv_heads, head_dim) = (client.table_kv_heads(), shape.head_dim);
        let table = self.prefill_attention.load(&self.set)?;
        let fits = |slice: &PrefillAttentionSlice| {
            (slice.fmha_dtype, slice.kv_dtype, slice.kv_heads, slice.head_dim) == (fmha, kv, kv_heads, head_dim)
        };
        let grid = table.densified(fits, densify_prefill);
        let attention = grid.and_then(|grid| PrefillAttention::of(grid, shape.query_heads));
        attention.ok_or_else(|| {
            let missing = client.attention(&format!("attention in {} over {} kv", fmha.name(), kv.name()));
            let available = format!(
                "{}; head_dim {}; kv heads {}; at most {MAX_HEADS} query heads",
                table.offered(|slice| format!("{} over {} kv", slice.fmha_dtype.name(), slice.kv_dtype.name())),
                table.offered(|slice| slice.head_dim.to_string()),
                table.offered(|slice| kv_heads_name(slice.kv_heads)),
            );
            client.uncovered::<PrefillAttentionSlice>(&self.set, missing, available)
        })
    }

    /// Attention of generated tokens.
    pub(crate) fn decode_attention(&mut self, client: Client<'_>) -> Result<DecodeAttention, TimingError> {
        let shape = client.shape;
        let (kv, kv_heads, head_dim) = (shape.precision.kv, client.table_kv_heads(), shape.head_dim);
        let gpu = &self.gpu;
        let table = self.decode_attention.load(&self.set)?;
        let fits =
            |slice: &DecodeAttentionSlice| (slice.kv_dtype, slice.kv_heads, slice.head_dim) == (kv, kv_heads, head_dim);
        let grid = table.densified(fits, |slice| densify_decode(slice, gpu));
        let attention = grid.and_then(|grid| DecodeAttention::of(grid, shape.query_heads));
        attention.ok_or_else(|| {
            let missing = client.attention(&format!("attention over {} kv", kv.name()));
            let available = format!(
                "{} kv; head_dim {}; kv heads {}; at most {MAX_HEADS} query heads",
                table.offered(|slice| slice.kv_dtype.name().to_owned()),
                table.offered(|slice| slice.head_dim.to_string()),
                table.offered(|slice| kv_heads_name(slice.kv_heads)),
            );
            client.uncovered::<DecodeAttentionSlice>(&self.set, missing, available)
        })
    }

    /// The sum over the tensor-parallel group; `None` for a single GPU.
    pub(crate) fn all_reduce(&mut self, client: Client<'_>) -> Result<Option<AllReduce>, TimingError> {
        let tp = client.shape.tp;
        if tp == 1 {
            return Ok(None);
        }
        let group = AllReduce::measured_group(tp, &self.gpu);
        let table = self.all_reduce.load(&self.set)?;
        let slice = table.slice(|slice| slice.tp == u64::from(group));
        let found = slice.and_then(|slice| AllReduce::of(slice, tp, &self.gpu));
        let uncovered = || {
            let available = table.offered(|slice| slice.tp.to_string());
            client.uncovered::<AllReduceSlice>(&self.set, format!("tp {group}"), available)
        };
        found.map(Some).ok_or_else(uncovered)
    }
}

impl Client<'_> {
    /// KV heads as tables name them.
    const fn table_kv_heads(self) -> u64 {
        if self.shape.kv_heads == self.shape.query_heads {
            0
        } else {
            self.shape.kv_heads
        }
    }

    fn attention(self, formats: &str) -> String {
        let (kv_heads, shape) = (kv_heads_name(self.table_kv_heads()), self.shape);
        format!(
            "{formats}, head_dim {}, kv heads {kv_heads}, {} query heads",
            shape.head_dim, shape.query_heads
        )
    }

    fn uncovered<S: TableSlice>(self, set: &TableSet, missing: String, available: String) -> TimingError {
        TimingError::UncoveredShape {
            path: set.path::<S>(),
            model: self.model.to_owned(),
            tp: self.shape.tp,
            missing,
            available,
        }
    }
}

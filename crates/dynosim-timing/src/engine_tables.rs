//! The tables of one engine version, shared by all deployments.

use crate::all_reduce::AllReduce;
use crate::curve::Curve;
use crate::decode_attention::DecodeAttention;
use crate::error::TimingError;
use crate::gemm::GemmGrid;
use crate::head_planes::MAX_HEADS;
use crate::operators::{DenseShape, Gemm};
use crate::perfdata::TableSet;
use crate::precision::GemmDtype;
use crate::prefill_attention::PrefillAttention;
use crate::repair::{SliceSource, Standing, TableRepair};
use crate::soundness::PhysicalSlice;
use crate::table_file::{
    AllReduceSlice, DecodeAttentionSlice, GemmSlice, PrefillAttentionSlice, TableFile, TableSlice, kv_heads_name,
};

/// Tables of one engine version on one GPU system, read at first use.
#[derive(Debug)]
pub(crate) struct EngineTables {
    source: SliceSource,
    /// By number format. One or two are ever asked for, so that the file with all of them is not kept.
    gemm: Vec<(GemmDtype, Found<GemmGrid>)>,
    prefill_attention: Table<PrefillAttentionSlice>,
    decode_attention: Table<DecodeAttentionSlice>,
    all_reduce: Table<AllReduceSlice>,
}

/// A table that is kept as it was read: what a deployment needs of it is cut out and densified in no time.
#[derive(Debug)]
struct Table<S>(Option<TableFile<S>>);

/// What a kernel is priced with.
#[derive(Debug)]
pub(crate) struct Found<T> {
    pub(crate) kernel: T,
    standing: Standing,
    /// Present if the published figures cannot be true.
    pub(crate) repair: Option<TableRepair>,
}

/// Whom an uncovered shape is reported for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client<'a> {
    pub(crate) model: &'a str,
    pub(crate) shape: &'a DenseShape,
}

impl<S: TableSlice> Table<S> {
    fn load(&mut self, set: &TableSet) -> Result<&[S], TimingError> {
        let file = match &mut self.0 {
            Some(file) => file,
            absent @ None => absent.insert(set.load::<S>()?),
        };
        Ok(&file.slices)
    }
}

/// The different values of one property of slices, for messages.
fn offered<S>(slices: &[S], property: impl Fn(&S) -> String) -> String {
    let mut values: Vec<String> = slices.iter().map(property).collect();
    values.sort_unstable();
    values.dedup();
    values.join(", ")
}

impl EngineTables {
    pub(crate) const fn new(source: SliceSource) -> Self {
        Self {
            source,
            gemm: Vec::new(),
            prefill_attention: Table(None),
            decode_attention: Table(None),
            all_reduce: Table(None),
        }
    }

    pub(crate) fn is_from(&self, source: &SliceSource) -> bool {
        self.source == *source
    }

    pub(crate) const fn source(&self) -> &SliceSource {
        &self.source
    }

    /// Where a table is, for messages.
    pub(crate) fn path<S: TableSlice>(&self) -> String {
        self.source.set.path::<S>()
    }

    /// A matrix multiplication over tokens.
    pub(crate) fn gemm(&mut self, client: Client<'_>, gemm: Gemm) -> Result<Found<Curve>, TimingError> {
        let (n, k, dtype) = client.shape.weight(gemm);
        let known = self.gemm.iter().position(|(known, _)| *known == dtype);
        let index = match known {
            Some(index) => index,
            None => self.densify_gemm(client, dtype)?,
        };
        let (_, grid) = &self.gemm[index];
        let curve = grid.kernel.column(n, k).ok_or_else(|| {
            let (least, most) = grid.kernel.features();
            let missing = format!("weight of {n} x {k}");
            client.uncovered::<GemmSlice>(&self.source.set, missing, format!("{least} to {most} features"))
        })?;
        Ok(Found {
            kernel: match grid.standing {
                Standing::Measured => curve,
                Standing::Extrapolated => curve.extrapolated(),
            },
            standing: grid.standing,
            repair: grid.repair.clone(),
        })
    }

    /// Adds a number format; gives its index.
    fn densify_gemm(&mut self, client: Client<'_>, dtype: GemmDtype) -> Result<usize, TimingError> {
        let file = self.source.set.load::<GemmSlice>()?;
        let Some(slice) = file.slices.iter().find(|slice| slice.dtype == dtype) else {
            let available = offered(&file.slices, |slice| slice.dtype.name().to_owned());
            return Err(client.uncovered::<GemmSlice>(&self.source.set, dtype.name().to_owned(), available));
        };
        let chosen = self.source.choose(slice)?;
        let grid = Found {
            kernel: GemmGrid::densified(&chosen.slice, &self.source.target),
            standing: chosen.standing,
            repair: chosen.repair,
        };
        self.gemm.push((dtype, grid));
        Ok(self.gemm.len() - 1)
    }

    /// Attention of prompts.
    pub(crate) fn prefill_attention(&mut self, client: Client<'_>) -> Result<Found<PrefillAttention>, TimingError> {
        let shape = client.shape;
        let (fmha, kv) = (shape.precision.prefill_attention, shape.precision.kv);
        let (kv_heads, head_dim) = (client.table_kv_heads(), shape.head_dim);
        let slices = self.prefill_attention.load(&self.source.set)?;
        let slice = slices.iter().find(|slice| {
            (slice.fmha_dtype, slice.kv_dtype, slice.kv_heads, slice.head_dim) == (fmha, kv, kv_heads, head_dim)
        });
        let attention = self.source.found(slice, |slice, standing| {
            PrefillAttention::of(slice, shape.query_heads, standing)
        })?;
        attention.ok_or_else(|| {
            let missing = client.attention(&format!("attention in {} over {} kv", fmha.name(), kv.name()));
            let available = format!(
                "{}; head_dim {}; kv heads {}; at most {MAX_HEADS} query heads",
                offered(slices, |slice| format!(
                    "{} over {} kv",
                    slice.fmha_dtype.name(),
                    slice.kv_dtype.name()
                )),
                offered(slices, |slice| slice.head_dim.to_string()),
                offered(slices, |slice| kv_heads_name(slice.kv_heads)),
            );
            client.uncovered::<PrefillAttentionSlice>(&self.source.set, missing, available)
        })
    }

    /// Attention of generated tokens.
    pub(crate) fn decode_attention(&mut self, client: Client<'_>) -> Result<Found<DecodeAttention>, TimingError> {
        let shape = client.shape;
        let (kv, kv_heads, head_dim) = (shape.precision.kv, client.table_kv_heads(), shape.head_dim);
        let slices = self.decode_attention.load(&self.source.set)?;
        let slice =
            (slices.iter()).find(|slice| (slice.kv_dtype, slice.kv_heads, slice.head_dim) == (kv, kv_heads, head_dim));
        let attention = self.source.found(slice, |slice, standing| {
            DecodeAttention::of(slice, shape.query_heads, &self.source.target, standing)
        })?;
        attention.ok_or_else(|| {
            let missing = client.attention(&format!("attention over {} kv", kv.name()));
            let available = format!(
                "{} kv; head_dim {}; kv heads {}; at most {MAX_HEADS} query heads",
                offered(slices, |slice| slice.kv_dtype.name().to_owned()),
                offered(slices, |slice| slice.head_dim.to_string()),
                offered(slices, |slice| kv_heads_name(slice.kv_heads)),
            );
            client.uncovered::<DecodeAttentionSlice>(&self.source.set, missing, available)
        })
    }

    /// The sum over the tensor-parallel group; `None` for a single GPU.
    pub(crate) fn all_reduce(&mut self, client: Client<'_>) -> Result<Option<Found<AllReduce>>, TimingError> {
        let tp = client.shape.tp;
        if tp == 1 {
            return Ok(None);
        }
        let group = AllReduce::measured_group(tp, &self.source.target);
        let slices = self.all_reduce.load(&self.source.set)?;
        let slice = slices.iter().find(|slice| slice.tp == u64::from(group));
        let found = self.source.found(slice, |slice, standing| {
            AllReduce::of(slice, tp, &self.source.target, standing)
        })?;
        let uncovered = || {
            let available = offered(slices, |slice| slice.tp.to_string());
            client.uncovered::<AllReduceSlice>(&self.source.set, format!("tp {group}"), available)
        };
        found.map(Some).ok_or_else(uncovered)
    }
}

impl SliceSource {
    /// The kernel that `cut` makes of the slice to use where `published` was asked for; `None` if there is
    /// no such slice or it has not the right heads.
    fn found<S: PhysicalSlice, T>(
        &self,
        published: Option<&S>,
        cut: impl FnOnce(&S, Standing) -> Option<T>,
    ) -> Result<Option<Found<T>>, TimingError> {
        let Some(published) = published else { return Ok(None) };
        let chosen = self.choose(published)?;
        Ok(cut(&chosen.slice, chosen.standing).map(|kernel| Found {
            kernel,
            standing: chosen.standing,
            repair: chosen.repair,
        }))
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

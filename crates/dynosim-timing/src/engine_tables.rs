//! The tables of one engine version, shared by all deployments.

use std::collections::{BTreeMap, BTreeSet};

use crate::all_reduce::Collective;
use crate::curve::Curve;
use crate::decode_attention::DecodeAttention;
use crate::error::TimingError;
use crate::experts::{ExpertKernel, ExpertShape};
use crate::gemm::GemmGrid;
use crate::head_planes::MAX_HEADS;
use crate::operators::{DenseShape, Gemm};
use crate::perfdata::TableSet;
use crate::precision::GemmDtype;
use crate::prefill_attention::PrefillAttention;
use crate::repair::{SliceSource, Standing, TableRepair};
use crate::soundness::PhysicalSlice;
use crate::table_file::{
    AllReduceSlice, DecodeAttentionSlice, GemmSlice, MoeSlice, NcclOperation, NcclSlice, PrefillAttentionSlice,
    TableFile, TableSlice, kv_heads_name, window_name,
};

/// How the tokens of measured experts were spread over them: unevenly, as real prompts do.
const EXPERT_DISTRIBUTION: &str = "power_law_1.2";

/// Tables of one engine version on one GPU system, read at first use.
#[derive(Debug)]
pub(crate) struct EngineTables {
    source: SliceSource,
    /// By number format. One or two are ever asked for, so that the file with all of them is not kept.
    gemm: Vec<(GemmDtype, Found<GemmGrid>)>,
    prefill_attention: Table<PrefillAttentionSlice>,
    decode_attention: Table<DecodeAttentionSlice>,
    all_reduce: Table<AllReduceSlice>,
    moe: Table<MoeSlice>,
    nccl: Table<NcclSlice>,
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

/// `moe_tp 1 and moe_ep 1, 2, 4; moe_tp 2 and moe_ep 1`.
fn offered_spreads(slices: &[&MoeSlice]) -> String {
    let mut by_moe_tp: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for slice in slices {
        by_moe_tp
            .entry(slice.moe_tp_size)
            .or_default()
            .insert(slice.moe_ep_size);
    }
    let lines = by_moe_tp.iter().map(|(moe_tp, moe_ep)| {
        let moe_ep: Vec<String> = moe_ep.iter().map(u64::to_string).collect();
        format!("moe_tp {moe_tp} and moe_ep {}", moe_ep.join(", "))
    });
    lines.collect::<Vec<String>>().join("; ")
}

impl EngineTables {
    pub(crate) const fn new(source: SliceSource) -> Self {
        Self {
            source,
            gemm: Vec::new(),
            prefill_attention: Table(None),
            decode_attention: Table(None),
            all_reduce: Table(None),
            moe: Table(None),
            nccl: Table(None),
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
            kernel: curve.standing(grid.standing),
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

    /// Attention of prompts over a window; 0 stands for all tokens.
    pub(crate) fn prefill_attention(
        &mut self,
        client: Client<'_>,
        window: u64,
    ) -> Result<Found<PrefillAttention>, TimingError> {
        let shape = client.shape;
        let (fmha, kv) = (shape.precision.prefill_attention, shape.precision.kv);
        let (kv_heads, head_dim) = (client.table_kv_heads(), shape.head_dim);
        let slices = self.prefill_attention.load(&self.source.set)?;
        let slice = slices.iter().find(|slice| {
            let layout = (slice.kv_heads, slice.head_dim, slice.window);
            (slice.fmha_dtype, slice.kv_dtype) == (fmha, kv) && layout == (kv_heads, head_dim, window)
        });
        let attention = self.source.found(slice, |slice, standing| {
            PrefillAttention::of(slice, shape.query_heads, standing)
        })?;
        attention.ok_or_else(|| {
            let missing = client.attention(&format!("attention in {} over {} kv", fmha.name(), kv.name()), window);
            let available = format!(
                "{}; head_dim {}; windows {}; kv heads {}; at most {MAX_HEADS} query heads",
                offered(slices, |slice| format!(
                    "{} over {} kv",
                    slice.fmha_dtype.name(),
                    slice.kv_dtype.name()
                )),
                offered(slices, |slice| slice.head_dim.to_string()),
                offered(slices, |slice| match slice.window {
                    0 => "none".to_owned(),
                    window => window.to_string(),
                }),
                offered(slices, |slice| kv_heads_name(slice.kv_heads)),
            );
            client.uncovered::<PrefillAttentionSlice>(&self.source.set, missing, available)
        })
    }

    /// Attention of generated tokens over a window; 0 stands for all tokens.
    pub(crate) fn decode_attention(
        &mut self,
        client: Client<'_>,
        window: u64,
    ) -> Result<Found<DecodeAttention>, TimingError> {
        let shape = client.shape;
        let (kv, kv_heads, head_dim) = (shape.precision.kv, client.table_kv_heads(), shape.head_dim);
        let slices = self.decode_attention.load(&self.source.set)?;
        let slice = slices.iter().find(|slice| {
            let layout = (slice.kv_heads, slice.head_dim, slice.window);
            slice.kv_dtype == kv && layout == (kv_heads, head_dim, window)
        });
        let attention = self.source.found(slice, |slice, standing| {
            DecodeAttention::of(slice, shape.query_heads, &self.source.target, standing)
        })?;
        attention.ok_or_else(|| {
            let missing = client.attention(&format!("attention over {} kv", kv.name()), window);
            let available = format!(
                "{} kv; head_dim {}; windows {}; kv heads {}; at most {MAX_HEADS} query heads",
                offered(slices, |slice| slice.kv_dtype.name().to_owned()),
                offered(slices, |slice| slice.head_dim.to_string()),
                offered(slices, |slice| match slice.window {
                    0 => "none".to_owned(),
                    window => window.to_string(),
                }),
                offered(slices, |slice| kv_heads_name(slice.kv_heads)),
            );
            client.uncovered::<DecodeAttentionSlice>(&self.source.set, missing, available)
        })
    }

    /// The sum over `gpus` GPUs; `None` for a single one.
    pub(crate) fn all_reduce(
        &mut self,
        client: Client<'_>,
        gpus: u32,
    ) -> Result<Option<Found<Collective>>, TimingError> {
        if gpus == 1 {
            return Ok(None);
        }
        let group = Collective::measured_group(gpus, &self.source.target);
        let slices = self.all_reduce.load(&self.source.set)?;
        let slice = slices.iter().find(|slice| slice.tp == u64::from(group));
        let found = self.source.found(slice, |slice, standing| {
            Collective::all_reduce(slice, gpus, &self.source.target, standing)
        })?;
        let uncovered = || {
            let available = offered(slices, |slice| slice.tp.to_string());
            client.uncovered::<AllReduceSlice>(&self.source.set, format!("tp {group}"), available)
        };
        found.map(Some).ok_or_else(uncovered)
    }

    /// An operation of NCCL over all GPUs of a worker.
    pub(crate) fn nccl(&mut self, client: Client<'_>, op: NcclOperation) -> Result<Found<Collective>, TimingError> {
        let gpus = client.shape.parallel.gpus();
        let group = Collective::measured_group(gpus, &self.source.target);
        let slices = self.nccl.load(&self.source.set)?;
        let slice = (slices.iter()).find(|slice| (slice.op, slice.gpus) == (op, u64::from(group)));
        let found = self.source.found(slice, |slice, standing| {
            Collective::nccl(slice, gpus, &self.source.target, standing)
        })?;
        found.ok_or_else(|| {
            let missing = format!("{} over {group} GPUs", op.name());
            client.uncovered::<NcclSlice>(&self.source.set, missing, offered(slices, TableSlice::describe))
        })
    }

    /// The routed experts of a layer. Shapes are measured or not: nothing is read between them.
    pub(crate) fn experts(
        &mut self,
        client: Client<'_>,
        shape: ExpertShape,
    ) -> Result<Found<ExpertKernel>, TimingError> {
        let slices = self.moe.load(&self.source.set)?;
        let of_model = |slice: &&MoeSlice| {
            slice.distribution == EXPERT_DISTRIBUTION
                && (slice.dtype, slice.topk, slice.num_experts) == (shape.dtype, shape.top_k, shape.experts)
                && (slice.hidden_size, slice.inter_size) == (shape.hidden, shape.width)
        };
        let spread = |slice: &MoeSlice| (slice.moe_tp_size, slice.moe_ep_size);
        let slice = (slices.iter().filter(of_model)).find(|slice| spread(slice) == (shape.moe_tp, shape.moe_ep));
        let found = self.source.found(slice, |slice, standing| {
            ExpertKernel::of(slice, shape, &self.source.target, standing)
        })?;
        found.ok_or_else(|| {
            let spreads: Vec<&MoeSlice> = slices.iter().filter(of_model).collect();
            let available = if spreads.is_empty() {
                offered(slices, |slice| {
                    format!(
                        "{} of {} experts in {}, hidden size {}, width {}",
                        slice.topk,
                        slice.num_experts,
                        slice.dtype.name(),
                        slice.hidden_size,
                        slice.inter_size
                    )
                })
            } else {
                format!("such experts with {}", offered_spreads(&spreads))
            };
            client.uncovered::<MoeSlice>(&self.source.set, shape.describe(), available)
        })
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

    fn attention(self, formats: &str, window: u64) -> String {
        let (kv_heads, shape) = (kv_heads_name(self.table_kv_heads()), self.shape);
        format!(
            "{formats}, head_dim {}{}, kv heads {kv_heads}, {} query heads",
            shape.head_dim,
            window_name(window),
            shape.query_heads
        )
    }

    fn uncovered<S: TableSlice>(self, set: &TableSet, missing: String, available: String) -> TimingError {
        TimingError::UncoveredShape {
            path: set.path::<S>(),
            model: self.model.to_owned(),
            shape: Box::new(self.shape.parallel),
            missing,
            available,
        }
    }
}

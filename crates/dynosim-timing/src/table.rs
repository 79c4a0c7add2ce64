//! Step times from measured kernel latencies.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use dynosim_spec::{Backend, Deployment, EnginePhysics, GpuSpec};

use crate::all_reduce::{Collective, Exchange};
use crate::curve::Curve;
use crate::decode_attention::{AttentionRow, DecodeAttention};
use crate::decode_inputs::DecodeInputs;
use crate::dense_model::DenseModel;
use crate::engine_tables::{Client, EngineTables, Found};
use crate::error::TimingError;
use crate::experts::ExpertKernel;
use crate::fused_model::FusedModel;
use crate::layer_mix::LayerMix;
use crate::model::{Price, StepShape, TimingModel, TimingProvider};
use crate::operators::{DenseShape, Dispatch, Gemm, Kernels, OperatorCost, PromptBatch};
use crate::perfdata::Perfdata;
use crate::prefill_attention::PrefillAttention;
use crate::reading::Reading;
use crate::repair::{RepairMode, SliceSource, TableRepair};
use crate::table_file::{DecodeAttentionSlice, GemmSlice, NcclOperation, PrefillAttentionSlice};

/// Prices steps of models, dense or with experts, from measured tables of single kernels.
///
/// A pass is the sum of its operators; each is read off the table of its kernel, between the measured
/// points on straight lines or a smooth surface, beyond them on lines (prompt length: on lines through the
/// square root of latency). Time that rests on anything beyond the measured range is reported in
/// [`Price::extrapolated_ms`].
///
/// Layers with a sliding window and others count by their share. Experts are read off measurements of exactly their
/// shape and spread, with tokens spread unevenly over them.
///
/// **Impossible figures.** Every slice of a table that a model needs is checked against the peak rates of the
/// GPU, and some for latencies that fall although the work grows. What is found is in [`TableModel::repairs`].
/// Nothing is done about it unless [`TableTiming::repaired`] asks for that.
///
/// **Other GPUs.** A GPU that `GpuSpec::find` knows and nobody has measured is priced from the tables of the
/// measured one with the nearest memory bandwidth: beyond the shortest latency of its slice, which stands for
/// starting a call, each latency is multiplied by the ratio of the two GPUs' roofline times of that very call.
/// All time priced in this way counts as extrapolated, since none of it was measured on that GPU.
///
/// Tables are read at first use and shared by all models of one provider. Binding the same shape again
/// gives the same model, which has its prices prepared already. So bind all shapes of a sweep through the same
/// value.
#[derive(Debug)]
pub struct TableTiming {
    engine_version: Option<String>,
    perfdata: Perfdata,
    mode: RepairMode,
    engines: Mutex<Vec<Engine>>,
}

impl TableTiming {
    /// Uses the built-in tables of `engine_version` as they were published; `None` stands for 0.14.0 (vLLM) and
    /// 0.5.6.post2 (SGLang).
    pub const fn new(engine_version: Option<String>) -> Self {
        Self {
            engine_version,
            perfdata: Perfdata::Bundled,
            mode: RepairMode::AsPublished,
            engines: Mutex::new(Vec::new()),
        }
    }

    /// Uses the tables of a folder laid out like `perfdata/` instead:
    /// `<system>/<engine>_<engine version>/<table>.json`.
    #[must_use]
    pub fn with_perfdata(mut self, folder: impl Into<PathBuf>) -> Self {
        self.perfdata = Perfdata::Folder(folder.into());
        self.engines = Mutex::default();
        self
    }

    /// Whether a slice that cannot be true is replaced by a sound one of the nearest version of the same engine,
    /// measured on the same GPU. If there is none, the published one is used and its time counts as extrapolated.
    #[must_use]
    pub fn repaired(mut self, repaired: bool) -> Self {
        self.mode = if repaired {
            RepairMode::Repaired
        } else {
            RepairMode::AsPublished
        };
        self.engines = Mutex::default();
        self
    }

    /// The GPU system whose measurements price `gpu`: itself, or another that they are scaled from.
    ///
    /// # Errors
    /// If there are no tables that could price it.
    pub fn measured_system(&self, gpu: &GpuSpec, backend: Backend) -> Result<String, TimingError> {
        let (_, measured) = self.perfdata.find_for(gpu, backend, self.version(backend))?;
        Ok(measured.name)
    }

    /// The model of `deployment`, as its own type.
    ///
    /// # Errors
    /// If the model is unknown or does not divide over the GPUs, if there are no tables for the GPU
    /// or engine version and none to scale, if they are damaged or do not cover the model, or if the model is in
    /// 8 bits and the GPU has no units for that. Experts are priced on vLLM only.
    pub fn bind_table(&self, deployment: &Deployment) -> Result<Arc<TableModel>, TimingError> {
        self.in_tables(deployment, |engine, shape| engine.bind(&deployment.model_name, shape))
    }

    /// What `bind` makes of the tables for a deployment and its shape.
    fn in_tables<T>(
        &self,
        deployment: &Deployment,
        bind: impl FnOnce(&mut Engine, DenseShape) -> Result<T, TimingError>,
    ) -> Result<T, TimingError> {
        let shape = DenseShape::priced(deployment, "pricing it from tables")?;
        let source = self.source(deployment)?;
        check_formats(deployment, &source, &shape)?;
        // A panic while the lock was held leaves at worst a table that is not loaded yet.
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        let known = engines.iter().position(|engine| engine.tables.is_from(&source));
        let index = known.unwrap_or_else(|| {
            engines.push(Engine::new(EngineTables::new(source)));
            engines.len() - 1
        });
        bind(&mut engines[index], shape)
    }

    fn source(&self, deployment: &Deployment) -> Result<SliceSource, TimingError> {
        let backend = deployment.engine.backend;
        let (set, measured) = self
            .perfdata
            .find_for(&deployment.gpu, backend, self.version(backend))?;
        Ok(SliceSource {
            others: self.perfdata.other_versions(&set)?,
            set,
            measured,
            target: deployment.gpu.as_ref().clone(),
            mode: self.mode,
        })
    }

    fn version(&self, backend: Backend) -> &str {
        self.engine_version.as_deref().unwrap_or(default_version(backend))
    }
}

/// Refuses to scale measurements of 8-bit kernels to a GPU without units for them.
fn check_formats(deployment: &Deployment, source: &SliceSource, shape: &DenseShape) -> Result<(), TimingError> {
    if source.is_scaled() && shape.precision.gemm.is_fp8() && source.target.fp8_flops.is_none() {
        return Err(TimingError::NoEightBitUnits {
            system: source.target.name.clone(),
            model: deployment.model_name.clone(),
            format: shape.precision.gemm.name(),
            measured: source.measured.name.clone(),
        });
    }
    Ok(())
}

const fn default_version(backend: Backend) -> &'static str {
    match backend {
        Backend::Vllm => "0.14.0",
        Backend::Sglang => "0.5.6.post2",
    }
}

impl TimingProvider for TableTiming {
    fn bind(&self, deployment: &Deployment) -> Result<Arc<dyn TimingModel>, TimingError> {
        match &deployment.physics {
            None => Ok(self.bind_table(deployment)?),
            Some(physics) => self.in_tables(deployment, |engine, shape| {
                engine.bind_fused(deployment, shape, physics)
            }),
        }
    }
}

/// The tables of one engine version on one GPU, and the models bound from them.
#[derive(Debug)]
struct Engine {
    tables: EngineTables,
    models: Vec<Arc<TableModel>>,
    fused: Vec<(FusedKey, Arc<FusedModel<TableKernels>>)>,
}

/// What tells models of fused passes apart.
#[derive(Debug, PartialEq)]
struct FusedKey {
    shape: DenseShape,
    max_num_seqs: Option<u32>,
    physics: Arc<EnginePhysics>,
}

impl Engine {
    const fn new(tables: EngineTables) -> Self {
        Self {
            tables,
            models: Vec::new(),
            fused: Vec::new(),
        }
    }

    /// The model of `shape`, made if it is asked for the first time; `model_name` is for messages.
    fn bind(&mut self, model_name: &str, shape: DenseShape) -> Result<Arc<TableModel>, TimingError> {
        if let Some(model) = self.models.iter().find(|model| model.dense.shape == shape) {
            return Ok(Arc::clone(model));
        }
        let client = Client {
            model: model_name,
            shape: &shape,
        };
        let (kernels, repairs) = TableKernels::of(&mut self.tables, client)?;
        let model = Arc::new(TableModel {
            dense: DenseModel::new(shape, kernels),
            repairs,
            scaled: self.scaled(),
        });
        self.models.push(Arc::clone(&model));
        Ok(model)
    }

    /// GPU system that was measured, and the one that its figures are scaled to, if they are.
    fn scaled(&self) -> Option<(String, String)> {
        let source = self.tables.source();
        let names = || (source.measured.name.clone(), source.target.name.clone());
        source.is_scaled().then(names)
    }

    /// The model of `shape` in an engine whose step is one pass, made if it is asked for the first time.
    fn bind_fused(
        &mut self,
        deployment: &Deployment,
        shape: DenseShape,
        physics: &Arc<EnginePhysics>,
    ) -> Result<Arc<dyn TimingModel>, TimingError> {
        let key = FusedKey {
            shape,
            max_num_seqs: deployment.engine.max_num_seqs,
            physics: Arc::clone(physics),
        };
        if let Some((_, model)) = self.fused.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::<FusedModel<TableKernels>>::clone(model));
        }
        let client = Client {
            model: &deployment.model_name,
            shape: &key.shape,
        };
        let (kernels, repairs) = TableKernels::of(&mut self.tables, client)?;
        let scaling = self.scaled().map(|(measured, target)| scaling_note(&measured, &target));
        let warnings = scaling.into_iter().chain(TableRepair::warnings(&repairs));
        let model = FusedModel::new(key.shape.clone(), kernels, deployment, physics);
        let model = Arc::new(model.with_warnings(warnings.collect()));
        self.fused.push((key, Arc::clone(&model)));
        Ok(model)
    }
}

/// Kernel latencies of one deployment, cut out of the densified tables.
struct TableKernels {
    /// By [`Gemm`]; only those that the model has.
    gemms: [Option<Curve>; Gemm::COUNT],
    prefill_attention: LayerMix<PrefillAttention>,
    decode_attention: LayerMix<DecodeAttention>,
    all_reduce: Option<Collective>,
    experts: Option<ExpertKernels>,
    /// Paths of the tables, for messages.
    paths: TablePaths,
}

/// What takes the place of a dense feed-forward part.
struct ExpertKernels {
    experts: ExpertKernel,
    /// Over all GPUs of the worker, if attention is tensor parallel.
    all_reduce: Option<Collective>,
    /// Between data-parallel groups, if there are several.
    exchange: Option<Exchange>,
}

#[derive(Debug)]
struct TablePaths {
    gemm: String,
    prefill_attention: String,
    decode_attention: String,
}

impl ExpertKernels {
    /// `None` for dense models.
    fn of(tables: &mut EngineTables, client: Client<'_>, repairs: &mut Repairs) -> Result<Option<Self>, TimingError> {
        let Some(experts) = client.shape.experts else {
            return Ok(None);
        };
        let parallel = client.shape.parallel;
        let experts = repairs.note(tables.experts(client, experts)?);
        let all_reduce = match parallel.tp {
            1 => None,
            _ => tables.all_reduce(client, parallel.gpus())?,
        };
        let all_reduce = all_reduce.map(|found| repairs.note(found));
        let exchange = match parallel.attention_dp {
            1 => None,
            _ => Some(Exchange {
                all_gather: repairs.note(tables.nccl(client, NcclOperation::AllGather)?),
                reduce_scatter: repairs.note(tables.nccl(client, NcclOperation::ReduceScatter)?),
            }),
        };
        Ok(Some(Self {
            experts,
            all_reduce,
            exchange,
        }))
    }
}

impl TableKernels {
    /// The kernels, and what was wrong with the published figures of some, each once.
    fn of(tables: &mut EngineTables, client: Client<'_>) -> Result<(Self, Vec<TableRepair>), TimingError> {
        let mut repairs = Repairs::default();
        let mut gemms = [const { None }; Gemm::COUNT];
        for &gemm in client.shape.gemms() {
            gemms[gemm as usize] = Some(repairs.note(tables.gemm(client, gemm)?));
        }
        let kernels = Self {
            gemms,
            prefill_attention: layer_mix(client.shape, |window| {
                Ok(repairs.note(tables.prefill_attention(client, window)?))
            })?,
            decode_attention: layer_mix(client.shape, |window| {
                Ok(repairs.note(tables.decode_attention(client, window)?))
            })?,
            all_reduce: tables
                .all_reduce(client, client.shape.tp)?
                .map(|found| repairs.note(found)),
            experts: ExpertKernels::of(tables, client, &mut repairs)?,
            paths: TablePaths {
                gemm: tables.path::<GemmSlice>(),
                prefill_attention: tables.path::<PrefillAttentionSlice>(),
                decode_attention: tables.path::<DecodeAttentionSlice>(),
            },
        };
        Ok((kernels, repairs.0))
    }

    fn check_tokens(&self, tokens: u64) -> Result<(), TimingError> {
        let curves = self.gemms.iter().flatten();
        let limit = curves.filter_map(Curve::limit).min().unwrap_or(u64::MAX);
        check(&self.paths.gemm, "m", tokens, limit)
    }

    fn check_prefill(&self, prompts: PromptBatch) -> Result<(), TimingError> {
        let longest = self.prefill_attention.least(|attention| attention.limits().0);
        let largest_batch = self.prefill_attention.least(|attention| attention.limits().1);
        check(&self.paths.prefill_attention, "s", prompts.full_tokens(), longest)?;
        check(&self.paths.prefill_attention, "b", prompts.batch, largest_batch)?;
        self.check_tokens(prompts.tokens())
    }

    fn check_decode(&self, batch: u64, kv_tokens: u64) -> Result<(), TimingError> {
        let longest = self.decode_attention.least(|attention| attention.limits().0);
        let largest_batch = self.decode_attention.least(|attention| attention.limits().1);
        check(
            &self.paths.decode_attention,
            "s",
            DecodeAttention::longest_sample(kv_tokens),
            longest,
        )?;
        check(&self.paths.decode_attention, "b", batch, largest_batch)?;
        self.check_tokens(batch)
    }
}

/// Attention of all layers, given how to find it for a window; 0 stands for all tokens.
fn layer_mix<A>(
    shape: &DenseShape,
    mut attention: impl FnMut(u64) -> Result<A, TimingError>,
) -> Result<LayerMix<A>, TimingError> {
    shape.windows().try_map(|window| attention(*window))
}

/// What was wrong with the published figures of kernels.
#[derive(Debug, Default)]
struct Repairs(Vec<TableRepair>);

impl Repairs {
    /// The kernel; its repair is kept, unless it is there already.
    fn note<T>(&mut self, found: Found<T>) -> T {
        if let Some(repair) = found.repair
            && !self.0.contains(&repair)
        {
            self.0.push(repair);
        }
        found.kernel
    }
}

fn check(path: &str, axis: &'static str, value: u64, limit: u64) -> Result<(), TimingError> {
    if value <= limit {
        return Ok(());
    }
    Err(TimingError::OutsideTable {
        path: path.to_owned(),
        axis,
        value,
        limit,
    })
}

impl std::fmt::Debug for TableKernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableKernels")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl Kernels for TableKernels {
    type DecodeAttention = AttentionRow;

    fn gemm(&self, gemm: Gemm, tokens: u64) -> Reading {
        let curve = self.gemms[gemm as usize].as_ref();
        curve.map_or(Reading::ZERO, |curve| curve.at(tokens))
    }

    fn prefill_attention(&self, prompts: PromptBatch) -> Reading {
        self.prefill_attention.mean(|attention| attention.at(prompts))
    }

    fn decode_attention(&self, batch: u64) -> LayerMix<AttentionRow> {
        self.decode_attention.map(|attention| attention.at_batch(batch))
    }

    fn all_reduce(&self, elements: u64) -> Reading {
        all_reduce(self.all_reduce.as_ref(), elements)
    }

    fn experts(&self, tokens: u64) -> Reading {
        let kernels = self.experts.as_ref();
        kernels.map_or(Reading::ZERO, |kernels| kernels.experts.at(tokens))
    }

    fn worker_all_reduce(&self, elements: u64) -> Reading {
        let kernels = self.experts.as_ref();
        all_reduce(kernels.and_then(|kernels| kernels.all_reduce.as_ref()), elements)
    }

    fn exchange(&self, dispatch: Dispatch, elements: u64) -> Reading {
        let exchange = self.experts.as_ref().and_then(|kernels| kernels.exchange.as_ref());
        exchange.map_or(Reading::ZERO, |exchange| exchange.at(dispatch, elements))
    }
}

fn all_reduce(collective: Option<&Collective>, elements: u64) -> Reading {
    collective.map_or(Reading::ZERO, |collective| collective.at(elements))
}

/// A model priced from tables; see [`TableTiming`].
///
/// As a [`TimingModel`] it answers any step. Beyond the reach of the tables prefill attention grows with
/// the square of the prompt length, everything else in proportion. The methods here are for single
/// questions and fail there instead.
///
/// If several groups of GPUs attend to sequences of their own (`attention_dp`), a step of the
/// [`TimingModel`] is one of the whole worker, and its price is that of the group with most sequences: their number over
/// that of the groups, rounded up. Batches of single questions are those of one such group, and all groups have as many.
#[derive(Debug)]
pub struct TableModel {
    dense: DenseModel<TableKernels>,
    repairs: Vec<TableRepair>,
    /// GPU system that was measured, and the one that its figures are scaled to.
    scaled: Option<(String, String)>,
}

impl TableModel {
    /// Slices that the model needs and whose published figures cannot be true, with what is done about them.
    pub fn repairs(&self) -> &[TableRepair] {
        &self.repairs
    }

    /// Says so if the measurements are of another GPU.
    pub fn scaling_note(&self) -> Option<String> {
        let (measured, target) = self.scaled.as_ref()?;
        Some(scaling_note(measured, target))
    }

    /// Milliseconds to compute `new_tokens` tokens of each of `batch` prompts behind a cached `prefix`.
    ///
    /// # Errors
    /// If this lies beyond the reach of the tables.
    pub fn prefill_ms(&self, batch: u32, new_tokens: u64, prefix: u64) -> Result<f64, TimingError> {
        let prompts = PromptBatch::new(batch, new_tokens, prefix);
        self.dense.kernels.check_prefill(prompts)?;
        Ok(self.dense.prefill_ms(prompts))
    }

    /// Milliseconds of all operators behind [`TableModel::prefill_ms`].
    ///
    /// # Errors
    /// If this lies beyond the reach of the tables.
    pub fn prefill_operators(
        &self,
        batch: u32,
        new_tokens: u64,
        prefix: u64,
    ) -> Result<Vec<OperatorCost>, TimingError> {
        let prompts = PromptBatch::new(batch, new_tokens, prefix);
        self.dense.kernels.check_prefill(prompts)?;
        Ok(self.dense.prefill_operators(prompts).to_vec())
    }

    /// Milliseconds to generate the tokens after the first of `output_tokens` for each of `batch`
    /// sequences with `context` tokens before: all steps together. Every 32 steps cost as the first of
    /// them; there is no least step time.
    ///
    /// # Errors
    /// If this lies beyond the reach of the tables.
    pub fn decode_ms(&self, batch: u32, context: u64, output_tokens: u32) -> Result<f64, TimingError> {
        let generated = u64::from(output_tokens.saturating_sub(1));
        self.dense
            .kernels
            .check_decode(u64::from(batch), context.saturating_add(generated))?;
        Ok(self.dense.decode_ms(u64::from(batch), context, output_tokens))
    }

    /// Milliseconds of all operators of one decode step, for which each of `batch` sequences has
    /// `context` tokens before it.
    ///
    /// # Errors
    /// If this lies beyond the reach of the tables.
    pub fn decode_operators(&self, batch: u32, context: u64) -> Result<Vec<OperatorCost>, TimingError> {
        self.dense
            .kernels
            .check_decode(u64::from(batch), context.saturating_add(1))?;
        Ok(self.dense.decode_operators(u64::from(batch), context).to_vec())
    }
}

fn scaling_note(measured: &str, target: &str) -> String {
    format!("no tables of {target}: {measured} scaled by bandwidth and peak ratios; their time counts as extrapolated")
}

impl TimingModel for TableModel {
    fn prefill(&self, step: &StepShape) -> Price {
        self.dense.prefill(step)
    }

    fn decode(&self, step: &StepShape) -> Price {
        self.dense.decode(step)
    }

    fn decode_depends_on(&self) -> DecodeInputs {
        self.dense.decode_depends_on()
    }

    fn warnings(&self) -> Vec<String> {
        let repairs = TableRepair::warnings(&self.repairs);
        self.scaling_note().into_iter().chain(repairs).collect()
    }

    fn decode_over_contexts(&self, decode_seqs: u32, first_context: u64, prices: &mut [Price]) {
        self.dense.decode_over_contexts(decode_seqs, first_context, prices);
    }
}

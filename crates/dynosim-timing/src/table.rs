//! Step times from measured kernel latencies.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use dynosim_spec::{Backend, Deployment, EnginePhysics};

use crate::all_reduce::AllReduce;
use crate::curve::Curve;
use crate::decode_attention::{AttentionRow, DecodeAttention};
use crate::decode_inputs::DecodeInputs;
use crate::dense_model::DenseModel;
use crate::engine_tables::{Client, EngineTables};
use crate::error::TimingError;
use crate::fused_model::FusedModel;
use crate::model::{Price, StepShape, TimingModel, TimingProvider};
use crate::operators::{DenseShape, Gemm, Kernels, OperatorCost, PromptBatch};
use crate::perfdata::Perfdata;
use crate::prefill_attention::PrefillAttention;
use crate::reading::Reading;
use crate::table_file::{DecodeAttentionSlice, GemmSlice, PrefillAttentionSlice};

/// Prices steps of dense models from measured tables of single kernels.
///
/// A pass is the sum of its operators; each is read off the table of its kernel, between the measured
/// points on straight lines or a smooth surface, beyond them on lines (prompt length: on lines through the
/// square root of latency). Time that rests on anything beyond the measured range is reported in
/// [`Price::extrapolated_ms`].
///
/// Tables are read at first use and shared by all models of one provider. Binding the same shape again
/// gives the same model, which has its prices prepared already. So bind all shapes of a sweep through the same
/// value.
#[derive(Debug)]
pub struct TableTiming {
    engine_version: Option<String>,
    perfdata: Perfdata,
    engines: Mutex<Vec<Engine>>,
}

impl TableTiming {
    /// Uses the built-in tables of `engine_version`; `None` stands for 0.14.0 (vLLM) and 0.5.6.post2
    /// (SGLang).
    pub const fn new(engine_version: Option<String>) -> Self {
        Self {
            engine_version,
            perfdata: Perfdata::Bundled,
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

    /// The model of `deployment`, as its own type.
    ///
    /// # Errors
    /// If the model is unknown or does not divide over the GPUs, if there are no tables for the GPU
    /// or engine version, or if they are damaged or do not cover the model.
    pub fn bind_table(&self, deployment: &Deployment) -> Result<Arc<TableModel>, TimingError> {
        self.in_tables(deployment, |engine, shape| engine.bind(&deployment.model_name, shape))
    }

    /// What `bind` makes of the tables for a deployment and its shape.
    fn in_tables<T>(
        &self,
        deployment: &Deployment,
        bind: impl FnOnce(&mut Engine, DenseShape) -> Result<T, TimingError>,
    ) -> Result<T, TimingError> {
        let shape = DenseShape::of(deployment, "pricing it from tables")?;
        let backend = deployment.engine.backend;
        let version = self.engine_version.as_deref().unwrap_or(default_version(backend));
        let set = self.perfdata.find(&deployment.gpu.name, backend, version)?;
        // A panic while the lock was held leaves at worst a table that is not loaded yet.
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        let known = engines
            .iter()
            .position(|engine| engine.tables.is_for(&set, &deployment.gpu));
        let index = known.unwrap_or_else(|| {
            engines.push(Engine::new(EngineTables::new(set, deployment.gpu.as_ref().clone())));
            engines.len() - 1
        });
        bind(&mut engines[index], shape)
    }
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
        if let Some(model) = self.models.iter().find(|model| model.0.shape == shape) {
            return Ok(Arc::clone(model));
        }
        let client = Client {
            model: model_name,
            shape: &shape,
        };
        let kernels = TableKernels::of(&mut self.tables, client)?;
        let model = Arc::new(TableModel(DenseModel::new(shape, kernels)));
        self.models.push(Arc::clone(&model));
        Ok(model)
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
        let kernels = TableKernels::of(&mut self.tables, client)?;
        let model = Arc::new(FusedModel::new(key.shape.clone(), kernels, deployment, physics));
        self.fused.push((key, Arc::clone(&model)));
        Ok(model)
    }
}

/// Kernel latencies of one deployment, cut out of the densified tables.
struct TableKernels {
    qkv: Curve,
    attention_output: Curve,
    gate_up: Curve,
    down: Curve,
    logits: Curve,
    prefill_attention: PrefillAttention,
    decode_attention: DecodeAttention,
    all_reduce: Option<AllReduce>,
    /// Paths of the tables, for messages.
    paths: TablePaths,
}

#[derive(Debug)]
struct TablePaths {
    gemm: String,
    prefill_attention: String,
    decode_attention: String,
}

impl TableKernels {
    fn of(tables: &mut EngineTables, client: Client<'_>) -> Result<Self, TimingError> {
        Ok(Self {
            qkv: tables.gemm(client, Gemm::Qkv)?,
            attention_output: tables.gemm(client, Gemm::AttentionOutput)?,
            gate_up: tables.gemm(client, Gemm::GateUp)?,
            down: tables.gemm(client, Gemm::Down)?,
            logits: tables.gemm(client, Gemm::Logits)?,
            prefill_attention: tables.prefill_attention(client)?,
            decode_attention: tables.decode_attention(client)?,
            all_reduce: tables.all_reduce(client)?,
            paths: TablePaths {
                gemm: tables.path::<GemmSlice>(),
                prefill_attention: tables.path::<PrefillAttentionSlice>(),
                decode_attention: tables.path::<DecodeAttentionSlice>(),
            },
        })
    }

    const fn curve(&self, gemm: Gemm) -> &Curve {
        match gemm {
            Gemm::Qkv => &self.qkv,
            Gemm::AttentionOutput => &self.attention_output,
            Gemm::GateUp => &self.gate_up,
            Gemm::Down => &self.down,
            Gemm::Logits => &self.logits,
        }
    }

    fn check_tokens(&self, tokens: u64) -> Result<(), TimingError> {
        let curves = [
            &self.qkv,
            &self.attention_output,
            &self.gate_up,
            &self.down,
            &self.logits,
        ];
        let limit = curves.into_iter().filter_map(Curve::limit).min().unwrap_or(u64::MAX);
        check(&self.paths.gemm, "m", tokens, limit)
    }

    fn check_prefill(&self, prompts: PromptBatch) -> Result<(), TimingError> {
        let (longest, largest_batch) = self.prefill_attention.limits();
        check(&self.paths.prefill_attention, "s", prompts.full_tokens(), longest)?;
        check(&self.paths.prefill_attention, "b", prompts.batch, largest_batch)?;
        self.check_tokens(prompts.tokens())
    }

    fn check_decode(&self, batch: u64, kv_tokens: u64) -> Result<(), TimingError> {
        let (longest, largest_batch) = self.decode_attention.limits();
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
        self.curve(gemm).at(tokens)
    }

    fn prefill_attention(&self, prompts: PromptBatch) -> Reading {
        self.prefill_attention.at(prompts)
    }

    fn decode_attention(&self, batch: u64) -> AttentionRow {
        self.decode_attention.at_batch(batch)
    }

    fn all_reduce(&self, elements: u64) -> Reading {
        self.all_reduce
            .as_ref()
            .map_or(Reading::ZERO, |all_reduce| all_reduce.at(elements))
    }
}

/// A dense model priced from tables; see [`TableTiming`].
///
/// As a [`TimingModel`] it answers any step. Beyond the reach of the tables prefill attention grows with
/// the square of the prompt length, everything else in proportion. The methods here are for single
/// questions and fail there instead.
#[derive(Debug)]
pub struct TableModel(DenseModel<TableKernels>);

impl TableModel {
    /// Milliseconds to compute `new_tokens` tokens of each of `batch` prompts behind a cached `prefix`.
    ///
    /// # Errors
    /// If this lies beyond the reach of the tables.
    pub fn prefill_ms(&self, batch: u32, new_tokens: u64, prefix: u64) -> Result<f64, TimingError> {
        let prompts = PromptBatch::new(batch, new_tokens, prefix);
        self.0.kernels.check_prefill(prompts)?;
        Ok(self.0.prefill_ms(prompts))
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
        self.0.kernels.check_prefill(prompts)?;
        Ok(self.0.prefill_operators(prompts).to_vec())
    }

    /// Milliseconds to generate the tokens after the first of `output_tokens` for each of `batch`
    /// sequences with `context` tokens before: all steps together. Every 32 steps cost as the first of
    /// them; there is no least step time.
    ///
    /// # Errors
    /// If this lies beyond the reach of the tables.
    pub fn decode_ms(&self, batch: u32, context: u64, output_tokens: u32) -> Result<f64, TimingError> {
        let generated = u64::from(output_tokens.saturating_sub(1));
        self.0
            .kernels
            .check_decode(u64::from(batch), context.saturating_add(generated))?;
        Ok(self.0.decode_ms(u64::from(batch), context, output_tokens))
    }

    /// Milliseconds of all operators of one decode step, for which each of `batch` sequences has
    /// `context` tokens before it.
    ///
    /// # Errors
    /// If this lies beyond the reach of the tables.
    pub fn decode_operators(&self, batch: u32, context: u64) -> Result<Vec<OperatorCost>, TimingError> {
        self.0
            .kernels
            .check_decode(u64::from(batch), context.saturating_add(1))?;
        Ok(self.0.decode_operators(u64::from(batch), context).to_vec())
    }
}

impl TimingModel for TableModel {
    fn prefill(&self, step: &StepShape) -> Price {
        self.0.prefill(step)
    }

    fn decode(&self, step: &StepShape) -> Price {
        self.0.decode(step)
    }

    fn decode_depends_on(&self) -> DecodeInputs {
        self.0.decode_depends_on()
    }

    fn decode_over_contexts(&self, decode_seqs: u32, first_context: u64, prices: &mut [Price]) {
        self.0.decode_over_contexts(decode_seqs, first_context, prices);
    }
}

//! Answers single questions about steps and capacities.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dynosim::Error;
use dynosim::spec::{Backend, Deployment, EngineArgs, GpuSpec, ModelSpec, ParallelShape, WorkerRole};
use dynosim::timing::{
    OperatorCost, RooflineModel, RooflineTiming, TableModel, TableTiming, TimingError, estimate_kv_tokens,
};

use super::points::Point;
use crate::args::{ProviderArg, Quantity, TimingArgs};
use crate::error::{CliError, chain};

/// What a point says about its workers.
#[derive(Debug)]
pub(super) struct Shape {
    model: String,
    tp: u32,
    attention_dp: Option<u32>,
    moe_tp: Option<u32>,
    moe_ep: Option<u32>,
    backend: Option<Backend>,
    engine_version: Option<String>,
    system: Option<String>,
    memory_fraction: Option<f64>,
    max_num_batched_tokens: Option<u32>,
}

/// Why a question has no answer.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is about this point only.
    Point(String),
    /// It would be the same for every point.
    All(CliError),
}

/// A time, and what its operators say about it.
#[derive(Debug)]
pub(super) struct Prediction {
    pub(super) ms: f64,
    operators_ms: f64,
    extrapolated_ms: f64,
}

impl Prediction {
    const fn of(ms: f64) -> Self {
        Self {
            ms,
            operators_ms: 0.0,
            extrapolated_ms: 0.0,
        }
    }

    fn add(&mut self, operators: &[OperatorCost], repeats: u32) {
        for operator in operators {
            let ms = f64::from(repeats) * operator.ms;
            self.operators_ms += ms;
            if operator.extrapolated {
                self.extrapolated_ms += ms;
            }
        }
    }

    /// Share of the time that rests on extrapolation, 0 to 1.
    pub(super) fn extrapolated_share(&self) -> f64 {
        if self.operators_ms > 0.0 {
            self.extrapolated_ms / self.operators_ms
        } else {
            0.0
        }
    }
}

/// A model bound to its step times.
#[derive(Debug)]
enum Bound {
    Table(Arc<TableModel>),
    Roofline(Arc<RooflineModel>),
}

/// Steps that [`TableModel::decode_ms`] prices as the first of them.
const STRIDE: u32 = 32;

/// Everything that tells bound models apart: model, GPUs of a worker, backend, engine version, system.
type Key = (String, ParallelShape, &'static str, Option<String>, String);

/// Answers questions, keeping what was prepared for the ones before.
#[derive(Debug)]
pub(super) struct Predictor<'a> {
    args: &'a TimingArgs,
    tables: BTreeMap<Option<String>, TableTiming>,
    bound: BTreeMap<Key, Result<Bound, String>>,
}

impl Shape {
    /// Reads it from a row.
    pub(super) fn of(point: Point<'_>) -> Result<Self, CliError> {
        let backend = match point.text("backend") {
            None => None,
            Some("vllm") => Some(Backend::Vllm),
            Some("sglang") => Some(Backend::Sglang),
            Some(other) => {
                return Err(point.mistake("backend", &format!("is `{other}`; it must be vllm or sglang")));
            }
        };
        Ok(Self {
            model: point.required_text("model")?.to_owned(),
            tp: point.count("tp")?,
            attention_dp: match point.optional_count("attention_dp")? {
                None => point.optional_count("dp")?,
                some => some,
            },
            moe_tp: point.optional_count("moe_tp")?,
            moe_ep: point.optional_count("moe_ep")?,
            backend,
            engine_version: point.text("backend_version").map(str::to_owned),
            system: point.text("system").map(str::to_owned),
            memory_fraction: point.optional_share("memory_fraction")?,
            max_num_batched_tokens: point.optional_count("max_num_batched_tokens")?,
        })
    }
}

impl<'a> Predictor<'a> {
    /// Fills in from the command line what points leave open.
    pub(super) fn new(args: &'a TimingArgs) -> Self {
        Self {
            args,
            tables: BTreeMap::new(),
            bound: BTreeMap::new(),
        }
    }

    /// The time to compute `new_tokens` of each of `batch` prompts behind a cached `prefix`.
    pub(super) fn prefill(
        &mut self,
        shape: &Shape,
        batch: u32,
        new_tokens: u64,
        prefix: u64,
    ) -> Result<Prediction, Refusal> {
        let bound = self.bound(shape)?;
        let (ms, operators) = match bound {
            Bound::Table(model) => (
                model.prefill_ms(batch, new_tokens, prefix),
                model.prefill_operators(batch, new_tokens, prefix),
            ),
            Bound::Roofline(model) => (
                Ok(model.prefill_ms(batch, new_tokens, prefix)),
                Ok(model.prefill_operators(batch, new_tokens, prefix)),
            ),
        };
        let mut prediction = Prediction::of(ms.map_err(|error| Refusal::point(&error))?);
        prediction.add(&operators.map_err(|error| Refusal::point(&error))?, 1);
        Ok(prediction)
    }

    /// The time to generate all of `osl` tokens but the first.
    pub(super) fn decode(&mut self, shape: &Shape, batch: u32, context: u64, osl: u32) -> Result<Prediction, Refusal> {
        let bound = self.bound(shape)?;
        let ms = match bound {
            Bound::Table(model) => model.decode_ms(batch, context, osl),
            Bound::Roofline(model) => Ok(model.decode_ms(batch, context, osl)),
        };
        let mut prediction = Prediction::of(ms.map_err(|error| Refusal::point(&error))?);
        let steps = osl.saturating_sub(1);
        for first in (0..steps).step_by(STRIDE as usize) {
            let reached = context.saturating_add(u64::from(first));
            let operators = match bound {
                Bound::Table(model) => model.decode_operators(batch, reached),
                Bound::Roofline(model) => Ok(model.decode_operators(batch, reached)),
            };
            let repeats = (steps - first).min(STRIDE);
            prediction.add(&operators.map_err(|error| Refusal::point(&error))?, repeats);
        }
        Ok(prediction)
    }

    /// What one ought to know about the tables behind the answers so far.
    pub(super) fn notes(&self, quantity: Quantity) -> BTreeSet<String> {
        let other_phase = match quantity {
            Quantity::Prefill => "generation_attention",
            Quantity::Decode => "context_attention",
            Quantity::Capacity => return BTreeSet::new(),
        };
        let models = self.bound.values().filter_map(|bound| match bound {
            Ok(Bound::Table(model)) => Some(model),
            _ => None,
        });
        let notes = models.flat_map(|model| {
            let repairs = model.repairs().iter().filter(|repair| repair.table != other_phase);
            model.scaling_note().into_iter().chain(repairs.map(ToString::to_string))
        });
        notes.collect()
    }

    /// KV blocks of `block_size` tokens that a worker has room for. If several groups of its GPUs attend to sequences
    /// of their own, these are the blocks of all of them.
    pub(super) fn kv_blocks(&self, shape: &Shape, block_size: u32) -> Result<u64, Refusal> {
        let deployment = self.deployment(shape).map_err(Refusal::Point)?;
        let tokens = estimate_kv_tokens(&deployment).map_err(|error| Refusal::point(&error))?;
        let groups = u64::from(deployment.shape.attention_dp);
        Ok((tokens / u64::from(block_size)).saturating_mul(groups))
    }

    fn bound(&mut self, shape: &Shape) -> Result<&Bound, Refusal> {
        let backend = self.backend(shape);
        let version = shape.engine_version.as_ref().or(self.args.engine_version.as_ref());
        let key: Key = (
            shape.model.clone(),
            self.parallel(shape),
            match backend {
                Backend::Vllm => "vllm",
                Backend::Sglang => "sglang",
            },
            version.cloned(),
            self.system(shape).to_owned(),
        );
        if !self.bound.contains_key(&key) {
            let bound = match self.bind(shape, version.cloned()) {
                Ok(bound) => Ok(bound),
                Err(Refusal::Point(reason)) => Err(reason),
                Err(all) => return Err(all),
            };
            self.bound.insert(key.clone(), bound);
        }
        match &self.bound[&key] {
            Ok(bound) => Ok(bound),
            Err(reason) => Err(Refusal::Point(reason.clone())),
        }
    }

    fn bind(&mut self, shape: &Shape, version: Option<String>) -> Result<Bound, Refusal> {
        let deployment = self.deployment(shape).map_err(Refusal::Point)?;
        if self.args.provider == ProviderArg::Roofline {
            let model = RooflineTiming
                .bind_roofline(&deployment)
                .map_err(|error| Refusal::point(&error))?;
            return Ok(Bound::Roofline(model));
        }
        let (perfdata, repair) = (&self.args.tables.perfdata, self.args.repair);
        let tables = self.tables.entry(version.clone()).or_insert_with(|| {
            let tables = TableTiming::new(version).repaired(repair);
            match perfdata {
                Some(folder) => tables.with_perfdata(folder),
                None => tables,
            }
        });
        tables
            .bind_table(&deployment)
            .map(Bound::Table)
            .map_err(|error| refusal(error, shape))
    }

    fn deployment(&self, shape: &Shape) -> Result<Deployment, String> {
        let model = ModelSpec::find(&shape.model).map_err(|error| chain(&error))?;
        let gpu = GpuSpec::find(self.system(shape)).map_err(|error| chain(&error))?;
        let engine = EngineArgs {
            gpu_memory_utilization: shape.memory_fraction,
            mem_fraction_static: shape.memory_fraction,
            max_num_batched_tokens: shape.max_num_batched_tokens.map(Into::into),
            ..EngineArgs::default()
        };
        Ok(Deployment {
            model_name: shape.model.clone(),
            model: Some(Arc::new(model)),
            gpu: Arc::new(gpu),
            shape: self.parallel(shape),
            engine: engine.resolve(self.backend(shape), WorkerRole::Aggregated),
            physics: None,
        })
    }

    fn parallel(&self, shape: &Shape) -> ParallelShape {
        ParallelShape {
            tp: shape.tp,
            attention_dp: shape.attention_dp.or(self.args.attention_dp).unwrap_or(1),
            moe_tp: shape.moe_tp.or(self.args.moe_tp),
            moe_ep: shape.moe_ep.or(self.args.moe_ep),
        }
    }

    fn backend(&self, shape: &Shape) -> Backend {
        shape.backend.unwrap_or_else(|| self.args.backend.into())
    }

    fn system<'s>(&'s self, shape: &'s Shape) -> &'s str {
        shape.system.as_deref().unwrap_or(&self.args.system)
    }
}

impl Refusal {
    fn point(error: &TimingError) -> Self {
        Self::Point(chain(error))
    }
}

/// Tables that do not exist or cannot be read are nothing that another point could change, unless the
/// point itself asked for them.
fn refusal(error: TimingError, shape: &Shape) -> Refusal {
    let all = match &error {
        TimingError::UnknownSystem { .. } => shape.system.is_none() && shape.backend.is_none(),
        TimingError::UnknownEngineVersion { .. } => shape.engine_version.is_none(),
        TimingError::Unreadable { .. }
        | TimingError::LfsPointer { .. }
        | TimingError::MalformedTable { .. }
        | TimingError::InvalidTable { .. } => true,
        _ => false,
    };
    if all {
        Refusal::All(Error::from(error).into())
    } else {
        Refusal::point(&error)
    }
}

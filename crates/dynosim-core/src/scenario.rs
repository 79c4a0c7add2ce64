//! Everything that runs over one workload have in common, and how a run is put together from it.

use std::sync::Arc;

use dynosim_router::{Pool, Router};
use dynosim_spec::{
    Backend, Calibration, Deployment, EnginePhysics, EngineSpec, GpuSpec, ModelSpec, ParallelShape, PromptSegments,
    Request, RouterMode, RouterSettings, Rules, StepTerm, WeightFormat, WorkerRole, Workload,
};
use dynosim_timing::{TimingError, TimingModel, TimingProvider};

use crate::error::SimError;
use crate::rejection::{Room, rejections};
use crate::rules::EngineRules;
use crate::simulation::{PoolPlan, Simulation};

/// Builds the router of a pool from its settings and the seed of the run.
pub type RouterFactory<'a> = &'a (dyn Fn(&RouterSettings, Pool, u64) -> Box<dyn Router> + Sync);

/// A model, a GPU, engine settings and a workload: what stays the same while topology and router vary.
#[derive(Debug, Clone)]
pub struct Scenario {
    engine: EngineSpec,
    model: Option<Arc<ModelSpec>>,
    gpu: Arc<GpuSpec>,
    workload: Arc<Workload>,
    physics: Option<Arc<EnginePhysics>>,
}

impl Scenario {
    /// Puts the parts together. `model` is `None` if nothing is known about it, which only some
    /// timing providers tolerate, and only if `num_gpu_blocks` is pinned.
    pub fn new(engine: EngineSpec, model: Option<ModelSpec>, gpu: GpuSpec, workload: Workload) -> Self {
        let physics = default_physics(&engine, model.as_ref()).map(Arc::new);
        Self {
            engine,
            model: model.map(Arc::new),
            gpu: Arc::new(gpu),
            workload: Arc::new(workload),
            physics,
        }
    }

    /// The same with other constants or without some parts of a step, if the engine rules have such; they
    /// begin with the bundled calibration.
    #[must_use]
    pub fn with_physics(mut self, physics: EnginePhysics) -> Self {
        if self.physics.is_some() {
            self.physics = Some(Arc::new(physics));
        }
        self
    }

    /// The same model, load and constants with other arguments of the same engine.
    #[must_use]
    pub fn with_engine(&self, engine: EngineSpec) -> Self {
        Self { engine, ..self.clone() }
    }

    /// What the engine adds to its kernels, if the engine rules have such.
    pub fn physics(&self) -> Option<&EnginePhysics> {
        self.physics.as_deref()
    }

    /// The load.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Facts about the model, if any are known.
    pub fn model(&self) -> Option<&ModelSpec> {
        self.model.as_deref()
    }

    /// The GPU.
    pub fn gpu(&self) -> &GpuSpec {
        &self.gpu
    }

    /// Model and engine settings.
    pub fn engine(&self) -> &EngineSpec {
        &self.engine
    }

    /// The prompts of the workload in blocks of this role's size.
    pub fn prompts(&self, role: WorkerRole) -> Arc<PromptSegments> {
        Arc::new(PromptSegments::new(&self.workload, self.engine.config(role).block_size))
    }

    /// Binds workers of a role and parallel shape to their step times and KV capacity.
    ///
    /// If several groups of a worker's GPUs attend to sequences of their own (`attention_dp`), the worker still is
    /// one engine with one scheduler: its KV blocks are those of all groups together, its limits of sequences and tokens
    /// per step are limits of the whole worker, and the timing model shares a step's sequences out evenly.
    ///
    /// # Errors
    /// If the model cannot be spread in this way, the provider cannot price such workers, or there is no room for
    /// their KV cache.
    pub fn worker_shape(
        &self,
        role: WorkerRole,
        shape: ParallelShape,
        provider: &dyn TimingProvider,
    ) -> Result<WorkerShape, SimError> {
        let resolved = shape.of_model(self.model(), self.engine.backend);
        let shape = resolved.map_err(|reason| {
            let model = &self.engine.model;
            SimError::Setup(format!("{model} cannot run at {shape}: {reason}"))
        })?;
        let deployment = Deployment {
            model_name: self.engine.model.clone(),
            model: self.model.clone(),
            gpu: Arc::clone(&self.gpu),
            shape,
            engine: self.engine.config(role),
            physics: self.physics.clone(),
        };
        let timing = provider.bind(&deployment)?;
        let estimate = estimated_blocks(&deployment, provider);
        let num_gpu_blocks = match deployment.engine.num_gpu_blocks {
            Some(pinned) => pinned,
            None => *estimate.as_ref().map_err(|error| SimError::Setup(error.to_string()))?,
        };
        if num_gpu_blocks == 0 {
            return Err(SimError::Setup(format!(
                "no room for a single KV block of {} tokens at {shape}; use a smaller block_size or a larger tp",
                deployment.engine.block_size
            )));
        }
        let estimated_blocks = match estimate {
            Ok(blocks) => Some(blocks),
            Err(TimingError::NoKvRoom { .. }) => Some(0),
            Err(_) => None,
        };
        Ok(WorkerShape {
            deployment,
            num_gpu_blocks,
            estimated_blocks,
            timing,
        })
    }

    /// Why a run on pools of these workers could not serve the first of the requests that it would reject; `None` if it
    /// would reject none.
    pub fn first_rejection(&self, shapes: &[&WorkerShape]) -> Option<String> {
        let rules = EngineRules::of(self.engine.rules);
        let rooms = shapes.iter().map(|shape| Room {
            config: &shape.deployment.engine,
            num_gpu_blocks: shape.num_gpu_blocks,
            rules,
        });
        let rejections = rejections(&self.workload, &rooms.collect::<Vec<_>>());
        let first = rejections.first()?;
        Some(format!("request {}: {}", first.request, first.reason))
    }

    /// A run on pools of these workers: one aggregated pool, or a prefill and a decode pool.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn simulation(
        &self,
        pools: &[(&WorkerShape, u32)],
        prompts: &Arc<PromptSegments>,
        router: &RouterSettings,
        seed: u64,
        build_router: RouterFactory<'_>,
    ) -> Result<Simulation<'_>, SimError> {
        let plans = pools.iter().map(|&(shape, workers)| {
            let engine = &shape.deployment.engine;
            let pool = Pool {
                role: engine.role,
                workers,
                block_size: engine.block_size,
                max_num_batched_tokens: engine.max_num_batched_tokens,
                prompts: Arc::clone(prompts),
            };
            let mut settings = router.clone();
            if let Some(policy) = engine.router_queue_policy {
                settings.router_queue_policy = policy;
            }
            PoolPlan {
                workers,
                deployment: shape.deployment.clone(),
                num_gpu_blocks: shape.num_gpu_blocks,
                timing: Arc::clone(&shape.timing),
                router: build_router(&settings, pool, seed),
                prompts: Arc::clone(prompts),
            }
        });
        Simulation::new(&self.workload, self.engine.rules, plans.collect())
    }

    /// What a user ought to know about running on these workers.
    pub fn warnings(&self, shapes: &[&WorkerShape], router: RouterMode) -> Vec<String> {
        let mut warnings = timing_warnings(shapes);
        warnings.extend(self.capacity_warning(shapes));
        warnings.extend(self.context_warning());
        warnings.extend(self.calibration_warning());
        warnings.extend(self.idle_terms_warning());
        if self
            .model()
            .is_some_and(|model| model.weights == WeightFormat::Fp8PerTensor)
        {
            warnings.push(format!(
                "{} has per-tensor FP8 weights: its matrix products are priced from the table of dynamic FP8 kernels, \
                 and its KV cache is FP8",
                self.engine.model
            ));
        }
        // The SGLang-style engine always caches.
        let caches = |shape: &&WorkerShape| {
            let engine = &shape.deployment.engine;
            engine.enable_prefix_caching || engine.backend == Backend::Sglang
        };
        if router == RouterMode::KvRouter && !shapes.is_empty() && !shapes.iter().any(caches) {
            warnings.push("prefix caching is off, so the KV router finds no cached prefixes".to_owned());
        }
        warnings
    }

    /// Says that a calibration is of another engine or number format than what runs, or that there is none.
    fn calibration_warning(&self) -> Option<String> {
        let (calibration, model) = (&self.physics()?.calibration, self.model()?);
        if calibration.engine != self.engine.backend || calibration.weights != model.weights {
            return Some(format!(
                "calibration {} is of another engine or other weights than {} has on this one",
                calibration.name, self.engine.model
            ));
        }
        (calibration.name == Calibration::UNKNOWN).then(|| {
            format!(
                "no constant of the engine is known for the weights of {}: steps cost what their kernels do",
                self.engine.model
            )
        })
    }

    /// Says that parts of a step are to be left out that there are not.
    fn idle_terms_warning(&self) -> Option<String> {
        let physics = self.physics()?;
        let constants = &physics.calibration.constants;
        let is_fp8 = |weights| matches!(weights, WeightFormat::Fp8PerTensor | WeightFormat::Fp8Block);
        let side_kernels = self.model().is_some_and(|model| !is_fp8(model.weights));
        let client = [
            &constants.ingress_ms,
            &constants.ingress_us_per_token,
            &constants.egress_ms,
            &constants.resend_ms,
        ];
        let idle: Vec<String> = [
            (StepTerm::GemmDerate, constants.gemm_derate.is_some()),
            (StepTerm::AllReduceCall, constants.all_reduce_call_us.is_some()),
            (StepTerm::StepConstant, constants.step_ms.is_some()),
            (StepTerm::SideKernels, side_kernels),
            (StepTerm::Client, client.into_iter().any(Option::is_some)),
        ]
        .into_iter()
        .filter(|&(term, there)| !there && !physics.has(term))
        .map(|(term, _)| term.to_string())
        .collect();
        (!idle.is_empty()).then(|| {
            format!(
                "timing.without: {} has no effect, because there is nothing of it to leave out with calibration {}",
                idle.join(", "),
                physics.calibration.name
            )
        })
    }

    /// Says that requests are longer than the model can take.
    fn context_warning(&self) -> Option<String> {
        let context = u64::from(self.model()?.context_length?);
        let tokens = |request: &Request| u64::from(request.input_tokens) + u64::from(request.output_tokens);
        let longest = self.workload.requests().iter().map(tokens).max()?;
        (longest > context).then(|| {
            format!(
                "requests of up to {longest} tokens exceed the model's context of {context}; a real server refuses them"
            )
        })
    }

    /// Says that more KV blocks are pinned than fit.
    fn capacity_warning(&self, shapes: &[&WorkerShape]) -> Option<String> {
        let too_many: Vec<String> = shapes
            .iter()
            .filter_map(|shape| {
                let estimate = shape
                    .estimated_blocks
                    .filter(|&estimate| estimate < shape.num_gpu_blocks)?;
                let Deployment {
                    engine, shape: gpus, ..
                } = &shape.deployment;
                let (pinned, tokens) = (shape.num_gpu_blocks, engine.block_size);
                Some(format!(
                    "{pinned} of {tokens} tokens where about {estimate} fit ({} {gpus})",
                    engine.role
                ))
            })
            .collect();
        (!too_many.is_empty()).then(|| {
            format!(
                "num_gpu_blocks does not fit on {}: {}; results hold for GPUs with that much more memory",
                self.gpu.name,
                too_many.join(", ")
            )
        })
    }
}

/// The bundled constants of an engine whose rules have passes of their own; `None` for other rules.
fn default_physics(engine: &EngineSpec, model: Option<&ModelSpec>) -> Option<EnginePhysics> {
    if engine.backend != Backend::Vllm || engine.rules != Rules::VllmV1Async {
        return None;
    }
    let weights = model.map_or(WeightFormat::Bfloat16, |model| model.weights);
    Some(EnginePhysics::new(Calibration::bundled(engine.backend, weights)))
}

/// What timing models say about their data, each sentence once.
fn timing_warnings(shapes: &[&WorkerShape]) -> Vec<String> {
    let mut warnings = Vec::new();
    for warning in shapes.iter().flat_map(|shape| shape.timing.warnings()) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

/// Workers of one role and parallel shape, ready to run.
#[derive(Debug, Clone)]
pub struct WorkerShape {
    /// Model, GPU, parallel shape and engine settings.
    pub deployment: Deployment,
    /// KV blocks of one worker: as pinned, else as estimated.
    pub num_gpu_blocks: u32,
    /// KV blocks that fit by the provider's estimate; `None` if it has none.
    pub estimated_blocks: Option<u32>,
    /// Prices steps.
    pub timing: Arc<dyn TimingModel>,
}

/// Blocks of all groups of GPUs together; those of each group are whole ones.
fn estimated_blocks(deployment: &Deployment, provider: &dyn TimingProvider) -> Result<u32, TimingError> {
    let tokens = provider.kv_capacity_tokens(deployment)?;
    let tokens = match &deployment.physics {
        Some(physics) => physics.calibrated_capacity(tokens),
        None => tokens,
    };
    let blocks = tokens / u64::from(deployment.engine.block_size.tokens());
    let blocks = blocks.saturating_mul(deployment.shape.attention_dp.into());
    Ok(u32::try_from(blocks).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use dynosim_spec::{Admission, BlockSize, MoeSpec, SimDuration, WorkloadBuilder};
    use dynosim_timing::PolynomialTiming;

    use super::*;

    fn small_model(context_length: Option<u32>) -> ModelSpec {
        ModelSpec {
            name: "small".to_owned(),
            layers: 1,
            hidden_size: 128,
            intermediate_size: 128,
            attention_heads: 1,
            kv_heads: 1,
            head_dim: 128,
            vocab_size: 1000,
            context_length,
            qk_norm: false,
            weights: WeightFormat::Bfloat16,
            moe: None,
            sliding_window: None,
        }
    }

    /// Warnings about requests of 100 tokens in all on a model with this context.
    fn warnings(context_length: Option<u32>) -> Vec<String> {
        let model = small_model(context_length);
        let mut workload = WorkloadBuilder::new(BlockSize::new(1).expect("not zero"));
        for output_tokens in [10, 1] {
            let request = Request {
                session: output_tokens,
                turn: 0,
                input_tokens: 90,
                output_tokens,
                delay: SimDuration::ZERO,
            };
            workload.push(request, []);
        }
        let gpu = GpuSpec::find("h200_sxm").expect("the system is known");
        let engine = EngineSpec::new("small", Backend::Vllm);
        Scenario::new(engine, Some(model), gpu, workload.build(Admission::OpenLoop))
            .warnings(&[], RouterMode::RoundRobin)
    }

    /// Prices nothing and has room for a hundred tokens in each group of GPUs.
    struct HundredTokens;

    impl TimingProvider for HundredTokens {
        fn bind(&self, deployment: &Deployment) -> Result<Arc<dyn TimingModel>, TimingError> {
            PolynomialTiming.bind(deployment)
        }

        fn kv_capacity_tokens(&self, _: &Deployment) -> Result<u64, TimingError> {
            Ok(100)
        }
    }

    #[test]
    fn every_group_of_gpus_has_blocks_of_its_own() {
        #[track_caller]
        fn check(pinned: Option<u32>, shape: ParallelShape, expected: Result<(u32, Option<u32>), &str>) {
            let mut engine = EngineSpec::new("small", Backend::Vllm);
            engine.base_engine_args.num_gpu_blocks = pinned;
            let gpu = GpuSpec::find("h200_sxm").expect("the system is known");
            let workload = WorkloadBuilder::new(BlockSize::new(1).expect("not zero")).build(Admission::OpenLoop);
            let model = ModelSpec {
                moe: Some(MoeSpec {
                    experts: 8,
                    top_k: 2,
                    intermediate_size: 16,
                }),
                ..small_model(None)
            };
            let scenario = Scenario::new(engine, Some(model), gpu, workload);
            let bound = scenario.worker_shape(WorkerRole::Aggregated, shape, &HundredTokens);
            match (bound, expected) {
                (Ok(worker), Ok(expected)) => {
                    assert_eq!((worker.num_gpu_blocks, worker.estimated_blocks), expected);
                }
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (bound, expected) => panic!("{bound:?} instead of {expected:?}"),
            }
        }
        // A block has 64 tokens, so that a group has one of them and four groups have four.
        check(None, ParallelShape::experts(1, 4, 1, 4), Ok((4, Some(4))));
        check(None, ParallelShape::tensor(4), Ok((1, Some(1))));
        // What is pinned is that of the worker.
        check(Some(7), ParallelShape::experts(1, 4, 4, 1), Ok((7, Some(4))));
        let impossible = "small cannot run at tp 2 moe_ep 3: tp 2 times attention_dp 1 is 2";
        let three_groups = ParallelShape {
            moe_ep: Some(3),
            ..ParallelShape::tensor(2)
        };
        check(None, three_groups, Err(impossible));
    }

    #[test]
    fn parts_that_there_are_not_cannot_be_left_out() {
        let idle = |weights| {
            let engine = EngineSpec::new("small", Backend::Vllm);
            let model = ModelSpec {
                weights,
                ..small_model(None)
            };
            let gpu = GpuSpec::find("h200_sxm").expect("the system is known");
            let workload = WorkloadBuilder::new(BlockSize::new(1).expect("not zero")).build(Admission::OpenLoop);
            let physics = EnginePhysics {
                calibration: Calibration::neutral("mine", Backend::Vllm, weights),
                without: vec![StepTerm::SideKernels, StepTerm::Client, StepTerm::Pipeline],
            };
            let scenario = Scenario::new(engine, Some(model), gpu, workload).with_physics(physics);
            scenario.idle_terms_warning().expect("a neutral record has no client")
        };
        for weights in [WeightFormat::Bfloat16, WeightFormat::Mxfp4Experts] {
            assert!(
                idle(weights).starts_with("timing.without: client has no effect"),
                "{weights:?}"
            );
        }
        for weights in [WeightFormat::Fp8PerTensor, WeightFormat::Fp8Block] {
            assert!(
                idle(weights).starts_with("timing.without: sideKernels, client has"),
                "{weights:?}"
            );
        }
    }

    #[test]
    fn requests_beyond_the_context() {
        assert_eq!(
            warnings(Some(99)),
            ["requests of up to 100 tokens exceed the model's context of 99; a real server refuses them"]
        );
        for enough in [Some(100), None] {
            assert_eq!(warnings(enough), [""; 0]);
        }
    }
}

//! Small random runs of every kind.

use dynosim::core::{Outcome, SimError, Stepping};
use dynosim::spec::{
    Backend, KvRouterConfig, QueuePolicy, Request, RouterMode, Rules, RunRouterSpec, RunSpec, SchedulePolicy,
    SglangArgs, Topology,
};
use dynosim::{Error, Report};
use proptest::prelude::*;

use crate::twin::Case;

/// A run with any engine and router.
#[derive(Debug, Clone)]
pub(super) struct AnyRun {
    pub(super) case: Case,
    sglang: Option<[SglangArgs; 2]>,
    router: RunRouterSpec,
}

/// A run that came to its end, and the requests that it served.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) requests: Vec<Request>,
    pub(super) outcome: Outcome,
}

impl AnyRun {
    /// Any run at all.
    pub(super) fn any() -> impl Strategy<Value = Self> {
        let rules = prop_oneof![Just(Rules::VllmV1Async), Just(Rules::VllmV1), Just(Rules::Dynosim12)];
        let parts = (rules.prop_flat_map(Case::any), any::<bool>(), router());
        parts.prop_flat_map(|(case, sglang, router)| {
            let page = case.args[0].block_size.unwrap_or(1);
            let sglang = if sglang {
                [sglang_args(page), sglang_args(page)].prop_map(Some).boxed()
            } else {
                Just(None).boxed()
            };
            sglang.prop_map(move |sglang| Self {
                case: case.clone(),
                sglang,
                router: router.clone(),
            })
        })
    }

    /// The run as a spec.
    pub(super) fn spec(&self) -> RunSpec {
        let mut spec = self.case.spec();
        spec.router = self.router.clone();
        if let Some([prefill, decode]) = &self.sglang {
            spec.engine.backend = Backend::Sglang;
            match self.case.topology {
                Topology::Aggregated { .. } => spec.engine.base_engine_args.sglang = Some(decode.clone()),
                Topology::Disaggregated { .. } => {
                    for (args, sglang) in [
                        (&mut spec.engine.prefill_engine_args, prefill),
                        (&mut spec.engine.decode_engine_args, decode),
                    ] {
                        args.as_mut().expect("both roles have arguments").sglang = Some(sglang.clone());
                    }
                }
            }
        }
        spec
    }

    /// What comes of it. `None` if every request is rejected, or if it gets stuck and may: admission
    /// under the `dynosim-1.2` rules can take turns with preemption for ever.
    pub(super) fn serve(&self) -> Option<Served> {
        self.serve_stepping(Stepping::Bulk)
    }

    /// What comes of it when decode steps are computed in this way.
    pub(super) fn serve_stepping(&self, stepping: Stepping) -> Option<Served> {
        match self.case.simulate_as(&self.spec(), stepping) {
            Ok(outcome) => Some(Served {
                requests: self.case.workload().requests().to_vec(),
                outcome,
            }),
            Err(Error::Simulation(SimError::AllRejected { .. })) => None,
            Err(Error::Simulation(SimError::NoProgress { .. }))
                if self.case.rules == Rules::Dynosim12 && self.sglang.is_none() =>
            {
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl Served {
    pub(super) fn report(&self) -> &Report {
        &self.outcome.report
    }

    pub(super) fn is_rejected(&self, request: usize) -> bool {
        let rejections = &self.report().rejections;
        rejections.iter().any(|rejection| rejection.request as usize == request)
    }

    /// When each token of a request left the engine, nanoseconds.
    pub(super) fn token_times(&self, request: usize) -> Vec<u64> {
        let times = self.outcome.token_times.as_ref().expect("token times were kept");
        times[request].iter().map(|time| time.as_nanos()).collect()
    }
}

fn sglang_args(page: u32) -> impl Strategy<Value = SglangArgs> {
    let policy = prop_oneof![Just(SchedulePolicy::Fifo), Just(SchedulePolicy::Lpm)];
    let clip = prop_oneof![1_u32..5, Just(4096)];
    let conservativeness = prop_oneof![Just(0.0), Just(0.3), Just(1.0)];
    (policy, 1_u32..8, 1_u32..100, clip, conservativeness).prop_map(
        move |(policy, pages_per_chunk, most_prefill, clip, conservativeness)| SglangArgs {
            schedule_policy: Some(policy),
            page_size: None,
            max_prefill_tokens: Some(most_prefill),
            chunked_prefill_size: Some(page * pages_per_chunk),
            clip_max_new_tokens: Some(clip),
            schedule_conservativeness: Some(conservativeness),
        },
    )
}

fn router() -> impl Strategy<Value = RunRouterSpec> {
    let policy = prop_oneof![
        Just(QueuePolicy::Fcfs),
        Just(QueuePolicy::Lcfs),
        Just(QueuePolicy::Wspt)
    ];
    let threshold = prop_oneof![Just(None), Just(Some(0.0)), Just(Some(0.1)), Just(Some(4.0))];
    let number = || prop_oneof![Just(0.0), Just(0.5), Just(1.0)];
    let switches = (any::<bool>(), any::<bool>(), any::<bool>());
    let config = (number(), number(), number(), threshold, policy, switches).prop_map(
        |(credit, scale, temperature, threshold, policy, switches)| KvRouterConfig {
            overlap_score_credit: credit,
            prefill_load_scale: 2.0 * scale,
            router_temperature: temperature,
            router_queue_threshold: threshold,
            router_queue_policy: policy,
            router_track_active_blocks: switches.0,
            router_assume_kv_reuse: switches.1,
            router_track_prefill_tokens: switches.2,
        },
    );
    let mode = prop_oneof![1 => Just(RouterMode::RoundRobin), 3 => Just(RouterMode::KvRouter)];
    (mode, config, any::<u64>()).prop_map(|(mode, base_config, seed)| RunRouterSpec {
        mode,
        seed: Some(seed),
        base_config,
        ..RunRouterSpec::default()
    })
}

//! What one part of a document leaves without an effect in another.

use super::engine::{DECODE_KEY, EngineSpec, PREFILL_KEY, Pools};
use super::kv_router_config::KvRouterConfig;
use crate::engine::{Backend, QueuePolicy, Rules, WorkerRole};
use crate::engine_args::EngineArgs;
use crate::reader::Section;
use crate::workload_spec::{TraceFormat, WorkloadSpec};

/// Names of an object of engine arguments.
type Names = &'static [&'static str];

const BASE: Names = &["baseEngineArgs"];
const PREFILL: Names = &[PREFILL_KEY.0, PREFILL_KEY.1];
const DECODE: Names = &[DECODE_KEY.0, DECODE_KEY.1];
const TRANSFER: [&str; 2] = ["kv_bytes_per_token", "kv_transfer_bandwidth"];

/// Calibrations and what to leave out of a step, where steps are bare sums of their kernels.
pub(super) fn warn_about_physics(section: &mut Section<'_, '_>, engine: &EngineSpec) {
    let why = match (engine.backend, engine.rules) {
        (Backend::Vllm, Rules::VllmV1Async) => return,
        (Backend::Vllm, Rules::VllmV1 | Rules::Dynosim12) => "under rules other than vllm-v1-async",
        (Backend::Sglang, _) => "with backend sglang",
    };
    for path in ["timing.calibration", "timing.without"] {
        section.idle(path, why);
    }
}

impl EngineSpec {
    /// Within the `engine` object: arguments that no worker reads.
    pub(super) fn warn_about_idle_args(&self, section: &mut Section<'_, '_>, pools: Pools) {
        self.warn_about_unread_objects(section, pools);
        self.warn_about_transfers(section, pools);
        self.warn_about_role_args(section, pools);
    }

    fn warn_about_unread_objects(&self, section: &mut Section<'_, '_>, pools: Pools) {
        if pools == Pools::Aggregated {
            for key in PREFILL.iter().chain(DECODE) {
                if section.has(key) {
                    section.warn(key, "has no effect in an aggregated run");
                }
            }
        } else if !self.reads_base(pools) && self.base_engine_args != EngineArgs::default() {
            let message = "has no effect in a disaggregated run whose roles have arguments of their own";
            section.warn(BASE[0], message);
        }
    }

    /// The prefill workers' arguments say how the KV travels.
    fn warn_about_transfers(&self, section: &mut Section<'_, '_>, pools: Pools) {
        const BY_PREFILL: &str = "because the transfer is set by the prefill arguments";
        let [bytes_key, bandwidth_key] = TRANSFER;
        if pools == Pools::Aggregated {
            for key in TRANSFER {
                idle(section, BASE, key, "in an aggregated run, which transfers no KV");
            }
            return;
        }
        let has_own = self.prefill_engine_args.is_some();
        for key in TRANSFER {
            if has_own && self.reads_base(pools) {
                idle(section, BASE, key, BY_PREFILL);
            }
            idle(section, DECODE, key, BY_PREFILL);
        }
        let object = if has_own { PREFILL } else { BASE };
        let args = self.args(WorkerRole::Prefill);
        match (args.kv_bytes_per_token, args.kv_transfer_bandwidth) {
            (Some(_), None) => idle(section, object, bytes_key, "without kv_transfer_bandwidth"),
            (None, Some(_)) => idle(section, object, bandwidth_key, "without kv_bytes_per_token"),
            _ => {}
        }
    }

    /// Arguments for work that the workers of a role do not do.
    fn warn_about_role_args(&self, section: &mut Section<'_, '_>, pools: Pools) {
        let [for_prefill, for_decode] = self.objects_of_one_role(pools);
        if let Some(object) = for_prefill
            && self.backend == Backend::Vllm
        {
            let why = "on prefill workers of the vLLM-style engine, which do not decode";
            idle(section, object, "decode_speedup_ratio", why);
        }
        let Some(object) = for_decode else {
            return;
        };
        if self.backend == Backend::Vllm && self.rules != Rules::Dynosim12 {
            let why = "on decode workers under rules vllm-v1 and vllm-v1-async, which take prompts whole";
            idle(section, object, "enable_chunked_prefill", why);
        }
        let why = "on decode workers, whose router never queues";
        idle(section, object, "router_queue_policy", why);
    }

    /// The objects that only prefill workers read, and only decode workers.
    fn objects_of_one_role(&self, pools: Pools) -> [Option<Names>; 2] {
        let (prefill, decode) = (self.prefill_engine_args.is_some(), self.decode_engine_args.is_some());
        match pools {
            Pools::Aggregated => [None, None],
            Pools::Disaggregated if prefill != decode => [
                Some(if prefill { PREFILL } else { BASE }),
                Some(if decode { DECODE } else { BASE }),
            ],
            Pools::Disaggregated | Pools::Any => [Some(PREFILL), Some(DECODE)],
        }
    }

    /// Whether any worker has the base arguments.
    fn reads_base(&self, pools: Pools) -> bool {
        pools != Pools::Disaggregated || self.prefill_engine_args.is_none() || self.decode_engine_args.is_none()
    }

    /// The objects whose arguments some worker with a queueing router reads.
    fn queueing_objects(&self, pools: Pools) -> Vec<Names> {
        match pools {
            Pools::Disaggregated if self.prefill_engine_args.is_some() => vec![PREFILL],
            Pools::Aggregated | Pools::Disaggregated => vec![BASE],
            Pools::Any => vec![BASE, PREFILL],
        }
    }
}

/// Within a whole document: queue orders of pools whose router keeps nobody waiting.
pub(super) fn warn_about_queue_policies(
    section: &mut Section<'_, '_>,
    engine: &EngineSpec,
    pools: Pools,
    only_round_robin: bool,
    config: &KvRouterConfig,
) {
    let why = if only_round_robin {
        "with router mode round_robin"
    } else if config.router_queue_threshold.is_none() {
        "without a router_queue_threshold, because no request waits"
    } else if !config.router_track_prefill_tokens {
        "without router_track_prefill_tokens, because no request waits"
    } else {
        return;
    };
    if !only_round_robin && config.router_queue_policy != QueuePolicy::default() {
        for object in ["baseConfig", "baseRouterConfig"] {
            section.idle(&format!("router.{object}.router_queue_policy"), why);
        }
    }
    for object in engine.queueing_objects(pools) {
        for name in object {
            section.idle(&format!("engine.{name}.router_queue_policy"), why);
        }
    }
}

/// Within a whole document: shared prefixes where nobody can reuse them.
pub(super) fn warn_about_shared_prefixes(
    section: &mut Section<'_, '_>,
    engine: &EngineSpec,
    pools: Pools,
    workload: &WorkloadSpec,
) {
    let (key, ratio) = match workload {
        WorkloadSpec::Synthetic(synthetic) => ("sharedPrefixRatio", synthetic.shared_prefix_ratio),
        WorkloadSpec::Trace(trace) if trace.trace_format == TraceFormat::AppliedComputeAgentic => {
            ("traceSharedPrefixRatio", trace.trace_shared_prefix_ratio)
        }
        WorkloadSpec::Trace(_) => return,
    };
    let roles: &[WorkerRole] = match pools {
        Pools::Aggregated => &[WorkerRole::Aggregated],
        Pools::Disaggregated => &[WorkerRole::Prefill],
        Pools::Any => &[WorkerRole::Aggregated, WorkerRole::Prefill],
    };
    let caches = |role: &WorkerRole| engine.config(*role).enable_prefix_caching;
    if ratio <= 0.0 || engine.backend == Backend::Sglang || roles.iter().any(caches) {
        return;
    }
    let names: Vec<String> = roles.iter().map(ToString::to_string).collect();
    let why = format!(
        "on prompt computation, because prefix caching is off for {} workers",
        names.join(" and ")
    );
    section.idle(&format!("workload.{key}"), &why);
}

/// Reports an argument of one of the objects of engine arguments, under either name of the object.
fn idle(section: &mut Section<'_, '_>, object: Names, key: &str, why: &str) {
    for name in object {
        section.idle(&format!("{name}.{key}"), why);
    }
}

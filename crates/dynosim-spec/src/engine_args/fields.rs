//! Keys of an engine arguments object, and what they must be.

use super::{EngineArgs, SglangArgs};
use crate::engine::{Backend, WorkerRole};
use crate::reader::{Flag, OneOf, OrNull, Real, Section, Whole};

const COUNT: Whole = Whole::at_least(1);
/// A million times faster leaves steps of nanoseconds, which is as short as the clock can tell.
const SPEED_UP: Real = Real::at_least(0.0).at_most(1e6);
const MEMORY_SHARE: Real = Real::above(0.0).at_most(1.0);

/// Keys of the reference's arguments that are something else here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("engine_type", "the engine is chosen by `engine.backend`"),
    ("is_prefill", "the role follows from where the arguments stand"),
    ("is_decode", "the role follows from where the arguments stand"),
    ("aic_backend", "step times are chosen by `timing`"),
    ("aic_backend_version", "the version is chosen by `timing.engineVersion`"),
    ("aic_system", "the GPU is chosen by `hardware.system`"),
    ("aic_model_path", "the model is chosen by `engine.model`"),
    (
        "aic_tp_size",
        "the tensor-parallel size is chosen by `topology` or by the search",
    ),
    ("planner_profile_data", "step times are chosen by `timing`"),
];

impl EngineArgs {
    /// Walks the fields; whether the block size is right. Without a backend, what depends on it is not checked.
    pub(crate) fn fields(&mut self, section: &mut Section<'_, '_>, backend: Option<Backend>, role: WorkerRole) -> bool {
        let known_role = section.option("worker_type", &mut self.worker_type, &OneOf);
        if let Some(given) = self.worker_type.filter(|given| known_role && *given != role) {
            let [wanted, given] = [role, given].map(role_word);
            section.violation("worker_type", format!("must be {wanted} here, got {given}"));
        }
        let block_size = section.option("block_size", &mut self.block_size, &COUNT);
        section.option("num_gpu_blocks", &mut self.num_gpu_blocks, &COUNT);
        section.option("enable_prefix_caching", &mut self.enable_prefix_caching, &Flag);
        section.option("max_num_seqs", &mut self.max_num_seqs, &OrNull(COUNT));
        section.option(
            "max_num_batched_tokens",
            &mut self.max_num_batched_tokens,
            &OrNull(COUNT),
        );
        section.option("enable_chunked_prefill", &mut self.enable_chunked_prefill, &Flag);
        section.option("preemption_mode", &mut self.preemption_mode, &OneOf);
        section.option("speedup_ratio", &mut self.speedup_ratio, &SPEED_UP);
        section.option("decode_speedup_ratio", &mut self.decode_speedup_ratio, &SPEED_UP);
        section.option("kv_bytes_per_token", &mut self.kv_bytes_per_token, &COUNT);
        section.option(
            "kv_transfer_bandwidth",
            &mut self.kv_transfer_bandwidth,
            &Real::at_least(0.0),
        );
        section.option(
            "gpu_memory_utilization",
            &mut self.gpu_memory_utilization,
            &MEMORY_SHARE,
        );
        section.option("mem_fraction_static", &mut self.mem_fraction_static, &MEMORY_SHARE);
        section.option("router_queue_policy", &mut self.router_queue_policy, &OneOf);
        section.optional_object("sglang", &mut self.sglang, SglangArgs::default(), SglangArgs::fields);
        refuse_data_parallelism(section);
        for (key, hint) in ELSEWHERE {
            section.hint(key, hint);
        }
        if self.num_gpu_blocks.is_some() {
            for key in ["gpu_memory_utilization", "mem_fraction_static"] {
                section.idle(key, "on the size of the KV cache, because num_gpu_blocks is given");
            }
        }
        match backend {
            Some(Backend::Vllm) => self.check_vllm(section),
            Some(Backend::Sglang) => self.check_sglang(section, role),
            None => {}
        }
        block_size
    }

    fn check_vllm(&self, section: &mut Section<'_, '_>) {
        if self.mem_fraction_static.is_some() {
            section.violation(
                "mem_fraction_static",
                "belongs to backend sglang; with vllm it is gpu_memory_utilization",
            );
        }
        if self.sglang.is_some() {
            section.violation("sglang", "belongs to backend sglang");
        }
    }

    fn check_sglang(&self, section: &mut Section<'_, '_>, role: WorkerRole) {
        if self.gpu_memory_utilization.is_some() {
            section.violation(
                "gpu_memory_utilization",
                "belongs to backend vllm; with sglang it is mem_fraction_static",
            );
        }
        let unread = [
            ("max_num_seqs", self.max_num_seqs.is_some()),
            ("enable_chunked_prefill", self.enable_chunked_prefill.is_some()),
            ("preemption_mode", self.preemption_mode.is_some()),
            (
                "enable_prefix_caching",
                self.enable_prefix_caching == Some(false) && role != WorkerRole::Decode,
            ),
        ];
        for (key, _) in unread.into_iter().filter(|(_, given)| *given) {
            section.warn(key, "has no effect on the SGLang-style scheduler");
        }
        if self.max_num_batched_tokens.is_some() {
            let message = "has no effect on the SGLang-style scheduler, only on router queues and the memory estimate";
            section.warn("max_num_batched_tokens", message);
        }
        let Some(sglang) = &self.sglang else {
            return;
        };
        if let (Some(block_size), Some(page_size)) = (self.block_size, sglang.page_size)
            && block_size != page_size
        {
            let message = format!("must equal block_size, which is {block_size}, got {page_size}");
            section.violation("sglang.page_size", message);
        }
        let block_size = self.resolved_block_size(Backend::Sglang);
        if let Some(chunk) = sglang.chunked_prefill_size
            && !chunk.is_multiple_of(block_size.tokens())
        {
            let message = format!("must be a multiple of the block size, which is {block_size}, got {chunk}");
            section.violation("sglang.chunked_prefill_size", message);
        }
    }
}

impl SglangArgs {
    fn fields(&mut self, section: &mut Section<'_, '_>) {
        section.option("schedule_policy", &mut self.schedule_policy, &OneOf);
        section.option("page_size", &mut self.page_size, &COUNT);
        section.option("max_prefill_tokens", &mut self.max_prefill_tokens, &COUNT);
        section.option("chunked_prefill_size", &mut self.chunked_prefill_size, &COUNT);
        section.option("clip_max_new_tokens", &mut self.clip_max_new_tokens, &COUNT);
        section.option(
            "schedule_conservativeness",
            &mut self.schedule_conservativeness,
            &Real::at_least(0.0).at_most(1.0),
        );
    }
}

fn refuse_data_parallelism(section: &mut Section<'_, '_>) {
    let mut dp_size: u32 = 1;
    if section.optional("dp_size", &mut dp_size, &COUNT) && dp_size != 1 {
        section.violation(
            "dp_size",
            format!("only 1 is supported, got {dp_size}; add workers instead"),
        );
    }
}

const fn role_word(role: WorkerRole) -> &'static str {
    match role {
        WorkerRole::Aggregated => "aggregated",
        WorkerRole::Prefill => "prefill",
        WorkerRole::Decode => "decode",
    }
}

//! Mistakes in the `engine` object.

use serde_json::json;

use super::{check_run, check_sweep, set, without};

#[test]
fn model_backend_and_rules() {
    check_run(
        &[
            without("engine.model"),
            set("engine.backend", json!("trtllm")),
            set("engine.rules", json!("v1")),
        ],
        &[
            "engine.model: is missing; must be a text that is not empty",
            "engine.backend: must be vllm or sglang, got \"trtllm\"",
            "engine.rules: must be vllm-v1-async, vllm-v1 or dynosim-1.2, got \"v1\"",
        ],
    );
}

#[test]
fn ranges() {
    check_run(
        &[set(
            "engine.baseEngineArgs",
            json!({
                "worker_type": "both",
                "block_size": 0,
                "num_gpu_blocks": 0,
                "enable_prefix_caching": "yes",
                "max_num_seqs": 0,
                "max_num_batched_tokens": 5_000_000_000_u64,
                "enable_chunked_prefill": 1,
                "preemption_mode": "random",
                "speedup_ratio": -1,
                "decode_speedup_ratio": "fast",
                "kv_bytes_per_token": 0.5,
                "kv_transfer_bandwidth": -64,
                "gpu_memory_utilization": 1.1,
                "router_queue_policy": "fifo"
            }),
        )],
        &[
            "engine.baseEngineArgs.worker_type: must be aggregated, prefill or decode, got \"both\"",
            "engine.baseEngineArgs.block_size: must be a whole number of at least 1, got 0",
            "engine.baseEngineArgs.num_gpu_blocks: must be a whole number of at least 1, got 0",
            "engine.baseEngineArgs.enable_prefix_caching: must be true or false, got \"yes\"",
            "engine.baseEngineArgs.max_num_seqs: must be a whole number of at least 1 or null, got 0",
            "engine.baseEngineArgs.max_num_batched_tokens: must be at most 4294967295, got 5000000000",
            "engine.baseEngineArgs.enable_chunked_prefill: must be true or false, got 1",
            "engine.baseEngineArgs.preemption_mode: must be lifo or fifo, got \"random\"",
            "engine.baseEngineArgs.speedup_ratio: must be a number from 0 to 1000000, got -1",
            "engine.baseEngineArgs.decode_speedup_ratio: must be a number from 0 to 1000000, got \"fast\"",
            "engine.baseEngineArgs.kv_bytes_per_token: must be a whole number of at least 1, got 0.5",
            "engine.baseEngineArgs.kv_transfer_bandwidth: must be a number of at least 0, got -64",
            "engine.baseEngineArgs.gpu_memory_utilization: must be a number above 0 and at most 1, got 1.1",
            "engine.baseEngineArgs.router_queue_policy: must be fcfs, lcfs or wspt, got \"fifo\"",
        ],
    );
}

#[test]
fn a_worker_type_matches_its_place() {
    check_sweep(
        &[
            set("engine.baseEngineArgs.worker_type", json!("prefill")),
            set("engine.prefillEngineArgs.worker_type", json!("decode")),
            set("engine.decodeEngineArgs.worker_type", json!("aggregated")),
        ],
        &[
            "engine.baseEngineArgs.worker_type: must be aggregated here, got prefill",
            "engine.prefillEngineArgs.worker_type: must be prefill here, got decode",
            "engine.decodeEngineArgs.worker_type: must be decode here, got aggregated",
        ],
    );
}

#[test]
fn arguments_without_an_effect_are_refused() {
    check_run(
        &[set(
            "engine.baseEngineArgs",
            json!({"dp_size": 2, "engine_type": "vllm", "aic_tp_size": 1, "zmq_replay_port": 1}),
        )],
        &[
            "engine.baseEngineArgs.dp_size: only 1 is supported, got 2; add workers instead",
            "engine.baseEngineArgs.engine_type: unknown key; the engine is chosen by `engine.backend`",
            "engine.baseEngineArgs.aic_tp_size: unknown key; the tensor-parallel size is chosen by `topology` or by \
             the search",
            "engine.baseEngineArgs.zmq_replay_port: unknown key, known are worker_type, block_size, num_gpu_blocks, \
             enable_prefix_caching, max_num_seqs, max_num_batched_tokens, enable_chunked_prefill, preemption_mode, \
             speedup_ratio, decode_speedup_ratio, kv_bytes_per_token, kv_transfer_bandwidth, gpu_memory_utilization, \
             mem_fraction_static, router_queue_policy, sglang, dp_size",
        ],
    );
}

#[test]
fn each_backend_has_its_own_arguments() {
    check_run(
        &[set(
            "engine.baseEngineArgs",
            json!({"mem_fraction_static": 0.8, "sglang": {}}),
        )],
        &[
            "engine.baseEngineArgs.mem_fraction_static: belongs to backend sglang; with vllm it is \
             gpu_memory_utilization",
            "engine.baseEngineArgs.sglang: belongs to backend sglang",
        ],
    );
    check_run(
        &[
            set("engine.backend", json!("sglang")),
            set("engine.baseEngineArgs.gpu_memory_utilization", json!(0.9)),
        ],
        &[
            "engine.baseEngineArgs.gpu_memory_utilization: belongs to backend vllm; with sglang it is mem_fraction_static",
        ],
    );
}

#[test]
fn sglang_arguments() {
    let sglang = || set("engine.backend", json!("sglang"));
    check_run(
        &[
            sglang(),
            set(
                "engine.baseEngineArgs.sglang",
                json!({
                    "schedule_policy": "dfs",
                    "page_size": 0,
                    "max_prefill_tokens": 0,
                    "chunked_prefill_size": -1,
                    "clip_max_new_tokens": 0,
                    "schedule_conservativeness": 1.2,
                    "pagesize": 1
                }),
            ),
        ],
        &[
            "engine.baseEngineArgs.sglang.schedule_policy: must be fifo or lpm, got \"dfs\"",
            "engine.baseEngineArgs.sglang.page_size: must be a whole number of at least 1, got 0",
            "engine.baseEngineArgs.sglang.max_prefill_tokens: must be a whole number of at least 1, got 0",
            "engine.baseEngineArgs.sglang.chunked_prefill_size: must be a whole number of at least 1, got -1",
            "engine.baseEngineArgs.sglang.clip_max_new_tokens: must be a whole number of at least 1, got 0",
            "engine.baseEngineArgs.sglang.schedule_conservativeness: must be a number from 0 to 1, got 1.2",
            "engine.baseEngineArgs.sglang.pagesize: unknown key, did you mean `page_size`?",
        ],
    );
    check_run(
        &[
            sglang(),
            set("engine.baseEngineArgs.block_size", json!(16)),
            set(
                "engine.baseEngineArgs.sglang",
                json!({"page_size": 32, "chunked_prefill_size": 100}),
            ),
        ],
        &[
            "engine.baseEngineArgs.sglang.page_size: must equal block_size, which is 16, got 32",
            "engine.baseEngineArgs.sglang.chunked_prefill_size: must be a multiple of the block size, which is 16, got 100",
        ],
    );
}

#[test]
fn the_two_pools_share_a_block_size() {
    let expected = ["engine: prefill and decode workers need the same block size, got 512 and 64"];
    let disaggregated = || {
        set(
            "topology",
            json!({"prefillWorkers": 1, "decodeWorkers": 1, "prefillTp": 1, "decodeTp": 1}),
        )
    };
    let prefill = || set("engine.prefillEngineArgs.block_size", json!(512));
    check_run(&[disaggregated(), prefill()], &expected);
    check_sweep(&[prefill()], &expected);
    check_sweep(
        &[prefill(), set("engine.decodeEngineArgs.block_size", json!("512"))],
        &["engine.decodeEngineArgs.block_size: must be a whole number of at least 1, got \"512\""],
    );
}

#[test]
fn aliases_of_role_arguments() {
    check_sweep(
        &[
            set("engine.prefillEngineArgs", json!({})),
            set("engine.basePrefillEngineArgs", json!({})),
            set("engine.baseDecodeEngineArgs", json!({"block_size": 0})),
        ],
        &[
            "engine.basePrefillEngineArgs: is another name of `prefillEngineArgs`, which is given too",
            "engine.baseDecodeEngineArgs.block_size: must be a whole number of at least 1, got 0",
        ],
    );
}

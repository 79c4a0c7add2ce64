//! The cases of the record in `benches/README.md`, each timed as a whole run, reports included.
//!
//! `cargo bench -p dynosim --bench cases -- [WORD]...` runs the cases whose names contain all words.
//! Every repetition must give the same report. The best time is the figure to compare: whatever
//! else the machine does only adds to it. With `--once` each case runs once, for a profiler; words that no name
//! contains, such as `?`, list the names.

mod fleet;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dynosim::core::{Scenario, Stepping};
use dynosim::spec::{
    Backend, BlockSize, EngineArgs, EngineSpec, GpuSpec, ModelSpec, Rules, SyntheticLoad, SyntheticWorkload,
    TraceWorkload, WorkerRole, Workload, WorkloadSpec,
};
use dynosim::timing::{PolynomialTiming, TableTiming, TimingProvider};

use fleet::{Fleet, PoolSize};

const MODEL: &str = "Qwen/Qwen3-32B";

/// KV tokens of every worker: 20,000 blocks of 512, far more than the GPU has room for.
const KV_TOKENS: u32 = 20_000 * 512;

/// Every case is run at least this often, and for at least this long.
const LEAST_RUNS: usize = 3;
const LEAST_TIME: Duration = Duration::from_millis(1500);

const RULES: [(&str, Rules); 3] = [
    ("dynosim-1.2", Rules::Dynosim12),
    ("vllm-v1", Rules::VllmV1),
    ("vllm-v1-async", Rules::VllmV1Async),
];

/// A workload and the workers that serve it.
struct Case {
    name: &'static str,
    workload: WorkloadSpec,
    block_tokens: u32,
    pools: &'static [PoolSize],
}

fn main() {
    let (flags, words): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let once = flags.iter().any(|flag| flag == "--once");
    let mut others = Vec::new();
    let mut is_wanted = |name: &str| {
        let wanted = words.iter().all(|word| name.contains(word.as_str()));
        if !wanted {
            others.push(name.to_owned());
        }
        wanted
    };
    let mut measured = false;
    println!(
        "{:<58} {:>5} {:>10} {:>10} {:>10}",
        "case", "runs", "best ms", "median ms", "peak MiB"
    );
    for case in cases() {
        for (rules_name, rules) in RULES {
            for (timing_name, provider) in providers() {
                let name = |router: &str| format!("{} {router} {rules_name} {timing_name}", case.name);
                let routers: Vec<_> = fleet::routers()
                    .into_iter()
                    .filter(|(router, _)| is_wanted(&name(router)))
                    .collect();
                if routers.is_empty() {
                    continue;
                }
                measured = true;
                let fleet = case.fleet(rules, provider.as_ref());
                for (router, settings) in routers {
                    measure(once, &name(router), || fleet.run(&settings, Stepping::Bulk).report);
                }
            }
        }
    }
    if let Some(file) = trace_file().filter(|_| is_wanted("load conversation")) {
        measured = true;
        let spec = WorkloadSpec::Trace(TraceWorkload::new(file));
        let block_size = BlockSize::new(512).expect("not 0");
        measure(once, "load conversation", || {
            let workload = Workload::load(&spec, block_size).expect("a good trace");
            workload.requests().len()
        });
    }
    if !measured {
        println!(
            "No case has all of these words in its name. There are:\n{}",
            others.join("\n")
        );
        std::process::exit(2);
    }
}

fn providers() -> [(&'static str, Box<dyn TimingProvider>); 2] {
    [
        ("table", Box::new(TableTiming::new(None))),
        ("polynomial", Box::new(PolynomialTiming)),
    ]
}

fn cases() -> Vec<Case> {
    const SPLIT: &[PoolSize] = &[(WorkerRole::Prefill, 4, 3), (WorkerRole::Decode, 1, 4)];
    const EIGHT: &[PoolSize] = &[(WorkerRole::Aggregated, 1, 8)];
    const MANY: &[PoolSize] = &[(WorkerRole::Aggregated, 1, 256)];
    const MOST: &[PoolSize] = &[(WorkerRole::Aggregated, 1, 1024)];
    let synthetic = |name, pools, (isl, osl), requests, concurrency, groups| Case {
        name,
        workload: WorkloadSpec::Synthetic(SyntheticWorkload {
            shared_prefix_ratio: if groups > 0 { 0.5 } else { 0.0 },
            num_prefix_groups: groups,
            ..SyntheticWorkload::new(isl, osl, requests, SyntheticLoad::Concurrency(concurrency))
        }),
        block_tokens: 512,
        pools,
    };
    let trace = |name, block_tokens| {
        trace_file().map(|file| Case {
            name,
            workload: WorkloadSpec::Trace(TraceWorkload::new(file)),
            block_tokens,
            pools: EIGHT,
        })
    };
    let mut cases = vec![
        synthetic("split", SPLIT, (32_768, 256), 5000, 200, 50),
        synthetic("split osl*10", SPLIT, (32_768, 2560), 5000, 200, 50),
    ];
    cases.extend(trace("conversation block 512", 512));
    cases.extend(trace("conversation block 64", 64));
    cases.extend([
        synthetic("256 workers 20k", MANY, (4096, 256), 20_000, 2000, 0),
        synthetic("256 workers 20k osl*10", MANY, (4096, 2560), 20_000, 2000, 0),
        synthetic("256 workers 100k", MANY, (4096, 256), 100_000, 4096, 1000),
        synthetic("256 workers 1M", MANY, (4096, 256), 1_000_000, 4096, 1000),
        synthetic("1024 workers 1M", MOST, (4096, 256), 1_000_000, 4096, 1000),
    ]);
    cases
}

impl Case {
    fn fleet(&self, rules: Rules, provider: &dyn TimingProvider) -> Fleet {
        let mut engine = EngineSpec::new(MODEL, Backend::Vllm);
        engine.rules = rules;
        engine.base_engine_args = EngineArgs {
            block_size: Some(self.block_tokens),
            num_gpu_blocks: Some(KV_TOKENS / self.block_tokens),
            ..EngineArgs::default()
        };
        let block_size = BlockSize::new(self.block_tokens).expect("not 0");
        let scenario = Scenario::new(
            engine,
            Some(ModelSpec::find(MODEL).expect("it is bundled")),
            GpuSpec::find("h200_sxm").expect("it is known"),
            Workload::load(&self.workload, block_size).expect("it makes sense"),
        );
        Fleet::new(scenario, provider, self.pools)
    }
}

/// Runs something often enough to know how fast it can be, and prints that.
#[expect(clippy::disallowed_methods, reason = "the host's time is what is measured")]
fn measure<T: PartialEq + std::fmt::Debug>(once: bool, name: &str, run: impl Fn() -> T) {
    let start = Instant::now();
    let expected = run();
    let mut times = vec![start.elapsed()];
    while !once && (times.len() < LEAST_RUNS || start.elapsed() < LEAST_TIME) {
        let begin = Instant::now();
        let result = run();
        times.push(begin.elapsed());
        assert_eq!(result, expected, "{name}: the same run twice");
    }
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "{name:<58} {:>5} {:>10.2} {:>10.2} {:>10}",
        times.len(),
        ms(times[0]),
        ms(times[times.len() / 2]),
        peak_mib().map_or_else(|| "-".to_owned(), |mib| format!("{mib:.0}"))
    );
}

/// The most memory that this process has held so far, where the system tells.
fn peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}

/// The conversation trace, if it is beside the repository.
fn trace_file() -> Option<PathBuf> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/conversation_trace.jsonl");
    file.is_file().then_some(file)
}

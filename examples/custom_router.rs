//! Shows a router of your own in a run, beside the built-in ones.
//!
//! The router keeps prompts that begin alike together: the first request with a beginning goes to the
//! worker with the fewest unfinished requests, all later ones follow it.
//!
//! ```sh
//! cargo run --release --example custom_router
//! ```

use std::collections::BTreeMap;

use dynosim::router::{Pool, RouteQuery, Router, WorkerReport};
use dynosim::spec::{
    Backend, EngineSpec, HardwareSpec, ParallelShape, RouterMode, RouterSettings, RunSpec, SegmentId, SimTime,
    SyntheticLoad, SyntheticWorkload, Topology, WorkerId, WorkloadSpec,
};
use dynosim::{Error, Report, Run};

#[derive(Debug)]
struct Sticky {
    unfinished: Vec<u32>,
    homes: BTreeMap<SegmentId, WorkerId>,
}

impl Sticky {
    fn least_busy(&self) -> Option<WorkerId> {
        let workers = (0..).zip(&self.unfinished);
        let (worker, _) = workers.min_by_key(|(_, unfinished)| **unfinished)?;
        Some(WorkerId::new(worker))
    }
}

impl Router for Sticky {
    fn route(&mut self, _now: SimTime, query: &RouteQuery<'_>) -> Option<WorkerId> {
        let beginning = query.prompt.first();
        let home = beginning.and_then(|segment| self.homes.get(segment)).copied();
        let worker = home.or_else(|| self.least_busy())?;
        if let Some(&segment) = beginning {
            self.homes.insert(segment, worker);
        }
        self.unfinished[worker.index()] += 1;
        Some(worker)
    }

    fn observe(&mut self, _now: SimTime, report: WorkerReport) {
        if let WorkerReport::Finished { worker, .. } = report {
            self.unfinished[worker.index()] -= 1;
        }
    }
}

fn main() -> Result<(), Error> {
    let workload = SyntheticWorkload {
        shared_prefix_ratio: 0.5,
        num_prefix_groups: 100,
        ..SyntheticWorkload::new(8192, 128, 1000, SyntheticLoad::RequestRate(10.0))
    };
    let mut spec = RunSpec::new(
        EngineSpec::new("Qwen/Qwen3-32B", Backend::Vllm),
        HardwareSpec::new("h200_sxm"),
        Topology::Aggregated {
            workers: 4,
            shape: ParallelShape::tensor(2),
        },
        WorkloadSpec::Synthetic(workload),
    );

    println!(
        "{:<18}{:>10}{:>10}{:>10}{:>8}",
        "router", "TTFT ms", "p95", "E2E ms", "reuse"
    );
    for (name, mode) in [
        ("round robin", RouterMode::RoundRobin),
        ("KV router", RouterMode::KvRouter),
    ] {
        spec.router.mode = mode;
        print(name, &dynosim::run(&spec)?.report);
    }
    // A run may have several pools, each with a router of its own.
    let sticky = |_: &RouterSettings, pool: Pool, _seed: u64| -> Box<dyn Router> {
        Box::new(Sticky {
            unfinished: vec![0; pool.workers as usize],
            homes: BTreeMap::new(),
        })
    };
    let own = Run::new(&spec).routers(&sticky).simulate()?;
    print("sticky", &own.report);
    Ok(())
}

fn print(router: &str, report: &Report) {
    println!(
        "{router:<18}{:>10.0}{:>10.0}{:>10.0}{:>8.3}",
        report.ttft.mean, report.ttft.p95, report.e2e_latency.mean, report.prefix_cache_reused_ratio
    );
}

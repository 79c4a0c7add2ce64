//! What is handed off: manifests, scripts, and the requests.

mod manifests;
mod replays;
mod scripts;

use dynosim_spec::{RunSpec, Workload};
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::{ExportError, Handoff, Target, hand_off};
use crate::{Outcome, Run};

/// A run of a model that needs no tables.
fn run(backend: &str, topology: Value, workload: Value) -> Value {
    let mut spec = json!({
        "engine": {
            "model": "Qwen/Qwen3-8B", "backend": backend, "baseEngineArgs": { "num_gpu_blocks": 4000, "block_size": 16 },
        },
        "hardware": { "system": "h200_sxm" },
        "router": { "mode": "kv_router" },
        "timing": { "provider": "polynomial" },
    });
    spec["topology"] = topology;
    spec["workload"] = workload;
    spec
}

fn aggregated() -> Value {
    json!({ "workers": 3, "tp": 2 })
}

fn disaggregated() -> Value {
    json!({ "prefillWorkers": 3, "prefillTp": 2, "decodeWorkers": 1, "decodeTp": 4 })
}

fn closed_loop() -> Value {
    json!({ "isl": 400, "osl": 10, "requestCount": 20, "concurrency": 4 })
}

struct Simulated {
    spec: RunSpec,
    workload: Workload,
    outcome: Outcome,
}

impl Simulated {
    fn new(spec: &Value) -> Self {
        let spec = RunSpec::from_json(&spec.to_string()).expect("a spec").value;
        let role = spec.topology.pools()[0].role;
        let workload = Workload::load(&spec.workload, spec.engine.config(role).block_size).expect("a workload");
        let outcome = Run::new(&spec).workload(workload.clone()).simulate().expect("runs");
        Self {
            spec,
            workload,
            outcome,
        }
    }

    fn hand_off(&self, target: &Target) -> Result<Handoff, ExportError> {
        hand_off(&self.spec, &self.workload, &self.outcome, target)
    }
}

fn exported(spec: &Value, target: &Target) -> Handoff {
    Simulated::new(spec).hand_off(target).expect("can be handed off")
}

fn file<'a>(handoff: &'a Handoff, name: &str) -> &'a str {
    &handoff.files.iter().find(|file| file.name == name).expect("there").text
}

fn manifest(spec: &Value, target: &Target) -> Value {
    serde_saphyr::from_str(file(&exported(spec, target), "dgd.yaml")).expect("YAML")
}

/// A pool of either schema, reduced to what both must say.
#[derive(Debug, PartialEq)]
struct Pool {
    role: String,
    replicas: u64,
    gpus: String,
    command: Vec<String>,
    args: Vec<String>,
    image: String,
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list").iter();
    list.map(|text| text.as_str().expect("all are texts").to_owned())
        .collect()
}

/// Environment of the frontend, and the pools.
fn parts(manifest: &Value) -> (IndexMap<String, String>, Vec<Pool>) {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let env = |list: &Value| -> IndexMap<String, String> {
        let variables = list.as_array().expect("a list").iter();
        variables
            .map(|variable| (text(&variable["name"]), text(&variable["value"])))
            .collect()
    };
    let mut pools = Vec::new();
    if manifest["apiVersion"] == "nvidia.com/v1beta1" {
        let components = manifest["spec"]["components"].as_array().expect("a list");
        let main = |component: &Value| component["podTemplate"]["spec"]["containers"][0].clone();
        for component in &components[1..] {
            let main = main(component);
            assert_eq!(main["name"], "main");
            assert_eq!(main["resources"]["requests"]["ephemeral-storage"], "2Gi");
            pools.push(Pool {
                role: text(&component["type"]),
                replicas: component["replicas"].as_u64().expect("a number"),
                gpus: text(&main["resources"]["limits"]["nvidia.com/gpu"]),
                command: texts(&main["command"]),
                args: texts(&main["args"]),
                image: text(&main["image"]),
            });
        }
        assert_eq!(
            (&components[0]["type"], &components[0]["replicas"]),
            (&json!("frontend"), &json!(1))
        );
        assert!(main(&components[0])["image"].is_string());
        return (env(&main(&components[0])["env"]), pools);
    }
    assert_eq!(manifest["apiVersion"], "nvidia.com/v1alpha1");
    let services = manifest["spec"]["services"].as_object().expect("a map");
    for (name, service) in services {
        let main = &service["extraPodSpec"]["mainContainer"];
        if name == "Frontend" {
            assert_eq!(
                (&service["componentType"], &service["replicas"]),
                (&json!("frontend"), &json!(1))
            );
            assert!(main["image"].is_string());
            continue;
        }
        assert_eq!(service["componentType"], "worker");
        pools.push(Pool {
            role: service.get("subComponentType").map_or("worker".to_owned(), text),
            replicas: service["replicas"].as_u64().expect("a number"),
            gpus: text(&service["resources"]["limits"]["gpu"]),
            command: texts(&main["command"]),
            args: texts(&main["args"]),
            image: text(&main["image"]),
        });
    }
    (env(&services["Frontend"]["envs"]), pools)
}

fn value_of<'a>(args: &'a [String], flag: &str) -> Option<&'a str> {
    let at = args.iter().position(|arg| arg == flag)?;
    args.get(at + 1).map(String::as_str)
}

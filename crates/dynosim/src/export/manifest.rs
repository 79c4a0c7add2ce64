//! `dgd.yaml`: the deployment as a `DynamoGraphDeployment` of Kubernetes.

use dynosim_spec::{Backend, RouterMode, RunSpec, WorkerRole};
use serde_json::{Map, Value, json};

use super::Part;
use super::bench::engine_name;
use super::dynamo_version::DynamoVersion;
use super::engine_flags::{Flag, dynamo_flags, engine_flags};
use super::router_env::{RouterEnv, router_env};
use super::target::{ApiVersion, Target};
use super::worker_pool::WorkerPool;

/// Secret that holds the token for gated models.
const TOKEN_SECRET: &str = "hf-token-secret";
/// Local disk that a worker asks for.
const DISK: &str = "2Gi";

/// The manifest, without the heading.
pub(super) fn manifest(spec: &RunSpec, pools: &[WorkerPool], target: &Target) -> Part {
    let RouterEnv {
        variables,
        mut warnings,
    } = router_env(&spec.router.settings(), &pools[0], target.dynamo());
    let env: Vec<Value> = variables
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    let image = Image::new(spec.engine.backend, target);
    warnings.extend(image.warnings.iter().cloned());
    warnings.extend(engine_version_warning(spec, target));
    let kv_router = spec.router.mode == RouterMode::KvRouter;
    let writer = Writer {
        target,
        image: &image,
        kv_router,
    };
    let document = match target.api() {
        ApiVersion::V1beta1 => writer.v1beta1(pools, &env),
        ApiVersion::V1alpha1 => writer.v1alpha1(pools, &env),
    };
    Part {
        text: usage(target) + &yaml(&document),
        warnings,
    }
}

/// All texts are quoted, so that no reader, whatever its version of YAML, takes one for a number, a date or a truth value.
fn yaml(document: &Value) -> String {
    let options = serde_saphyr::ser_options! { quote_all: true, prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(document, options).expect("maps with texts as keys can be written")
}

fn usage(target: &Target) -> String {
    let name = target.name();
    let namespace = target
        .namespace()
        .map(|namespace| format!(" --namespace {namespace}"))
        .unwrap_or_default();
    format!(
        "# kubectl create secret generic {TOKEN_SECRET}{namespace} --from-literal=HF_TOKEN=...   (for gated models)\n\
         # kubectl apply{namespace} -f dgd.yaml\n\
         # kubectl port-forward{namespace} service/{name}-frontend 8000:8000                      (for bench.sh)\n\n"
    )
}

fn engine_version_warning(spec: &RunSpec, target: &Target) -> Option<String> {
    let engine = engine_name(spec.engine.backend);
    let simulated = spec.timing.engine_version(spec.engine.backend, spec.engine.rules);
    let there = match target.dynamo().engine_version(spec.engine.backend) {
        Some(version) if target.image().is_none() => format!("{engine} {version}"),
        _ => format!("another version of {engine}, perhaps"),
    };
    let measured = spec.timing.provider == dynosim_spec::TimingKind::Table;
    measured.then(|| format!("step times are those of {engine} {simulated}, and the image has {there}"))
}

/// The container image of all pods.
struct Image {
    name: String,
    /// Version of Dynamo that it holds, where its tag does not say so and the operator has to know.
    version_override: Option<String>,
    warnings: Vec<String>,
}

impl Image {
    fn new(backend: Backend, target: &Target) -> Self {
        let version = target.dynamo();
        let Some(name) = target.image() else {
            let warnings = match backend {
                Backend::Vllm => Vec::new(),
                Backend::Sglang => vec!["the name of the SGLang image is a guess; see --image".to_owned()],
            };
            return Self {
                name: format!("nvcr.io/nvidia/ai-dynamo/{}-runtime:{version}", engine_name(backend)),
                version_override: None,
                warnings,
            };
        };
        let tag = tag_version(name);
        let other = tag.filter(|&tag| tag != version);
        let warning = other.map(|tag| {
            format!("the image is of Dynamo {tag}, and options are those of {version}; see --dynamo-version")
        });
        Self {
            name: name.to_owned(),
            version_override: (tag.is_none() && version.since(1, 5)).then(|| version.to_string()),
            warnings: warning.into_iter().collect(),
        }
    }
}

/// The version that an image's tag names.
fn tag_version(image: &str) -> Option<DynamoVersion> {
    let (_, tag) = image
        .rsplit_once(':')
        .filter(|(name, tag)| !name.contains('@') && !tag.contains('/'))?;
    tag.split('-').next()?.parse().ok()
}

struct Writer<'a> {
    target: &'a Target,
    image: &'a Image,
    kv_router: bool,
}

impl Writer<'_> {
    fn v1beta1(&self, pools: &[WorkerPool], env: &[Value]) -> Value {
        let mut frontend = json!({
            "name": "Frontend",
            "type": "frontend",
            "replicas": 1,
            "podTemplate": { "spec": { "containers": [{ "name": "main", "image": self.image.name, "env": env }] } },
        });
        self.override_version(&mut frontend);
        let mut components = vec![frontend];
        components.extend(pools.iter().map(|pool| self.v1beta1_worker(pool)));
        self.document("v1beta1", pools, "components", &Value::Array(components))
    }

    fn v1beta1_worker(&self, pool: &WorkerPool) -> Value {
        let kind = match pool.role {
            WorkerRole::Aggregated => "worker".to_owned(),
            role => role.to_string(),
        };
        let mut worker = json!({
            "name": worker_name(pool),
            "type": kind,
            "replicas": pool.workers,
            "podTemplate": { "spec": { "containers": [{
                "name": "main",
                "image": self.image.name,
                "command": command(pool),
                "args": self.args(pool),
                "envFrom": [{ "secretRef": { "name": TOKEN_SECRET, "optional": true } }],
                "resources": {
                    "limits": { "nvidia.com/gpu": pool.gpus_on_node().to_string() },
                    "requests": { "ephemeral-storage": DISK },
                },
            }] } },
        });
        add_nodes(&mut worker, pool);
        self.override_version(&mut worker);
        worker
    }

    fn v1alpha1(&self, pools: &[WorkerPool], env: &[Value]) -> Value {
        let mut frontend = json!({
            "componentType": "frontend",
            "replicas": 1,
            "envs": env,
            "extraPodSpec": { "mainContainer": { "image": self.image.name } },
        });
        self.override_version(&mut frontend);
        self.name_space(&mut frontend);
        let mut services = Map::new();
        services.insert("Frontend".to_owned(), frontend);
        services.extend(pools.iter().map(|pool| (worker_name(pool), self.v1alpha1_worker(pool))));
        self.document("v1alpha1", pools, "services", &Value::Object(services))
    }

    fn v1alpha1_worker(&self, pool: &WorkerPool) -> Value {
        let gpus = pool.gpus_on_node().to_string();
        let mut worker = json!({
            "componentType": "worker",
            "replicas": pool.workers,
            "envFromSecret": TOKEN_SECRET,
            "resources": { "limits": { "gpu": gpus }, "requests": { "gpu": gpus } },
            "extraPodSpec": { "mainContainer": {
                "image": self.image.name,
                "command": command(pool),
                "args": self.args(pool),
            } },
        });
        if pool.role != WorkerRole::Aggregated {
            worker["subComponentType"] = pool.role.to_string().into();
        }
        add_nodes(&mut worker, pool);
        self.override_version(&mut worker);
        self.name_space(&mut worker);
        worker
    }

    fn document(&self, api: &str, pools: &[WorkerPool], key: &str, parts: &Value) -> Value {
        let mut metadata = json!({ "name": self.target.name() });
        if let Some(namespace) = self.target.namespace() {
            metadata["namespace"] = namespace.into();
        }
        json!({
            "apiVersion": format!("nvidia.com/{api}"),
            "kind": "DynamoGraphDeployment",
            "metadata": metadata,
            "spec": { "backendFramework": engine_name(pools[0].config.backend), key: parts },
        })
    }

    fn args(&self, pool: &WorkerPool) -> Vec<String> {
        let mut flags = match pool.config.backend {
            Backend::Vllm => vec![Flag::new("--model", &pool.model)],
            Backend::Sglang => vec![
                Flag::new("--model-path", &pool.model),
                Flag::switch("--skip-tokenizer-init"),
            ],
        };
        flags.push(Flag::new("--served-model-name", &pool.model));
        flags.extend(engine_flags(pool));
        flags.extend(dynamo_flags(pool, self.target.dynamo(), self.kv_router));
        flags.iter().flat_map(Flag::args).collect()
    }

    fn override_version(&self, component: &mut Value) {
        if let Some(version) = &self.image.version_override {
            component["runtimeVersionOverride"] = version.as_str().into();
        }
    }

    /// Manifests of 2025 need it.
    fn name_space(&self, service: &mut Value) {
        if !self.target.dynamo().since(1, 0) {
            service["dynamoNamespace"] = self.target.name().into();
        }
    }
}

fn command(pool: &WorkerPool) -> [String; 3] {
    let module = format!("dynamo.{}", engine_name(pool.config.backend));
    ["python3".to_owned(), "-m".to_owned(), module]
}

fn worker_name(pool: &WorkerPool) -> String {
    let engine = match pool.config.backend {
        Backend::Vllm => "Vllm",
        Backend::Sglang => "Sglang",
    };
    let role = match pool.role {
        WorkerRole::Aggregated => "",
        WorkerRole::Prefill => "Prefill",
        WorkerRole::Decode => "Decode",
    };
    format!("{engine}{role}Worker")
}

fn add_nodes(worker: &mut Value, pool: &WorkerPool) {
    if pool.nodes() > 1 {
        worker["multinode"] = json!({ "nodeCount": pool.nodes() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_name_versions() {
        let tag = |image: &str| tag_version(image).map(|version| version.to_string());
        assert_eq!(
            tag("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.1"),
            Some("1.5.1".to_owned())
        );
        assert_eq!(tag("mine:1.5.1-cuda13"), Some("1.5.1".to_owned()));
        assert_eq!(tag("registry:5000/mine"), None);
        assert_eq!(tag("mine:latest"), None);
        assert_eq!(tag("mine@sha256:0123"), None);
    }

    #[test]
    fn texts_stay_texts() {
        for text in [
            "8",
            "1e3",
            "0x10",
            "1:30",
            "yes",
            "on",
            "null",
            "~",
            "2026-01-01",
            "",
            "<<",
            "{\"a\":1}",
            "it's",
            "a\nb",
        ] {
            let written = yaml(&json!({ "args": [text] }));
            let line = written.lines().last().expect("a line").trim_start_matches("- ");
            assert!(line.starts_with(['\'', '"']), "{written}");
            let read: Value = serde_saphyr::from_str(&written).expect("YAML");
            assert_eq!(read, json!({ "args": [text] }), "{written}");
        }
    }
}

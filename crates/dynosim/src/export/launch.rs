//! `serve.sh`: the same engines started by plain commands, without Dynamo.

use std::fmt::Write;

use dynosim_spec::{Backend, RouterMode, RunSpec, WorkerRole};

use super::Part;
use super::engine_flags::{Flag, engine_flags, transfer_flags};
use super::placement::{Place, places};
use super::shell;
use super::worker_pool::WorkerPool;

/// Where clients send their requests.
const FRONT_PORT: u32 = 8000;
/// Port of the first worker, if another process listens at the front.
const FIRST_WORKER_PORT: u32 = 8100;
/// First port at which vLLM workers find each other.
const FIRST_SIDE_CHANNEL_PORT: u32 = 5600;
/// First port at which SGLang's prefill workers are found.
const FIRST_BOOTSTRAP_PORT: u32 = 8998;

/// The script, without the heading.
pub(super) fn launch(spec: &RunSpec, pools: &[WorkerPool]) -> Part {
    let Some(places) = places(pools) else {
        let why = "workers are larger than a node, and plain commands for several nodes are not written; use dgd.yaml";
        return Part {
            text: format!(
                "#!/usr/bin/env bash\necho {} >&2\nexit 1\n",
                shell::word(&format!("serve.sh: {why}"))
            ),
            warnings: vec![why.to_owned()],
        };
    };
    let script = Script::new(spec, pools, places);
    Part {
        text: script.text(),
        warnings: script.warnings(),
    }
}

struct Script<'a> {
    spec: &'a RunSpec,
    pools: &'a [WorkerPool],
    servers: Vec<Server>,
}

/// A worker with its ports.
struct Server {
    place: Place,
    port: u32,
    side_channel_port: u32,
    bootstrap_port: u32,
}

impl<'a> Script<'a> {
    fn new(spec: &'a RunSpec, pools: &'a [WorkerPool], places: Vec<Place>) -> Self {
        let alone = places.len() == 1;
        let mut side_channel_port = FIRST_SIDE_CHANNEL_PORT;
        let servers = (0..).zip(places).map(|(index, place)| {
            let server = Server {
                port: if alone { FRONT_PORT } else { FIRST_WORKER_PORT + index },
                side_channel_port,
                bootstrap_port: FIRST_BOOTSTRAP_PORT + index,
                place,
            };
            // One for each group of GPUs.
            side_channel_port += pools[server.place.pool].shape.attention_dp;
            server
        });
        Self {
            spec,
            pools,
            servers: servers.collect(),
        }
    }

    fn backend(&self) -> Backend {
        self.spec.engine.backend
    }

    fn is_disaggregated(&self) -> bool {
        self.pools.len() > 1
    }

    fn nodes(&self) -> usize {
        self.servers
            .iter()
            .map(|server| server.place.node + 1)
            .max()
            .unwrap_or(1)
    }

    fn text(&self) -> String {
        let mut text = self.beginning();
        for server in &self.servers {
            text.push_str(&self.start(server));
        }
        text.push_str(&self.front());
        text.push_str("wait\n");
        text
    }

    fn beginning(&self) -> String {
        let nodes = self.nodes();
        let model = shell::word(&self.spec.engine.model);
        let hosts = match nodes {
            1 => "localhost".to_owned(),
            _ => (0..nodes)
                .map(|node| format!("node{node}"))
                .collect::<Vec<_>>()
                .join(" "),
        };
        let how = if nodes == 1 {
            "# bash serve.sh                     (logs go to LOGS, which is ./logs unless set)\n".to_owned()
        } else {
            format!(
                "# On each of {nodes} nodes, with its number from 0:\n\
                 #   NODE=0 HOSTS=\"{hosts}\" bash serve.sh     (logs go to LOGS, which is ./logs unless set)\n"
            )
        };
        let check = if nodes == 1 {
            String::new()
        } else {
            format!(
                "if ((${{#HOSTS[@]}} < {nodes})); then\n    \
                     echo \"serve.sh: HOSTS must name {nodes} nodes\" >&2\n    \
                     exit 2\n\
                 fi\n"
            )
        };
        format!(
            "#!/usr/bin/env bash\n{how}set -euo pipefail\n\n\
             MODEL=${{MODEL:-{model}}}\n\
             LOGS=${{LOGS:-logs}}\n\
             NODE=${{NODE:-0}}\n\
             read -r -a HOSTS <<<\"${{HOSTS:-{hosts}}}\"\n\
             {check}\
             mkdir -p \"$LOGS\"\n\
             trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n\n"
        )
    }

    /// Starts one worker in the background.
    fn start(&self, server: &Server) -> String {
        let Place {
            pool,
            worker,
            node,
            first_gpu,
            ..
        } = server.place;
        let pool = &self.pools[pool];
        let gpus: Vec<String> = (first_gpu..first_gpu + pool.shape.gpus())
            .map(|gpu| gpu.to_string())
            .collect();
        let mut environment = format!("CUDA_VISIBLE_DEVICES={}", gpus.join(","));
        if pool.config.backend == Backend::Vllm && pool.role != WorkerRole::Aggregated {
            let port = server.side_channel_port;
            let _ = write!(
                environment,
                " VLLM_NIXL_SIDE_CHANNEL_HOST=\"${{HOSTS[{node}]}}\" VLLM_NIXL_SIDE_CHANNEL_PORT={port}"
            );
        }
        let (command, mut flags) = match pool.config.backend {
            Backend::Vllm => (
                "vllm serve \"$MODEL\"",
                vec![Flag::new("--host", "0.0.0.0"), Flag::new("--port", server.port)],
            ),
            Backend::Sglang => (
                "python3 -m sglang.launch_server --model-path \"$MODEL\"",
                vec![Flag::new("--host", "0.0.0.0"), Flag::new("--port", server.port)],
            ),
        };
        flags.extend(engine_flags(pool));
        flags.extend(transfer_flags(pool, server.bootstrap_port));
        let options = flags
            .iter()
            .map(Flag::words)
            .chain([format!(">\"$LOGS/{}-{worker}.log\" 2>&1 &", pool.role)]);
        let command = shell::lines(&format!("{environment} {command}"), options, "    ");
        format!(
            "# {} worker {worker}\nif ((NODE == {node})); then\n{command}\nfi\n\n",
            pool.role
        )
    }

    /// What clients talk to.
    fn front(&self) -> String {
        if self.servers.len() == 1 {
            return format!("echo \"serving at http://${{HOSTS[0]}}:{FRONT_PORT} when the log says so\"\n");
        }
        let proxy = match (self.backend(), self.is_disaggregated()) {
            (Backend::Vllm, false) => return self.client_side_balance(),
            (Backend::Vllm, true) => self.toy_proxy(),
            (Backend::Sglang, false) => self.sglang_router(),
            (Backend::Sglang, true) => self.sglang_pd_router(),
        };
        format!(
            "if ((NODE == 0)); then\n{proxy}\n    \
                 echo \"serving at http://${{HOSTS[0]}}:{FRONT_PORT} when the logs say so\"\nfi\n"
        )
    }

    /// Engines of vLLM have nothing in front: the client takes them in turn.
    fn client_side_balance(&self) -> String {
        let urls: Vec<String> = self.servers.iter().map(Server::url).collect();
        format!(
            "# Nothing stands in front of these workers; bench.sh takes them in turn, if it is told of all:\n\
             echo \"when the logs say so: URLS=\\\"{}\\\" bash bench.sh\"\n",
            urls.join(" ")
        )
    }

    fn toy_proxy(&self) -> String {
        let list = |role: WorkerRole, part: &dyn Fn(&Server) -> String| -> String {
            self.of_role(role).map(part).collect::<Vec<_>>().join(" ")
        };
        let host = |server: &Server| format!("\"${{HOSTS[{}]}}\"", server.place.node);
        let port = |server: &Server| server.port.to_string();
        let options = [
            format!("--host 0.0.0.0 --port {FRONT_PORT}"),
            format!("--prefiller-hosts {}", list(WorkerRole::Prefill, &host)),
            format!("--prefiller-ports {}", list(WorkerRole::Prefill, &port)),
            format!("--decoder-hosts {}", list(WorkerRole::Decode, &host)),
            format!("--decoder-ports {}", list(WorkerRole::Decode, &port)),
            ">\"$LOGS/proxy.log\" 2>&1 &".to_owned(),
        ];
        let command = shell::lines("python3 \"${TOY_PROXY:-toy_proxy_server.py}\"", options, "    ");
        format!(
            "    # Router not reproduced: a proxy for tests, from tests/v1/kv_connector/nixl_integration of vLLM.\n{command}"
        )
    }

    fn sglang_router(&self) -> String {
        let urls: Vec<String> = self
            .servers
            .iter()
            .map(|server| format!("\"{}\"", server.url()))
            .collect();
        let options = [
            format!("--host 0.0.0.0 --port {FRONT_PORT}"),
            format!("--policy {}", self.sglang_policy()),
            format!("--worker-urls {}", urls.join(" ")),
            ">\"$LOGS/router.log\" 2>&1 &".to_owned(),
        ];
        shell::lines("python3 -m sglang_router.launch_router", options, "    ")
    }

    fn sglang_pd_router(&self) -> String {
        let mut options = vec![
            format!("--host 0.0.0.0 --port {FRONT_PORT}"),
            "--pd-disaggregation".to_owned(),
            format!("--prefill-policy {0} --decode-policy round_robin", self.sglang_policy()),
        ];
        let prefill = self.of_role(WorkerRole::Prefill);
        options.extend(prefill.map(|server| format!("--prefill \"{}\" {}", server.url(), server.bootstrap_port)));
        options.extend(
            self.of_role(WorkerRole::Decode)
                .map(|server| format!("--decode \"{}\"", server.url())),
        );
        options.push(">\"$LOGS/router.log\" 2>&1 &".to_owned());
        shell::lines("python3 -m sglang_router.launch_router", options, "    ")
    }

    fn sglang_policy(&self) -> &'static str {
        match self.spec.router.mode {
            RouterMode::RoundRobin => "round_robin",
            RouterMode::KvRouter => "cache_aware",
        }
    }

    fn of_role(&self, role: WorkerRole) -> impl Iterator<Item = &Server> {
        self.servers
            .iter()
            .filter(move |server| self.pools[server.place.pool].role == role)
    }

    fn warnings(&self) -> Vec<String> {
        let kv_router = self.spec.router.mode == RouterMode::KvRouter;
        let front = match (self.backend(), self.is_disaggregated(), kv_router) {
            _ if self.servers.len() == 1 => return Vec::new(),
            (Backend::Vllm, false, false) | (Backend::Sglang, _, false) => return Vec::new(),
            (Backend::Vllm, true, true) => "router not reproduced: a proxy for tests takes workers in turn",
            (Backend::Vllm, true, false) => {
                "requests go through a proxy for tests, which may be a bottleneck of its own"
            }
            (Backend::Vllm, false, true) => "router not reproduced: bench.sh takes workers in turn",
            (Backend::Sglang, true, true) => {
                "router not reproduced: SGLang's takes prefill workers by its policy cache_aware, and decode workers in turn"
            }
            (Backend::Sglang, false, true) => "router not reproduced: SGLang's takes workers by its policy cache_aware",
        };
        vec![front.to_owned()]
    }
}

impl Server {
    fn url(&self) -> String {
        format!("http://${{HOSTS[{}]}}:{}", self.place.node, self.port)
    }
}

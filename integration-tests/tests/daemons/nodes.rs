//! The chart's container that gives nodes of a cluster their condition: its program, a real validator and a real miner,
//! over a stand-in for the API of Kubernetes that keeps its nodes in memory.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::Daemon;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, SLOW_KERNEL, TestValidator};
use assay_integration_tests::web::Caller;
use assay_protocol::verdict::Mode;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "a token of the account";
const TAINT: &str = "assay/not-attested";

/// Nodes, pods and one ConfigMap, as the program may see and change them.
#[derive(Debug, Default)]
struct State {
    nodes: Vec<Value>,
    pods: Vec<Value>,
    address: Value,
    /// Requests that the account has no right to, or that are none of Kubernetes.
    refused: Vec<String>,
}

#[derive(Debug, Clone)]
struct Cluster {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
}

impl Cluster {
    fn start(nodes: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let node = |name: &str| {
            let taints = json!([{ "key": "another", "effect": "NoSchedule" }]);
            let ready = json!([{ "type": "Ready", "status": "True" }]);
            json!({ "metadata": { "name": name, "resourceVersion": "1" }, "spec": { "taints": taints },
                    "status": { "conditions": ready } })
        };
        let pod =
            |(name, ip): &(&str, &str)| json!({ "spec": { "nodeName": name }, "status": { "podIPs": [{ "ip": ip }] } });
        let nodes_of = nodes.iter().map(|(name, _)| node(name)).collect();
        let state = State { nodes: nodes_of, pods: nodes.iter().map(pod).collect(), ..State::default() };
        let cluster = Self { state: Arc::new(Mutex::new(state)), address };
        let served = cluster.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = served.clone();
                thread::spawn(move || served.answer(stream));
            }
        });
        cluster
    }

    fn answer(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) <= 2 {
                break;
            }
            lines.push(line.trim_end().to_owned());
        }
        let value = |name: &str| {
            let named = lines.iter().filter_map(|line| line.split_once(": "));
            named
                .filter(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_owned())
                .next()
                .unwrap_or_default()
        };
        let mut body = vec![0; value("content-length").parse().unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        let Some((method, path)) = lines.first().and_then(|line| line.rsplit_once(' ')?.0.split_once(' ')) else {
            return;
        };
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let is_known = value("authorization") == format!("Bearer {TOKEN}");
        let answer =
            is_known.then(|| self.state.lock().unwrap().call(method, path, &value("content-type"), &body)).flatten();
        let status = if answer.is_some() { "200 OK" } else { "403 Forbidden" };
        if answer.is_none() {
            self.state.lock().unwrap().refused.push(format!("{method} {path} {body}"));
        }
        let text = answer.unwrap_or_else(|| json!({})).to_string();
        let length = text.len();
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}");
    }

    /// The condition of a node, and the effect of its taint.
    fn condition(&self, node: &str) -> (String, String, Option<String>) {
        let state = self.state.lock().unwrap();
        let node = state.nodes.iter().find(|it| it["metadata"]["name"] == node).unwrap();
        assert_eq!(node["spec"]["taints"][0]["key"], "another", "{node}");
        assert_eq!(node["status"]["conditions"][0], json!({ "type": "Ready", "status": "True" }));
        let condition = node["status"]["conditions"].get(1).cloned().unwrap_or_default();
        let taint = node["spec"]["taints"].get(1).filter(|taint| taint["key"] == TAINT);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&condition["status"]), text(&condition["reason"]), taint.map(|taint| text(&taint["effect"])))
    }

    fn wait_for(&self, node: &str, status: &str, reason: &str) {
        let until = Instant::now() + PATIENCE;
        let effect = (status != "True").then(|| "NoSchedule".to_owned());
        let wanted = (status.to_owned(), reason.to_owned(), effect);
        while self.condition(node) != wanted {
            assert!(Instant::now() < until, "{node}: {:?}, not {wanted:?}", self.condition(node));
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl State {
    /// What the chart's roles allow; nothing else.
    fn call(&mut self, method: &str, path: &str, kind: &str, body: &Value) -> Option<Value> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let named = path.strip_prefix("/api/v1/nodes/");
        match (method, path) {
            ("GET", "/api/v1/nodes") => Some(json!({ "metadata": {}, "items": self.nodes })),
            ("GET", "/api/v1/namespaces/gpu/pods") if query.contains("labelSelector=app%3Dassay-miner") => {
                Some(json!({ "metadata": {}, "items": self.pods }))
            }
            ("PATCH", "/api/v1/namespaces/gpu/configmaps/assay-address") => {
                self.address = body["data"]["validator"].clone();
                Some(body.clone())
            }
            ("GET", _) => self.nodes.iter().find(|node| node["metadata"]["name"].as_str() == named).cloned(),
            ("PATCH", _) => {
                let (name, is_status) = named?.strip_suffix("/status").map_or((named?, false), |name| (name, true));
                let node = self.nodes.iter_mut().find(|node| node["metadata"]["name"] == name)?;
                if is_status && kind == "application/strategic-merge-patch+json" {
                    // Merged by type, as the API does.
                    let new = body["status"]["conditions"][0].clone();
                    let conditions = node["status"]["conditions"].as_array_mut()?;
                    conditions.retain(|condition| condition["type"] != new["type"]);
                    conditions.push(new);
                } else if !is_status && body["metadata"]["resourceVersion"] == node["metadata"]["resourceVersion"] {
                    node["spec"]["taints"] = body["spec"]["taints"].clone();
                } else {
                    return None;
                }
                let version: u32 = node["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
                node["metadata"]["resourceVersion"] = json!((version + 1).to_string());
                Some(node.clone())
            }
            _ => None,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_the_condition_of_its_miner() {
    let mut policy = Policy::showing_memory();
    policy.flags.extend(["--http-listen=127.0.0.1:0", "--http-anonymous-read=true"].map(str::to_owned));
    let mut validator = TestValidator::start(&policy).await;
    let http = validator.http_address();
    // The tests' miners come from 127.0.0.1: that of the second node never does.
    let cluster = Cluster::start(&[("first", "127.0.0.1"), ("second", "127.0.0.2")]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
    let mut program =
        Command::new(std::env::var_os("ASSAY_PYTHON").expect("ASSAY_PYTHON is not set: run scripts/test"));
    program.arg("-u").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kubernetes/files/node_conditions.py"));
    let variables =
        [("NAMESPACE", "gpu"), ("PODS", "app=assay-miner"), ("TAINT", "NoSchedule"), ("INTERVAL_S", "0.05")];
    program.envs(variables).env("ACCOUNT", folder.path()).env("TMPDIR", folder.path());
    program.env("CLUSTER", format!("http://{}", cluster.address)).env("VALIDATOR", format!("http://{http}"));
    // A proxy is not asked.
    program.env("http_proxy", "http://127.0.0.1:9");
    let _nodes = Daemon::spawn(&mut program);
    cluster.wait_for("first", "Unknown", "NotConnected");
    cluster.wait_for("second", "Unknown", "NotConnected");
    let told = cluster.state.lock().unwrap().address.as_str().unwrap_or_default().to_owned();
    assert!(told.starts_with(&format!("assay://{}#", validator.address)), "the miners are told {told:?}");

    let mut miner = TestMiner::start(validator.address, 1, &[SLOW_KERNEL]);
    validator.wait_for_miner(miner.key, true).await;
    cluster.wait_for("first", "Unknown", "Enrolled");
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    cluster.wait_for("first", "True", "Passing");

    // A miner that is away is attested until that ends.
    miner.daemon.kill();
    validator.wait_for_miner(miner.key, false).await;
    let operator = Caller::at_socket(&validator);
    let path = format!("/api/v1/miners/{}", miner.key);
    let _ = operator.post(&format!("{path}/quarantine"), &json!({})).await.expect(200);
    cluster.wait_for("first", "False", "Quarantined");
    let _ = operator.post(&format!("{path}/release"), &json!({})).await.expect(200);
    cluster.wait_for("first", "False", "Failed");
    miner.restart();
    validator.wait_for_miner(miner.key, true).await;
    cluster.wait_for("first", "False", "Failed");

    // Of two keys that connect from one pod, the worse counts.
    let other = TestMiner::start(validator.address, 1, &[SLOW_KERNEL]);
    validator.wait_for_miner(other.key, true).await;
    validator.challenge(other.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    cluster.wait_for("first", "False", "Failed");
    assert_eq!(cluster.condition("second").1, "NotConnected", "no miner is taken for one of another node");

    // A node that the miners no longer run on: not attested, and its taint stays as it is.
    cluster.state.lock().unwrap().pods.remove(0);
    cluster.wait_for("first", "Unknown", "NoMiner");
    let refused = cluster.state.lock().unwrap().refused.clone();
    assert!(refused.is_empty(), "the chart's roles do not allow {refused:#?}");
}

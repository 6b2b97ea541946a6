//! A cluster of three `nats-server`s for a test.

use std::ffi::OsString;
use std::time::Instant;

use serde_json::Value;
use tokio::time::sleep;

use super::server::{NATS_PROGRAM, NatsServer, POLL_INTERVAL, READY_WITHIN, free_port, program};

/// Number of servers in a cluster.
pub const CLUSTER_SIZE: usize = 3;

/// Three servers with routes to each other. One of them may be killed without loss: two are a majority.
#[derive(Debug)]
pub struct NatsCluster {
    servers: [NatsServer; CLUSTER_SIZE],
}

impl NatsCluster {
    /// Starts three servers without accounts, and waits until streams of three replicas can be created.
    pub async fn start() -> Self {
        Self::with_config("").await
    }

    /// Starts three servers with a configuration file of this text, as [`NatsServer::with_config`] does.
    pub async fn with_config(text: &str) -> Self {
        let program = program(NATS_PROGRAM);
        // All ports are chosen before the first start, because each server is given the routes to all.
        let routes: [String; CLUSTER_SIZE] =
            std::array::from_fn(|_| format!("nats://127.0.0.1:{}", free_port()));
        let servers = std::array::from_fn(|index| {
            let mut server = NatsServer::new(&program, &format!("n{index}"), text);
            server.add_arguments(
                ["--cluster_name", "tests", "--cluster", &routes[index], "--routes", &routes.join(",")]
                    .map(OsString::from),
            );
            // No server is ready before a majority runs, so all are started before the first wait.
            server.launch();
            server
        });
        let cluster = Self { servers };
        for server in &cluster.servers {
            server.ready().await;
        }
        cluster.complete().await;
        cluster
    }

    /// The URLs of all servers, including killed ones.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(NatsServer::url).collect()
    }

    /// One of the servers.
    pub fn server(&self, index: usize) -> &NatsServer {
        &self.servers[index]
    }

    /// A client without credentials, which knows all servers.
    pub async fn client(&self) -> async_nats::Client {
        async_nats::connect(self.urls()).await.expect("one of the servers accepts clients")
    }

    /// Kills one server with SIGKILL and waits for its end.
    pub fn kill(&self, index: usize) {
        self.servers[index].kill();
    }

    /// Starts a server on its ports and store, and waits until it has caught up. Needs a majority with this server.
    pub async fn restart(&self, index: usize) {
        self.servers[index].restart().await;
    }

    /// Index of the server that leads a stream of any account. `None` during an election, or if the stream does not exist.
    ///
    /// Only a server that names itself counts: a follower names the last leader that it knew.
    pub async fn leader_of(&self, stream: &str) -> Option<usize> {
        for (index, server) in self.servers.iter().enumerate() {
            let Some(state) = server.monitoring().json("/jsz?accounts=true&streams=true").await else {
                continue;
            };
            let accounts = state["account_details"].as_array().into_iter().flatten();
            let mut streams =
                accounts.flat_map(|account| account["stream_detail"].as_array().into_iter().flatten());
            if streams.any(|state| state["name"] == stream && state["cluster"]["leader"] == server.name()) {
                return Some(index);
            }
        }
        None
    }

    /// Waits until the stream has a leader.
    ///
    /// # Panics
    ///
    /// If it has none within 30 seconds.
    pub async fn elected_leader_of(&self, stream: &str) -> usize {
        let began = Instant::now();
        loop {
            if let Some(leader) = self.leader_of(stream).await {
                return leader;
            }
            assert!(began.elapsed() < READY_WITHIN, "the stream {stream} has no leader");
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until the leader of JetStream knows all servers as current: before that it places no three replicas.
    async fn complete(&self) {
        let began = Instant::now();
        loop {
            for server in &self.servers {
                let state = server.monitoring().json("/jsz").await.unwrap_or_default();
                if knows_all(&state["meta_cluster"], server.name()) {
                    return;
                }
            }
            assert!(began.elapsed() < READY_WITHIN, "the cluster is not complete");
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// True for the state of the leader, once all others are current.
fn knows_all(state: &Value, name: &str) -> bool {
    let current = state["replicas"].as_array().into_iter().flatten().filter(|peer| peer["current"] == true);
    // A server does not count itself as a replica.
    state["leader"] == name && current.count() == CLUSTER_SIZE - 1
}

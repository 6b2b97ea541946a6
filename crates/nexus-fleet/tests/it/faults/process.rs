//! A worker or a caller as a process of its own: this very program, started again.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use nexus_core::{BuildContext, CancelToken, Registry};
use nexus_fleet::{FleetSettings, Worker, WorkerSettings};
use nexus_router::Router;
use nexus_testkit::child_test;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{turns, work::working};

/// Tells the program what it is.
const ROLE: &str = "NEXUS_TEST_FLEET_ROLE";

/// What a process is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) servers: Vec<String>,
    pub(crate) replicas: usize,
    /// Turns at once of a worker, or turns in all of a caller.
    pub(crate) turns: usize,
    pub(crate) is_caller: bool,
    pub(crate) folder: PathBuf,
}

impl Role {
    pub(crate) fn settings(&self) -> FleetSettings {
        FleetSettings {
            servers: self.servers.clone(),
            replicas: Some(self.replicas),
            worker: WorkerSettings {
                name: Some(self.name.clone()),
                turns: Some(self.turns),
                ..WorkerSettings::default()
            },
            ..FleetSettings::default()
        }
    }

    fn file(&self, end: &str) -> PathBuf {
        self.folder.join(format!("{}.{end}", self.name))
    }
}

/// What the process does that a test started: it returns at once where none did.
pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let role: Role = serde_json::from_str(&role).expect("a role");
    // It ends with the test.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let log = Log(Mutex::new(File::create(role.file("log")).expect("a log")));
    tracing::subscriber::set_global_default(log).expect("the first");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    if role.is_caller {
        fs::write(role.file("ready"), "").expect("it is told");
        runtime.block_on(turns::call(&role));
        return;
    }
    let ended = runtime.block_on(async {
        let context = BuildContext::in_home(role.folder.join(&role.name));
        let router =
            Router::builder(Registry::new(), context).backend(Arc::new(working(&role.name, &role.folder)));
        let router = router.from_value(json!({})).expect("a router");
        let worker = Worker::connect(role.settings(), &role.pool, router).await?;
        worker.run(CancelToken::new(), |_| fs::write(role.file("ready"), "").expect("it is told")).await
    });
    fs::write(role.file("ended"), format!("{ended:?}")).expect("it is told");
}

/// A process of a test. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Process {
    role: Role,
    child: Child,
}

impl Process {
    pub(crate) fn start(role: Role) -> Self {
        let child = child_test::command(super::role)
            .env(ROLE, serde_json::to_string(&role).expect("it is data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(role.file("err")).expect("a file"))
            .spawn()
            .expect("it starts");
        Self { role, child }
    }

    pub(crate) fn name(&self) -> &str {
        &self.role.name
    }

    /// Waits until a worker takes turns.
    pub(crate) async fn ready(&mut self) {
        let began = Instant::now();
        while !self.role.file("ready").exists() {
            let ended = self.child.try_wait().expect("its state").is_some();
            assert!(!ended && began.elapsed() < Duration::from_secs(60), "{}: {}", self.name(), self.said());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Why a worker returned, if it did by itself.
    pub(crate) fn ended(&self) -> Option<String> {
        fs::read_to_string(self.role.file("ended")).ok()
    }

    /// What it logged, for the message of a failure.
    pub(crate) fn said(&self) -> String {
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        read(&self.role.file("log")) + &read(&self.role.file("err")) + &self.ended().unwrap_or_default()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it has ended");
    }

    /// Stops it with SIGSTOP, and returns when it has stopped.
    pub(crate) fn pause(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).expect("a signal");
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT).expect("it stops");
    }

    pub(crate) fn resume(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("a signal");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes what the fleet warns of into a file.
struct Log(Mutex<File>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("nexus_fleet") && *metadata.level() <= tracing::Level::DEBUG
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!(" {field}={value:?}");
            }
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mut text = Text(format!("{:.3} {}", now.as_secs_f64(), event.metadata().level()));
        event.record(&mut text);
        let mut file = self.0.lock().expect("no panic");
        let _ = writeln!(file, "{}", text.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

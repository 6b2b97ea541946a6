//! What a test has: a folder, servers, a pool.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use nexus_testkit::effort;
use tempfile::TempDir;
use tokio::{task::JoinSet, time::sleep};

use super::{
    process::{Process, Role},
    turns::{Caller, Outcomes, Ran},
    work::Job,
};

/// How many turns meet each fault: so many at least that no half of the eight workers has room for all.
pub(crate) fn rounds() -> usize {
    effort::rounds().max(32)
}

pub(crate) async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: never");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A folder, servers, and a pool.
#[derive(Clone)]
pub(crate) struct Place {
    folder: Arc<TempDir>,
    role: Role,
}

impl Place {
    pub(crate) fn new(servers: impl IntoIterator<Item = String>) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let role = Role {
            name: "nobody".to_owned(),
            pool: format!("pool-{}", uuid::Uuid::new_v4().simple()),
            servers: servers.into_iter().collect(),
            replicas: 1,
            turns: 1,
            is_caller: false,
            folder: folder.path().to_owned(),
        };
        Self { folder, role }
    }

    pub(crate) fn with_replicas(mut self, replicas: usize) -> Self {
        self.role.replicas = replicas;
        self
    }

    /// Another pool at these servers, or another way to this one's.
    pub(crate) fn at(&self, servers: impl IntoIterator<Item = String>) -> Self {
        let mut other = Self::new(servers);
        other.role.replicas = self.role.replicas;
        other
    }

    /// The pool and the files of another.
    pub(crate) fn with_files_of(mut self, other: &Self) -> Self {
        self.folder = Arc::clone(&other.folder);
        self.role.folder.clone_from(&other.role.folder);
        self.role.pool.clone_from(&other.role.pool);
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn pool(&self) -> &str {
        &self.role.pool
    }

    /// Starts a worker and waits for nothing.
    pub(crate) fn worker(&self, name: &str, turns: usize) -> Process {
        Process::start(Role { name: name.to_owned(), turns, ..self.role.clone() })
    }

    /// Starts workers and waits until all take turns.
    pub(crate) async fn workers(&self, count: usize, turns: usize) -> Vec<Process> {
        let mut workers: Vec<_> = (0..count).map(|index| self.worker(&format!("w{index}"), turns)).collect();
        for worker in &mut workers {
            worker.ready().await;
        }
        workers
    }

    /// Starts a process that calls.
    pub(crate) fn calling_process(&self, turns: usize) -> Process {
        Process::start(Role { name: "caller".to_owned(), turns, is_caller: true, ..self.role.clone() })
    }

    pub(crate) fn caller(&self, job: Job, deadline: Duration) -> Caller {
        Caller::new(&self.role, job, deadline)
    }

    /// Keeps what the workers logged, where the environment says where.
    pub(crate) fn keep_logs(&self, outcomes: &Outcomes) {
        let Some(kept) = std::env::var_os("NEXUS_TEST_KEEP") else { return };
        let kept = Path::new(&kept).join(&self.role.pool);
        fs::create_dir_all(&kept).expect("a folder");
        fs::write(kept.join("outcomes"), format!("{outcomes:#?}")).expect("a file");
        for entry in
            fs::read_dir(self.folder()).expect("a folder").flatten().filter(|entry| entry.path().is_file())
        {
            fs::copy(entry.path(), kept.join(entry.file_name())).expect("a copy");
        }
    }
}

/// Runs turns, each of which is begun some time after the one before.
pub(crate) async fn paced(caller: Caller, count: usize, every: Duration) -> Vec<Ran> {
    let mut turns = JoinSet::new();
    for index in 0..count {
        turns.spawn(caller.clone().turn(format!("t{index}")));
        sleep(every).await;
    }
    turns.join_all().await
}

/// Runs turns of this name at once.
pub(crate) async fn named(caller: Caller, name: String, count: usize) -> Vec<Ran> {
    let turns: JoinSet<_> = (0..count).map(|index| caller.clone().turn(format!("{name}-{index}"))).collect();
    turns.join_all().await
}

//! Eight machines with one configuration, a `nats-server` that logs every message, and the login of the first machine.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use nexus_auth::{CredentialManager, SignInMethod, http::Network};
use nexus_core::BuildContext;
use rustix::process::{Pid, Signal, kill_process};

use super::provider;
use crate::support::{Folder, PATIENCE, nats::NatsServer, text};

const BRIEF: Duration = Duration::from_millis(20);

/// The machines. The first is the owner's.
pub(crate) const WORKERS: usize = 8;
/// What each turn asks.
pub(crate) const QUESTION: &str = "Which is the largest moon of Saturn?";

/// The login `codex` of this home, at a provider that is no vendor's.
pub(crate) fn owner_login(provider: &str, home: &Path) -> CredentialManager {
    let issuer = provider::sign_in(provider, SignInMethod::Browser).issuer().clone();
    let context = BuildContext::in_home(home).with_base_directory(home);
    let sign_in = nexus::login("codex").unwrap().sign_in(&context, &Network::default()).unwrap();
    CredentialManager::at_home(Arc::new(sign_in.with_issuer(issuer)), home)
}

/// The machines of the workers, and that of the caller. All have the same file.
pub(crate) struct Machines {
    workers: Vec<Folder>,
    caller: Folder,
    keys: Vec<String>,
}

impl Machines {
    pub(crate) fn new(server: &NatsServer, model: &str) -> Self {
        let begun = format!("fleet: {{ servers: [{:?}] }}\n", server.url);
        let workers: Vec<_> = (0..WORKERS).map(|_| Folder::with(&begun)).collect();
        let keys: Vec<_> = workers
            .iter()
            .map(|folder| {
                let made = folder.nexus(&["fleet", "key"]);
                assert!(made.status.success(), "{made:?}");
                assert_eq!(folder.nexus(&["fleet", "key"]).stdout, made.stdout, "it is made once");
                text(&made.stdout).trim().to_owned()
            })
            .collect();
        let caller = Folder::empty();
        let file = |pool: &str| {
            format!(
                "fleet:\n  servers: [{:?}]\n  login_owner:\n    codex: {{ pool: builders, worker: m1, key: {}, shared_with: [{}] }}\n  \
                 worker: {{ turns: 1, backends: [codex-sub-token] }}\n\
                 groups: {{ openai: [codex-sub-token] }}\n\
                 models: {{ simulated: {{ openai: simulated }} }}\n\
                 backends: {{ codex-sub-token: {{ base_url: {model:?}{pool} }} }}\n\
                 types: {{ talker: {{ tier: execution, phase: talk, group: openai, model: simulated }} }}\n",
                server.url,
                keys[0],
                keys[1..].join(", ")
            )
        };
        for folder in workers.iter().chain([&caller]) {
            fs::write(folder.path().join("nexus.yaml"), file(", pool: builders")).unwrap();
            fs::write(folder.path().join("here.yaml"), file("")).unwrap();
        }
        let set_up = caller.nexus(&["fleet", "setup", "--pool", "builders"]);
        assert!(set_up.status.success(), "{set_up:?}");
        Self { workers, caller, keys }
    }

    pub(crate) fn owner(&self) -> &Folder {
        &self.workers[0]
    }

    pub(crate) fn start_workers(&self) -> Vec<Worker> {
        (0..WORKERS).map(|index| self.start_worker(index)).collect()
    }

    pub(crate) fn start_worker(&self, index: usize) -> Worker {
        Worker::start(&self.workers[index], &format!("m{}", index + 1))
    }

    /// Runs as many turns at once as there are workers.
    pub(crate) fn run_turns(&self) {
        let turns: Vec<_> = (0..WORKERS)
            .map(|_| {
                let mut command = self.caller.command(&["run", "talker", QUESTION, "--quiet"]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for turn in turns {
            let ended = turn.wait_with_output().unwrap();
            assert!(ended.status.success() && text(&ended.stdout) == "Titan.\n", "{ended:?}");
        }
    }

    /// Runs a turn on this machine, without a worker. What was said where it fails.
    pub(crate) fn run_here(&self, index: usize) -> Result<(), String> {
        let ended =
            self.workers[index].nexus(&["--config", "here.yaml", "run", "talker", QUESTION, "--quiet"]);
        match ended.status.success() {
            true => Ok(()),
            false => Err(text(&ended.stderr).to_owned()),
        }
    }

    /// The keys of all machines but the owner's.
    pub(crate) fn borrowers(&self) -> BTreeSet<&str> {
        self.keys[1..].iter().map(String::as_str).collect()
    }

    /// The keys that asked the owner, by the messages that the server had.
    pub(crate) fn askers(&self, messages: &str) -> BTreeSet<&str> {
        let asked = |key: &&str| {
            messages.contains(&format!("\"key\":\"{key}\""))
                || messages.contains(&format!("\\\"key\\\":\\\"{key}\\\""))
        };
        self.keys.iter().map(String::as_str).filter(asked).collect()
    }

    /// The secret halves of the keys.
    pub(crate) fn seeds(&self) -> Vec<String> {
        let seed = |folder: &Folder| fs::read_to_string(folder.nexus_home().join("fleet.key")).unwrap();
        self.workers.iter().map(|folder| seed(folder).trim().to_owned()).collect()
    }

    /// The files of all machines that hold this text.
    pub(crate) fn found(&self, secret: &str) -> Vec<PathBuf> {
        let folders = self.workers.iter().chain([&self.caller]);
        folders.flat_map(|folder| found_in(folder.path(), secret)).collect()
    }

    /// Whether a file is where a secret belongs: the login of the owner, or the key of a machine.
    pub(crate) fn may_have(&self, place: &Path, secret: &str) -> bool {
        match secret.starts_with("SX") {
            true => place.file_name().is_some_and(|name| name == "fleet.key"),
            false => place.starts_with(self.owner().nexus_home().join("auth")),
        }
    }
}

/// The files below a folder that hold this text.
pub(crate) fn found_in(folder: &Path, secret: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        } else if path.is_dir() {
            found.extend(found_in(&path, secret));
        } else {
            // It may be gone by now.
            let bytes = fs::read(&path).unwrap_or_default();
            if bytes.windows(secret.len()).any(|window| window == secret.as_bytes()) {
                found.push(path);
            }
        }
    }
    found
}

/// A worker that takes turns, and logs all that there is to log. Dropped, it is killed.
pub(crate) struct Worker {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Worker {
    fn start(folder: &Folder, name: &str) -> Self {
        let mut child = folder
            .command(&["worker", "--pool", "builders", "--name", name])
            .env("RUST_LOG", "trace")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::<Mutex<String>>::default();
        let outputs: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for output in outputs {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let mut log = log.lock().unwrap();
                    log.push_str(&line);
                    log.push('\n');
                }
            });
        }
        let worker = Self { child, log };
        let began = Instant::now();
        while !worker.said().contains(&format!("{name} takes turns of builders\n")) {
            assert!(began.elapsed() < PATIENCE, "it takes no turns: {}", worker.said());
            thread::sleep(BRIEF);
        }
        // The lines of its offer come at once.
        thread::sleep(BRIEF * 10);
        worker
    }

    /// What it has said and logged so far.
    pub(crate) fn said(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Ends it as its administrator would. What it has said and logged.
    pub(crate) fn drain(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "it goes on");
            thread::sleep(BRIEF);
        }
        self.said()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Real processes, each with many tasks: this test program, started again.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use nexus_auth::{CredentialError, CredentialSource as _};
use nexus_testkit::child_test;
use serde::{Deserialize, Serialize};

use super::{
    issuer::Mood,
    stage::{EXPIRED, Stage, manager_at},
};

/// Names the variable that tells a process what to do.
const TOLD: &str = "LOGIN_OWNER_TOLD";

/// What a process is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    home: PathBuf,
    issuer: PathBuf,
    /// Where all processes meet: `ready-PID` says that one is there, `go` that all are, `answers-PID` what came of it.
    meeting: PathBuf,
    tasks: usize,
}

impl Told {
    pub(crate) fn of(stage: &Stage) -> Self {
        let meeting = stage.home.with_file_name("meeting");
        fs::create_dir_all(&meeting).unwrap();
        let issuer = stage.home.with_file_name("issuer");
        Self { home: stage.home.clone(), issuer, meeting, tasks: 1 }
    }

    pub(crate) fn with_tasks(self, tasks: usize) -> Self {
        Self { tasks, ..self }
    }

    /// Starts one process, which begins at once.
    pub(crate) fn start(&self) -> Child {
        fs::write(self.meeting.join("go"), "").unwrap();
        self.spawn()
    }

    fn spawn(&self) -> Child {
        child_test::command(one_of_many)
            .env(TOLD, serde_json::to_string(self).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Starts so many processes, lets all of them begin at one moment, and returns what every task was answered.
    pub(crate) fn run(&self, processes: usize) -> Vec<String> {
        let mut children: Vec<Child> = (0..processes).map(|_| self.spawn()).collect();
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.met("ready-").len() < processes {
            assert!(Instant::now() < deadline, "not all processes came");
            std::thread::sleep(Duration::from_millis(2));
        }
        fs::write(self.meeting.join("go"), "").unwrap();
        for child in &mut children {
            assert!(child.wait().unwrap().success());
        }
        let answers = self.met("answers-");
        assert_eq!(answers.len(), processes);
        answers
            .iter()
            .flat_map(|path| fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    fn met(&self, prefix: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.meeting).unwrap().map(|entry| entry.unwrap());
        entries
            .filter(|entry| entry.file_name().to_str().unwrap().starts_with(prefix))
            .map(|entry| entry.path())
            .collect()
    }
}

/// Not a test of its own: what each process does.
#[test]
fn one_of_many() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let told: Told = serde_json::from_str(&told).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let pid = std::process::id();
    fs::write(told.meeting.join(format!("ready-{pid}")), "").unwrap();
    while !told.meeting.join("go").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let asked = (0..told.tasks).map(|_| {
        let manager = manager_at(&told.home, &told.issuer);
        runtime.spawn(async move { manager.credential(Duration::from_secs(60)).await })
    });
    let asked: Vec<_> = asked.collect();
    let answers = asked.into_iter().map(|task| match runtime.block_on(task).unwrap() {
        Ok(lent) => lent.token.expose().to_owned(),
        Err(CredentialError::Refused { .. }) => "refused".to_owned(),
        Err(error) => format!("{error:?}"),
    });
    let answers: Vec<String> = answers.collect();
    let unfinished = told.meeting.join(format!("unfinished-{pid}"));
    fs::write(&unfinished, answers.join("\n")).unwrap();
    fs::rename(&unfinished, told.meeting.join(format!("answers-{pid}"))).unwrap();
}

#[test]
fn sixteen_processes_of_twenty_tasks_spend_one_token() {
    for delay_ms in [0, 300] {
        let stage = Stage::with_login(EXPIRED);
        stage.issuer.change(|state| state.delay_ms = delay_ms);
        let answers = Told::of(&stage).with_tasks(20).run(16);
        assert_eq!(answers, vec!["access-2"; 320]);
        let state = stage.issuer.state();
        assert_eq!(state.spent, ["refresh-1"]);
        assert_eq!(stage.stored().login.refresh_token.unwrap().expose(), state.current);
        assert_eq!(stage.left_over(), Vec::<String>::new());
    }
}

#[test]
fn a_refusal_is_heard_once_by_all_processes() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| (state.mood, state.delay_ms) = (Mood::Refuses, 100));
    let answers = Told::of(&stage).with_tasks(5).run(6);
    assert_eq!(answers, vec!["refused"; 30]);
    assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
}

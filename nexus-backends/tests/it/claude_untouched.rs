//! Nobody here opens a credential of Claude's, nor one of the other programs' own.
//!
//! The files lie in a home of the test's, and the kernel tells of every access to them. The programs are scripts that
//! open nothing there, so whatever is seen is ours.

use std::{
    collections::BTreeMap,
    fs,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_backends::{
    OwnLogin,
    auth::{
        Login,
        store::{LoginStore, StoredLogin, TokenStore as _},
    },
    http::Network,
    logins,
};
use nexus_core::{
    Availability, BuildContext, CredentialSource as _, ErrorKind, ExecutionBackend, Limits, Secret,
    ToolAccess, TurnRequest,
};
use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};
use serde_json::{Value, json};

use crate::support::{program::write_script, ran::Ran};

const TRANSCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts");
const CANARY: &str = "canary-of-the-programs-own-login";

/// What nobody may open, below the user's home.
const FILES: [&str; 4] = [".claude/.credentials.json", ".claude.json", ".codex/auth.json", ".grok/auth.json"];

/// Every access to some files and to the folders that they are in.
struct Watch {
    events: OwnedFd,
    names: BTreeMap<i32, String>,
}

impl Watch {
    fn over(home: &Path) -> Self {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        let mut names = BTreeMap::new();
        for file in FILES {
            let watch = inotify::add_watch(&events, home.join(file), WatchFlags::ALL_EVENTS).unwrap();
            names.insert(watch, file.to_owned());
        }
        for folder in [".claude", ".codex", ".grok"] {
            let changes = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
            let watch = inotify::add_watch(&events, home.join(folder), changes).unwrap();
            names.insert(watch, folder.to_owned());
        }
        Self { events, names }
    }

    /// What happened since it was asked last.
    fn seen(&self) -> Vec<(String, ReadFlags)> {
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        let mut seen = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => seen.push((self.names[&event.wd()].clone(), event.events())),
                Err(Errno::WOULDBLOCK) => return seen,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Proves that it sees, by an access of our own to each file.
    fn sees(&self, home: &Path) {
        for file in FILES {
            assert!(fs::read_to_string(home.join(file)).unwrap().contains(CANARY));
            let seen = self.seen();
            for flag in [ReadFlags::OPEN, ReadFlags::ACCESS, ReadFlags::CLOSE_NOWRITE] {
                let is_seen = |(name, flags): &(String, ReadFlags)| name == file && flags.contains(flag);
                assert!(seen.iter().any(is_seen), "{flag:?} of {file} is not seen: {seen:?}");
            }
        }
        let unlucky = home.join(".claude/.new");
        fs::write(&unlucky, "x").unwrap();
        fs::remove_file(unlucky).unwrap();
        assert!(
            self.seen().iter().any(|(name, flags)| name == ".claude" && flags.contains(ReadFlags::CREATE))
        );
    }
}

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    /// A user who is logged in to all three programs, by files that nobody may read as nonsense.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        for file in FILES {
            let path = home.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, json!({ "token": CANARY }).to_string()).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::create_dir(folder.path().join("work")).unwrap();
        Self { folder }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    fn context(&self) -> BuildContext {
        let environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("HOME".to_owned(), self.path("home").display().to_string()),
            ("TOKEN".to_owned(), "a-token".to_owned()),
        ]);
        BuildContext::in_home(self.path("nexus"))
            .with_base_directory(self.folder.path())
            .with_environment(environment)
    }

    /// A program that answers as one was recorded.
    fn backend(&self, kind: &str, settings: Value) -> Arc<dyn ExecutionBackend> {
        let (version, script) = match kind {
            "claude-cli" => ("2.1.197 (Claude Code)", format!("cat '{TRANSCRIPTS}/claude/plain_argv.jsonl'")),
            "codex-cli" => (
                "codex-cli 0.169.0",
                format!(
                    "[ \"$1\" = app-server ] || exit 2\ncat '{TRANSCRIPTS}/codex/app-server/{CODEX}'\ncat > /dev/null"
                ),
            ),
            _ => ("grok 1.0.41 (0)", format!("cat '{TRANSCRIPTS}/grok/{GROK}'")),
        };
        let program = self.path(kind);
        let version = format!("if [ \"$1\" = --version ]; then echo '{version}'; exit; fi");
        write_script(&program, &format!("{version}\n{script}"));
        let Value::Object(mut settings) = settings else { panic!("settings are an object") };
        settings.insert("executable".to_owned(), json!(program));
        let registry = nexus_backends::registry();
        registry.kind(kind).unwrap().build(kind.into(), &settings, &self.context()).unwrap()
    }

    /// A login of ours, good for an hour.
    fn log_in(&self, which: OwnLogin) {
        let login = Login::new(Secret::new("eyJ-of-our-own"), SystemTime::now())
            .with_lifetime(Some(Duration::from_secs(3_600)));
        let store = LoginStore::at(&self.path("nexus"), which.file_name());
        store.prepare().unwrap().commit(&StoredLogin::new(login).to_text()).unwrap();
    }

    async fn turn(&self, backend: &dyn ExecutionBackend, access: ToolAccess) -> Ran {
        let limits = Limits::new().with_deadline(Duration::from_secs(90));
        let request = TurnRequest::new("As recorded.").with_tool_access(access).with_limits(limits);
        let ran = Ran::of(backend, request.in_directory(self.path("work"))).await;
        assert!(!format!("{:?} {:?}", ran.events, ran.outcome).contains(CANARY));
        ran
    }
}

const CODEX: &str = "sandbox-danger-full-access.jsonl";
const GROK: &str = "fmt-streaming-json.jsonl";

#[tokio::test(flavor = "multi_thread")]
async fn no_program_s_own_login_is_opened() {
    let machine = Machine::new();
    let home = machine.path("home");
    let watch = Watch::over(&home);
    watch.sees(&home);

    // Nobody has logged in with us, and no credential is named.
    for which in logins() {
        let manager = which.manager(&machine.context(), &Network::default()).unwrap();
        assert!(manager.look().await.unwrap().is_none());
        assert!(manager.standing().await.is_err());
    }
    for kind in ["codex-cli", "grok-cli"] {
        let backend = machine.backend(kind, json!({}));
        let probe = backend.probe().await;
        let names_the_command = |remedy: &str| remedy.contains("run `nexus login ");
        assert!(
            matches!(&probe, Availability::Unauthenticated { remedy } if names_the_command(remedy)),
            "{kind}: {probe:?}"
        );
        let error = machine.turn(&*backend, ToolAccess::Unrestricted).await.outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{kind}");
    }

    // Claude's own login, a login of ours, and a credential that is named.
    logins().for_each(|which| machine.log_in(which));
    let named = json!({ "credential": { "env": "TOKEN" }, "billing": "plan" });
    for kind in ["claude-cli", "codex-cli", "grok-cli"] {
        for settings in [json!({}), named.clone()] {
            let backend = machine.backend(kind, settings.clone());
            let probe = backend.probe().await;
            assert!(matches!(probe, Availability::Ready { .. }), "{kind}: {probe:?}");
            for access in [ToolAccess::ReadOnly, ToolAccess::Unrestricted] {
                let ran = machine.turn(&*backend, access).await;
                let has_run = ran.outcome.as_ref().map_or_else(|error| error.process().is_some(), |_| true);
                assert!(has_run, "{kind} {settings} {access:?}: {:?}", ran.outcome);
            }
            let ran = machine.turn(&*backend, ToolAccess::Unrestricted).await;
            assert!(ran.outcome.is_ok(), "{kind} {settings}: {:?}", ran.outcome);
        }
    }
    for which in logins() {
        let manager = which.manager(&machine.context(), &Network::default()).unwrap();
        assert!(manager.look().await.unwrap().is_some());
        assert!(manager.standing().await.is_ok());
        assert!(manager.credential(Duration::ZERO).await.is_ok());
    }

    assert_eq!(watch.seen(), [], "a program's own login was touched");
    // It has been awake all the time.
    watch.sees(&home);
}

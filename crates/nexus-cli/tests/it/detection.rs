//! A command without a configuration uses what the machine has.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Mutex,
};

use async_trait::async_trait;
use nexus::{
    BuildContext, DetectedConfig, Router,
    detection::{LocalAnswer, Machine, OwnLoginState, ProgramAnswer, ProgramRun, ProgramSearch},
};
use nexus_files::FileLock;
use serde_json::Value;

use crate::support::{Folder, PATIENCE, text};

/// A machine of a test.
#[derive(Debug, Default)]
struct FakeMachine {
    variables: BTreeMap<&'static str, &'static str>,
    /// Programs that may be used, each with its answer to `--version`.
    programs: BTreeMap<&'static str, ProgramAnswer>,
    refused: Vec<(&'static str, &'static str)>,
    /// Files that exist.
    files: BTreeSet<&'static str>,
    logins: BTreeMap<&'static str, OwnLoginState>,
    servers: BTreeMap<SocketAddr, LocalAnswer>,
    /// Answer of `claude auth status`.
    status: Option<&'static str>,
    runs: Mutex<Vec<String>>,
}

#[async_trait]
impl Machine for FakeMachine {
    fn variable(&self, name: &str) -> Option<String> {
        if name == "HOME" {
            return Some("/home/me".to_owned());
        }
        self.variables.get(name).map(|value| (*value).to_owned())
    }

    fn home(&self) -> Option<PathBuf> {
        Some("/home/me".into())
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.contains(path.to_str().unwrap())
    }

    fn program(&self, name: &str) -> ProgramSearch {
        let refused = self.refused.iter().filter(|(path, _)| path.ends_with(&format!("/{name}")));
        ProgramSearch {
            usable: self.programs.contains_key(name).then(|| Path::new("/opt/bin").join(name)),
            refused: refused.map(|(path, reason)| (path.into(), (*reason).to_owned())).collect(),
        }
    }

    fn search_path(&self) -> String {
        "/opt/bin".to_owned()
    }

    async fn run(&self, run: ProgramRun<'_>) -> ProgramAnswer {
        let name = run.program.file_name().unwrap().to_str().unwrap();
        self.runs.lock().unwrap().push(format!("{name} {}", run.arguments.join(" ")));
        match run.arguments {
            ["--version"] => self.programs[name].clone(),
            ["auth", "status"] => match self.status {
                Some(output) => ProgramAnswer::Ended { is_success: true, output: output.to_owned() },
                None => ProgramAnswer::Slow,
            },
            other => panic!("{name} is started with {other:?}"),
        }
    }

    async fn own_login(&self, name: &str) -> OwnLoginState {
        self.logins.get(name).cloned().unwrap_or(OwnLoginState::None)
    }

    async fn local_server(&self, address: SocketAddr, path: &str) -> LocalAnswer {
        assert_eq!(path, "/v1/models");
        self.servers.get(&address).cloned().unwrap_or(LocalAnswer::Nothing)
    }
}

fn version(line: &str) -> ProgramAnswer {
    ProgramAnswer::Ended { is_success: true, output: format!("{line}\n") }
}

fn claude() -> (&'static str, ProgramAnswer) {
    ("claude", version("2.1.329 (Claude Code)"))
}

fn codex() -> (&'static str, ProgramAnswer) {
    ("codex", version("codex-cli 0.169.0"))
}

const CLAUDE_LOGIN: &str = "/home/me/.claude/.credentials.json";
const CLAUDE_SETTINGS: &str = "/home/me/.claude.json";

fn ollama_at(ip: IpAddr) -> (SocketAddr, LocalAnswer) {
    let models = r#"{"object":"list","data":[{"id":"qwen3:8b"},{"id":"llama3"}]}"#;
    (SocketAddr::new(ip, 11434), LocalAnswer::Body(models.to_owned()))
}

fn ollama() -> (SocketAddr, LocalAnswer) {
    ollama_at(FOUR)
}

fn of_other(ip: IpAddr) -> (SocketAddr, LocalAnswer) {
    let reason = "the server belongs to another user (1001)";
    (SocketAddr::new(ip, 11434), LocalAnswer::Refused(reason.to_owned()))
}

const FOUR: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn machines() -> Vec<(&'static str, FakeMachine)> {
    vec![
        ("nothing", FakeMachine::default()),
        (
            "one_cli",
            FakeMachine {
                programs: [claude()].into(),
                files: [CLAUDE_LOGIN].into(),
                ..FakeMachine::default()
            },
        ),
        (
            "two_clis",
            FakeMachine {
                programs: [claude(), codex(), ("grok", version("grok 1.0.41"))].into(),
                files: [CLAUDE_SETTINGS].into(),
                status: Some(r#"{"loggedIn":true,"authMethod":"claude.ai"}"#),
                logins: [("codex", OwnLoginState::Usable)].into(),
                ..FakeMachine::default()
            },
        ),
        (
            "only_a_key",
            FakeMachine {
                variables: [("OPENAI_API_KEY", "sk-canary"), ("OPENROUTER_API_KEY", "sk-canary")].into(),
                ..FakeMachine::default()
            },
        ),
        ("only_a_local_server", FakeMachine { servers: [ollama()].into(), ..FakeMachine::default() }),
        (
            "a_key_beside_a_plan",
            FakeMachine {
                variables: [("ANTHROPIC_API_KEY", "sk-canary"), ("OPENAI_API_KEY", "sk-canary")].into(),
                programs: [claude(), codex()].into(),
                files: [CLAUDE_LOGIN].into(),
                servers: [ollama()].into(),
                ..FakeMachine::default()
            },
        ),
        (
            "a_cli_with_a_key_alone",
            FakeMachine {
                variables: [("ANTHROPIC_API_KEY", "sk-canary")].into(),
                programs: [claude(), ("claude-agent-acp", version(""))].into(),
                ..FakeMachine::default()
            },
        ),
        (
            "hostile",
            FakeMachine {
                programs: [("codex", ProgramAnswer::Slow), ("grok", version("a program\nof another name"))]
                    .into(),
                refused: vec![
                    ("./claude", "the folder is relative"),
                    ("/home/me/project/node_modules/.bin/claude", "it is in the current project"),
                    ("/tmp/a\nb/codex", "others can write /tmp"),
                ],
                logins: [("grok", OwnLoginState::Unusable("the login is over".to_owned()))].into(),
                servers: [
                    of_other(FOUR),
                    of_other(SIX),
                    (SocketAddr::new(FOUR, 8080), LocalAnswer::Body("<html>".to_owned())),
                ]
                .into(),
                ..FakeMachine::default()
            },
        ),
    ]
}

/// A server that listens on every address has one answer on both.
#[tokio::test]
async fn a_local_server_is_used_on_either_loopback_address_and_one_of_another_user_is_named_beside_it() {
    let cases = [
        (vec![ollama_at(SIX)], "http://[::1]:11434/v1", None),
        (vec![ollama_at(FOUR), ollama_at(SIX)], "http://127.0.0.1:11434/v1", None),
        (vec![of_other(FOUR), ollama_at(SIX)], "http://[::1]:11434/v1", Some("a server at 127.0.0.1:11434")),
    ];
    for (servers, address, unused) in cases {
        let machine = FakeMachine { servers: servers.into_iter().collect(), ..FakeMachine::default() };
        let (registry, context) = (nexus::registry(), BuildContext::in_home("home"));
        let detected = DetectedConfig::look_at(&machine, &registry, &context).await.unwrap();
        assert_eq!(detected.text().matches("base_url").count(), 1, "{}", detected.text());
        assert!(detected.text().contains(address), "{}", detected.text());
        let named: Vec<_> = detected.unused().iter().map(|one| one.subject.as_str()).collect();
        assert_eq!(named, Vec::from_iter(unused));
    }
}

#[tokio::test]
async fn each_machine_has_its_configuration_and_each_of_them_loads() {
    for (name, machine) in machines() {
        let registry = nexus::registry();
        let text = match DetectedConfig::look_at(&machine, &registry, &BuildContext::in_home("home")).await {
            Ok(detected) => {
                let context = BuildContext::in_home("home");
                let router =
                    Router::builder(registry.clone(), context.clone()).from_detected(&detected).unwrap();
                let from_text = Router::from_str(detected.text(), registry, context).unwrap();
                assert_eq!(router.warnings(), [], "{name}");
                for kind in ["orchestrator", "executor", "reviewer", "reflector", "cartographer"] {
                    assert_eq!(
                        router.explain(kind).unwrap().to_string(),
                        from_text.explain(kind).unwrap().to_string()
                    );
                }
                detected.text().to_owned()
            }
            Err(nothing) => nothing.to_string(),
        };
        assert!(!text.contains("canary"), "{text}");
        insta::assert_snapshot!(format!("detected_{name}"), text);
        // The status command sends a request, so it runs only where no file shows the login.
        let asks_status = machine.files.contains(CLAUDE_SETTINGS);
        let statuses = machine.runs.lock().unwrap().iter().filter(|run| run.contains("status")).count();
        assert_eq!(statuses, usize::from(asks_status), "{name}");
    }
}

/// A program in a folder.
pub(crate) fn program(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Poses as Claude Code: its version, and one turn.
pub(crate) const CLAUDE: &str = r#"#!/bin/sh
echo "$@" >> "${0%/*}/calls"
if [ "$1" = --version ]; then echo "2.1.197 (Claude Code)"; exit 0; fi
while read -r line; do
  case "$line" in
  *'"initialize"'*)
    id=${line#*'"request_id":"'}
    echo '{"type":"control_response","response":{"subtype":"success","request_id":"'"${id%%\"*}"'","response":{"account":{"subscriptionType":"Claude Max"}}}}'
    ;;
  *'"type":"user"'*)
    echo '{"type":"system","subtype":"init","session_id":"s","mcp_servers":[],"model":"m","permissionMode":"default","tools":[],"apiKeySource":"none","claude_code_version":"2.1.197"}'
    echo '{"type":"assistant","session_id":"s","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hello from a plan."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":4}},"parent_tool_use_id":null}'
    echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"Hello from a plan.","stop_reason":"end_turn","session_id":"s","total_cost_usd":0.1,"usage":{"input_tokens":1,"output_tokens":4},"modelUsage":{}}'
    ;;
  esac
done
"#;

/// A lock that a test shares while it looks at the usual ports of model servers, and that a test with such a server has alone.
pub(crate) fn usual_ports() -> PathBuf {
    std::env::temp_dir().join(format!("nexus-usual-ports-{}.lock", rustix::process::geteuid().as_raw()))
}

/// A person in a project, with a home, and programs outside of both.
pub(crate) struct Person {
    root: Folder,
    _ports: Option<FileLock>,
}

impl Person {
    pub(crate) fn new() -> Self {
        let ports = FileLock::lock_shared(&usual_ports(), PATIENCE * 4).unwrap().expect("the usual ports");
        Self { _ports: Some(ports), ..Self::without_ports() }
    }

    /// One whose test has the lock of [`usual_ports`] itself.
    pub(crate) fn without_ports() -> Self {
        let root = Folder::empty();
        for folder in ["home/.claude", "project/.git", "bin"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        // The tests may run where groups can write new folders, whose programs are not used.
        fs::set_permissions(root.path().join("bin"), fs::Permissions::from_mode(0o755)).unwrap();
        Self { root, _ports: None }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The configuration of the home.
    pub(crate) fn config(&self) -> PathBuf {
        self.root.nexus_home().join("nexus.yaml")
    }

    pub(crate) fn with_claude(self) -> Self {
        program(&self.bin().join("claude"), CLAUDE);
        fs::write(self.root.path().join("home/.claude/.credentials.json"), "{}").unwrap();
        self
    }

    pub(crate) fn bin(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// A command in the project. `path` goes before the folder of programs.
    pub(crate) fn command(&self, path: &str, arguments: &[&str]) -> Command {
        let mut command = self.root.command(arguments);
        command
            .current_dir(self.project())
            .env_remove("NEXUS_DETECTION")
            .env("HOME", self.root.path().join("home"))
            .env("PATH", format!("{path}{}:/usr/bin:/bin", self.bin().display()));
        command
    }

    pub(crate) fn nexus(&self, arguments: &[&str]) -> Output {
        self.command("", arguments).output().unwrap()
    }
}

fn stderr(output: &Output) -> &str {
    text(&output.stderr)
}

#[test]
fn without_a_configuration_a_turn_runs_on_the_program_that_the_person_is_logged_in_to() {
    let person = Person::new().with_claude();
    let run = person.nexus(&["run", "executor", "Say hello."]);
    assert!(run.status.success(), "{}", stderr(&run));
    assert_eq!(text(&run.stdout), "Hello from a plan.\n", "{}", stderr(&run));
    let explained = person.nexus(&["explain", "executor"]);
    let said = text(&explained.stdout);
    assert!(said.contains("detected, because no nexus.yaml exists"), "{said}");
    assert!(said.contains("Claude Code 2.1.197") && said.contains("logged in to a plan"), "{said}");
    // The printed file begins a configuration, also where the shell has created it already.
    let (home, printed) = (person.root.nexus_home(), person.root.nexus_home().join("nexus.yaml"));
    fs::create_dir_all(&home).unwrap();
    let print =
        person.command("", &["check", "--print"]).stdout(fs::File::create(&printed).unwrap()).status();
    assert!(print.unwrap().success());
    let from_file = person.nexus(&["explain", "executor"]);
    assert!(said.ends_with(text(&from_file.stdout)), "{said}\n{}", text(&from_file.stdout));
    let again = person.nexus(&["check", "--print"]);
    assert_eq!(again.stdout, fs::read(&printed).unwrap());
}

#[test]
fn nothing_of_a_hostile_folder_starts() {
    let person = Person::new().with_claude();
    let project = person.project();
    let mark = format!("#!/bin/sh\ntouch '{}/started'\n", project.display());
    for place in ["claude", "node_modules/.bin/claude", "node_modules/.bin/sh", "codex", "grok", "node"] {
        program(&project.join(place), &mark);
    }
    fs::write(project.join(".env"), "NEXUS_CONFIG=evil.yaml\nANTHROPIC_API_KEY=sk-evil\n").unwrap();
    let path = format!(".:node_modules/.bin:{}/node_modules/.bin:", project.display());
    for arguments in
        [&["explain"][..], &["check", "--probe"], &["status"], &["doctor"], &["run", "executor", "hello"]]
    {
        let output = person.command(&path, arguments).output().unwrap();
        let said = format!("{}{}", text(&output.stdout), stderr(&output));
        assert!(!project.join("started").exists(), "{arguments:?}: {said}");
        assert!(!said.contains("sk-evil"), "{said}");
        if arguments == ["run", "executor", "hello"] {
            assert_eq!(text(&output.stdout), "Hello from a plan.\n", "{said}");
        }
        if arguments == ["explain"] {
            assert!(
                said.contains("the folder is relative") && said.contains("it is in the current project"),
                "{said}"
            );
        }
    }
    // With a file of the folder, it is shown, and not used.
    let config = "groups: { g: [claude-cli] }\nbackends: { claude-cli: { executable: ./claude } }\ntypes: { executor: { group: g } }\n";
    fs::write(project.join("nexus.yaml"), config).unwrap();
    let run = person.command(&path, &["run", "executor", "hello"]).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("nexus.yaml is not trusted"), "{}", stderr(&run));
    assert!(!project.join("started").exists());
}

#[test]
fn where_nothing_is_found_the_error_names_the_ways_to_get_something() {
    let person = Person::new();
    program(&person.bin().join("claude"), CLAUDE);
    let run = person.nexus(&["run", "executor", "hello"]);
    // A model server of the machine that runs the tests would be used.
    if run.status.code() != Some(2) {
        return;
    }
    let said = stderr(&run);
    for words in
        ["claude auth login", "nexus login codex", "ollama serve", "OPENAI_API_KEY", "is not logged in"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let error = person.nexus(&["run", "executor", "hello", "--json"]);
    let error: Value = serde_json::from_slice(&error.stdout).unwrap();
    assert_eq!(error["error"]["kind"], "configuration");
}

#[test]
fn the_first_turn_on_an_api_key_names_its_payer() {
    let person = Person::new();
    program(&person.bin().join("claude"), CLAUDE);
    let run = person
        .command("", &["run", "executor", "hello", "--quiet"])
        .env("ANTHROPIC_API_KEY", "sk-canary")
        .output()
        .unwrap();
    let lines: Vec<_> = stderr(&run).lines().filter(|line| line.contains("paid for each call")).collect();
    assert_eq!(lines.len(), 1, "{}", stderr(&run));
    assert!(lines[0].contains("ANTHROPIC_API_KEY") && !lines[0].contains("canary"), "{}", lines[0]);
    let explained = person.command("", &["explain"]).env("ANTHROPIC_API_KEY", "sk-canary").output().unwrap();
    assert!(!stderr(&explained).contains("paid for each call"), "{}", stderr(&explained));
}

//! What the `nexus` command costs where programs start it often or leave it running: the processor time of hooks, of `--version` and of
//! `check`, and the memory and the wakes of servers that have nothing to do.
//!
//! `cargo bench -p nexus-turn-cli --bench commands`, or with `-- --quick` for a first look. `--program PATH` measures another build. With
//! `--strict` the program ends with 1 if something that must hold does not.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// Most processor time of a hook's answer.
const MUST_HOOK: Duration = Duration::from_millis(5);
/// Most that a hook's answer may take in a large project, beside a small one: a ratio, and the error of a clock with ticks.
const MUST_FLAT: f64 = 1.25;
const CLOCK_ERROR: Duration = Duration::from_micros(500);
/// Most processor time of `check` for each further backend.
const MUST_BACKEND: Duration = Duration::from_micros(300);
/// Most resident memory of a server that has nothing to do, in MiB.
const MUST_MEMORY: f64 = 40.0;
/// Most wakes of its threads in a second.
const MUST_WAKES: f64 = 1.0;

/// Size of the large project.
const TASKS: usize = 10_000;
const CALLS: usize = 139_000;
const AGENTS: usize = 10_000;
const BACKENDS: usize = 1_000;
/// Time for a server to come to rest after its start. Source: a runtime ends threads that block after 10 s.
const REST: Duration = Duration::from_secs(12);
/// Ticks of a second in /proc. Source: proc(5), and the kernel's USER_HZ of every usual architecture.
const TICK: Duration = Duration::from_millis(10);

/// Folders of one measurement, and the program.
struct Stage {
    program: PathBuf,
    root: PathBuf,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().collect();
    let is_asked = |word: &str| arguments.iter().any(|argument| argument == word);
    let named = arguments.iter().position(|argument| argument == "--program");
    let program = named.and_then(|at| arguments.get(at + 1)).map(PathBuf::from);
    let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_nexus").into());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().canonicalize().expect("a folder has a real path");
    let stage = Stage { program: program.canonicalize().expect("the program exists"), root };
    let (rounds, seconds) = if is_asked("--quick") { (10, 10) } else { (50, 30) };
    fs::create_dir(stage.root.join("home")).expect("room for a folder");
    stage.configure(1);
    let answers = stage.answers(rounds);
    let check = stage.check(rounds / 5);
    let idle = stage.idle(Duration::from_secs(seconds));
    ExitCode::from(u8::from(is_asked("--strict") && !(answers && check && idle)))
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

impl Stage {
    fn command(&self, arguments: &[&str], folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(folder).env_clear().env("PATH", "/usr/bin:/bin");
        command
            .env("HOME", &self.root)
            .env("NEXUS_HOME", self.root.join("home"))
            .env("NEXUS_DETECTION", "off");
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        command
    }

    /// Writes a configuration with this number of backends, and an agent of the broker.
    fn configure(&self, backends: usize) {
        let mut text = "groups: { local: [model-0] }\ntypes: { talker: { group: local } }\n\
                        broker: { agents: { clerk: { type: talker, instructions: You are a clerk. } } }\nbackends:\n"
            .to_owned();
        for number in 0..backends {
            let _ = writeln!(
                text,
                "  model-{number}: {{ kind: responses, vendor: local, base_url: \"http://127.0.0.1:9/v1\", model: m }}"
            );
        }
        fs::write(self.root.join("home/nexus.yaml"), text).expect("room for a configuration");
    }

    /// Measures `--version` and the answers of hooks.
    fn answers(&self, rounds: u32) -> bool {
        let small = self.project("small", 10, 10, 10);
        let large = self.project("large", TASKS, CALLS, AGENTS);
        println!(
            "{:<44} {:>12} {:>12} {:>8}   must",
            "processor time of one start", "small state", "large state", ""
        );
        let version = self.processor_time(rounds, &small, &["--version"], None);
        println!("{:<44} {:>12}", "--version", millis(version));
        let mut is_met = true;
        for event in ["pre_tool_use", "post_tool_use", "session_start", "subagent_complete"] {
            let [of_small, of_large] = [&small, &large].map(|project| {
                let input = input(project).to_string();
                let hook = ["hook", event, "--harness", "claude"];
                // The first answer reads what changed last.
                self.processor_time(1, project, &hook, Some(&input));
                self.processor_time(rounds, project, &hook, Some(&input))
            });
            let ratio = of_large.as_secs_f64() / of_small.as_secs_f64().max(1e-9);
            let is_flat = ratio <= MUST_FLAT || of_large <= of_small + CLOCK_ERROR;
            let is_fast = of_large.max(of_small) <= MUST_HOOK;
            println!(
                "{:<44} {:>12} {:>12} {:>8}   {} {}, {MUST_FLAT} x {}",
                format!("hook {event}"),
                millis(of_small),
                millis(of_large),
                format!("{ratio:.2} x"),
                millis(MUST_HOOK),
                verdict(is_fast),
                verdict(is_flat),
            );
            is_met &= is_fast && is_flat;
        }
        is_met
    }

    /// Measures `check`.
    fn check(&self, rounds: u32) -> bool {
        let times = [1, BACKENDS].map(|backends| {
            self.configure(backends);
            self.processor_time(rounds, &self.root, &["check"], None)
        });
        self.configure(1);
        let further = u32::try_from(BACKENDS - 1).expect("a small number");
        let each = times[1].saturating_sub(times[0]) / further;
        let is_met = each <= MUST_BACKEND;
        println!(
            "\n{:<44} {:>12} {:>12}\n{:<44} {:>12} {:>12}   {} {}",
            "processor time of `check`",
            "1 backend",
            format!("{BACKENDS}"),
            format!("check, {:.0} µs for each further backend", each.as_secs_f64() * 1e6),
            millis(times[0]),
            millis(times[1]),
            millis(MUST_BACKEND),
            verdict(is_met),
        );
        is_met
    }

    /// Measures servers that have nothing to do.
    fn idle(&self, time: Duration) -> bool {
        let mcp = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" },
        }});
        let acp =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } });
        println!(
            "\n{:<44} {:>12} {:>12}   must {MUST_MEMORY} MiB, {MUST_WAKES} a second",
            "a server with nothing to do", "resident", "wakes"
        );
        let mut is_met = true;
        for (arguments, hello) in
            [(&["broker", "run"][..], None), (&["mcp", "project"], Some(mcp)), (&["acp"], Some(acp))]
        {
            let mut server = Server::start(self.command(arguments, &self.root.join("small")), hello.as_ref());
            thread::sleep(REST);
            let before = server.wakes();
            thread::sleep(time);
            let of_thread = |(thread, now): (OsString, u64)| {
                now.saturating_sub(before.get(&thread).copied().unwrap_or(0))
            };
            let wakes = server.wakes().into_iter().map(of_thread).sum::<u64>() as f64 / time.as_secs_f64();
            let memory = server.resident_mib();
            server.end();
            println!(
                "{:<44} {:>12} {:>12}   {}, {}",
                arguments.join(" "),
                format!("{memory:.1} MiB"),
                format!("{wakes:.2} /s"),
                verdict(memory <= MUST_MEMORY),
                verdict(wakes <= MUST_WAKES),
            );
            is_met &= memory <= MUST_MEMORY && wakes <= MUST_WAKES;
        }
        is_met
    }

    /// Returns the processor time of one start of the command, on average.
    fn processor_time(
        &self,
        rounds: u32,
        folder: &Path,
        arguments: &[&str],
        input: Option<&str>,
    ) -> Duration {
        let before = children_time();
        for _ in 0..rounds {
            let mut command = self.command(arguments, folder);
            command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
            let mut child = command.spawn().expect("the program starts");
            if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
                pipe.write_all(input.as_bytes()).expect("the hook reads its input");
            }
            assert!(child.wait().expect("the program ends").success(), "{arguments:?} failed");
        }
        (children_time() - before) / rounds.max(1)
    }

    /// Creates a project with this number of tasks, of calls in its log, and of agents that ended.
    fn project(&self, name: &str, tasks: usize, calls: usize, agents: usize) -> PathBuf {
        let project = self.root.join(name);
        fs::create_dir(&project).expect("room for a folder");
        let made = self.command(&["project", "init"], &project).status().expect("the program starts");
        assert!(made.success(), "`project init` failed");
        let state = project.join(".nexus/state");
        let at = "2026-01-31T12:00:00.000Z";
        let tasks: Vec<Value> = (1..=tasks)
            .map(|id| {
                json!({
                    "id": id, "title": format!("task {id}"), "status": if id == 1 { "in_progress" } else { "pending" },
                    "context": "x".repeat(300), "acceptance": "x".repeat(200), "agent": format!("agent-{id}"), "created_at": at,
                })
            })
            .collect();
        let written = [
            ("tasks.json", json!({ "version": 1, "id": "t", "tasks": tasks }).to_string()),
            (
                "tool-log.jsonl",
                lines(calls, |_| {
                    json!({
                        "at": at, "harness": "claude", "session": "s", "agent": "agent-1", "tool": "Edit", "files_touched": ["a"],
                    })
                }),
            ),
            (
                "agent-files.jsonl",
                lines(agents, |number| {
                    json!({
                        "harness": "claude", "agent": format!("agent-{number}"), "files": ["src/a.rs"],
                    })
                }),
            ),
        ];
        for (file, text) in written {
            fs::write(state.join(file), text).expect("room for a project");
        }
        // The state was not changed just now.
        thread::sleep(Duration::from_millis(200));
        project
    }
}

fn lines(count: usize, line: impl Fn(usize) -> Value) -> String {
    (0..count).fold(String::new(), |text, number| text + &line(number).to_string() + "\n")
}

/// Input of any event: an edit by a subagent.
fn input(project: &Path) -> Value {
    json!({
        "session_id": "s", "cwd": project, "agent_id": "agent-1", "tool_name": "Edit",
        "tool_input": { "file_path": project.join("src/a.rs"), "old_string": "a", "new_string": "b" },
    })
}

/// A server that has answered its first request.
struct Server(Child);

impl Server {
    fn start(mut command: Command, hello: Option<&Value>) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        if let (Some(pipe), Some(hello)) = (&mut child.stdin, hello) {
            writeln!(pipe, "{hello}").expect("the server reads its input");
        }
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("its output is piped");
        BufReader::new(output).read_line(&mut line).expect("the server writes a line");
        assert!(!line.is_empty(), "the server ended at once");
        Self(child)
    }

    /// Returns how often each thread of the server has stopped to wait so far.
    fn wakes(&self) -> BTreeMap<OsString, u64> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0.id())).expect("the server runs");
        let of_thread = |thread: fs::DirEntry| {
            let status = fs::read_to_string(thread.path().join("status")).ok()?;
            Some((thread.file_name(), field(&status, "voluntary_ctxt_switches:")))
        };
        threads.flatten().filter_map(of_thread).collect()
    }

    fn resident_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("the server runs");
        field(&status, "VmRSS:") as f64 / 1024.0
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the number behind a name in a `status` file. Source: proc(5).
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Returns the processor time of the children that were waited for. Source: proc(5), the fields `cutime` and `cstime`.
fn children_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u32 = fields.skip(13).take(2).filter_map(|field| field.parse::<u32>().ok()).sum();
    TICK * ticks
}

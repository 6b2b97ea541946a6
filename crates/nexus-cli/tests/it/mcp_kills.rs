//! `nexus mcp spawn` killed with SIGKILL while tasks run, and started again: the task comes to what it comes to unkilled.
//!
//! The models are simulated in this program, which outlives every server. NEXUS_TEST_ROUNDS says how many kills there are at
//! least, and NEXUS_TEST_SEED draws other moments.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::{ffi::OsStrExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nexus::tree::{CommitId, Git, Tree};
use nexus_testkit::{
    effort,
    sim::{Conversation, Dialect, Reply, Scenario, Sim, ToolCall},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Folder, PATIENCE};

/// A kill comes after at most so many further requests to the models…
const MOST_REQUESTS: u64 = 20;
/// …and at most so many microseconds.
const MOST_MICROS: u64 = 60_000;
/// After so many kills a task is left alone.
const MOST_KILLS: usize = 12;

/// Counts the requests that reach the models.
#[derive(Default)]
struct Requests {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Requests {
    fn add(&self) {
        *self.count.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    fn count(&self) -> usize {
        *self.count.lock().unwrap()
    }

    /// Waits until there were `count`, or `is_over` holds.
    fn wait_for(&self, count: usize, is_over: impl Fn() -> bool) {
        let began = Instant::now();
        let mut now = self.count.lock().unwrap();
        while *now < count && !is_over() && began.elapsed() < PATIENCE {
            now = self.changed.wait_timeout(now, Duration::from_millis(20)).unwrap().0;
        }
    }
}

/// Numbers that look random and are the same for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A home, a project and its models.
struct World {
    folder: Folder,
    root: PathBuf,
    requests: Arc<Requests>,
    _sim: Sim,
}

/// `None`, which is printed, where git or the sandbox is missing and not required.
fn can_run() -> bool {
    let git = Git::find().is_ok();
    let sandbox = Command::new("bwrap").arg("--version").stdout(Stdio::null()).status().is_ok();
    assert!(git || env::var_os("NEXUS_TEST_GIT").is_none(), "git is required here");
    assert!(sandbox || env::var_os("NEXUS_TEST_SANDBOX").is_none(), "bubblewrap is required here");
    if !git || !sandbox {
        println!("NOT TESTED: git or bubblewrap is missing");
    }
    git && sandbox
}

impl World {
    fn new() -> Self {
        let folder = Folder::empty();
        let root = folder.path().canonicalize().unwrap();
        let requests = Arc::<Requests>::default();
        let counted = Arc::clone(&requests);
        let sim = Sim::builder(Dialect::Responses, Scenario::text(""))
            .answered_by(move |conversation| {
                counted.add();
                model(conversation)
            })
            .start()
            .unwrap();
        let project = root.join("project");
        fs::create_dir_all(project.join("src")).unwrap();
        fs::write(project.join("src/old.txt"), "old\n").unwrap();
        fs::write(project.join("test.sh"), "test ! -e src/hang.txt || exec sleep 61234\n").unwrap();
        let name = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"];
        let dated = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(name).args(arguments).current_dir(&project);
            git.env("GIT_AUTHOR_DATE", "1700000000 +0000").env("GIT_COMMITTER_DATE", "1700000000 +0000");
            assert!(git.status().unwrap().success(), "{arguments:?}");
        };
        dated(&["init", "-q", "-b", "main"]);
        dated(&["add", "."]);
        dated(&["commit", "-q", "-m", "Begin"]);
        fs::create_dir_all(folder.nexus_home()).unwrap();
        let config = json!({
            "groups": { "north": ["north-model"], "south": ["south-model"] },
            "backends": {
                "north-model": { "kind": "responses", "vendor": "north", "base_url": sim.base_url(), "model": "simulated" },
                "south-model": { "kind": "responses", "vendor": "south", "base_url": sim.base_url(), "model": "simulated" },
            },
            "types": {
                "orchestrator": { "tier": "operations", "phase": "orchestrate", "group": "north" },
                "executor": { "tier": "execution", "phase": "implement", "group": "south" },
                "reviewer": { "tier": "operations", "phase": "review", "panel": "review" },
            },
            "panels": { "review": [{ "group": "north" }, { "group": "south" }] },
            "tasks": { "roots": [root], "defaults": { "test_command": ["sh", "test.sh"] } },
        });
        fs::write(folder.nexus_home().join("nexus.yaml"), config.to_string()).unwrap();
        Self { folder, root, requests, _sim: sim }
    }

    /// The folders of its tasks.
    fn tasks(&self) -> Vec<PathBuf> {
        let Ok(listed) = fs::read_dir(self.folder.nexus_home().join("tasks")) else { return Vec::new() };
        let folders = listed.map(|entry| entry.unwrap().path());
        folders.filter(|folder| folder.join("status.json").exists()).collect()
    }

    /// `status.json` of its only task, if it has got that far.
    fn status(&self) -> Option<Value> {
        let tasks = self.tasks();
        let bytes = fs::read(tasks.first()?.join("status.json")).ok()?;
        Some(serde_json::from_slice(&bytes).expect("it is replaced as a whole"))
    }

    fn events(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.tasks()[0].join("events.jsonl")).unwrap();
        // The last line of a killed server may be cut off.
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Processes that work in this world: named in their arguments, their environment or their folder.
    fn processes(&self) -> Vec<String> {
        let needle = self.root.as_os_str().as_bytes();
        let has = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let folder = entry.path();
            if !entry.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
                continue;
            }
            let arguments = fs::read(folder.join("cmdline")).unwrap_or_default();
            let environment = fs::read(folder.join("environ")).unwrap_or_default();
            let place = fs::read_link(folder.join("cwd")).unwrap_or_default();
            if has(&arguments) || has(&environment) || has(place.as_os_str().as_bytes()) {
                found.push(String::from_utf8_lossy(&arguments).replace('\0', " "));
            }
        }
        found
    }

    /// Every file of the project, `.git` included, by its content.
    fn project_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.root.join("project")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => {
                        let path = entry.path().strip_prefix(&self.root).unwrap().to_owned();
                        files.insert(path, fs::read(entry.path()).unwrap());
                    }
                }
            }
        }
        files
    }
}

/// What a model does next: by what its phase's text says, and by what its tools answered.
fn model(conversation: &Conversation) -> Option<Reply> {
    let answers = conversation.tool_results();
    let call = |tool: &str, arguments| Some(Reply::call(ToolCall::function(tool, arguments)));
    if conversation.system.contains("You turn a goal into a brief") {
        return call("submit_brief", brief(conversation));
    }
    let Some(brief) = answers.first() else { return call("read_my_brief", json!({})) };
    let path = brief.lines().find_map(|line| line.strip_prefix("> make ")).unwrap_or("nothing");
    if conversation.system.contains("You do one step of a task") {
        return match answers.len() {
            1 => call("write_file", json!({ "path": path, "content": format!("{path} was made\n") })),
            2 if !path.contains("last") => call("run_tests", json!({})),
            _ => call(
                "submit_handoff",
                json!({ "claims": [{ "text": format!("{path} is there.") }], "files": [path], "action": "step_done" }),
            ),
        };
    }
    let due = brief.lines().filter_map(|line| {
        let (id, when) = line.strip_prefix("[criterion ")?.split_once(", which ")?;
        when.starts_with("has to hold after this step").then_some(id)
    });
    let judged: Vec<Value> = due
        .chain(["outcome"])
        .map(|id| json!({ "id": id, "judgement": "pass", "evidence": [format!("diff:{path}:1")] }))
        .collect();
    call("submit_verdict", json!({ "decision": "advance", "criteria": judged, "alignment": 0.9 }))
}

/// One file, then two at once, then one; or one whose test does not end.
fn brief(conversation: &Conversation) -> Value {
    let hangs = conversation.user_texts().iter().any(|text| text.contains("Hang."));
    let entries: &[(&str, Option<&str>)] = match hangs {
        true => &[("src/hang.txt", None)],
        false => &[
            ("src/one.txt", None),
            ("src/left.txt", Some("both")),
            ("src/right.txt", Some("both")),
            ("src/last.txt", None),
        ],
    };
    let entry = |(path, group): &(&str, Option<&str>)| {
        let mut entry = json!({
            "tier": "execution", "phase": "implement", "agent_type": "executor", "outcome": format!("make {path}"),
        });
        if let Some(group) = group {
            entry["parallel_group"] = json!(group);
            entry["write_slice"] = json!([path]);
        }
        entry
    };
    json!({
        "problem": "Files are missing.",
        "criteria": [{ "id": "files", "text": "All of them are there." }],
        "read": ["."],
        "write": ["src"],
        "plan": entries.iter().map(entry).collect::<Vec<_>>(),
    })
}

/// How a call is brought to the server.
enum Line {
    Stdio { input: ChildStdin, output: BufReader<ChildStdout> },
    Http { address: String, token: String, _output: BufReader<ChildStdout> },
}

/// A server of a world.
struct Server {
    child: Child,
    line: Line,
}

/// The server went away in mid-call.
#[derive(Debug)]
struct Gone;

impl Server {
    /// Starts one over HTTP or over standard input and output. [`Gone`] if it was killed before it listened.
    fn start(world: &World, over_http: bool, started: impl FnOnce(Pid)) -> Result<Self, (Child, Gone)> {
        let arguments: &[&str] = if over_http { &["mcp", "spawn", "--http", "0"] } else { &["mcp", "spawn"] };
        let mut command = world.folder.command(arguments);
        command.env("PATH", env::var_os("PATH").unwrap()).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("nexus starts");
        started(Pid::from_child(&child));
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        if !over_http {
            return Ok(Self { child, line: Line::Stdio { input, output } });
        }
        let mut said = String::new();
        let _ = output.read_line(&mut said);
        let Some((url, token)) = said.trim().split_once(" (the token is in ") else {
            return Err((child, Gone));
        };
        let token = fs::read_to_string(token.trim_end_matches(')')).unwrap().trim().to_owned();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
        Ok(Self { child, line: Line::Http { address, token, _output: output } })
    }

    /// Calls a tool, and gives its structured answer.
    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, Gone> {
        let params = json!({ "name": tool, "arguments": arguments });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let answer = match &mut self.line {
            Line::Stdio { input, output } => {
                input.write_all(format!("{message}\n").as_bytes()).map_err(|_| Gone)?;
                let mut line = String::new();
                output.read_line(&mut line).map_err(|_| Gone)?;
                line
            }
            Line::Http { address, token, .. } => {
                let mut stream = TcpStream::connect(&*address).map_err(|_| Gone)?;
                let head = format!(
                    "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
                     Content-Type: application/json\r\nAccept: application/json\r\nConnection: close\r\n\
                     Content-Length: {}\r\n\r\n",
                    message.len()
                );
                stream.write_all(format!("{head}{message}").as_bytes()).map_err(|_| Gone)?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer).map_err(|_| Gone)?;
                let Some((_, body)) = answer.split_once("\r\n\r\n") else { return Err(Gone) };
                body.to_owned()
            }
        };
        // Cut off in the middle, it is no message.
        let answer: Value = serde_json::from_str(answer.trim()).map_err(|_| Gone)?;
        let result = &answer["result"];
        assert_ne!(result["isError"], true, "{tool}: {answer}");
        assert!(result["structuredContent"].is_object(), "{tool}: {answer}");
        Ok(result["structuredContent"].clone())
    }

    /// Goes on with the only task of the world, or creates it, until it is over.
    fn walk(&mut self, world: &World, goal: &str) -> Result<String, Gone> {
        let listed = self.call("task_list", &json!({}))?;
        let id = match listed["tasks"].as_array().unwrap().first() {
            Some(row) => row["task_id"].as_str().unwrap().to_owned(),
            None => {
                let request = json!({ "goal": goal, "project": world.root.join("project") });
                self.call("task_create", &request)?["task_id"].as_str().unwrap().to_owned()
            }
        };
        let asked = json!({ "task_id": id });
        let mut status = self.call("task_status", &json!({ "task_id": id, "wait_s": 0 }))?["status"].clone();
        while status == "framing" {
            status = self.call("task_orchestrate", &asked)?["task"]["status"].clone();
        }
        while status == "active" {
            status = self.call("task_run_turn", &asked)?["status"].clone();
        }
        Ok(status.as_str().unwrap().to_owned())
    }

    /// Ends it as its client would, and sees that it does end.
    fn end(self) {
        let Self { mut child, line } = self;
        if matches!(line, Line::Http { .. }) {
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        }
        drop(line);
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "the server does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Starts a server and walks on, until the task is over or the server is killed: after so many further requests, and so long.
fn live(world: &World, over_http: bool, kill: Option<(usize, Duration)>) -> Option<String> {
    let is_over = AtomicUsize::new(0);
    let pid = Mutex::new(None);
    let began_at = world.requests.count();
    let (walked, was_killed) = thread::scope(|scope| {
        let killer = kill.map(|(requests, pause)| {
            let (is_over, pid) = (&is_over, &pid);
            scope.spawn(move || {
                world.requests.wait_for(began_at + requests, || is_over.load(Ordering::SeqCst) == 1);
                thread::sleep(pause);
                let began = Instant::now();
                let mut started: Option<Pid> = None;
                while started.is_none() && began.elapsed() < PATIENCE {
                    thread::sleep(Duration::from_micros(100));
                    started = *pid.lock().unwrap();
                }
                // It is waited for after this, so the number is no other's.
                match (is_over.load(Ordering::SeqCst), started) {
                    (0, Some(pid)) => kill_process(pid, Signal::KILL).is_ok(),
                    _ => false,
                }
            })
        });
        let mut ended = match Server::start(world, over_http, |started| *pid.lock().unwrap() = Some(started))
        {
            Err((child, Gone)) => Err(child),
            Ok(mut server) => match server.walk(world, "Make the files.") {
                Ok(status) => Ok((server, status)),
                Err(Gone) => Err(server.child),
            },
        };
        is_over.store(1, Ordering::SeqCst);
        let was_killed = killer.is_some_and(|killer| killer.join().unwrap());
        if let Err(child) = &mut ended {
            let status = child.wait().unwrap();
            assert!(was_killed, "the server ended by itself: {status}");
        }
        (ended, was_killed)
    });
    match walked {
        Err(_) => None,
        Ok((mut server, _)) if was_killed => {
            let _ = server.child.wait();
            None
        }
        Ok((server, status)) => {
            server.end();
            Some(status)
        }
    }
}

/// What a task came to: its commits' trees, and the verdicts on its steps.
#[derive(Debug, PartialEq)]
struct Outcome {
    commits: Vec<String>,
    verdicts: BTreeMap<String, String>,
    ends: Vec<String>,
}

fn outcome(world: &World) -> Outcome {
    let tasks = world.tasks();
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    let status = world.status().unwrap();
    let tree = Tree::open(&Git::find().unwrap(), &tasks[0]).unwrap();
    let mut commits = Vec::new();
    let mut last = tree.base().commit.clone();
    for commit in status["data"]["commits"].as_array().unwrap() {
        let id: CommitId = commit["commit"].as_str().unwrap().parse().unwrap();
        commits.push(format!(
            "{}\n{}",
            tree.tree_of(&id).unwrap().as_str(),
            tree.patch(&last, &id).unwrap().text()
        ));
        last = id;
    }
    assert_eq!(tree.read_ref("head").unwrap(), Some(last));
    let mut verdicts = BTreeMap::new();
    let mut ends = Vec::new();
    let mut files: Vec<_> =
        fs::read_dir(tasks[0].join("steps")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
        let record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let name = format!("{} {}", record["entry"], record["attempt"]);
        verdicts.insert(name, format!("{} {}", record["verdict"], record["votes"].as_array().unwrap().len()));
        ends.push(record["end"].to_string());
    }
    Outcome { commits, verdicts, ends }
}

/// Where a task was when its server was killed.
fn place(world: &World) -> (String, Option<(u64, u64)>) {
    let Some(status) = world.status() else { return ("before there was a task".to_owned(), None) };
    let cursor = &status["state"]["status"]["cursor"];
    let begun = status["data"]["begun"].as_u64().unwrap_or_default();
    let (Some(entry), Some(attempt)) = (cursor["entry"].as_u64(), cursor["attempt"].as_u64()) else {
        return (format!("while {}", name_of(&status["state"]["status"])), None);
    };
    if status["data"]["intent"].is_object() {
        return (format!("settling step {entry}"), None);
    }
    if begun != attempt {
        return (format!("before step {entry}"), None);
    }
    (format!("in step {entry}"), Some((entry, attempt)))
}

fn name_of(status: &Value) -> String {
    status.as_str().map_or_else(|| status.to_string(), str::to_owned)
}

/// What was seen over many tasks.
#[derive(Default)]
struct Seen {
    kills: usize,
    tasks: usize,
    places: BTreeMap<String, usize>,
}

/// Walks one task, whose server is killed again and again; the first of a lane once before it can have begun anything.
fn kill_and_go_on(draw: &mut Draw, twin: &Outcome, seen: &mut Seen) {
    let world = World::new();
    let before = world.project_files();
    let mut interrupted = BTreeSet::new();
    let mut story = Vec::new();
    let (mut kills, mut in_steps) = (0, 0);
    let status = loop {
        let over_http = draw.below(2) == 1;
        let moment = match seen.tasks + kills {
            0 => (0, Duration::ZERO),
            _ => (draw.below(MOST_REQUESTS) as usize, Duration::from_micros(draw.below(MOST_MICROS))),
        };
        let Some(status) = live(&world, over_http, (kills < MOST_KILLS).then_some(moment)) else {
            kills += 1;
            let (place, cut_off) = place(&world);
            in_steps += usize::from(cut_off.is_some());
            interrupted.extend(cut_off);
            story.push(format!("{moment:?}, {place}"));
            *seen.places.entry(place).or_default() += 1;
            continue;
        };
        break status;
    };
    seen.kills += kills;
    seen.tasks += 1;
    assert_eq!(status, "complete", "{story:#?}");
    assert_eq!(&outcome(&world), twin, "{story:#?}");

    let events = world.events();
    let logged: Vec<(u64, u64)> = events
        .iter()
        .filter(|event| event["event"] == "step_interrupted" || event["kind"] == "step_interrupted")
        .map(|event| {
            let number = |name: &str| event[name].as_u64().or_else(|| event["data"][name].as_u64()).unwrap();
            (number("entry"), number("attempt"))
        })
        .collect();
    let told: BTreeSet<_> = logged.iter().copied().collect();
    assert!(interrupted.is_subset(&told), "{interrupted:?} of {told:?}: {story:#?}");
    assert!(logged.len() <= kills && (in_steps == 0) == logged.is_empty(), "{logged:?}: {story:#?}");

    let began = Instant::now();
    while !world.processes().is_empty() {
        assert!(began.elapsed() < PATIENCE, "left: {:?}: {story:#?}", world.processes());
        thread::sleep(Duration::from_millis(10));
    }
    let mut after = world.project_files();
    let refs: Vec<PathBuf> =
        after.keys().filter(|path| path.starts_with("project/.git/refs/nexus")).cloned().collect();
    assert_eq!(refs.len(), 1, "{refs:?}: {story:#?}");
    after.remove(&refs[0]);
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{story:#?}");
    assert!(after == before, "a file of the project changed: {story:#?}");
}

#[test]
fn a_server_that_is_killed_at_any_moment_loses_nothing_and_leaves_nothing() {
    if !can_run() {
        return;
    }
    let twin = World::new();
    assert_eq!(live(&twin, true, None).as_deref(), Some("complete"));
    let expected = outcome(&twin);
    assert_eq!((expected.commits.len(), expected.verdicts.len()), (3, 3), "{expected:?}");
    println!("unkilled: {} requests to the models", twin.requests.count());

    let (wanted, seed) = (effort::rounds(), effort::seed());
    // Each lane kills once before its first task is there, so few kills are left to one lane.
    let lanes = (wanted as u64 / 4).clamp(1, 4);
    let began = Instant::now();
    let kills = AtomicUsize::new(0);
    let all: Vec<Seen> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes)
            .map(|lane| {
                let (kills, expected) = (&kills, &expected);
                scope.spawn(move || {
                    let (mut draw, mut seen) = (Draw(seed * 1_000 + lane), Seen::default());
                    while kills.load(Ordering::SeqCst) < wanted {
                        let before = seen.kills;
                        kill_and_go_on(&mut draw, expected, &mut seen);
                        kills.fetch_add(seen.kills - before, Ordering::SeqCst);
                    }
                    seen
                })
            })
            .collect();
        lanes.into_iter().map(|lane| lane.join().expect("a lane holds")).collect()
    });
    let mut places = BTreeMap::<String, usize>::new();
    for (place, count) in all.iter().flat_map(|seen| &seen.places) {
        *places.entry(place.clone()).or_default() += count;
    }
    let (kills, tasks) = all.iter().fold((0, 0), |sum, seen| (sum.0 + seen.kills, sum.1 + seen.tasks));
    println!("{kills} kills of {tasks} tasks in {:.1} s: {places:#?}", began.elapsed().as_secs_f64());
    assert!(kills >= wanted);
}

#[test]
fn the_tests_that_a_killed_server_had_started_end_with_it() {
    if !can_run() {
        return;
    }
    let world = World::new();
    let Ok(mut server) = Server::start(&world, true, |_| ()) else { panic!("nobody kills it") };
    let request = json!({ "goal": "Hang.", "project": world.root.join("project") });
    let id = server.call("task_create", &request).unwrap()["task_id"].clone();
    server.call("task_orchestrate", &json!({ "task_id": id })).unwrap();
    let turn = server.call("task_run_turn", &json!({ "task_id": id, "wait_s": 0 })).unwrap();
    assert_eq!(turn["running"], true);
    let hangs = |world: &World| world.processes().iter().any(|process| process.contains("61234"));
    let began = Instant::now();
    while !hangs(&world) {
        assert!(began.elapsed() < PATIENCE, "the tests begin: {:?}", world.processes());
        thread::sleep(Duration::from_millis(10));
    }
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let began = Instant::now();
    while !world.processes().is_empty() {
        assert!(began.elapsed() < PATIENCE, "left: {:?}", world.processes());
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!Path::new(&world.root).join("project/src/hang.txt").exists());
}

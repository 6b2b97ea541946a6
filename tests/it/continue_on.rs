//! Work that one backend began and another one finishes, by `fallback: continue`: lines of a file, each written by a call that must
//! not be made twice. `NEXUS_TEST_ALL_ROUNDS=1` has the programs of vendors do a hundred rounds of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::{StreamExt as _, stream};
use nexus::{
    BuildContext, Effects, EventEnvelope, Handover, Limits, Router, Tool, ToolAccess, Toolbox, TurnEvent,
    TurnHost, TurnRequest, TurnResult, tree,
};
use nexus_testkit::{
    real,
    sim::{Conversation, Cut, Dialect, Fault, Item, Reply, Scenario, Sim, ToolCall},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// How many lines the work has.
const LINES: usize = 5;

/// How a model makes its calls.
#[derive(Clone, Copy)]
struct Hands {
    append: fn(usize) -> ToolCall,
    look: fn() -> ToolCall,
}

/// What becomes of a reply that a model would have given.
type Trouble = fn(Reply) -> Reply;

/// By tools of the program's.
const TOOLS: Hands = Hands {
    append: |number| ToolCall::function("append", json!({ "line": line(number) })),
    look: || ToolCall::function("look", json!({})),
};

/// By the shell of a vendor's program.
const SHELL: Hands = Hands {
    append: |number| ToolCall::shell(format!("echo {} >> lines.txt", line(number))),
    look: || ToolCall::shell("cat lines.txt"),
};

fn line(number: usize) -> String {
    format!("line-{number}")
}

/// What a model does next: it writes the lines that are not there yet, by what it was told and by what its tools answered. It looks
/// before it repeats a call of which nobody knows how it ended.
fn next(conversation: &Conversation, hands: Hands) -> Reply {
    let (mut done, mut is_unsure, mut has_looked) = (BTreeSet::new(), false, false);
    let lines_in =
        |text: &str| -> Vec<usize> { (1..=LINES).filter(|number| text.contains(&line(*number))).collect() };
    for call in told(conversation).iter().flat_map(|told| told["calls"].as_array().unwrap()) {
        match call["outcome"].as_str().unwrap() {
            "succeeded" => done.extend(lines_in(&call["arguments"].to_string())),
            "unknown" => is_unsure = true,
            _ => {}
        }
    }
    let calls = conversation.items.iter().filter_map(|item| match item {
        Item::ToolCall { arguments, .. } => Some(arguments.as_str()),
        _ => None,
    });
    for (arguments, answer) in calls.zip(conversation.tool_results()) {
        let written = lines_in(arguments);
        if written.is_empty() {
            has_looked = true;
            done.extend(lines_in(answer));
        }
        done.extend(written);
    }
    if is_unsure && !has_looked {
        return Reply::call((hands.look)());
    }
    match (1..=LINES).find(|number| !done.contains(number)) {
        Some(number) => Reply::call((hands.append)(number)),
        None => Reply::text("All lines are there."),
    }
}

/// The record that a model was given of what was done before it.
fn told(conversation: &Conversation) -> Option<Value> {
    let texts = conversation.user_texts().join("\n");
    let begin = texts.find("{\"calls\":")?;
    serde_json::Deserializer::from_str(&texts[begin..]).into_iter().next()?.ok()
}

/// The server of a model that does its part, after so many calls meets with `trouble`, and does its part no more.
fn failing_after(dialect: Dialect, calls: usize, hands: Hands, trouble: Trouble) -> Sim {
    let reply = move |conversation: &Conversation| {
        let next = next(conversation, hands);
        Some(if conversation.tool_results().len() < calls { next } else { trouble(next) })
    };
    Sim::builder(dialect, Scenario::text("")).answered_by(reply).start().unwrap()
}

fn finishing(dialect: Dialect, hands: Hands) -> Sim {
    let reply = move |conversation: &Conversation| Some(next(conversation, hands));
    Sim::builder(dialect, Scenario::text("")).answered_by(reply).start().unwrap()
}

fn used_up(_: Reply) -> Reply {
    let in_an_hour = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3_600;
    Reply::fault(Fault::usage_limit(in_an_hour))
}

#[derive(Deserialize, JsonSchema)]
struct Line {
    line: String,
}

fn tools(file: &Path) -> Toolbox {
    let (written, read) = (file.to_owned(), file.to_owned());
    Toolbox::new()
        .with(
            Tool::new("append", "Writes a line at the end.", move |Line { line }| {
                let file = OpenOptions::new().append(true).create(true).open(&written);
                let outcome = file.and_then(|mut file| writeln!(file, "{line}"));
                async move { outcome.map_err(|error| error.to_string()) }
            })
            .with_effects(Effects::Wrote),
        )
        .with(
            Tool::without_arguments("look", "Reads the lines.", move || {
                let lines = fs::read_to_string(&read).unwrap_or_default();
                async move { lines }
            })
            .read_only(),
        )
}

#[track_caller]
fn assert_each_line_once(file: &Path, context: &str) {
    let written = fs::read_to_string(file).unwrap();
    let expected: Vec<String> = (1..=LINES).map(line).collect();
    assert_eq!(written.lines().collect::<Vec<_>>(), expected, "{context}");
}

/// The trouble of a server that accepts a request and never answers.
const STALL: &str = "nobody answers in time";

#[tokio::test]
async fn whenever_the_first_one_fails_nothing_is_done_twice_and_nothing_forgotten() {
    let troubles: [(&str, Trouble); 5] = [
        ("the plan is used up", used_up),
        ("there is no capacity", |_| Reply::fault(Fault::overloaded())),
        ("the call that it wanted to make is cut off", |next| next.torn(Cut::Reset)),
        ("the stream breaks off", |next| next.broken("server", "it broke")),
        (STALL, |_| Reply::fault(Fault::StallBeforeHeaders)),
    ];
    let git = tree::Git::find();
    assert!(git.is_ok() || std::env::var_os("NEXUS_TEST_GIT").is_none(), "git is required here");
    // They mostly wait.
    let rounds = (0..100).map(|round| {
        let (what, trouble) = troubles[round % troubles.len()];
        round_of(round, what, trouble, git.as_ref().ok().filter(|_| round % 4 == 0))
    });
    stream::iter(rounds).buffer_unordered(25).collect::<()>().await;
}

/// One round over two models, of which the first one meets with trouble. Where there is git, files are looked at, too.
async fn round_of(round: usize, what: &str, trouble: Trouble, git: Option<&tree::Git>) {
    let after = round % (LINES + 1);
    let context = format!("round {round}: {what}, after {after} calls");
    let folder = tempfile::tempdir().unwrap();
    let (first, second) =
        (failing_after(Dialect::Responses, after, TOOLS, trouble), finishing(Dialect::Responses, TOOLS));
    let routes = format!(
        "groups: {{ main: [north, south] }}
backends:
  north: {{ kind: responses, base_url: {:?}, model: any }}
  south: {{ kind: responses, base_url: {:?}, model: any }}
types: {{ writer: {{ group: main, fallback: continue }} }}\n",
        first.base_url(),
        second.base_url()
    );
    let context_of_build = BuildContext::in_home(folder.path().join("home"));
    let router = Router::from_str(&routes, nexus::registry(), context_of_build).unwrap();
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    let file = work.join("lines.txt");
    let mut host = TurnHost::new().with_tools(std::sync::Arc::new(tools(&file)));
    let tree = git.map(|git| tree_of(git, folder.path(), &work));
    if let Some(tree) = &tree {
        host = host.with_file_changes(tree.file_changes(&work).unwrap());
    }
    let mut idle = nexus::IdleLimits::none();
    // Only where the server never answers: on a busy machine, an answer can take longer than a test likes to wait.
    if what == STALL {
        idle.first_byte = Some(Duration::from_secs(20));
    }
    let limits = Limits::new().with_deadline(Duration::from_secs(120)).with_idle(idle);
    let (events, result) =
        run(&router, TurnRequest::new("Write five lines.").with_limits(limits), host).await;
    assert_each_line_once(&file, &context);
    assert_handed_over(&result, &events, "north", "south", after > 0, &context);
    let handed = second.main_calls().iter().find_map(|call| told(&call.conversation));
    assert_eq!(handed.is_some(), after > 0, "{context}");
    if let Some(handed) = handed {
        assert_eq!(handed["calls"].as_array().unwrap().len(), after, "{context}");
        let changed = handed["changed_files"].as_str().map(|patch| patch.matches("\n+line-").count());
        assert_eq!(changed, tree.as_ref().map(|_| after), "{context}: {handed}");
    }
}

/// What tells of changes in the folder `work`, kept beside it.
fn tree_of(git: &tree::Git, folder: &Path, work: &Path) -> tree::Tree {
    let kept = folder.join("tree");
    fs::create_dir(&kept).unwrap();
    let project = tree::Project::folder(work).unwrap();
    tree::Tree::create(git, kept, &project, &tree::TreeOptions::new()).unwrap()
}

async fn run(router: &Router, request: TurnRequest, host: TurnHost) -> (Vec<TurnEvent>, TurnResult) {
    let mut events = Vec::new();
    let mut sink = |envelope: EventEnvelope| events.push(envelope.event);
    let result = router.run_turn("writer", request, host, &mut sink).await;
    let result = result.unwrap_or_else(|error| panic!("{error:#?}"));
    (events, result)
}

/// What happened is told, while it happens and afterwards.
fn assert_handed_over(
    result: &TurnResult,
    events: &[TurnEvent],
    from: &str,
    to: &str,
    was_begun: bool,
    context: &str,
) {
    assert_eq!(result.text.trim(), "All lines are there.", "{context}");
    assert_eq!((result.provenance.backend.as_str(), result.effects), (to, Effects::Wrote), "{context}");
    let expected = if was_begun { Handover::Continued } else { Handover::Nothing };
    let skipped = &result.provenance.skipped[0];
    assert_eq!((skipped.backend.as_str(), skipped.handover), (from, expected), "{context}");
    let told = events.iter().find_map(|event| match event {
        TurnEvent::Fallback(fallback) => Some((fallback.to.as_str(), fallback.skipped.handover)),
        _ => None,
    });
    assert_eq!(told, Some((to, expected)), "{context}");
}

/// A program that is killed by the command that it runs for its model: the line is written, and nobody is told.
fn killing(number: usize) -> ToolCall {
    ToolCall::shell(format!("echo {} >> lines.txt; kill -9 $PPID; sleep 5", line(number)))
}

#[tokio::test]
#[ignore = "needs the real CLIs; run by .ci/deep"]
async fn the_programs_of_vendors_go_on_from_one_another() {
    // Each after each number of calls; a hundred rounds take some minutes.
    let rounds = if std::env::var_os("NEXUS_TEST_ALL_ROUNDS").is_some() { 100 } else { 2 * (LINES + 1) };
    let rounds = (0..rounds).map(|round| async move {
        let (from, to) = [("codex-cli", "claude-cli"), ("claude-cli", "codex-cli")][round % 2];
        let after = round / 2 % (LINES + 1);
        let context = format!("round {round}: {from} fails after {after} calls");
        continued(from, to, after, used_up, &context).await;
    });
    stream::iter(rounds).buffer_unordered(3).collect::<()>().await;
}

#[tokio::test]
#[ignore = "needs the real CLIs; run by .ci/deep"]
async fn a_call_that_killed_its_program_is_looked_after_and_not_repeated() {
    let (from, to) = ("claude-cli", "codex-cli");
    let kills = |_: Reply| Reply::call(killing(3));
    let handed = continued(from, to, 2, kills, "claude-cli is killed in the third call").await.unwrap();
    let outcomes: Vec<_> =
        handed["calls"].as_array().unwrap().iter().map(|call| call["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["succeeded", "succeeded", "unknown"], "{handed}");
}

/// The work, begun by one program and finished by the other. What the second one was told is the answer.
async fn continued(from: &str, to: &str, after: usize, trouble: Trouble, context: &str) -> Option<Value> {
    static ROUNDS: AtomicUsize = AtomicUsize::new(0);
    let folder = tempfile::tempdir().unwrap();
    let dialect = |name: &str| if name == "claude-cli" { Dialect::Anthropic } else { Dialect::Responses };
    let (first, second) =
        (failing_after(dialect(from), after, SHELL, trouble), finishing(dialect(to), SHELL));
    let address = |name: &str| {
        let sim = if name == from { &first } else { &second };
        if name == "claude-cli" { sim.root_url() } else { sim.base_url() }
    };
    let [claude, codex] = ["NEXUS_REAL_CLAUDE", "NEXUS_REAL_CODEX"].map(real::last);
    let routes = format!(
        "groups: {{ a: [{from}, {to}] }}
backends:
  claude-cli: {{ executable: {claude:?}, billing: metered, credential: {{ env: TOKEN }}, base_url: {:?} }}
  codex-cli:  {{ executable: {codex:?}, billing: metered, credential: {{ env: TOKEN }}, base_url: {:?} }}
types: {{ writer: {{ group: a, fallback: continue }} }}\n",
        address("claude-cli"),
        address("codex-cli"),
    );
    let environment = BTreeMap::from([
        ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ("HOME".to_owned(), folder.path().display().to_string()),
        ("TOKEN".to_owned(), "sk-simulated".to_owned()),
    ]);
    let build = BuildContext::in_home(folder.path().join("nexus")).with_environment(environment);
    let router = Router::from_str(&routes, nexus::registry(), build).unwrap();
    let work = folder.path().join(format!("work-{}", ROUNDS.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir(&work).unwrap();
    let tree = tree_of(&tree::Git::find().unwrap(), folder.path(), &work);
    let host = TurnHost::new().with_file_changes(tree.file_changes(&work).unwrap());
    let request = TurnRequest::new("Write five lines into lines.txt.")
        .with_tool_access(ToolAccess::Unrestricted)
        .in_directory(&work)
        .with_limits(Limits::new().with_deadline(Duration::from_secs(120)));
    let (events, result) = run(&router, request, host).await;
    assert_each_line_once(&work.join("lines.txt"), context);
    assert_handed_over(&result, &events, from, to, after > 0, context);
    second.main_calls().iter().find_map(|call| told(&call.conversation))
}

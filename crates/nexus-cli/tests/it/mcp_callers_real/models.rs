//! What the models answer. Nothing is counted: each reply follows from what its conversation holds.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use nexus_testkit::sim::{Conversation, Item, Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::debaters;

/// How a prompt of ours begins, by the phase that it is for.
pub(crate) const PHASES: [(&str, &str); 3] = [
    ("orchestrate", "You turn a goal into a brief"),
    ("implement", "You do one step of a task"),
    ("review", "You judge one step of a task"),
];

/// The lenses of the two seats. Each seat speaks and probes with words of its own, which hold its lens.
pub(crate) const LENSES: [&str; 2] = ["boundary-inputs", "hidden-contracts"];

/// The words of a seat, which nobody else may read.
pub(crate) fn canary(lens: &str) -> String {
    format!("canary-words-of-{lens}")
}

/// What the file holds when the step is done.
pub(crate) const DONE: &str = "echo $(( $1 + $2 ))\n";

/// A server that callers register.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Served {
    Tasks,
    Debates,
}

impl Served {
    /// The name by which it is registered.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tasks => "nexus_spawn",
            Self::Debates => "nexus_debate",
        }
    }

    pub(crate) const fn command(self) -> &'static str {
        match self {
            Self::Tasks => "nexus mcp spawn",
            Self::Debates => "nexus mcp debate",
        }
    }

    /// Its tools, in the order of a walk.
    const fn walk(self) -> &'static [&'static str] {
        match self {
            Self::Tasks => &["task_create", "task_orchestrate", "task_run_turn", "task_result"],
            Self::Debates => &["debate_create", "debate_advance", "debate_result"],
        }
    }
}

/// What a caller's model says in the end: short, so that no program prints it in pieces.
pub(crate) const WALKED: &str = "Walked.";

/// How an agent's model departs from its script.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// Every call is refused, as a token is that was revoked.
    pub(crate) is_refusing: AtomicBool,
    /// Whoever does the work is left without an answer.
    pub(crate) is_stalling: AtomicBool,
    /// Whoever does the work waits some seconds for the first answer.
    pub(crate) is_slow: AtomicBool,
}

/// The phase that a call is for.
pub(crate) fn phase(conversation: &Conversation) -> Option<&'static str> {
    let begins = |(_, beginning): &&(&str, &str)| conversation.system.contains(*beginning);
    PHASES.iter().find(begins).map(|(phase, _)| *phase)
}

/// The model of an agent, whichever vendor's.
pub(crate) fn agent(conversation: &Conversation, trouble: &Trouble) -> Option<Reply> {
    if trouble.is_refusing.load(Ordering::SeqCst) {
        return Some(Reply::status(401));
    }
    if let Some(reply) =
        debaters::reply(conversation, |tool, arguments| ToolCall::mcp("nexus", tool, arguments))
    {
        return Some(reply);
    }
    let phase = phase(conversation)?;
    if phase == "implement" && trouble.is_stalling.load(Ordering::SeqCst) {
        return Some(Reply::text("One moment").stalled());
    }
    let answers = conversation.tool_results();
    match phase {
        "orchestrate" => call("submit_brief", brief()),
        "implement" if answers.is_empty() && trouble.is_slow.load(Ordering::SeqCst) => {
            executor(&answers).map(|reply| reply.after(Duration::from_secs(5)))
        }
        "implement" => executor(&answers),
        _ => reviewer(&answers, conversation),
    }
}

/// Reads the file, replaces it by its hash, runs tests and a probe, and hands in what they showed.
fn executor(answers: &[&str]) -> Option<Reply> {
    match answers {
        [] => call("read_file", json!({ "path": "sum.sh" })),
        [file] => {
            let hash = words(file)
                .find(|word| word.len() >= 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit()));
            call(
                "write_file",
                json!({ "path": "sum.sh", "content": DONE, "expected_hash": hash.unwrap_or_default() }),
            )
        }
        [_, _] => call("run_tests", json!({})),
        [_, _, _] => call("run_probe", json!({ "argv": ["sh", "sum.sh", "-1", "-2"] })),
        [.., tested, probed] => call(
            "submit_handoff",
            json!({
                "claims": [
                    { "text": "The tests pass.", "evidence": [id(tested, "test-")] },
                    { "text": "Numbers keep their sign.", "evidence": [id(probed, "probe-")] },
                ],
                "files": ["sum.sh"],
                "action": "complete",
            }),
        ),
    }
}

/// Probes with words of its own, and advances where the old code answers otherwise and the new one right.
fn reviewer(answers: &[&str], conversation: &Conversation) -> Option<Reply> {
    let lens = lens(conversation)?;
    match answers {
        [] => {
            let script = format!("echo {}; sh sum.sh -1 -2", canary(lens));
            let probe =
                json!({ "files": [{ "path": "probe.sh", "content": script }], "argv": ["sh", "probe.sh"] });
            call("run_probe", probe).map(|reply| Reply {
                parts: Reply::text(canary(lens)).parts.into_iter().chain(reply.parts).collect(),
                ..reply
            })
        }
        [.., probed] => {
            let holds = probed.contains("differs") && probed.contains("-3");
            let (judgement, decision) = if holds { ("pass", "advance") } else { ("fail", "retry") };
            let evidence = [id(probed, "probe-")];
            let criteria = ["outcome", "signs"]
                .map(|id| json!({ "id": id, "judgement": judgement, "evidence": evidence }));
            call(
                "submit_verdict",
                json!({ "decision": decision, "criteria": criteria, "alignment": f64::from(u8::from(holds)) }),
            )
        }
    }
}

/// Whether an agent has called what ends its work.
pub(crate) fn has_handed_in(conversation: &Conversation) -> bool {
    conversation
        .items
        .iter()
        .any(|item| matches!(item, Item::ToolCall { name, .. } if name.contains("submit_")))
}

/// The lens of a seat.
pub(crate) fn lens(conversation: &Conversation) -> Option<&'static str> {
    LENSES.into_iter().find(|lens| conversation.system.contains(*lens))
}

fn brief() -> Value {
    json!({
        "problem": "sum.sh takes the sign off its arguments before it adds them.",
        "criteria": [{ "id": "signs", "text": "`sh sum.sh -1 -2` prints -3" }],
        "read": ["."],
        "write": ["sum.sh"],
        "plan": [{
            "tier": "execution", "phase": "implement", "agent_type": "executor",
            "outcome": "sum.sh prints the sum", "criteria": ["signs"],
        }],
    })
}

/// A call of a tool of the agent's.
fn call(tool: &str, arguments: Value) -> Option<Reply> {
    Some(Reply::call(ToolCall::mcp("nexus", tool, arguments)))
}

/// The model of a caller: it goes by what the last call answered, and says so where it cannot go on. `wait_s` is how long it has what
/// takes long wait.
pub(crate) fn caller(conversation: &Conversation, project: &str, wait_s: Option<u64>) -> Reply {
    let spawn = |tool: &str, arguments: Value| served(Served::Tasks, tool, arguments);
    let Some(tool) = called(conversation, Served::Tasks).pop() else {
        let goal = "`sh sum.sh A B` prints the sum of the absolute values. It is to print the sum: `sh sum.sh -1 -2` prints -3.";
        return spawn(
            "task_create",
            json!({ "goal": goal, "project": project, "test_command": ["sh", "test.sh"] }),
        );
    };
    let compact = last_answer(conversation);
    let Some(task) = field(&compact, "task_id") else {
        return Reply::text(format!("{tool} has no task: {compact}"));
    };
    let again = compact.contains("\"running\":true");
    let next = match (tool, field(&compact, "status")) {
        ("task_create", _) => "task_orchestrate",
        ("task_orchestrate" | "task_run_turn", _) if again => tool,
        ("task_orchestrate" | "task_run_turn", Some("active")) => "task_run_turn",
        ("task_run_turn", Some("complete")) => "task_result",
        ("task_result", Some("complete")) => return Reply::text(WALKED),
        _ => return Reply::text(format!("{tool} left the way: {compact}")),
    };
    match (next, wait_s) {
        ("task_orchestrate" | "task_run_turn", Some(wait_s)) => {
            spawn(next, json!({ "task_id": task, "wait_s": wait_s }))
        }
        _ => spawn(next, json!({ "task_id": task })),
    }
}

/// The model of a caller that has a question debated.
pub(crate) fn debating_caller(conversation: &Conversation) -> Reply {
    let debate = |tool: &str, arguments: Value| served(Served::Debates, tool, arguments);
    let Some(tool) = called(conversation, Served::Debates).pop() else {
        let source = |(name, text)| json!({ "name": name, "text": text });
        let sources = [("crashes", "9 of 12 lost writes.\n"), ("latency", "0.2 ms.\n")];
        return debate(
            "debate_create",
            json!({ "question": "Shall the cache be written through?", "sources": sources.map(source) }),
        );
    };
    let compact = last_answer(conversation);
    let Some(id) = field(&compact, "debate_id") else {
        return Reply::text(format!("{tool} has no debate: {compact}"));
    };
    match (tool, field(&compact, "status")) {
        ("debate_result", _) => Reply::text(WALKED),
        ("debate_advance", Some("done")) => debate("debate_result", json!({ "debate_id": id })),
        _ => debate("debate_advance", json!({ "debate_id": id })),
    }
}

fn served(server: Served, tool: &str, arguments: Value) -> Reply {
    Reply::call(ToolCall::mcp(server.name(), tool, arguments))
}

/// The answer to the last call. Some clients hand on JSON within JSON, and one also a text.
fn last_answer(conversation: &Conversation) -> String {
    let answers = conversation.tool_results();
    let answer = answers.last().copied().unwrap_or_default();
    answer.chars().filter(|character| !character.is_whitespace() && *character != '\\').collect()
}

/// The tools of a server that a caller's model called, in order. Its program may have wrapped them.
pub(crate) fn called(conversation: &Conversation, server: Served) -> Vec<&'static str> {
    let calls = conversation.items.iter().filter_map(|item| match item {
        Item::ToolCall { name, arguments, .. } => Some((name, arguments)),
        _ => None,
    });
    calls
        .filter_map(|(name, arguments)| {
            let is_called = |tool: &&&'static str| name.contains(**tool) || arguments.contains(**tool);
            server.walk().iter().find(is_called).copied()
        })
        .collect()
}

/// The text at `name` in JSON without blanks.
fn field<'a>(compact: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = compact.split_once(&format!("\"{name}\":\""))?;
    rest.split('"').next()
}

/// The first id of this kind in an answer.
fn id<'a>(answer: &'a str, kind: &'static str) -> &'a str {
    words(answer).find(|word| word.starts_with(kind)).unwrap_or(kind)
}

fn words(answer: &str) -> impl Iterator<Item = &str> {
    answer.split(|character: char| !(character.is_ascii_alphanumeric() || character == '-'))
}

//! Models that take part in a debate, whichever vendor's program asks them, and what must hold of all that they were sent.
//!
//! Three panelists, of whom one reads the source `crashes`, one `latency` and one none, two rounds of cross-examination, and words in each
//! opening, rebuttal and statement that nobody else writes.

use nexus_testkit::sim::{Conversation, RecordedRequest, Reply, ToolCall};
use serde_json::{Value, json};

/// The panelists, in the order of the roster's seats.
pub(crate) const PANELISTS: [&str; 3] = ["ann", "bob", "cyd"];

/// The engine's tools, as a native backend offers them.
const OURS: [&str; 15] = [
    "list_files",
    "read_file",
    "read_my_brief",
    "read_my_tension",
    "read_openings",
    "read_rebuttals",
    "read_record",
    "read_standings",
    "search_files",
    "submit_analysis",
    "submit_interpretation",
    "submit_judgement",
    "submit_opening",
    "submit_rebuttal",
    "submit_statement",
];

/// By what a program hands calls on to the servers that it was given, of which there is but the engine's.
const PASSING: [&str; 5] =
    ["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "search_tool", "use_tool"];

/// By what a program takes an answer in a shape.
const ANSWERING: [&str; 1] = ["StructuredOutput"];

/// What an agent is asked for, as its prompt says it.
const PARTS: [(&str, Part); 7] = [
    ("Frame a debate", Part::Frame),
    ("You have not seen the other openings", Part::Opening),
    ("All openings are submitted", Part::Rebuttal),
    ("The cross-examination has ended", Part::Statement),
    ("A round of cross-examination has ended", Part::Judgement),
    ("of a debate that has ended", Part::Interpretation),
    ("Find the tensions", Part::Analysis),
];

/// What an agent does in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Frame,
    Opening,
    Rebuttal,
    Statement,
    Analysis,
    Judgement,
    Interpretation,
}

/// The part that a call of a model is for, if it is one of a debate.
pub(crate) fn part(conversation: &Conversation) -> Option<Part> {
    PARTS.iter().find(|(words, _)| conversation.system.contains(words)).map(|(_, part)| *part)
}

/// The panelist that is asked.
fn panelist(conversation: &Conversation) -> Option<&'static str> {
    let asked = conversation.user_texts().join("\n");
    PANELISTS.into_iter().find(|name| asked.contains(&format!("[your role as a panelist: {name}]")))
}

/// Words that one panelist alone writes.
pub(crate) fn canary(part: Part, name: &str) -> String {
    format!("{part:?}-words-of-{name}")
}

/// What a model does next, by what its conversation holds. `call` makes a call of the engine's tools.
pub(crate) fn reply(conversation: &Conversation, call: fn(&str, Value) -> ToolCall) -> Option<Reply> {
    let part = part(conversation)?;
    let answers = conversation.tool_results();
    let name = || panelist(conversation).expect("a panelist is told who it is");
    let (read, submit, answer) = match part {
        Part::Frame => return Some(Reply::json(&frame())),
        Part::Opening => (vec!["read_my_brief"], "submit_opening", opening(name())),
        Part::Rebuttal => (vec!["read_openings", "read_my_tension"], "submit_rebuttal", rebuttal(name())),
        Part::Statement => (vec!["read_standings"], "submit_statement", statement(name())),
        Part::Analysis => (vec!["read_openings"], "submit_analysis", json!({ "findings": findings() })),
        Part::Judgement => {
            let is_over = answers.iter().any(|answer| answer.contains("in round 2, "));
            let judgement =
                json!({ "close": is_over, "why": "By what was answered.", "findings": findings() });
            (vec!["read_rebuttals"], "submit_judgement", judgement)
        }
        Part::Interpretation => {
            (vec!["read_record"], "submit_interpretation", json!({ "text": "One of three holds out." }))
        }
    };
    Some(Reply::call(match read.get(answers.len()) {
        Some(tool) => call(tool, json!({})),
        None => call(submit, answer),
    }))
}

fn frame() -> Value {
    let panelist = |(name, sources): (&str, &[&str])| {
        let role = format!("{name} looks from its own place.");
        json!({ "name": name, "role": role, "registered": null, "sources": sources })
    };
    let sources: [&[&str]; 3] = [&["crashes"], &["latency"], &[]];
    json!({
        "claims": [
            { "id": "safe", "text": "Writing through loses no write that returned." },
            { "id": "fast", "text": "Writing through is fast enough." },
        ],
        "panelists": PANELISTS.into_iter().zip(sources).map(panelist).collect::<Vec<_>>(),
        "relevance": [],
    })
}

fn positions(name: &str) -> Value {
    let safe = if name == "bob" { "oppose" } else { "support" };
    json!([{ "claim": "safe", "stance": safe }, { "claim": "fast", "stance": "support" }])
}

fn opening(name: &str) -> Value {
    json!({
        "positions": positions(name),
        "arguments": [{ "claim": "safe", "text": canary(Part::Opening, name) }],
        "summary": "As its source has it.",
    })
}

fn rebuttal(name: &str) -> Value {
    json!({ "answers": [{ "finding": "order", "text": canary(Part::Rebuttal, name) }], "positions": positions(name) })
}

fn statement(name: &str) -> Value {
    json!({ "positions": positions(name), "statement": canary(Part::Statement, name) })
}

fn findings() -> Value {
    json!([{
        "id": "order", "claim": "safe",
        "sides": [
            { "panelists": ["ann", "cyd"], "steelman": "It is acknowledged after the disk has it." },
            { "panelists": ["bob"], "steelman": "Two writes are not one: a crash may come between them." },
        ],
    }])
}

/// What must hold of all calls of models in a debate that was walked to its end.
pub(crate) fn nobody_heard_too_much(calls: &[RecordedRequest]) {
    let mut heard_own = Vec::new();
    for call in calls {
        let (conversation, body) = (&call.conversation, String::from_utf8_lossy(&call.body));
        let Some(part) = part(conversation) else { continue };
        // The framer has no tool at all, everybody else those of the engine alone.
        let allowed = |tool: &String| match part {
            Part::Frame => ANSWERING.contains(&tool.as_str()),
            _ => {
                tool.contains("mcp__nexus")
                    || OURS.contains(&tool.as_str())
                    || PASSING.contains(&tool.as_str())
            }
        };
        let further: Vec<_> = conversation.tool_names().into_iter().filter(|tool| !allowed(tool)).collect();
        assert!(further.is_empty(), "{part:?} is offered {further:?}");
        let Some(name) = panelist(conversation) else { continue };
        for other in PANELISTS.into_iter().filter(|other| *other != name) {
            let raw = [Part::Rebuttal, Part::Statement].map(|part| canary(part, other));
            for words in &raw {
                assert!(!body.contains(words.as_str()), "{name} in {part:?} was sent {words}: {body}");
            }
            let opened = canary(Part::Opening, other);
            assert!(part != Part::Opening || !body.contains(&opened), "{name} opens after {opened}");
        }
        if part == Part::Rebuttal && body.contains(&canary(Part::Rebuttal, name)) {
            heard_own.push(name);
        }
    }
    // What is looked for was there to be found: each reads its own answers in the next round, the openings after they are
    // written, and the arbiter reads all.
    let was_sent = |part_: Part, words: &str| {
        let sent = calls.iter().filter(|call| part(&call.conversation) == Some(part_));
        sent.into_iter().any(|call| String::from_utf8_lossy(&call.body).contains(words))
    };
    for name in PANELISTS {
        assert!(heard_own.contains(&name), "{name} never saw its own words: {heard_own:?}");
        assert!(was_sent(Part::Judgement, &canary(Part::Rebuttal, name)), "{name}");
        assert!(was_sent(Part::Rebuttal, &canary(Part::Opening, name)), "{name}");
    }
}

/// The record of the debate has each panelist's words.
pub(crate) fn has_every_word(record: &str) {
    for name in PANELISTS {
        for (part, times) in [(Part::Opening, 1), (Part::Rebuttal, 2), (Part::Statement, 1)] {
            assert_eq!(record.matches(&canary(part, name)).count(), times, "{part:?} of {name}: {record}");
        }
    }
    assert!(record.contains("One of three holds out."), "{record}");
}

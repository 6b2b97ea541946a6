//! Simulated model that frames, debates and judges. It chooses its action from the system text and the results of its tools.

use nexus_testkit::sim::{Conversation, Reply, ToolCall};
use serde_json::{Value, json};

/// Returns the next action of the simulated model.
pub(crate) fn reply(conversation: &Conversation) -> Option<Reply> {
    let call = |tool: &str, arguments| Some(Reply::call(ToolCall::function(tool, arguments)));
    let answers = conversation.tool_results();
    let asked = conversation.user_texts().join("\n");
    let name = panelist(&asked);
    let is_told = |text: &str| conversation.system.contains(text);
    if is_told("Frame a debate. Do not take part in it") {
        return Some(Reply::json(&frame()));
    }
    if is_told("You have not seen the other openings") {
        return match answers.as_slice() {
            [] => call("search_files", json!({ "pattern": "." })),
            [found, ..] => call("submit_opening", opening(name, found)),
        };
    }
    if is_told("answers the strongest case against") {
        return match answers.as_slice() {
            [] => call("read_my_tension", json!({})),
            [against, ..] => call("submit_rebuttal", rebuttal(name, against)),
        };
    }
    if is_told("The cross-examination has ended") {
        let statement = format!("{name} holds what the numbers say.");
        let stance = if asked.contains("safe: abstain") { "abstain" } else { "support" };
        return call("submit_statement", json!({ "positions": positions(stance), "statement": statement }));
    }
    if is_told("A round of cross-examination has ended") {
        return call(
            "submit_judgement",
            json!({ "close": true, "why": "Nobody is left who opposes it.", "findings": findings() }),
        );
    }
    if is_told("is stored word for word. Add your interpretation") {
        return match answers.as_slice() {
            [] => call("read_record", json!({})),
            _ => call(
                "submit_interpretation",
                json!({ "text": "The panel agrees; what decided it was the log of crashes." }),
            ),
        };
    }
    match answers.as_slice() {
        [] => call("read_openings", json!({})),
        _ => call("submit_analysis", json!({ "findings": findings() })),
    }
}

/// Returns the name of the panelist that a prompt addresses.
fn panelist(asked: &str) -> &str {
    let named = asked.split_once("[your role as a panelist: ").and_then(|(_, rest)| rest.split_once(']'));
    named.map_or("nobody", |(name, _)| name)
}

fn frame() -> Value {
    json!({
        "claims": [
            { "id": "safe", "text": "Writing through loses no write that returned." },
            { "id": "fast", "text": "Writing through is fast enough." },
        ],
        "panelists": [
            { "name": "keeper", "role": "Answers for the data.", "registered": null, "sources": ["crashes"] },
            { "name": "runner", "role": "Answers for latency.", "registered": null, "sources": ["latency"] },
            { "name": "reader", "role": "Knows neither system.", "registered": null, "sources": [] },
        ],
        "relevance": [],
    })
}

fn positions(safe: &str) -> Value {
    json!([{ "claim": "safe", "stance": safe }, { "claim": "fast", "stance": "support" }])
}

/// Returns the first position of a panelist. `runner` opposes, until it reads the case against its position.
fn opening(name: &str, found: &str) -> Value {
    let safe = match name {
        "keeper" => "support",
        "runner" => "oppose",
        _ => "abstain",
    };
    let seen = found.lines().next().unwrap_or("nothing");
    json!({
        "positions": positions(safe),
        "arguments": [{ "claim": "safe", "text": format!("{name} reads: {seen}") }],
        "summary": format!("{name} looks at it from its own place."),
    })
}

fn rebuttal(name: &str, against: &str) -> Value {
    let is_convinced = against.contains("acknowledged after the disk has it");
    let safe = if is_convinced || name == "keeper" { "support" } else { "oppose" };
    json!({
        "answers": [{ "finding": "order", "text": format!("{name} has weighed the case against it.") }],
        "positions": positions(safe),
    })
}

fn findings() -> Value {
    json!([{
        "id": "order", "claim": "safe",
        "sides": [
            { "panelists": ["keeper"], "steelman": "A write is acknowledged after the disk has it, so none that returned is lost." },
            { "panelists": ["runner"], "steelman": "Two writes are not one: a crash between them leaves the first alone." },
        ],
    }])
}

//! Simulated model of the manager and of the two workers. It chooses its action from the system text and the results of its
//! tools.

use std::time::Duration;

use nexus_testkit::sim::{Conversation, Reply, ToolCall};
use serde_json::{Value, json};

/// Duration of one measurement.
const MEASURING: Duration = Duration::from_millis(150);
/// Maximum number of measurements.
const MOST: usize = 90;

/// Returns the next action of the simulated model.
pub(crate) fn reply(conversation: &Conversation) -> Option<Reply> {
    let is = |name: &str| conversation.system.contains(&format!("You are the agent {name}."));
    Some(if is("tides") {
        tides(conversation)
    } else if is("sign") {
        sign(conversation)
    } else {
        manager(conversation)
    })
}

fn call(tool: &str, arguments: Value) -> Reply {
    Reply::call(ToolCall::function(tool, arguments))
}

/// Starts both workers, answers their questions, and ends with both results, all in one turn.
fn manager(conversation: &Conversation) -> Reply {
    let answers = conversation.tool_results();
    match answers.len() {
        0 => {
            let task = "Measure how high the water is, until somebody says that it is enough.";
            return call("start_worker", json!({ "name": "tides", "task": task }));
        }
        1 => {
            let task = "Write what the sign of the ferry says.";
            return call("start_worker", json!({ "name": "sign", "task": task }));
        }
        _ => {}
    }
    let messages: Vec<Value> =
        answers[2..].iter().filter_map(|answer| serde_json::from_str(answer).ok()).collect();
    if let Some(asked) = messages.last().filter(|message| message["type"] == "query") {
        let answer = json!({
            "to": asked["source_agent_id"], "content": "Until ten in the evening.", "in_reply_to": asked["message_id"],
        });
        return call("send_message_to_agent", answer);
    }
    let results: Vec<&str> = messages
        .iter()
        .filter(|message| message["type"] == "result")
        .filter_map(|message| message["payload"]["summary"].as_str())
        .collect();
    match results.len() {
        2 => Reply::text(results.join("\n")),
        _ => call("wait_for_message", json!({ "seconds": 30 })),
    }
}

/// Asks its manager a question, and waits for the answer in the same turn.
fn sign(conversation: &Conversation) -> Reply {
    match conversation.tool_results().as_slice() {
        [] => {
            let question = json!({ "to": "manager-of:sign", "content": "Until when does it go?", "expects_answer": true });
            call("send_message_to_agent", question)
        }
        [_] => call("wait_for_message", json!({ "seconds": 30 })),
        [.., answered] => {
            let message: Value = serde_json::from_str(answered).unwrap_or_default();
            let answer = message["payload"]["content"].as_str().unwrap_or("Nobody knows.");
            Reply::text(format!("The sign says: The ferry. {answer}"))
        }
    }
}

/// Measures and reports until a message of the user arrives.
fn tides(conversation: &Conversation) -> Reply {
    let measured = conversation.tool_results().len();
    let said = conversation.user_texts().into_iter().find(|text| text.contains("[message from caller:"));
    match said.as_deref().and_then(|said| said.lines().nth(1)) {
        Some(said) => Reply::text(format!("The water is high, and a person said in mid-turn: {said}")),
        None if measured == MOST => Reply::text("Nobody said that it was enough."),
        None => {
            let report = json!({ "status": "in_progress", "percent": measured + 1 });
            call("report_status", report).after(MEASURING)
        }
    }
}

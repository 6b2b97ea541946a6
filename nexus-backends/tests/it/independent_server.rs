//! Backends with their defaults before a server that nobody here wrote, on each wire: what the one reads out of the
//! other, and what the other understood of the one.
//!
//! Needs `NEXUS_REAL_AIMOCK` (see `real/servers/README.md`), and Node:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-backends --test it independent_server:: -- --ignored`

mod rows;
mod server;

use std::{sync::Arc, time::Duration};

use nexus_core::{
    CancelToken, ConversationMode, ErrorKind, FinishReason, Limits, OutputSchema, PromptBlock, Retry,
    ToolCallStatus, TurnEvent, TurnHost, TurnRequest,
};
use serde_json::{Value, json};

use self::server::{Server, WIRES, Weather, run, run_watched};

/// A picture of one pixel.
const PIXEL: [u8; 69] = [
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0, 144,
    119, 83, 222, 0, 0, 0, 12, 73, 68, 65, 84, 120, 156, 99, 104, 104, 104, 0, 0, 3, 4, 1, 129, 75, 211, 210,
    16, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];

fn request(prompt: &str) -> TurnRequest {
    TurnRequest::new(prompt).with_limits(Limits::new().with_deadline(Duration::from_secs(30)))
}

fn city() -> OutputSchema {
    let schema = json!({
        "type": "object",
        "properties": { "city": { "type": "string" }, "degrees": { "type": "integer" } },
        "required": ["city", "degrees"],
    });
    OutputSchema::new(schema).unwrap()
}

fn roles(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn text_streams_and_thinking_with_it() {
    for kind in WIRES {
        let server = Server::start(kind);
        let ran = run(&server, request("Say hello.").with_system("You are terse.")).await;
        let streamed = ran.streamed();
        let result = ran.outcome.unwrap();
        assert_eq!(result.text, "Hello from a fixture.");
        assert_eq!(streamed, result.text);
        assert_eq!(result.messages[0].thinking, "A greeting is asked for.");
        assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (Some(12), Some(9)));
        assert_eq!(result.finish, FinishReason::Stop);
        let said = server.last_messages();
        assert_eq!(roles(&said), ["system", "user"]);
        assert_eq!(
            (&said[0]["content"], &said[1]["content"]),
            (&json!("You are terse."), &json!("Say hello."))
        );
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn tools_are_called_over_several_rounds_with_everything_that_was_said_before() {
    for kind in WIRES {
        let server = Server::start(kind);
        let weather = Arc::new(Weather::default());
        let host = TurnHost::new().with_tools(weather.clone());
        let ran = run_watched(&server, request("Weather, please."), host, |_| ()).await;
        let result = ran.outcome.unwrap();

        assert_eq!(result.text, "Paris and Rome are warm, and of Oslo nothing is known.");
        let texts: Vec<&str> = result.messages.iter().map(|message| message.text.as_str()).collect();
        assert_eq!(texts, ["Two cities.", "One more.", &result.text]);
        let calls: Vec<(&str, ToolCallStatus)> =
            result.tool_calls.iter().map(|call| (call.call.as_str(), call.status)).collect();
        let expected = [
            ("call_paris", ToolCallStatus::Succeeded),
            ("call_rome", ToolCallStatus::Succeeded),
            ("call_oslo", ToolCallStatus::Failed),
        ];
        assert_eq!(calls, expected);
        let mut asked = weather.asked.lock().unwrap().clone();
        asked.sort_unstable();
        assert_eq!(asked, ["Oslo", "Paris", "Rome"]);
        assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (Some(200), Some(47)));

        let understood = server.understood();
        assert_eq!(understood.len(), 3);
        assert!(
            understood.iter().all(|request| request["body"]["tools"][0]["function"]["name"] == "weather")
        );
        let said = server.last_messages();
        let answered = |message: &&Value| message["role"] == "tool";
        let answers: Vec<(&Value, &Value)> =
            said.iter().filter(answered).map(|tool| (&tool["tool_call_id"], &tool["content"])).collect();
        // The Messages API has a field for a failed call, and the Gemini API two members; the other two have words alone.
        let failure = match kind {
            "messages" => json!("no such city"),
            "gemini" => json!("{\"error\":\"no such city\"}"),
            _ => json!("Error: no such city"),
        };
        let answer = |text: &str| match kind {
            "gemini" => json!(json!({ "output": text }).to_string()),
            _ => json!(text),
        };
        let expected = [
            (&json!("call_paris"), &answer("18 degrees in Paris")),
            (&json!("call_rome"), &answer("21 degrees in Rome")),
            (&json!("call_oslo"), &failure),
        ];
        assert_eq!(answers, expected);
        let called: Vec<&Value> =
            said.iter().filter_map(|message| message["tool_calls"].as_array()).flatten().collect();
        let ids: Vec<&str> = called.iter().map(|call| call["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["call_paris", "call_rome", "call_oslo"]);
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn an_answer_satisfies_its_schema_at_once_or_after_a_repair() {
    for kind in WIRES {
        let server = Server::start(kind);
        let ran = run(&server, request("Paris as JSON.").with_output(city())).await;
        assert_eq!(ran.outcome.unwrap().output, Some(json!({ "city": "Paris", "degrees": 18 })));

        let ran = run(&server, request("Rome as JSON.").with_output(city())).await;
        let result = ran.outcome.unwrap();
        assert_eq!(result.output, Some(json!({ "city": "Rome", "degrees": 21 })));
        assert_eq!(result.provenance.attempts, 2);
        let said = server.last_messages();
        assert_eq!(roles(&said), ["user", "assistant", "user"]);
        assert_eq!(said[1]["content"], "Rome has 21 degrees.");
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_picture_goes_along() {
    for kind in WIRES {
        let server = Server::start(kind);
        let picture = PromptBlock::image(&PIXEL).unwrap();
        let ran = run(&server, request("What is in the picture?").with_block(picture)).await;
        assert_eq!(ran.outcome.unwrap().text, "One grey pixel.");
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_kept_conversation_is_taken_up_again() {
    for kind in WIRES {
        let server = Server::start(kind);
        let first = run(&server, request("Say hello.").with_conversation(ConversationMode::Keep))
            .await
            .outcome
            .unwrap();
        let handle = serde_json::to_string(&first.resume.unwrap()).unwrap();

        let session = ConversationMode::resume(serde_json::from_str(&handle).unwrap());
        let second =
            request("And what did you say?").with_system("You are terse.").with_conversation(session);
        assert_eq!(run(&server, second).await.outcome.unwrap().text, "I said hello.");
        let said = server.last_messages();
        assert_eq!(roles(&said), ["system", "user", "assistant", "user"]);
        assert_eq!(said[2]["content"], "Hello from a fixture.");
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_cancelled_turn_keeps_what_was_said_and_frees_the_connection() {
    for kind in WIRES {
        let server = Server::start(kind);
        let cancel = CancelToken::new();
        let host = TurnHost::new().with_cancel(cancel.clone());
        let ran = run_watched(&server, request("Count."), host, |event| {
            if matches!(event, TurnEvent::TextDelta(_)) {
                cancel.cancel();
            }
        })
        .await;
        let streamed = ran.streamed();
        let error = ran.outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        let partial = &error.partial().messages;
        assert_eq!(partial.len(), 1);
        assert!(!partial[0].text.is_empty() && partial[0].text == streamed && !partial[0].complete);
        assert!(streamed.len() < 40, "it went on to say {streamed:?}");
        assert!(run(&server, request("Say hello.")).await.outcome.is_ok());
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_stream_that_breaks_off_is_no_answer() {
    for kind in WIRES {
        let server = Server::start(kind);
        let ran = run(&server, request("Break off.")).await;
        let error = ran.outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transport);
        let voided = ran.events.iter().filter(|event| matches!(event, TurnEvent::MessageVoided(_))).count();
        assert!(voided > 0, "what a repeated call had said must be taken back");
        assert_eq!(server.understood().len(), 4);
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn each_refusal_is_told_as_what_it_is() {
    for kind in WIRES {
        let server = Server::start(kind);
        let error = run(&server, request("No such key.")).await.outcome.unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Unauthenticated, Retry::Never));
        assert!(error.message().unwrap().contains("Incorrect API key provided."));

        let error = run(&server, request("Nobody wrote a reply to this.")).await.outcome.unwrap_err();
        assert!(error.message().unwrap().contains("no fixture matched"), "{error:?}");

        let error = run(&server, request("Too long.")).await.outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incomplete);
        assert_eq!(error.partial().messages[0].text, "It goes on and");
    }
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_limit_is_waited_out_for_as_long_as_the_server_says() {
    for kind in WIRES {
        let server = Server::start(kind);
        let ran = run(&server, request("Too many.")).await;
        assert_eq!(ran.outcome.unwrap().text, "There is room again.");
        assert!(ran.events.iter().any(|event| matches!(event, TurnEvent::Retrying(_))), "{:#?}", ran.events);
    }
}

//! What becomes of an answer that breaks off, or that is not the last.

use std::path::Path;

use nexus_core::{ErrorKind, OutputSchema, Retry, ToolAccess, TurnEvent, TurnRequest};
use nexus_testkit::sim::{Cut, Finish, Reply, Scenario, ToolCall, long_text};
use serde_json::json;

use super::support::{Ran, Stage};

async fn a_torn_answer_is_taken_back_and_asked_for_again(program: &Path) {
    for cut in [Cut::Fin, Cut::CleanEnd, Cut::Reset] {
        let half = Reply::text("This answer breaks off in the middle of a")
            .paced(4, std::time::Duration::from_millis(20));
        let stage = Stage::metered(program, [half.torn(cut), Reply::text("This answer came whole.")]);
        let ran = stage.run(TurnRequest::new("Hello.")).await;
        assert_eq!(ran.result().text, "This answer came whole.", "{cut:?}");
        assert_eq!(ran.result().messages.len(), 1, "{cut:?}: {:?}", ran.result().messages);
        assert_eq!(shown(&ran), "This answer came whole.", "{cut:?}");
    }
}

async fn what_was_confirmed_of_a_torn_answer_stands(program: &Path) {
    let half = Reply::thinking("Let me see.")
        .and_text("This half is lost")
        .paced(4, std::time::Duration::from_millis(20));
    let stage = Stage::metered(program, [half.torn(Cut::Fin), Reply::text("This answer came whole.")]);
    let ran = stage.run(TurnRequest::new("Hello.")).await;
    match &ran.outcome {
        Ok(result) => {
            assert_eq!(result.text, "This answer came whole.");
            assert!(
                result.messages.iter().any(|message| message.thinking == "Let me see."),
                "{:?}",
                result.messages
            );
            assert!(!shown(&ran).contains("lost"));
        }
        // Some versions give up where a block was complete.
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Transport, "{error:?}");
            assert_eq!(error.partial().messages[0].thinking, "Let me see.");
            assert!(!error.partial().messages[0].complete);
        }
    }
}

async fn an_answer_that_runs_out_of_room_keeps_what_came(program: &Path) {
    let stage = Stage::metered(program, Reply::text("One more piece.").finish(Finish::MaxTokens));
    let ran = stage.run(TurnRequest::new("Hello.")).await;
    assert_eq!(ran.error().kind(), ErrorKind::Incomplete, "{:?}", ran.error());
    assert!(ran.error().partial().text.starts_with("One more piece."));
}

async fn a_long_answer_is_whole_ten_times_in_a_row(program: &Path) {
    let stage = Stage::metered(program, Reply::long(1 << 20));
    let expected = long_text(1 << 20);
    for round in 0..10 {
        let ran = stage.run(TurnRequest::new("Go on and on.")).await;
        assert!(ran.result().text == expected, "round {round}: {} bytes", ran.result().text.len());
        assert!(shown(&ran) == expected, "round {round}: what was shown differs");
    }
}

async fn failures_have_the_kind_that_says_what_to_do(program: &Path) {
    for (status, kind) in [
        (400, ErrorKind::InvalidRequest),
        (401, ErrorKind::Unauthenticated),
        (403, ErrorKind::Forbidden),
        (404, ErrorKind::ModelUnavailable),
        (413, ErrorKind::InvalidRequest),
        (429, ErrorKind::RateLimited),
        (500, ErrorKind::VendorFailure),
        (503, ErrorKind::Overloaded),
        (529, ErrorKind::Overloaded),
    ] {
        let stage = Stage::metered(program, Reply::status(status));
        let began = std::time::Instant::now();
        let ran = stage.run(TurnRequest::new("Hello.")).await;
        assert_eq!(ran.error().kind(), kind, "{status}: {:?}", ran.error());
        assert!(began.elapsed().as_secs() < 30, "{status} took {:?}", began.elapsed());
        let patience =
            matches!(kind, ErrorKind::RateLimited | ErrorKind::Overloaded | ErrorKind::VendorFailure);
        assert_eq!(ran.error().retry() != Retry::Never, patience, "{status}");
    }
}

async fn the_answer_is_the_one_after_the_background_task(program: &Path) {
    let call = ToolCall::function(
        "Bash",
        json!({ "command": "sleep 2; echo done > task.txt", "description": "Wait", "run_in_background": true }),
    );
    let scenario = Scenario::new([Reply::call(call), Reply::text("It runs."), Reply::text("It is done.")]);
    let stage = Stage::metered(program, scenario);
    let request = TurnRequest::new("Run it.")
        .with_tool_access(ToolAccess::Unrestricted)
        .in_directory(stage.path("work"));
    let ran = stage.run(request).await;
    assert_eq!(ran.result().text, "It is done.");
    assert!(stage.path("work/task.txt").exists());
    assert_eq!(ran.result().messages.len(), 3, "{:?}", ran.result().messages);
}

async fn the_structured_answer_is_asked_for_again_in_the_same_process(program: &Path) {
    let answer = |n: i32| Reply::call(ToolCall::function("StructuredOutput", json!({ "n": n })));
    // The vendor checks the type; that the number is even is checked by us alone.
    let stage = Stage::metered(program, [answer(3), answer(4)]);
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer", "multipleOf": 2 } }, "required": ["n"] });
    let request = TurnRequest::new("A number.").with_output(OutputSchema::new(schema).unwrap());
    let ran = stage.run(request).await;
    let result = ran.result();
    assert_eq!(result.output, Some(json!({ "n": 4 })));
    assert_eq!(result.text, r#"{"n":4}"#);
    assert_eq!(result.tool_calls, [], "the answer is no tool call");
    assert!(stage.calls()[0].conversation.tool("StructuredOutput").is_some());
}

/// The text that a display shows in the end.
fn shown(ran: &Ran) -> String {
    let mut texts: Vec<(nexus_core::MessageId, String)> = Vec::new();
    for event in &ran.events {
        match event {
            TurnEvent::TextDelta(delta) => match texts.iter_mut().find(|(id, _)| *id == delta.message) {
                Some((_, text)) => text.push_str(&delta.text),
                None => texts.push((delta.message.clone(), delta.text.clone())),
            },
            TurnEvent::MessageVoided(gone) => texts.retain(|(id, _)| *id != gone.message),
            _ => {}
        }
    }
    texts.into_iter().map(|(_, text)| text).collect()
}

mod tests {
    crate::claude_real::support::with_each_program! {
        a_torn_answer_is_taken_back_and_asked_for_again
        what_was_confirmed_of_a_torn_answer_stands
        an_answer_that_runs_out_of_room_keeps_what_came
        a_long_answer_is_whole_ten_times_in_a_row
        failures_have_the_kind_that_says_what_to_do
        the_answer_is_the_one_after_the_background_task
        the_structured_answer_is_asked_for_again_in_the_same_process
    }
}

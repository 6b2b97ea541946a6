//! What becomes of an answer.

use std::time::{Duration, Instant, SystemTime};

use nexus_core::{Effort, ErrorKind, IdleLimits, Limits, TurnEvent, TurnRequest, turn::VoidCause};
use nexus_testkit::sim::{Cut, Fault, Reply, ToolCall};

use super::support::{Ran, Stage};

fn voided(ran: &Ran) -> Vec<VoidCause> {
    let voids = ran.events.iter().filter_map(|event| match event {
        TurnEvent::MessageVoided(voided) => Some(voided.cause),
        _ => None,
    });
    voids.collect()
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn an_answer_that_was_cut_is_taken_back_when_the_next_begins() {
    let stage = Stage::new([
        Reply::text("First I look.").and_call(ToolCall::shell("echo looked")),
        Reply::text("This breaks off in the mid").torn(Cut::Fin),
        Reply::text("This came whole."),
    ]);
    let request = TurnRequest::new("Look.")
        .with_tool_access(nexus_core::ToolAccess::Unrestricted)
        .in_directory(stage.path("work"));
    let ran = stage.run_as_asked(request).await;
    let texts: Vec<_> = ran.result().messages.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(texts, ["First I look.", "This came whole."]);
    assert_eq!(voided(&ran), [VoidCause::Retry]);
    // While it happens, not at the end: the retry is told, then the message is taken back, then the rest comes.
    let place = |wanted: fn(&TurnEvent) -> bool| ran.events.iter().position(wanted).unwrap();
    let retrying = place(|event| matches!(event, TurnEvent::Retrying(_)));
    let void = place(|event| matches!(event, TurnEvent::MessageVoided(_)));
    let whole =
        place(|event| matches!(event, TurnEvent::TextDelta(delta) if delta.text.starts_with("This came")));
    assert!(retrying < void && void < whole, "{:?}", ran.events);
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_server_that_fails_is_given_up_in_seconds() {
    let stage = Stage::new(Reply::status(500));
    let began = Instant::now();
    let error = stage.run_as_asked(TurnRequest::new("Hello.")).await.outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VendorFailure);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert!(stage.calls().len() >= 2, "it was asked again");
}

/// The program would wait for two minutes, whatever time it is named, so the turn is given less.
#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_rate_limit_of_a_century_is_held_for_a_day_at_most() {
    for seconds in [99_999_999_999, u64::MAX] {
        let stage = Stage::new(Reply::fault(Fault::rate_limited(seconds)));
        let mut idle = IdleLimits::none();
        idle.first_byte = Some(Duration::from_secs(15));
        let request = TurnRequest::new("Hello.").with_limits(Limits::new().with_idle(idle));
        let error = stage.run_as_asked(request).await.outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RateLimited, "{error:?}");
        let delay = error.retry().delay(SystemTime::now()).unwrap_or_default();
        assert!(!delay.is_zero() && delay <= Duration::from_secs(24 * 3_600), "{:?}", error.retry());
    }
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_model_gets_the_effort_that_it_takes() {
    for (model, sent) in [("grok-4.6", "xhigh"), ("grok-4.5", "high")] {
        let stage = Stage::new(Reply::text("Hello."));
        let ran =
            stage.run_as_asked(TurnRequest::new("Hello.").with_model(model).with_effort(Effort::Max)).await;
        assert_eq!(ran.result().text, "Hello.");
        assert_eq!(stage.calls()[0].json["reasoning"]["effort"], sent, "{model}");
        let warned = ran.events.iter().filter(|event| matches!(event, TurnEvent::Warning(_))).count();
        assert!(warned > 0, "{model}: the clamp is told");
    }
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_prompt_that_is_a_command_of_the_vendors_is_a_prompt() {
    for prompt in ["/compact", "/context", "/loop 5m hello", "/always-approve", " /compact"] {
        let stage = Stage::new(Reply::text("Hello."));
        let ran = stage.run_as_asked(TurnRequest::new(prompt)).await;
        assert_eq!(ran.result().text, "Hello.", "{prompt:?}");
        let calls = stage.calls();
        assert_eq!(calls.len(), 1, "{prompt:?}");
        let sent = calls[0].json["input"].as_array().unwrap().last().unwrap()["content"].clone();
        assert!(sent.as_str().unwrap().ends_with(prompt), "{prompt:?} arrived as {sent}");
    }
}

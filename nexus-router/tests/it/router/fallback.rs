//! Who is tried next, and what the caller gets to know of it.

use std::time::{Duration, SystemTime};

use nexus_core::{
    ConversationMode, Effects, Effort, ErrorKind, Limit, Limits, PromptBlock, Recorder, ResumeHandle, Retry,
    TurnEvent, TurnHost, TurnRequest, Usd, turn::VoidCause,
};

use super::support::{Act, answering, chain, fake, fake_with, router, run};

#[tokio::test]
async fn the_first_that_can_run_does() {
    let (alpha, beta) = (answering("alpha"), answering("beta"));
    let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
    let (_, outcome) = run(&router, TurnRequest::new("x")).await;
    let result = outcome.unwrap();
    assert_eq!(result.text, "from alpha");
    assert!(result.provenance.skipped.is_empty());
    assert_eq!(beta.turns(), 0);
}

#[tokio::test]
async fn a_backend_that_could_not_run_is_followed_and_named_in_its_own_words() {
    let alpha = fake("alpha", [Act::Fail(ErrorKind::Unauthenticated, Retry::Never, "run `alpha login`")]);
    let beta = answering("beta");
    let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
    let (events, outcome) = run(&router, TurnRequest::new("x")).await;
    let result = outcome.unwrap();
    assert_eq!(result.text, "from beta");
    let skipped = &result.provenance.skipped[0];
    assert_eq!(skipped.backend.as_str(), "alpha");
    assert_eq!(skipped.kind, Some(ErrorKind::Unauthenticated));
    assert_eq!(skipped.reason, "run `alpha login`");
    let fallback = events.iter().find_map(|envelope| match &envelope.event {
        TurnEvent::Fallback(fallback) => Some(fallback),
        _ => None,
    });
    assert_eq!(fallback.unwrap().to.as_str(), "beta");
}

#[tokio::test]
async fn what_a_failed_attempt_said_is_taken_back_before_the_next_begins() {
    let alpha = fake("alpha", [Act::FailLate(ErrorKind::Transport, Effects::Read)]);
    let beta = answering("beta");
    let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
    let (events, outcome) = run(&router, TurnRequest::new("x")).await;
    let result = outcome.unwrap();

    let numbers: Vec<u64> = events.iter().map(|envelope| envelope.sequence).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    assert!(events.is_sorted_by_key(|envelope| envelope.elapsed));

    let at = |found: &dyn Fn(&TurnEvent) -> bool| {
        events.iter().position(|envelope| found(&envelope.event)).expect("the event")
    };
    let voided = at(&|event| {
        matches!(event, TurnEvent::MessageVoided(voided)
            if voided.message.as_str() == "m1" && voided.cause == VoidCause::Fallback)
    });
    let fell = at(&|event| matches!(event, TurnEvent::Fallback(_)));
    let begun =
        at(&|event| matches!(event, TurnEvent::Started(started) if started.backend.as_str() == "beta"));
    assert!(voided < fell && fell < begun);

    // Whoever records the events has the same answer as the result, and no name stands for two messages.
    let mut recorder = Recorder::new();
    events.iter().for_each(|envelope| recorder.observe(&envelope.event));
    assert_eq!(recorder.messages(), result.messages);
    assert_eq!(recorder.tool_calls(), result.tool_calls);
    assert_eq!(result.messages[0].id.as_str(), "m1~2");
    assert_eq!(result.text, "from beta");
}

#[tokio::test]
async fn what_all_attempts_used_is_added_up() {
    let alpha = fake("alpha", [Act::FailLate(ErrorKind::Transport, Effects::Read)]);
    let beta = answering("beta");
    let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
    let (_, outcome) = run(&router, TurnRequest::new("x")).await;
    let result = outcome.unwrap();
    assert_eq!(result.usage.input_tokens, Some(20));
    assert_eq!(result.effects, Effects::Read);
    assert_eq!(result.tool_calls.len(), 1);
}

#[tokio::test]
async fn after_a_write_it_stops_with_everything_known() {
    for effects in [Effects::Wrote, Effects::Unknown] {
        let alpha = fake("alpha", [Act::FailLate(ErrorKind::Transport, effects)]);
        let beta = answering("beta");
        let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
        let (events, outcome) = run(&router, TurnRequest::new("x")).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transport);
        assert_eq!(error.partial().text, "half of alpha");
        assert_eq!(error.partial().effects, effects);
        assert_eq!(beta.turns(), 0);
        assert!(!events.iter().any(|envelope| matches!(envelope.event, TurnEvent::MessageVoided(_))));
    }
}

#[tokio::test]
async fn a_type_may_say_otherwise() {
    let text = "groups: { main: [alpha, beta] }\ntypes: { work: { group: main, fallback: continue } }\n";
    let alpha = fake("alpha", [Act::FailLate(ErrorKind::Transport, Effects::Wrote)]);
    let beta = answering("beta");
    let (_, outcome) = run(&router(text, &[&alpha, &beta]), TurnRequest::new("x")).await;
    assert_eq!(outcome.unwrap().effects, Effects::Wrote);

    let text = "groups: { main: [alpha, beta] }\ntypes: { work: { group: main, fallback: never } }\n";
    let alpha = fake("alpha", [Act::Fail(ErrorKind::Transport, Retry::Never, "")]);
    let (_, outcome) = run(&router(text, &[&alpha, &beta]), TurnRequest::new("x")).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Transport);
}

#[tokio::test]
async fn an_answer_is_an_answer_even_if_it_is_a_bad_one() {
    let final_kinds = [
        ErrorKind::Cancelled,
        ErrorKind::InvalidRequest,
        ErrorKind::Refused,
        ErrorKind::Incomplete,
        ErrorKind::OutputInvalid,
        ErrorKind::ContextExceeded,
        ErrorKind::ApprovalRequired,
        ErrorKind::ConversationLost,
        ErrorKind::LimitReached(Limit::Cost),
        ErrorKind::Starved(nexus_core::Phase::Tool),
    ];
    for kind in final_kinds {
        let alpha = fake("alpha", [Act::Fail(kind, Retry::Never, "")]);
        let beta = answering("beta");
        let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
        let (_, outcome) = run(&router, TurnRequest::new("x")).await;
        assert_eq!(outcome.unwrap_err().kind(), kind);
        assert_eq!(beta.turns(), 0, "{kind:?} was given to another backend");
    }
}

#[tokio::test]
async fn every_kind_that_means_it_could_not_run_goes_on() {
    let kinds = [
        ErrorKind::NotInstalled,
        ErrorKind::Unauthenticated,
        ErrorKind::Forbidden,
        ErrorKind::BillingMismatch,
        ErrorKind::RateLimited,
        ErrorKind::UsageLimit,
        ErrorKind::Overloaded,
        ErrorKind::ModelUnavailable,
        ErrorKind::Unsupported,
        ErrorKind::ToolsUnavailable,
        ErrorKind::Transport,
        ErrorKind::Crashed,
        ErrorKind::Protocol,
        ErrorKind::VendorFailure,
        ErrorKind::Exhausted,
        ErrorKind::Starved(nexus_core::Phase::Start),
        ErrorKind::Starved(nexus_core::Phase::FirstByte),
        ErrorKind::Starved(nexus_core::Phase::Model),
    ];
    for kind in kinds {
        let alpha = fake("alpha", [Act::Fail(kind, Retry::Never, "")]);
        let beta = answering("beta");
        let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
        let (_, outcome) = run(&router, TurnRequest::new("x")).await;
        assert_eq!(outcome.unwrap().provenance.skipped[0].kind, Some(kind));
    }
}

#[tokio::test]
async fn a_chain_with_nobody_left_says_who_and_why_and_when() {
    let soon = SystemTime::now() + Duration::from_secs(600);
    let alpha =
        fake("alpha", [Act::Fail(ErrorKind::UsageLimit, Retry::At(soon), "limit reached, resets 3pm")]);
    let beta = fake("beta", [Act::FailLate(ErrorKind::Transport, Effects::None)]);
    let text = "groups: { main: [alpha, gamma-cli, beta, alpha-cli] }\n\
                backends: { alpha-cli: { parked: \"too slow\" } }\n\
                types: { work: { group: main } }\n";
    let router = router(text, &[&alpha, &beta]);
    let (_, outcome) = run(&router, TurnRequest::new("x")).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert_eq!(error.retry(), Retry::At(soon));
    let names: Vec<_> = error.skipped().iter().map(|skipped| skipped.backend.as_str()).collect();
    assert_eq!(names, ["alpha", "gamma-cli", "beta", "alpha-cli"]);
    assert_eq!(error.skipped()[0].reason, "limit reached, resets 3pm");
    assert_eq!(error.skipped()[0].until, Some(soon));
    assert_eq!(error.skipped()[1].reason, "gamma-cli is not part of this build");
    assert_eq!(error.skipped()[3].reason, "parked: too slow");
    assert_eq!(error.partial().text, "half of beta");
    assert_eq!(error.partial().usage.input_tokens, Some(20));
    assert_eq!(error.partial().tool_calls.len(), 1);
    assert!(error.to_string().starts_with("work has no backend left to run the turn: alpha: limit reached"));
}

#[tokio::test]
async fn a_chain_of_one_returns_its_backends_own_error() {
    let alpha = fake("alpha", [Act::Fail(ErrorKind::NotInstalled, Retry::Never, "install it")]);
    let (_, outcome) = run(&router(&chain("alpha"), &[&alpha]), TurnRequest::new("x")).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotInstalled);
    assert_eq!(error.to_string(), "alpha is not installed: install it");
}

#[tokio::test]
async fn a_backend_without_what_the_request_needs_is_not_even_asked() {
    let alpha = answering("alpha");
    let mut able = super::support::capabilities();
    able.images = nexus_core::Support::Yes;
    let beta = fake_with("beta", [Act::Answer("seen".into())], able);
    let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
    let picture = PromptBlock::Image { media_type: "image/png".into(), data: "AA==".into() };
    let (_, outcome) = run(&router, TurnRequest::new("x").with_block(picture)).await;
    let result = outcome.unwrap();
    assert_eq!(result.provenance.skipped[0].reason, "does not support pictures");
    assert_eq!(alpha.turns(), 0);
}

#[tokio::test]
async fn a_backend_that_is_alone_judges_itself_what_it_can_do() {
    let alpha = answering("alpha");
    let picture = PromptBlock::Image { media_type: "image/png".into(), data: "AA==".into() };
    let request = TurnRequest::new("x").with_block(picture);
    let error = run(&router(&chain("alpha"), &[&alpha]), request).await.1.unwrap_err();
    assert_eq!(error.to_string(), "alpha does not support a feature that the request needs: pictures");
}

#[tokio::test]
async fn a_backend_that_is_alone_and_parked_is_a_chain_that_ran_out() {
    let alpha = answering("alpha");
    let text = format!("{}backends: {{ alpha: {{ parked: \"for now\" }} }}\n", chain("alpha"));
    let error = run(&router(&text, &[&alpha]), TurnRequest::new("x")).await.1.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Exhausted, Retry::Never));
    assert_eq!(error.to_string(), "work has no backend left to run the turn: alpha: parked: for now");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_covers_every_attempt() {
    let late = Act::SlowFail(Duration::from_secs(40), ErrorKind::Transport);
    let (alpha, beta) = (fake("alpha", [late]), fake("beta", [Act::Hang]));
    let limits = Limits::new().with_deadline(Duration::from_secs(60));
    let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
    let begun = tokio::time::Instant::now();
    let (_, outcome) = run(&router, TurnRequest::new("x").with_limits(limits)).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::LimitReached(Limit::Deadline));
    assert_eq!(begun.elapsed(), Duration::from_secs(60));
    assert_eq!(beta.last().limits.deadline, Some(Duration::from_secs(20)));
}

#[tokio::test]
async fn what_earlier_attempts_used_is_taken_off_the_limits() {
    let alpha = fake("alpha", [Act::FailLate(ErrorKind::Transport, Effects::Read)]);
    let beta = answering("beta");
    let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
    let limits = Limits::new().with_tool_calls(3).with_output_tokens(100).with_cost(Usd(1.0));
    let (_, outcome) = run(&router, TurnRequest::new("x").with_limits(limits)).await;
    outcome.unwrap();
    let left = beta.last().limits;
    assert_eq!((left.tool_calls, left.output_tokens), (Some(2), Some(95)));

    let limits = Limits::new().with_tool_calls(1);
    let (_, outcome) = run(&router, TurnRequest::new("x").with_limits(limits)).await;
    let alpha_again = outcome.unwrap_err();
    assert_eq!(alpha_again.kind(), ErrorKind::LimitReached(Limit::ToolCalls));
    assert_eq!(beta.turns(), 1, "a turn without calls left was begun");
}

#[tokio::test]
async fn a_limit_of_zero_is_the_backends_to_judge() {
    let alpha = answering("alpha");
    let router = router(&chain("alpha"), &[&alpha]);
    let limits = Limits::new().with_tool_calls(0);
    run(&router, TurnRequest::new("x").with_limits(limits)).await.1.unwrap();
    assert_eq!(alpha.last().limits.tool_calls, Some(0));
}

#[tokio::test]
async fn a_conversation_goes_to_its_own_backend_alone() {
    let (alpha, beta) = (answering("alpha"), answering("beta"));
    let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
    let handle = |backend: &str| ResumeHandle::new(backend.into(), serde_json::json!("here"));
    let resume =
        |backend: &str| TurnRequest::new("x").with_conversation(ConversationMode::resume(handle(backend)));
    let (events, outcome) = run(&router, resume("beta")).await;
    assert_eq!(outcome.unwrap().text, "from beta");
    assert!(!events.iter().any(|envelope| matches!(envelope.event, TurnEvent::Fallback(_))));
    assert_eq!(alpha.turns(), 0);

    let error = run(&router, resume("delta")).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(error.to_string().contains("belongs to delta"), "{error}");
}

#[tokio::test]
async fn a_conversation_whose_backend_cannot_run_ends_with_that_backends_error() {
    let alpha = answering("alpha");
    let beta = fake("beta", [Act::Fail(ErrorKind::Transport, Retry::Never, "no route")]);
    let router = router(&chain("beta, alpha"), &[&alpha, &beta]);
    let handle = ResumeHandle::new("beta".into(), serde_json::json!("here"));
    let request = TurnRequest::new("x").with_conversation(ConversationMode::resume(handle));
    let error = run(&router, request).await.1.unwrap_err();
    assert_eq!((error.kind(), error.backend().as_str()), (ErrorKind::Transport, "beta"));
    assert_eq!(alpha.turns(), 0);
}

#[tokio::test]
async fn a_binding_fills_in_what_the_request_leaves_open() {
    let text = "groups: { main: [alpha] }\nmodels: { strong: { main: big-one } }\n\
                types: { work: { group: main, model: strong, effort: high } }\n";
    let alpha = answering("alpha");
    let router = router(text, &[&alpha]);
    run(&router, TurnRequest::new("x")).await.1.unwrap();
    assert_eq!(alpha.last().model, Some("big-one".into()));
    assert_eq!(alpha.last().effort, Some(Effort::High));
    run(&router, TurnRequest::new("x").with_model("own").with_effort(Effort::Low)).await.1.unwrap();
    assert_eq!(alpha.last().model, Some("own".into()));
    assert_eq!(alpha.last().effort, Some(Effort::Low));
}

#[tokio::test]
async fn an_effort_of_the_binding_is_left_out_where_there_is_none_to_set() {
    let text = "groups: { main: [alpha] }\ntypes: { work: { group: main, effort: high } }\n";
    let mut plain = super::support::capabilities();
    plain.efforts.clear();
    let alpha = fake_with("alpha", [Act::Answer("a".into())], plain);
    let (events, outcome) = run(&router(text, &[&alpha]), TurnRequest::new("x")).await;
    outcome.unwrap();
    assert_eq!(alpha.last().effort, None);
    assert!(events.iter().any(|envelope| matches!(envelope.event, TurnEvent::Warning(_))));
}

#[tokio::test]
async fn a_work_kind_that_does_not_exist_is_an_invalid_request_with_a_hint() {
    let alpha = answering("alpha");
    let router = router(&chain("alpha"), &[&alpha]);
    let mut nobody = |_event| {};
    let error =
        router.run_turn("wrok", TurnRequest::new("x"), TurnHost::new(), &mut nobody).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(error.to_string().ends_with("did you mean \"work\"?"), "{error}");
}

#[tokio::test]
async fn a_work_kind_is_also_found_by_tier_and_phase() {
    let text = "groups: { main: [alpha] }\n\
                types: { work: { tier: execution, phase: implement, group: main } }\n";
    let alpha = answering("alpha");
    let router = router(text, &[&alpha]);
    assert_eq!(router.binding(("execution", "implement")).unwrap().group, "main");
    let error = router.binding(("execution", "implment")).unwrap_err();
    assert!(error.to_string().ends_with("did you mean \"execution/implement\"?"), "{error}");
}

#[tokio::test]
async fn a_turn_that_is_cancelled_between_two_backends_does_not_go_on() {
    let alpha = fake("alpha", [Act::CancelAndFail(ErrorKind::Transport)]);
    let beta = answering("beta");
    let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
    let error = run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(error.skipped()[0].backend.as_str(), "alpha");
    assert_eq!(beta.turns(), 0);
}

#[tokio::test]
async fn a_backend_that_panics_is_an_error_and_another_takes_over_if_nothing_was_written() {
    let (alpha, beta) = (fake("alpha", [Act::Panic(Effects::Read)]), answering("beta"));
    let chained = router(&chain("alpha, beta"), &[&alpha, &beta]);
    let (events, outcome) = run(&chained, TurnRequest::new("x")).await;
    let result = outcome.unwrap();
    assert_eq!(result.text, "from beta");
    assert_eq!(result.provenance.skipped[0].kind, Some(ErrorKind::Crashed));
    assert!(result.provenance.skipped[0].reason.contains("alpha breaks down"), "{:?}", result.provenance);
    assert_eq!(result.effects, Effects::Read);
    let voided = events.iter().any(|envelope| matches!(envelope.event, TurnEvent::MessageVoided(_)));
    assert!(voided, "what was shown of it is taken back");

    for effects in [Effects::Wrote, Effects::Unknown] {
        let (alpha, beta) = (fake("alpha", [Act::Panic(effects)]), answering("beta"));
        let chained = router(&chain("alpha, beta"), &[&alpha, &beta]);
        let error = run(&chained, TurnRequest::new("x")).await.1.unwrap_err();
        assert_eq!((error.kind(), error.backend().as_str()), (ErrorKind::Crashed, "alpha"));
        assert_eq!(error.partial().effects, effects);
        assert_eq!(error.partial().tool_calls.len(), 1);
        assert_eq!(beta.turns(), 0);
    }
}

#[tokio::test]
async fn each_member_of_a_chain_has_its_own_name_for_a_model() {
    for names in ["alpha: big, beta: large", "main: big, beta: large", "alpha: big, main: large"] {
        let text = format!(
            "groups: {{ main: [alpha, beta] }}\nmodels: {{ strong: {{ {names} }} }}\n\
             types: {{ work: {{ group: main, model: strong }} }}\n"
        );
        let alpha = fake("alpha", [Act::Fail(ErrorKind::Overloaded, Retry::Never, "full")]);
        let beta = answering("beta");
        let router = router(&text, &[&alpha, &beta]);
        run(&router, TurnRequest::new("x")).await.1.unwrap();
        assert_eq!(alpha.last().model, Some("big".into()), "{names}");
        assert_eq!(beta.last().model, Some("large".into()), "{names}");
        let explained = router.explain("work").unwrap().to_string();
        assert!(explained.contains("model big") && explained.contains("model large"), "{explained}");
    }
}

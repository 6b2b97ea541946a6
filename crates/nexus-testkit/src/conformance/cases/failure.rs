//! Failures: each with its kind, its retry, what was produced, and within a bounded time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nexus_core::{
    Effects, ErrorKind, IdleLimits, Limits, Retry, TextGranularity, ToolAccess, ToolCallStatus, TurnError,
    TurnEvent,
};

use crate::{
    conformance::{
        finding::{Finding, Verdict, ensure, same, same_text, short},
        trial::{Observed, Trial},
    },
    model_call::ModelCall,
    sim::{Cut, Fault, Finish, Reply, Scenario},
};

/// The text before a fault strikes.
const HALF: &str = "This answer breaks off in the middle of a";

pub(crate) async fn a_refused_credential_is_unauthenticated(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::status(401)).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::Unauthenticated])?;
    same("retry", &error.retry(), &Retry::Never)
}

pub(crate) async fn what_is_forbidden_is_forbidden(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::status(403)).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::Forbidden])?;
    same("retry", &error.retry(), &Retry::Never)
}

pub(crate) async fn a_model_that_is_not_there_is_unavailable(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::status(404)).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::ModelUnavailable])?;
    same("retry", &error.retry(), &Retry::Never)
}

pub(crate) async fn a_rate_limit_that_names_its_time_asks_for_patience(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::fault(Fault::rate_limited(2))).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::RateLimited])?;
    // A program may hide the time. Then the backend guesses it, and marks it as guessed.
    let is_named = error.retry() == Retry::After(Duration::from_secs(2));
    ensure(is_named || error.retry().is_guessed(), "retry", || short(&error.retry()))
}

pub(crate) async fn a_rate_limit_without_a_word_asks_for_patience(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::status(429)).await?;
    is_guessed(ends_as(trial, &turn, &[ErrorKind::RateLimited])?)
}

pub(crate) async fn a_rate_limit_of_a_century_is_cut_to_a_day(trial: &Trial<'_>) -> Verdict {
    // The first value is 3,168 years. The second overflows when it is added to any date.
    for seconds in [99_999_999_999, u64::MAX] {
        let turn = weather(trial, Reply::fault(Fault::rate_limited(seconds))).await?;
        let error = ends_as(trial, &turn, &[ErrorKind::RateLimited])?;
        let delay = error.retry().delay(SystemTime::now());
        let is_cut = delay.is_some_and(|delay| !delay.is_zero() && delay <= Duration::from_secs(24 * 3_600));
        ensure(is_cut, "retry", || format!("{} after {seconds} s", short(&error.retry())))?;
    }
    Ok(())
}

pub(crate) async fn silence_after_a_rate_limit_is_the_rate_limit(trial: &Trial<'_>) -> Verdict {
    // The vendor's program repeats the call by itself, and then hears nothing.
    let stalls = Reply::fault(Fault::StallBeforeHeaders);
    let staged = trial.stage(Scenario::new([Reply::fault(Fault::rate_limited(1)), stalls])).await?;
    let mut idle = IdleLimits::none();
    idle.first_byte = Some(trial.timing().short);
    let request = staged.request("Hello.").with_limits(Limits::new().with_idle(idle));
    let turn = staged.run(request).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::RateLimited])?;
    let asks_for_patience = !matches!(error.retry(), Retry::Now | Retry::Never);
    ensure(asks_for_patience, "retry", || short(&error.retry()))
}

pub(crate) async fn a_plan_that_is_used_up_says_until_when(trial: &Trial<'_>) -> Verdict {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let reset = now.as_secs() + 3_600;
    let turn = weather(trial, Reply::fault(Fault::usage_limit(reset))).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::UsageLimit])?;
    let wanted = UNIX_EPOCH + Duration::from_secs(reset);
    // The vendor names a moment, so a guess or a duration would lose precision.
    same("retry", &error.retry(), &Retry::At(wanted))
}

pub(crate) async fn a_server_that_fails_is_a_failure_of_the_vendor(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::status(500)).await?;
    may_be_tried_again(ends_as(trial, &turn, &[ErrorKind::VendorFailure, ErrorKind::Overloaded])?)
}

pub(crate) async fn a_vendor_without_capacity_is_overloaded(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::fault(Fault::overloaded())).await?;
    is_guessed(ends_as(trial, &turn, &[ErrorKind::Overloaded])?)
}

pub(crate) async fn a_request_that_the_vendor_cannot_use_is_invalid(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::status(400)).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::InvalidRequest])?;
    same("retry", &error.retry(), &Retry::Never)
}

pub(crate) async fn a_conversation_that_fills_the_window_is_too_long(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::empty().finish(Finish::ContextExceeded)).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::ContextExceeded])?;
    same("retry", &error.retry(), &Retry::Never)
}

pub(crate) async fn a_connection_that_is_refused_is_a_transport_error(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage_refused().await?;
    let turn = staged.run(staged.request("Hello.")).await?;
    may_be_tried_again(ends_as(trial, &turn, &[ErrorKind::Transport])?)
}

pub(crate) async fn an_answer_torn_once_is_asked_for_again(trial: &Trial<'_>) -> Verdict {
    let whole = "This answer came whole.";
    let script = Scenario::new([Reply::text(HALF).torn(Cut::Fin), Reply::text(whole)]);
    let turn = weather(trial, script).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, whole)?;
    let kept = result.messages.iter().any(|message| message.text.contains(HALF));
    ensure(!kept, "the torn message is taken back", || short(&result.messages))
}

pub(crate) async fn an_answer_torn_every_time_is_a_transport_error(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::text(HALF).torn(Cut::Fin)).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::Transport])?;
    may_be_tried_again(error)?;
    let times = error.partial().text.matches(HALF).count();
    ensure(times <= 1, "no text is kept twice", || short(&error.partial().text))
}

pub(crate) async fn an_error_in_the_middle_of_an_answer_is_no_success(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::text(HALF).broken("server", "The server is out of sorts.")).await?;
    let kinds = [ErrorKind::VendorFailure, ErrorKind::Overloaded, ErrorKind::Transport];
    let error = ends_as(trial, &turn, &kinds)?;
    let times = error.partial().text.matches(HALF).count();
    ensure(times <= 1, "no text is kept twice", || short(&error.partial().text))
}

pub(crate) async fn an_answer_that_cannot_be_read_is_no_success(trial: &Trial<'_>) -> Verdict {
    for fault in [Fault::Garbage, Fault::Html200] {
        let turn = weather(trial, Reply::fault(fault)).await?;
        let kinds =
            [ErrorKind::Protocol, ErrorKind::VendorFailure, ErrorKind::Transport, ErrorKind::Incomplete];
        ends_as(trial, &turn, &kinds)?;
    }
    Ok(())
}

pub(crate) async fn a_page_of_html_is_a_transport_error(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::fault(Fault::Html200)).await?;
    ends_as(trial, &turn, &[ErrorKind::Transport]).map(drop)
}

pub(crate) async fn an_answer_without_its_end_is_no_success(trial: &Trial<'_>) -> Verdict {
    // More tries than any program makes, each with its own text.
    let tries: Vec<String> = (10..30).map(|number| format!("Try {number} breaks off behind its")).collect();
    let cut = |text: &String| Reply { fault: Some(Fault::NoEnd), ..Reply::text(text) };
    let staged = trial.stage(Scenario::new(tries.iter().map(cut))).await?;
    let turn = staged.run(staged.request("Hello.")).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::Transport, ErrorKind::Incomplete])?;
    let partial = &error.partial().text;
    let calls = staged.model_calls();
    let mut abandoned = 0;
    for (index, text) in tries.iter().enumerate() {
        let times = partial.matches(text.as_str()).count();
        ensure(times <= 1, "no text is kept twice", || short(partial))?;
        // A try counts as a part of the answer if every later request contains its text: the model then continues after it.
        let was_said = |call: &ModelCall| call.assistant_texts.iter().any(|said| said.contains(text));
        let later = calls.get(index + 1..).unwrap_or_default();
        let is_part = !later.is_empty() && later.iter().all(was_said);
        abandoned += usize::from(times > 0 && !is_part);
    }
    // The text of the last try may stay.
    ensure(abandoned <= 1, "no abandoned try is kept beside another", || short(partial))
}

pub(crate) async fn a_refusal_is_refused(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::text("I cannot help with that.").finish(Finish::Refusal)).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::Refused])?;
    same("retry", &error.retry(), &Retry::Never)
}

pub(crate) async fn no_answer_is_no_success(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::empty()).await?;
    ends_as(trial, &turn, &[ErrorKind::Incomplete]).map(drop)
}

pub(crate) async fn an_answer_of_blanks_is_no_success(trial: &Trial<'_>) -> Verdict {
    let turn = weather(trial, Reply::text(" \n\t ")).await?;
    ends_as(trial, &turn, &[ErrorKind::Incomplete]).map(drop)
}

pub(crate) async fn an_answer_that_came_right_is_shown_once(trial: &Trial<'_>) -> Verdict {
    let whole = "This answer came whole, after a server that failed.";
    let turn = weather(trial, Scenario::new([Reply::status(500), Reply::text(whole)])).await?;
    let Ok(result) = &turn.outcome else {
        // This program does not repeat the call.
        return ends_as(trial, &turn, &[ErrorKind::VendorFailure, ErrorKind::Overloaded]).map(drop);
    };
    same_text("answer", &result.text, whole)?;
    let is_voided = turn.saw(|event| matches!(event, TurnEvent::MessageVoided(_)));
    ensure(!is_voided, "nothing is taken back", || "a message is voided".to_owned())
}

pub(crate) async fn an_answer_cut_by_its_bound_is_incomplete(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::text(HALF).finish(Finish::MaxTokens)).await?;
    let turn = staged.run(staged.request("Hello.")).await?;
    let error = ends_as(trial, &turn, &[ErrorKind::Incomplete])?;
    let shows_pieces = staged.capabilities().text == TextGranularity::Deltas;
    let kept = error.partial().text.contains(HALF);
    ensure(kept || !shows_pieces, "what came is kept", || short(&error.partial().text))
}

pub(crate) async fn a_failure_after_a_tool_keeps_what_was_done(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let script = Scenario::new([Reply::call(belt.shell("echo done > done.txt")), Reply::status(400)]);
    let staged = trial.stage(script).await?;
    let turn = belt.run(&staged, "Do it.").await?;
    let error = ends_as(trial, &turn, &[ErrorKind::InvalidRequest])?;
    let partial = error.partial();
    let statuses: Vec<_> = partial.tool_calls.iter().map(|call| call.status).collect();
    same("partial tool calls", &statuses, &vec![ToolCallStatus::Succeeded])?;
    // Unknown effects are worse than a write, so they pass as well.
    ensure(partial.effects >= Effects::Wrote, "partial effects", || short(&partial.effects))?;
    ensure(trial.workspace().join("done.txt").exists(), "the tool ran", || short(partial))
}

/// A turn in this weather.
async fn weather(trial: &Trial<'_>, script: impl Into<Scenario>) -> Result<Observed, Finding> {
    let staged = trial.stage(script).await?;
    staged.run(staged.request("Hello.")).await
}

/// Returns the error of a turn, which must be of one of `kinds`.
fn ends_as<'o>(trial: &Trial<'_>, turn: &'o Observed, kinds: &[ErrorKind]) -> Result<&'o TurnError, Finding> {
    let error = turn.error()?;
    trial.expect_kind(error, kinds)?;
    Ok(error)
}

/// Checks that the time is marked as guessed, since the vendor named none.
fn is_guessed(error: &TurnError) -> Verdict {
    ensure(error.retry().is_guessed(), "retry", || short(&error.retry()))
}

fn may_be_tried_again(error: &TurnError) -> Verdict {
    ensure(error.retry() != Retry::Never, "retry", || format!("never, after {}", short(error)))
}

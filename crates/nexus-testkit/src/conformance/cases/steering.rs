//! Input to an agent while its turn runs: it reaches the model between two calls, once and in order, and its sender learns
//! the outcome.

use std::time::Duration;

use futures::FutureExt as _;
use nexus_core::{
    CancelToken, InputDelivery, NotDelivered, SentInput, Steering, ToolAccess, TurnEvent, TurnHost,
};

use crate::{
    conformance::{
        feature::Feature,
        finding::{Finding, Verdict, ensure, same, same_text, short},
        toolbelt::Toolbelt,
        trial::{Observed, Staged, Trial},
        watch::SinkPace,
    },
    sim::{Reply, Scenario},
};

/// A tool that signals its start, and runs long enough for input to be sent.
const LONG_TOOL: &str = "touch running; sleep 2";

/// Last answer of the model.
const ANSWER: &str = "It is done.";

/// Number of inputs that exceeds every backend's queue.
const FLOOD: usize = 300;

pub(crate) async fn input_reaches_the_agent_between_its_calls(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let script = Scenario::tool_then_text(belt.shell(LONG_TOOL), ANSWER);
    let said = [trial.canary("first"), trial.canary("second")];
    let (staged, turn, told) = steered(trial, &belt, script, &said).await?;
    same_text("answer", &turn.result()?.text, ANSWER)?;
    same("what the senders are told", &told, &vec![Some(InputDelivery::Delivered); 2])?;
    let calls = staged.model_calls();
    same("model calls", &calls.len(), &2)?;
    same("input that the model gets before", &places(&calls[0].user_texts, &said), &vec![])?;
    same("what the model is told", &places(&calls[1].user_texts, &said), &vec![0, 1])?;
    same("what is told as received", &received(&turn), &said.to_vec())?;
    let last_answer = turn.events.iter().rposition(|it| matches!(it.event, TurnEvent::ToolCallFinished(_)));
    let first_input = turn.events.iter().position(|it| matches!(it.event, TurnEvent::InputReceived(_)));
    // Vendors reject other content between a call and its result.
    ensure(last_answer < first_input, "input stands after the answers to the calls", || short(&turn.events))
}

pub(crate) async fn input_is_delivered_once_and_stays_in_the_conversation(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let calls = [Reply::call(belt.shell(LONG_TOOL)), Reply::call(belt.shell("true")), Reply::text(ANSWER)];
    let said = [trial.canary("only")];
    let (staged, turn, told) = steered(trial, &belt, Scenario::new(calls), &said).await?;
    turn.result()?;
    same("what the senders are told", &told, &vec![Some(InputDelivery::Delivered)])?;
    same("what is told as received", &received(&turn), &said.to_vec())?;
    let calls = staged.model_calls();
    same("model calls", &calls.len(), &3)?;
    for call in &calls[1..] {
        same("what the model is told", &places(&call.user_texts, &said), &vec![0])?;
    }
    Ok(())
}

pub(crate) async fn input_that_a_credential_is_in_shows_none_of_it(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let script = Scenario::tool_then_text(belt.shell(LONG_TOOL), ANSWER);
    let said = [format!("Use {} for it.", trial.canary("token"))];
    // Every turn of the suite checks that no event shows the credential.
    let (_, turn, told) = steered(trial, &belt, script, &said).await?;
    turn.result()?;
    same("what the senders are told", &told, &vec![Some(InputDelivery::Delivered)])?;
    same("what is told as received", &received(&turn).len(), &1)
}

pub(crate) async fn a_flood_of_input_is_bounded(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let script = Scenario::tool_then_text(belt.shell(LONG_TOOL), ANSWER);
    let said: Vec<_> = (0..FLOOD).map(|number| trial.canary(&format!("{number}-of-many"))).collect();
    let (staged, turn, told) = steered(trial, &belt, script, &said).await?;
    turn.result()?;
    let is_told = |delivery| told.iter().filter(|told| **told == Some(delivery)).count();
    let delivered = is_told(InputDelivery::Delivered);
    let refused = is_told(InputDelivery::NotDelivered(NotDelivered::Full));
    ensure(
        delivered > 0 && refused > 0 && delivered + refused == FLOOD,
        "what the senders are told",
        || format!("{delivered} delivered and {refused} refused of {FLOOD}"),
    )?;
    let received = received(&turn);
    same("what is told as received", &received.len(), &delivered)?;
    let last = staged.model_calls().pop().unwrap_or_default();
    let places = places(&last.user_texts, &received);
    same("what the model is told", &places, &(0..delivered).collect())
}

pub(crate) async fn input_during_the_last_answer_is_not_delivered(trial: &Trial<'_>) -> Verdict {
    // No further model call follows, so this input can reach no one in the turn.
    let reply = Reply::text(ANSWER).paced(2, Duration::from_millis(300));
    let staged = trial.stage(reply).await?;
    let steering = Steering::new();
    let host = TurnHost::new().with_steering(steering.clone());
    let said = trial.canary("late");
    let mut sent = None;
    let request = staged.request("Say when it is done.");
    let is_asked = |_: &_, staged: &Staged<'_>| !staged.model_calls().is_empty();
    let act = || sent = Some(steering.send(said.clone()));
    let (turn, _) = staged.run_until(request, host, SinkPace::Ready, is_asked, act).await?;
    same_text("answer", &turn.result()?.text, ANSWER)?;
    let ended = Some(InputDelivery::NotDelivered(NotDelivered::TurnEnded));
    same("what the sender is told", &sent.and_then(at_once), &ended)?;
    same("report to the sender after the end", &at_once(steering.send("Hello?")), &ended)?;
    same("what is told as received", &received(&turn), &vec![])?;
    let calls = staged.model_calls();
    let has_it = calls.iter().any(|call| !places(&call.user_texts, std::slice::from_ref(&said)).is_empty());
    ensure(!has_it, "the model is not told", || short(&calls))
}

pub(crate) async fn input_is_refused_at_once_where_it_cannot_be_delivered(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::text(ANSWER).paced(2, Duration::from_millis(200))).await?;
    // A turn that is cancelled before it begins must also settle its waiting inputs.
    let (steering, cancel) = (Steering::new(), CancelToken::new());
    cancel.cancel();
    let sent = steering.send("Hello?");
    let host = TurnHost::new().with_cancel(cancel).with_steering(steering.clone());
    staged.run_with(staged.request("Nothing."), host, SinkPace::Ready).await?.error()?;
    let told = at_once(sent);
    let is_refused = matches!(told, Some(InputDelivery::NotDelivered(_)));
    ensure(is_refused && steering.is_over(), "report to the sender for a turn that does not start", || {
        short(&told)
    })?;
    if Feature::Steering.is_declared(&staged.capabilities()) {
        return Ok(());
    }
    let steering = Steering::new();
    let host = TurnHost::new().with_steering(steering.clone());
    let mut told = None;
    let is_asked = |_: &_, staged: &Staged<'_>| !staged.model_calls().is_empty();
    let act = || told = at_once(steering.send("Hello?"));
    let request = staged.request("Say when it is done.");
    let (turn, _) = staged.run_until(request, host, SinkPace::Ready, is_asked, act).await?;
    let unsupported = Some(InputDelivery::NotDelivered(NotDelivered::Unsupported));
    same("report to the sender while the turn runs", &told, &unsupported)?;
    same_text("answer", &turn.result()?.text, ANSWER)
}

/// Runs a turn and sends all of `said` during its first call. Also returns the delivery of each input by the end.
async fn steered<'t>(
    trial: &'t Trial<'_>,
    belt: &Toolbelt<'_>,
    script: Scenario,
    said: &[String],
) -> Result<(Staged<'t>, Observed, Vec<Option<InputDelivery>>), Finding> {
    let staged = trial.stage(script).await?;
    let steering = Steering::new();
    let host = belt.host().with_steering(steering.clone());
    let running = trial.workspace().join("running");
    let mut sent = Vec::new();
    let act = || sent.extend(said.iter().map(|text| steering.send(text.clone())));
    let request = belt.work(&staged, "Run it.");
    let (turn, _) = staged.run_until(request, host, SinkPace::Ready, |_, _| running.exists(), act).await?;
    let told = sent.into_iter().map(at_once).collect();
    Ok((staged, turn, told))
}

/// Returns the delivery, if it is decided. It bypasses Tokio's cooperative budget, which would report "pending" to a busy task.
fn at_once(sent: SentInput) -> Option<InputDelivery> {
    tokio::task::unconstrained(sent).now_or_never()
}

/// Returns the input that the turn reported as received.
fn received(turn: &Observed) -> Vec<String> {
    let texts = turn.events.iter().filter_map(|envelope| match &envelope.event {
        TurnEvent::InputReceived(input) => Some(input.text.clone()),
        _ => None,
    });
    texts.collect()
}

/// Returns the indexes of `said` that occur in `texts`, in order of occurrence. A harness may add words around them.
fn places(texts: &[String], said: &[String]) -> Vec<usize> {
    let whole = texts.join("\n");
    let mut found: Vec<_> = said
        .iter()
        .enumerate()
        .flat_map(|(index, text)| whole.match_indices(text.as_str()).map(move |(at, _)| (at, index)))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, index)| index).collect()
}

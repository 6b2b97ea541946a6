//! Stopping a turn: by the cancel token or by dropping it, while the model answers or a tool runs. Nothing of the turn
//! may remain.

use std::time::Duration;

use nexus_core::{CancelToken, ErrorKind, TextGranularity, ToolAccess, TurnEvent, TurnHost, TurnRequest};

use crate::{
    conformance::{
        feature::Feature,
        finding::{Finding, Verdict, ensure, same, same_text, short},
        processes::{ProcessWatch, with_argument},
        toolbelt::Toolbelt,
        trial::{Staged, Trial},
        watch::{Seen, SinkPace},
    },
    sim::{Reply, Scenario},
};

/// Time after the end of a turn until which its remains may disappear.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// Time limit of a stop.
const PATIENCE: Duration = Duration::from_secs(45);

/// Text of a model that stops in mid-sentence.
const HALF: &str = "Half of an ans";

/// A tool whose child ignores every signal that can be ignored, and that never ends by itself.
const DEAF_TOOL: &str = "(trap '' TERM INT HUP; while :; do sleep 1; done) & echo $! > child.txt; wait";

/// A tool that ends at once and leaves a process without any trace of its origin: no parent, no session, no
/// group, no variable. The process ends by itself after a minute.
const HIDING_TOOL: &str = "(env -i setsid /bin/sh -c 'echo up > \"$0\"; exec 3< \"$0\"; sleep 60; :' \"$PWD/hidden.txt\" \
    < /dev/null > /dev/null 2>&1 &); sleep 0.2; echo started";

pub(crate) async fn a_token_cancelled_before_the_start_spends_nothing(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Too late.")).await?;
    let cancel = CancelToken::new();
    cancel.cancel();
    let host = TurnHost::new().with_cancel(cancel);
    let turn = staged.run_with(staged.request("Hello."), host, SinkPace::Ready).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::Cancelled])?;
    same("nothing is spent", &staged.model_calls().len(), &0)
}

pub(crate) async fn a_token_stops_a_turn_while_the_model_speaks(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::text(HALF).stalled()).await?;
    let watch = ProcessWatch::start(trial.mark());
    let work = (staged.request("Hello."), TurnHost::new());
    let partial = by_token(trial, &staged, work, SinkPace::Ready, |seen, staged| {
        speaks(seen, staged) && is_seen(&watch, staged)
    })
    .await?;
    if staged.capabilities().text == TextGranularity::Deltas {
        same_text("what came is kept", &partial.0, HALF)?;
    }
    nothing_is_left(&staged, &watch).await
}

pub(crate) async fn a_token_stops_a_turn_while_a_tool_runs(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let staged = trial.stage(deaf_tool(&belt)).await?;
    let watch = ProcessWatch::start(trial.mark());
    let work = (belt.work(&staged, "Run it."), belt.host());
    let partial = by_token(trial, &staged, work, SinkPace::Ready, |_, staged| {
        tool_runs(trial) && is_seen(&watch, staged)
    })
    .await?;
    same("partial tool calls", &partial.1, &1)?;
    nothing_is_left(&staged, &watch).await
}

pub(crate) async fn a_token_stops_a_turn_whose_sink_is_never_ready(trial: &Trial<'_>) -> Verdict {
    // A mebibyte exceeds all buffers on the way, so the backend must stop while it writes.
    let staged = trial.stage(Reply::long(1 << 20)).await?;
    let watch = ProcessWatch::start(trial.mark());
    let is_asked =
        |_: &Seen, staged: &Staged<'_>| !staged.model_calls().is_empty() && is_seen(&watch, staged);
    let work = (staged.request("Hello."), TurnHost::new());
    by_token(trial, &staged, work, SinkPace::Never, is_asked).await?;
    nothing_is_left(&staged, &watch).await
}

pub(crate) async fn dropping_the_turn_while_the_model_speaks_stops_its_processes(
    trial: &Trial<'_>,
) -> Verdict {
    let staged = trial.stage(Reply::text(HALF).stalled()).await?;
    let watch = ProcessWatch::start(trial.mark());
    let dropped = staged
        .drop_when(staged.request("Hello."), TurnHost::new(), |seen, staged| {
            speaks(seen, staged) && is_seen(&watch, staged)
        })
        .await?;
    ensure(dropped.took < PATIENCE, "bounded time", || format!("the drop took {:?}", dropped.took))?;
    nothing_is_left_since(dropped.model_calls, &staged, &watch).await
}

pub(crate) async fn dropping_the_turn_stops_its_processes(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let staged = trial.stage(deaf_tool(&belt)).await?;
    let watch = ProcessWatch::start(trial.mark());
    let request = belt.work(&staged, "Run it.");
    let dropped = staged
        .drop_when(request, belt.host(), |_, staged| tool_runs(trial) && is_seen(&watch, staged))
        .await?;
    ensure(dropped.took < PATIENCE, "bounded time", || format!("the drop took {:?}", dropped.took))?;
    nothing_is_left_since(dropped.model_calls, &staged, &watch).await
}

pub(crate) async fn no_process_outlives_a_turn_that_ended_well(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::text("It is done, slowly.").paced(2, Duration::from_millis(40))).await?;
    let watch = ProcessWatch::start(trial.mark());
    staged.run(staged.request("Do it.")).await?.result()?;
    nothing_is_left(&staged, &watch).await
}

pub(crate) async fn a_process_that_hides_ends_with_the_token(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let staged = trial.stage(hiding_tool(&belt)).await?;
    let work = (belt.work(&staged, "Run it."), belt.host());
    by_token(trial, &staged, work, SinkPace::Ready, |_, staged| has_hidden(trial, staged)).await?;
    nobody_hides(trial).await
}

pub(crate) async fn a_process_that_hides_ends_with_the_drop(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let staged = trial.stage(hiding_tool(&belt)).await?;
    let request = belt.work(&staged, "Run it.");
    staged.drop_when(request, belt.host(), |_, staged| has_hidden(trial, staged)).await?;
    nobody_hides(trial).await
}

/// Returns a script in which the tool has ended and the model stops in the middle of its answer.
fn hiding_tool(belt: &Toolbelt<'_>) -> Scenario {
    Scenario::new([Reply::call(belt.shell(HIDING_TOOL)), Reply::text(HALF).stalled()])
}

/// Returns true once the process has hidden, is visible to the suite, and its parent has ended.
fn has_hidden(trial: &Trial<'_>, staged: &Staged<'_>) -> bool {
    let file = trial.workspace().join("hidden.txt");
    // Without this look, a process that never started would pass the case.
    let is_there = !ProcessWatch::is_possible() || !with_argument(&file).is_empty();
    file.exists() && is_there && staged.model_calls().len() > 1
}

/// Checks that, a second later, no process is alive whose argument is the file of the hidden process.
async fn nobody_hides(trial: &Trial<'_>) -> Verdict {
    let file = trial.workspace().join("hidden.txt");
    let until = std::time::Instant::now() + AFTERWARDS;
    loop {
        let hidden = with_argument(&file);
        if hidden.is_empty() {
            return Ok(());
        }
        if std::time::Instant::now() >= until {
            return Err(Finding::new("no hidden process is left", format!("{hidden:?}")));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Cancels once it is time. Returns the text and the number of tool calls of the partial.
async fn by_token(
    trial: &Trial<'_>,
    staged: &Staged<'_>,
    (request, host): (TurnRequest, TurnHost),
    pace: SinkPace,
    is_time: impl Fn(&Seen, &Staged<'_>) -> bool,
) -> Result<(String, usize), Finding> {
    let cancel = CancelToken::new();
    let host = host.with_cancel(cancel.clone());
    let (turn, took) = staged.run_until(request, host, pace, is_time, || cancel.cancel()).await?;
    let error = turn.error()?;
    trial.expect_kind(error, &[ErrorKind::Cancelled])?;
    ensure(took < PATIENCE, "bounded time", || format!("the stop took {took:?}"))?;
    // A backend may report survivors itself, which is a failure even if they end soon.
    let survivors = error.process().map(|process| process.survivors.clone()).unwrap_or_default();
    ensure(survivors.is_empty(), "no survivor", || short(&survivors))?;
    Ok((error.partial().text.clone(), error.partial().tool_calls.len()))
}

/// Returns true once the whole half was seen or, without text deltas, once the model was called.
fn speaks(seen: &Seen, staged: &Staged<'_>) -> bool {
    if staged.capabilities().text != TextGranularity::Deltas {
        return !staged.model_calls().is_empty();
    }
    let texts = seen.events().into_iter().filter_map(|envelope| match envelope.event {
        TurnEvent::TextDelta(delta) => Some(delta.text),
        _ => None,
    });
    texts.collect::<String>() == HALF
}

fn deaf_tool(belt: &Toolbelt<'_>) -> Scenario {
    Scenario::tool_then_text(belt.shell(DEAF_TOOL), "It ended.")
}

fn tool_runs(trial: &Trial<'_>) -> bool {
    std::fs::read_to_string(trial.workspace().join("child.txt")).is_ok_and(|pid| !pid.trim().is_empty())
}

/// Returns true once the turn's processes were seen, if it must have any. A turn that ends before the first look would
/// prove nothing.
fn is_seen(watch: &ProcessWatch, staged: &Staged<'_>) -> bool {
    let must_be = ProcessWatch::is_possible() && Feature::Process.is_declared(&staged.capabilities());
    !must_be || !watch.seen().is_empty()
}

/// Checks that no process of the turn is alive a second later, and that no model call follows.
async fn nothing_is_left(staged: &Staged<'_>, watch: &ProcessWatch) -> Verdict {
    nothing_is_left_since(staged.model_calls().len(), staged, watch).await
}

/// Like [`nothing_is_left`], for a turn that had made `asked` model calls when it was stopped.
async fn nothing_is_left_since(asked: usize, staged: &Staged<'_>, watch: &ProcessWatch) -> Verdict {
    if ProcessWatch::is_possible() {
        let seen = watch.seen().len();
        let has_process = Feature::Process.is_declared(&staged.capabilities());
        ensure(seen > 0 || !has_process, "the turn's processes can be seen", || "none was".into())?;
        let survivors = watch.survivors(AFTERWARDS).await;
        ensure(survivors.is_empty(), "no process is left", || format!("{survivors:#?}, {seen} were seen"))?;
    }
    // Give a retry of the backend the time to appear.
    tokio::time::sleep(Duration::from_millis(300)).await;
    same("the model is left alone", &staged.model_calls().len(), &asked)
}

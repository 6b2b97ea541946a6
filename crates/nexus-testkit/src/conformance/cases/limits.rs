//! Limits: each stops the turn as itself, and no healthy tool is taken for a silent model.

use std::time::Duration;

use nexus_core::{ErrorKind, IdleLimits, Limit, Limits, Phase, TextGranularity, ToolAccess, Usd};

use crate::{
    conformance::{
        finding::{Verdict, ensure, same_text, short},
        toolbelt::Toolbelt,
        trial::{Observed, Trial},
    },
    sim::{Fault, Reply, Scenario, Usage},
};

/// Allowance for starting and stopping beyond the limit itself, on a busy machine.
const SLACK: Duration = Duration::from_secs(45);

/// The prompt of a turn that does not end by itself.
const FOREVER: &str = "Go on for ever.";

pub(crate) async fn the_deadline_ends_a_turn(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::text("half").stalled()).await?;
    let short = trial.timing().short;
    let limits = Limits::new().with_deadline(short);
    let turn = staged.run(staged.request("Take your time.").with_limits(limits)).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::LimitReached(Limit::Deadline)])?;
    in_time(&turn, short)
}

pub(crate) async fn a_model_that_never_begins_starves_the_turn(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::fault(Fault::StallBeforeHeaders)).await?;
    let short = trial.timing().short;
    let mut idle = IdleLimits::none();
    idle.first_byte = Some(short);
    let turn = staged.run(staged.request("Hello?").with_limits(Limits::new().with_idle(idle))).await?;
    let error = turn.error()?;
    trial.expect_kind(error, &[ErrorKind::Starved(Phase::FirstByte)])?;
    ensure(error.retry().is_guessed(), "a stall is not for ever", || format!("{:?}", error.retry()))?;
    in_time(&turn, short * 2)
}

pub(crate) async fn a_model_that_falls_silent_starves_the_turn(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::text("Half of an ans").stalled()).await?;
    let short = trial.timing().short;
    let mut idle = IdleLimits::none();
    idle.first_byte = Some(short);
    idle.model = Some(short);
    let turn = staged.run(staged.request("Hello?").with_limits(Limits::new().with_idle(idle))).await?;
    let error = turn.error()?;
    let shows_pieces = staged.capabilities().text == TextGranularity::Deltas;
    if shows_pieces {
        trial.expect_kind(error, &[ErrorKind::Starved(Phase::Model)])?;
        same_text("what came is kept", &error.partial().text, "Half of an ans")?;
    } else {
        let kinds = [ErrorKind::Starved(Phase::Model), ErrorKind::Starved(Phase::FirstByte)];
        trial.expect_kind(error, &kinds)?;
    }
    ensure(error.retry().is_guessed(), "a stall is not for ever", || format!("{:?}", error.retry()))?;
    in_time(&turn, short * 2)
}

pub(crate) async fn a_slow_model_that_speaks_is_left_alone(trial: &Trial<'_>) -> Verdict {
    let answer = "Slow, but not silent.";
    let short = trial.timing().short;
    let staged = trial.stage(Reply::text(answer).paced(4, short / 4)).await?;
    let mut idle = IdleLimits::none();
    idle.model = Some(short);
    let turn = staged.run(staged.request("Take it easy.").with_limits(Limits::new().with_idle(idle))).await?;
    same_text("answer", &turn.result()?.text, answer)?;
    // Otherwise the limit could not have ended the turn, and the case would prove nothing.
    ensure(turn.took > short, "the answer was slow", || format!("{:?}, the limit was {short:?}", turn.took))
}

pub(crate) async fn a_long_silent_tool_is_left_alone(trial: &Trial<'_>) -> Verdict {
    let short = trial.timing().short;
    // Longer than the limit on a silent model, which must not run while a tool works.
    let nap = (short * 3 / 2).as_secs_f64();
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let call = belt.shell(format!("sleep {nap:.2}; echo woke-up"));
    let staged = trial.stage(Scenario::tool_then_text(call, "It slept well.")).await?;
    let mut idle = IdleLimits::none();
    idle.model = Some(short);
    idle.first_byte = Some(short * 3);
    let request = belt.work(&staged, "Sleep.").with_limits(Limits::new().with_idle(idle));
    let turn = belt.run_request(&staged, request).await?;
    same_text("answer", &turn.result()?.text, "It slept well.")
}

pub(crate) async fn tool_calls_are_limited(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let staged = trial.stage(endless(&belt, Usage::default())).await?;
    let request = belt.work(&staged, FOREVER).with_limits(Limits::new().with_tool_calls(2));
    let turn = belt.run_request(&staged, request).await?;
    let error = turn.error()?;
    trial.expect_kind(error, &[ErrorKind::LimitReached(Limit::ToolCalls)])?;
    let started = error.partial().tool_calls.len();
    // A program reports a call when it has begun, so one call above the limit may start.
    ensure(started <= 3, "no more calls than the limit", || format!("{started} of 2"))
}

pub(crate) async fn model_calls_are_limited(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let staged = trial.stage(endless(&belt, Usage::default())).await?;
    let request = belt.work(&staged, FOREVER).with_limits(Limits::new().with_model_calls(2));
    let turn = belt.run_request(&staged, request).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::LimitReached(Limit::ModelCalls)])?;
    let asked = staged.model_calls().len();
    // The call that passes the limit, and a call that already runs when the program reports it.
    ensure(asked <= 4, "no more calls than the limit", || format!("{asked} of 2"))
}

pub(crate) async fn output_tokens_are_limited(trial: &Trial<'_>) -> Verdict {
    let usage = Usage { output: 1_000, ..Usage::default() };
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let staged = trial.stage(endless(&belt, usage)).await?;
    let request = belt.work(&staged, FOREVER).with_limits(Limits::new().with_output_tokens(1_500));
    let turn = belt.run_request(&staged, request).await?;
    let error = turn.error()?;
    trial.expect_kind(error, &[ErrorKind::LimitReached(Limit::OutputTokens)])?;
    let used = error.partial().usage.all_output_tokens();
    ensure(used.is_some_and(|used| used >= 1_500), "usage so far", || short(&error.partial().usage))
}

pub(crate) async fn the_cost_is_limited(trial: &Trial<'_>) -> Verdict {
    // Both ways to a cost: tokens at a price list, and the vendor's own figure of 20 dollars.
    let usage = Usage { input: 20_000_000, cost_ticks: Some(200_000_000_000), ..Usage::default() };
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let staged = trial.stage(endless(&belt, usage)).await?;
    let request = belt.work(&staged, FOREVER).with_limits(Limits::new().with_cost(Usd(0.01)));
    let turn = belt.run_request(&staged, request).await?;
    let error = turn.error()?;
    trial.expect_kind(error, &[ErrorKind::LimitReached(Limit::Cost)])?;
    ensure(error.partial().cost.is_some(), "cost so far", || short(error.partial()))
}

/// A model that calls a tool for ever. No two calls are alike. The fourth answer takes a while, as a real model's does: some
/// programs report a model call only after its tools have ended, when the next call already runs.
fn endless(belt: &Toolbelt<'_>, usage: Usage) -> Scenario {
    let call = |count: u32| {
        let reply = Reply::call(belt.shell(format!("echo {count}"))).usage(usage);
        if count == 3 { reply.after(Duration::from_secs(3)) } else { reply }
    };
    Scenario::new((0..40).map(call)).then(Reply::text("That is enough."))
}

fn in_time(turn: &Observed, limit: Duration) -> Verdict {
    ensure(turn.took < limit + SLACK, "bounded time", || format!("{:?}, the limit was {limit:?}", turn.took))
}

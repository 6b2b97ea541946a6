//! Usage and cost: the backend returns the vendor's numbers, or none.

use nexus_core::{ToolAccess, TurnResult, Usage};

use crate::{
    conformance::{
        finding::{Verdict, ensure, same, short},
        trial::Trial,
    },
    sim::{Reply, Scenario, Usage as Counted},
};

/// Usage whose counts have distinct sums, so that a wrong sum is noticed.
const COUNTED: Counted =
    Counted { input: 1_003, cached: 200, cache_write: 0, output: 41, reasoning: 7, cost_ticks: None };

pub(crate) async fn usage_is_what_the_vendor_counted(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::text("Counted.").usage(COUNTED)).await?;
    let turn = staged.run(staged.request("Count.")).await?;
    is_counted(turn.result()?, 1)
}

pub(crate) async fn usage_adds_up_over_the_calls_of_a_turn(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let call = Reply::call(belt.shell("true")).usage(COUNTED);
    let staged = trial.stage(Scenario::new([call, Reply::text("Counted.").usage(COUNTED)])).await?;
    let turn = belt.run(&staged, "Count.").await?;
    is_counted(turn.result()?, 2)
}

pub(crate) async fn usage_that_is_not_reported_is_not_invented(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::text("Uncounted.").without_usage()).await?;
    let turn = staged.run(staged.request("Do not count.")).await?;
    let usage = turn.result()?.usage;
    let buckets = [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.reasoning_tokens];
    let invented = buckets.into_iter().flatten().any(|tokens| tokens > 0);
    ensure(!invented, "usage", || format!("nothing was reported, and this is stated: {}", short(&usage)))
}

pub(crate) async fn the_cost_is_stated(trial: &Trial<'_>) -> Verdict {
    let counted = Counted { cost_ticks: Some(12_345_678), ..COUNTED };
    let staged = trial.stage(Reply::text("Dear.").usage(counted)).await?;
    let turn = staged.run(staged.request("What does it cost?")).await?;
    let cost = turn.result()?.cost;
    ensure(cost.is_some_and(|cost| cost.usd.0 > 0.0), "cost", || short(&cost))
}

/// Checks the counts. Input is exact. Output may include the reasoning, since not every vendor separates them, or may lack
/// the part that the vendor's harness does not count.
fn is_counted(result: &TurnResult, calls: u64) -> Verdict {
    let Usage { input_tokens, cache_read_tokens, .. } = result.usage;
    let input = input_tokens.unwrap_or(0) + cache_read_tokens.unwrap_or(0);
    same("input tokens", &input, &(calls * (COUNTED.input + COUNTED.cached)))?;
    same("cached tokens", &cache_read_tokens, &Some(calls * COUNTED.cached))?;
    let output = result.usage.all_output_tokens();
    let (without, with) = (calls * COUNTED.output, calls * (COUNTED.output + COUNTED.reasoning));
    let is_told = output == Some(without) || output == Some(with);
    ensure(is_told, "output tokens", || format!("saw {output:?}, wanted {without} or {with}"))
}

//! Answers in a requested shape.

use nexus_core::{ErrorKind, OutputSchema, turn::InvalidSchema};
use serde_json::json;

use crate::{
    conformance::{
        finding::{Finding, Verdict, ensure, same, short},
        trial::Trial,
    },
    sim::{Reply, Scenario},
};

/// More model calls than any harness should need to find out that an answer will not come.
const TOO_MANY_CALLS: usize = 20;

pub(crate) async fn an_answer_in_shape_is_a_value(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::json(&json!({ "verdict": "approve" }))).await?;
    let turn = staged.run(staged.request("Judge it.").with_output(schema()?)).await?;
    same("value", &turn.result()?.output, &Some(json!({ "verdict": "approve" })))
}

pub(crate) async fn an_answer_out_of_shape_is_repaired(trial: &Trial<'_>) -> Verdict {
    let bad = Reply::json(&json!({ "verdict": "perhaps" }));
    let good = Reply::json(&json!({ "verdict": "reject" }));
    let staged = trial.stage(Scenario::new([bad, good])).await?;
    let turn = staged.run(staged.request("Judge it.").with_output(schema()?)).await?;
    let result = turn.result()?;
    same("value", &result.output, &Some(json!({ "verdict": "reject" })))?;
    ensure(!result.text.contains("perhaps"), "the bad answer is not in the result", || short(&result.text))?;
    let kept = result.messages.iter().any(|message| message.text.contains("perhaps"));
    ensure(!kept, "the bad answer is taken back", || short(&result.messages))
}

pub(crate) async fn an_answer_that_never_fits_is_given_up(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::json(&json!({ "verdict": "perhaps" }))).await?;
    let turn = staged.run(staged.request("Judge it.").with_output(schema()?.with_repairs(2))).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::OutputInvalid])?;
    let calls = staged.model_calls().len();
    ensure((1..=TOO_MANY_CALLS).contains(&calls), "repairs are bounded", || format!("{calls} model calls"))
}

/// A verdict.
pub(super) fn schema() -> Result<OutputSchema, Finding> {
    let schema = json!({
        "type": "object",
        "properties": { "verdict": { "type": "string", "enum": ["approve", "reject"] } },
        "required": ["verdict"],
        "additionalProperties": false,
    });
    OutputSchema::new(schema).map_err(|error: InvalidSchema| Finding::new("schema", error.to_string()))
}

//! The vote of a simulated reviewer.

use nexus_testbed::tool_answers::criteria_to_judge;
use serde_json::{Value, json};

use super::super::reply::ModelReply;

/// Returns a verdict. Without a concern, every criterion passes. `evidence` shows the concern or the pass.
pub(super) fn submit(brief: &str, evidence: Option<&str>, concern: Option<&str>) -> ModelReply {
    let evidence: Vec<&str> = evidence.into_iter().collect();
    let judgement = if concern.is_none() { "pass" } else { "fail" };
    let judged = |id: &str| json!({ "id": id, "judgement": judgement, "evidence": evidence });
    // A concern needs evidence. Without any, the failed criteria alone prevent the advance.
    let concerns: Vec<Value> = concern
        .iter()
        .filter(|_| !evidence.is_empty())
        .map(|text| json!({ "text": text, "evidence": evidence }))
        .collect();
    ModelReply::call(
        "submit_verdict",
        json!({
            "decision": if concern.is_none() { "advance" } else { "retry" },
            "criteria": criteria_to_judge(brief).into_iter().map(judged).collect::<Vec<_>>(),
            "blocking_concerns": concerns,
            "alignment": if concern.is_none() { 0.95 } else { 0.2 },
            "retry_hint": concern,
        }),
    )
}

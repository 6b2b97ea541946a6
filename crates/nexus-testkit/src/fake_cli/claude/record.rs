//! The `result` line, and what is counted for it.

use serde_json::{Value, json};

use super::{super::stage::Stage, Failure, session::Session};
use crate::sim::Usage;

/// US dollars per input token. Source: our own choice: close enough to the vendor's price list to be a plausible cost.
const USD_PER_INPUT: f64 = 3e-6;

/// Dollars for one token of output.
const USD_PER_OUTPUT: f64 = 15e-6;

/// Counts over the life of the process.
#[derive(Debug, Default)]
pub(super) struct Record {
    calls: u32,
    input: u64,
    cached: u64,
    cache_write: u64,
    output: u64,
    budget_usd: Option<f64>,
    denials: Vec<Value>,
}

impl Record {
    /// A turn begins.
    pub(super) fn begin(&mut self) {
        // Denials belong to one turn. The cost and `modelUsage` are sums over the process, as in the real program.
        self.denials.clear();
    }

    /// A model call was answered.
    pub(super) fn count(&mut self, usage: Option<&Usage>, budget_usd: Option<f64>) {
        self.calls += 1;
        self.budget_usd = budget_usd;
        let usage = usage.copied().unwrap_or(Usage {
            input: 0,
            cached: 0,
            cache_write: 0,
            output: 0,
            reasoning: 0,
            cost_ticks: None,
        });
        self.input += usage.input;
        self.cached += usage.cached;
        self.cache_write += usage.cache_write;
        self.output += usage.output + usage.reasoning;
    }

    /// A call was not let through.
    pub(super) fn deny(&mut self, id: &str, name: &str, input: &Value) {
        self.denials.push(json!({ "tool_name": name, "tool_use_id": id, "tool_input": input }));
    }

    /// Returns true if the calls so far exceed the cost limit.
    pub(super) fn is_over_budget(&self) -> bool {
        self.budget_usd.is_some_and(|budget| self.cost() > budget)
    }

    pub(super) fn answered(
        &self,
        session: &Session,
        text: &str,
        structured: Option<&Value>,
        stage: &mut Stage,
    ) {
        // With a schema, the real program repeats the value as the text of the result.
        let text = structured.map_or_else(|| text.to_owned(), Value::to_string);
        let mut line = self.line(session, "success", false);
        line["api_error_status"] = Value::Null;
        line["result"] = json!(text);
        line["stop_reason"] = json!("end_turn");
        line["terminal_reason"] = json!("completed");
        if let Some(structured) = structured {
            line["structured_output"] = structured.clone();
        }
        stage.line(&line);
    }

    pub(super) fn failed(&self, session: &Session, failure: &Failure, stage: &mut Stage) {
        let mut line = self.line(session, failure.subtype, true);
        line["api_error_status"] = json!(failure.status);
        line["result"] = json!(failure.sentence);
        line["stop_reason"] = json!(failure.stop_reason);
        line["terminal_reason"] = json!("completed");
        stage.line(&line);
    }

    pub(super) fn aborted(&self, session: &Session, was_in_tool: bool, stage: &mut Stage) {
        let mut line = self.line(session, "error_during_execution", true);
        line["stop_reason"] = Value::Null;
        line["terminal_reason"] = json!(if was_in_tool { "aborted_tools" } else { "aborted_streaming" });
        line["errors"] = json!(["[ede_diagnostic] result_type=user"]);
        stage.line(&line);
    }

    pub(super) fn over_budget(&self, session: &Session, stage: &mut Stage) {
        let mut line = self.line(session, "error_max_budget_usd", true);
        line["stop_reason"] = json!("tool_use");
        line["errors"] =
            json!([format!("Reached maximum budget (${})", self.budget_usd.unwrap_or_default())]);
        stage.line(&line);
    }

    pub(super) fn never_began(&self, session: &Session, sentence: &str, stage: &mut Stage) {
        let mut line = self.line(session, "error_during_execution", true);
        line["num_turns"] = json!(0);
        line["stop_reason"] = Value::Null;
        line["errors"] = json!([sentence]);
        stage.line(&line);
    }

    fn line(&self, session: &Session, subtype: &str, is_error: bool) -> Value {
        let usage = json!({ "claude-fake": {
            "inputTokens": self.input, "outputTokens": self.output, "cacheReadInputTokens": self.cached,
            "cacheCreationInputTokens": self.cache_write, "costUSD": self.cost(),
        }});
        json!({
            "type": "result", "subtype": subtype, "is_error": is_error, "num_turns": self.calls.max(1),
            "session_id": session.id(), "total_cost_usd": self.cost(),
            "modelUsage": if self.calls > 0 { usage } else { json!({}) },
            "permission_denials": self.denials, "uuid": format!("result-{}-{}", std::process::id(), self.calls),
        })
    }

    fn cost(&self) -> f64 {
        (self.input + self.cached + self.cache_write) as f64 * USD_PER_INPUT
            + self.output as f64 * USD_PER_OUTPUT
    }
}

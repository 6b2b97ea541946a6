//! What a recording must come to, for the vendors whose `expected.json` says it in these words.

use std::path::Path;

use nexus_core::{ToolCallRecord, TurnError, TurnResult, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::recordings;

/// One row. What a vendor's replay does not look at stays as it is by default, so a row that states it fails.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Row {
    /// The finish reason of a turn that ended well.
    pub(crate) ok: Option<String>,
    /// The kind of the error, and which one where it has several.
    pub(crate) error: Option<String>,
    /// The text of the answer or of the partial.
    pub(crate) text: String,
    /// How long the text is, in characters, if `text` is only its beginning.
    pub(crate) text_chars: Option<usize>,
    /// The calls in order, each with its end.
    pub(crate) tools: Vec<String>,
    /// Tokens.
    pub(crate) input: Option<u64>,
    /// Tokens.
    pub(crate) output: Option<u64>,
    /// The structured answer.
    pub(crate) output_value: Option<Value>,
    /// When to come back, in Unix seconds.
    pub(crate) resets_at: Option<u64>,
    /// How many retries were told of.
    pub(crate) retries: usize,
    /// How many messages were taken back.
    pub(crate) voided: usize,
    /// Why the recording is not one that the backend could meet.
    pub(crate) left_out: Option<String>,
}

impl Row {
    /// What any outcome has: its word, its text, its calls and its tokens.
    pub(crate) fn of(outcome: &Result<TurnResult, TurnError>) -> Self {
        match outcome {
            Ok(result) => Self {
                ok: Some(word(&result.finish)),
                text: result.text.clone(),
                ..Self::counted(&result.tool_calls, &result.usage)
            },
            Err(error) => Self {
                error: Some(word(error.kind())),
                text: error.partial().text.clone(),
                ..Self::counted(&error.partial().tool_calls, &error.partial().usage)
            },
        }
    }

    fn counted(calls: &[ToolCallRecord], usage: &Usage) -> Self {
        let tools = calls.iter().map(|call| format!("{} {}", call.name, word(call.status))).collect();
        Self { tools, input: usage.input_tokens, output: usage.all_output_tokens(), ..Self::default() }
    }

    /// Cuts the text as `expected` does.
    fn cut_like(mut self, expected: &Self) -> Self {
        if expected.text_chars.is_some() {
            self.text_chars = Some(self.text.chars().count());
            self.text = self.text.chars().take(expected.text.chars().count()).collect();
        }
        self
    }
}

/// Replays every recording of a folder, of which there are `at_least` so many, and compares each with its row.
pub(crate) async fn compare(folder: &Path, at_least: usize, replay: impl AsyncFn(&str, &Row) -> Row) {
    let rows = recordings::rows::<Row>(folder, at_least);
    let mut wrong = Vec::new();
    for (name, expected) in rows.iter().filter(|(_, row)| row.left_out.is_none()) {
        let seen = replay(name, expected).await.cut_like(expected);
        if seen != *expected {
            wrong.push(format!("{name}:\n  expected {expected:?}\n  seen     {seen:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// The name of a variant, and which one where it has several.
fn word(variant: impl Serialize) -> String {
    match serde_json::to_value(variant).unwrap() {
        Value::String(word) => word,
        Value::Object(pair) => {
            pair.into_iter().map(|(word, which)| format!("{word} {}", which.as_str().unwrap())).collect()
        }
        other => panic!("{other} is no variant"),
    }
}

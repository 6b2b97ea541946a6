//! The schema of an answer, with the same contract for every backend.
//!
//! A vendor that accepts a schema receives it; otherwise the model receives it as an instruction. In both cases Nexus checks the answer. An
//! answer that does not fit is returned to the model a limited number of times.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json_schema::SchemaChecker;
use crate::lenient_json::read_decision;
#[cfg(feature = "schema")]
use crate::tool::schema;

/// Maximum number of schema violations in one message to the model.
const MAX_VIOLATIONS: usize = 20;

/// A JSON Schema for the answer, checked when it is created.
///
/// Its constructors need the feature `schema`. Without that feature no answer can be checked. So no schema can be created, and a stored
/// request with a schema is rejected.
///
/// ```
/// use nexus_core::OutputSchema;
/// use serde_json::json;
///
/// let schema = OutputSchema::new(json!({
///     "type": "object",
///     "properties": { "moons": { "type": "integer" } },
///     "required": ["moons"],
/// }))?;
/// assert!(schema.read("{\"moons\": 146}").is_ok());
/// assert!(schema.read("{\"moons\": \"many\"}").is_err());
/// # Ok::<(), nexus_core::turn::InvalidSchema>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct OutputSchema {
    schema: Value,
    repairs: u32,
    checker: SchemaChecker,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    schema: Value,
    #[serde(default = "default_repairs")]
    repairs: u32,
}

fn default_repairs() -> u32 {
    OutputSchema::DEFAULT_REPAIRS
}

impl OutputSchema {
    /// Default number of repairs of an answer that does not fit.
    pub const DEFAULT_REPAIRS: u32 = 2;

    /// Checks `schema` and stores it. References to other documents are not followed. Needs the feature `schema`.
    ///
    /// # Errors
    ///
    /// [`InvalidSchema`] if `schema` is not a JSON Schema.
    #[cfg(feature = "schema")]
    pub fn new(schema: Value) -> Result<Self, InvalidSchema> {
        let checker = SchemaChecker::new(&schema).map_err(|problem| InvalidSchema { problem })?;
        Ok(Self { schema, repairs: Self::DEFAULT_REPAIRS, checker })
    }

    /// Derives the schema of a type with [`schemars`](crate::schemars). [`TurnResult::output_as`](crate::TurnResult) reads the answer back.
    /// Needs the feature `schema`.
    ///
    /// # Errors
    ///
    /// [`InvalidSchema`] if the implementation of `T` returns an invalid schema. A derived implementation never does.
    #[cfg(feature = "schema")]
    pub fn of<T: JsonSchema>() -> Result<Self, InvalidSchema> {
        Self::new(schema::of::<T>())
    }

    /// Sets how often an answer that does not fit is returned to the model.
    #[must_use]
    pub fn with_repairs(mut self, repairs: u32) -> Self {
        self.repairs = repairs;
        self
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns the maximum number of repairs of an answer that does not fit.
    pub fn repairs(&self) -> u32 {
        self.repairs
    }

    /// Reads an answer: one JSON value that fits the schema, alone or as the only fenced block of the text. Skips thinking before it, which
    /// some servers leave in the text.
    ///
    /// # Errors
    ///
    /// [`OutputProblem`], which names the fault for the model.
    pub fn read(&self, answer: &str) -> Result<Value, OutputProblem> {
        let read = |answer: &str| {
            let trimmed = answer.trim();
            read_decision(trimmed).or_else(|error| match fenced_block(trimmed) {
                Some(block) => read_decision(block),
                None => Err(error),
            })
        };
        // Read the whole text first, because an answer may quote an end mark of thinking.
        let value = read(answer)
            .or_else(|error| after_thinking(answer).find_map(|answer| read(answer).ok()).ok_or(error));
        let value = value.map_err(|error| OutputProblem::NotJson { reason: error.to_string() })?;
        self.check(&value)?;
        Ok(value)
    }

    /// Checks a value against the schema.
    ///
    /// # Errors
    ///
    /// [`OutputProblem::Violations`], with at most twenty violations.
    pub fn check(&self, value: &Value) -> Result<(), OutputProblem> {
        let found = self.checker.violations(value, MAX_VIOLATIONS).into_iter();
        let describe = |(place, problem): (String, _)| {
            if place.is_empty() { problem } else { format!("at {place}: {problem}") }
        };
        let violations: Vec<_> = found.map(describe).collect();
        if violations.is_empty() { Ok(()) } else { Err(OutputProblem::Violations(violations)) }
    }

    /// Returns the instruction for the model, if the vendor does not accept a schema.
    pub fn instruction(&self) -> String {
        format!(
            "Your final answer must be one JSON value that satisfies this JSON Schema, \
             with no other text before or after it:\n{}",
            self.schema
        )
    }

    /// Returns the instruction for the model after an answer that did not fit.
    pub fn repair_instruction(&self, problem: &OutputProblem) -> String {
        format!("Your last answer cannot be used: {problem}.\n{}", self.instruction())
    }
}

/// End marks of thinking that some servers leave in the text. The start mark may be missing, because some chat templates put it into the
/// prompt. Source: the reasoning parsers of vLLM.
const THINKING_ENDS: [&str; 4] = ["</think>", "</thinking>", "</seed:think>", "[/THINK]"];

/// Returns the text after the thinking: after the first end mark, and after the last one, because the thinking may quote an end mark.
fn after_thinking(text: &str) -> impl Iterator<Item = &str> {
    let ends = THINKING_ENDS.into_iter().filter_map(move |end| {
        let first = text.split_once(end)?.1;
        Some([first, text.rsplit_once(end)?.1])
    });
    ends.flatten()
}

/// Returns the content of the only fenced block in `text`.
fn fenced_block(text: &str) -> Option<&str> {
    let mut parts = text.split("```");
    let (_, block, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let (language, body) = block.split_once('\n')?;
    language.trim().chars().all(char::is_alphanumeric).then_some(body)
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputSchema").field("schema", &self.schema).field("repairs", &self.repairs).finish()
    }
}

impl PartialEq for OutputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema && self.repairs == other.repairs
    }
}

#[cfg(feature = "schema")]
impl TryFrom<Written> for OutputSchema {
    type Error = InvalidSchema;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        Ok(Self::new(written.schema)?.with_repairs(written.repairs))
    }
}

/// Rejects a stored schema without the feature `schema`, so that no answer is accepted unchecked.
#[cfg(not(feature = "schema"))]
impl TryFrom<Written> for OutputSchema {
    type Error = &'static str;

    fn try_from(_written: Written) -> Result<Self, Self::Error> {
        Err("an answer cannot be checked against an output schema: nexus-core is built without its feature \
            `schema`")
    }
}

impl From<OutputSchema> for Written {
    fn from(schema: OutputSchema) -> Self {
        Self { schema: schema.schema, repairs: schema.repairs }
    }
}

/// The given value is not a JSON Schema.
#[cfg(feature = "schema")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON Schema: {problem}")]
pub struct InvalidSchema {
    problem: String,
}

/// Reason why an answer cannot be used.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputProblem {
    /// The answer contains no JSON value.
    NotJson {
        /// Message of the JSON parser.
        reason: String,
    },
    /// The value does not fit the schema.
    Violations(Vec<String>),
}

impl fmt::Display for OutputProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { reason } => write!(f, "it is not one JSON value ({reason})"),
            Self::Violations(list) => write!(f, "it does not fit the schema ({})", list.join("; ")),
        }
    }
}

impl std::error::Error for OutputProblem {}

#[cfg(all(test, feature = "schema"))]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> OutputSchema {
        let schema =
            json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        OutputSchema::new(schema).unwrap()
    }

    #[test]
    fn a_fenced_answer_is_an_answer() {
        assert_eq!(schema().read("```json\n{\"n\": 1}\n```").unwrap(), json!({ "n": 1 }));
        assert_eq!(schema().read("Here it is:\n```\n{\"n\": 1}\n```\n").unwrap(), json!({ "n": 1 }));
    }

    /// A server without a reader of thoughts leaves them in the text; a template may have written the opening tag.
    #[test]
    fn thinking_before_an_answer_is_no_part_of_it() {
        for answer in [
            "<think>\nThe n is {1}.\n</think>\n\n{\"n\": 1}",
            "The n is 1.\n</think>\n{\"n\": 1}",
            "<think></think>\n```json\n{\"n\": 1}\n```",
            "<think>`</think>` ends it</think>{\"n\": 1}",
            "<thinking>so</thinking> {\"n\": 1}",
            "<seed:think>so</seed:think>{\"n\": 1}",
            "[THINK]so[/THINK]{\"n\": 1}",
        ] {
            assert_eq!(schema().read(answer), Ok(json!({ "n": 1 })), "{answer}");
        }
        // The words of an answer are its own.
        let text = OutputSchema::new(json!({ "type": "object" })).unwrap();
        let quoted = json!({ "text": "<think>a</think> b" });
        assert_eq!(text.read(&format!("<think>so</think>{quoted}")), Ok(quoted.clone()));
        assert_eq!(text.read(&quoted.to_string()), Ok(quoted));
        assert!(schema().read("<think>{\"n\": 1}").is_err(), "a thought is not an answer");
        assert!(schema().read("<think>so</think> The n is 1.").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_thinking_before_any_answer_leaves_the_answer(
            thought in "[a-z{}\\[\\]\":,<>/ \n]{0,40}",
            text in "[a-z<>/{} ]{0,20}",
            tag in 0_usize..4,
            is_opened in proptest::bool::ANY,
        ) {
            let (open, close) = [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]")][tag];
            let schema = OutputSchema::new(json!({ "type": "object", "required": ["text"] })).unwrap();
            let value = json!({ "text": text });
            let open = if is_opened { open } else { "" };
            let answer = format!("{open}{thought}{close}\n{value}");
            proptest::prop_assert_eq!(schema.read(&answer), Ok(value));
        }
    }

    #[test]
    fn two_blocks_are_not_one_answer() {
        assert!(schema().read("```\n{\"n\": 1}\n```\n```\n{\"n\": 2}\n```").is_err());
    }

    #[test]
    fn an_answer_that_cannot_be_relied_on_is_none() {
        for answer in ["{\"n\": 1, \"n\": 2}", "{\"n\": NaN}", "{\"n\": 1, \"m\": \"\\ud83d\"}"] {
            assert!(matches!(schema().read(answer), Err(OutputProblem::NotJson { .. })), "{answer}");
        }
    }

    #[test]
    fn a_violation_names_its_place() {
        let problem = schema().read("{\"n\": \"x\"}").unwrap_err();
        assert!(problem.to_string().contains("/n"), "{problem}");
    }

    #[test]
    fn a_broken_schema_is_refused_when_it_is_made() {
        assert!(OutputSchema::new(json!({ "type": "nonsense" })).is_err());
        assert!(serde_json::from_value::<OutputSchema>(json!({ "schema": { "type": 3 } })).is_err());
    }

    #[test]
    fn a_reference_to_another_document_is_not_followed() {
        assert!(OutputSchema::new(json!({ "$ref": "http://127.0.0.1:1/schema.json" })).is_err());
    }
}

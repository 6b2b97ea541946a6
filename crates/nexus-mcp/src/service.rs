//! A service: a set of tools, with the code that answers their calls.

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

use super::context::CallContext;

/// A JSON object.
pub type JsonObject = serde_json::Map<String, Value>;

/// Largest text, and largest structured content, of one answer in bytes: [`nexus_core::MAX_ANSWER_BYTES`] less 100. Source: one
/// client shows its model the text, a line break and the structured content, and cuts them after 20,000 bytes.
pub const MAX_ANSWER_BYTES: usize = nexus_core::MAX_ANSWER_BYTES - 100;

/// A set of tools that answers their calls.
#[async_trait]
pub trait ToolService: Send + Sync + 'static {
    /// Returns the server's name and instructions. The server calls it once, before it serves a request. It must not wait.
    fn info(&self) -> ServiceInfo;

    /// Returns the tools, in the order in which clients list them. The server calls it once, like [`ToolService::info`].
    fn tools(&self) -> Vec<ServedTool>;

    /// Answers one call. `name` is the name of a tool of [`ToolService::tools`]; `arguments` are as the model wrote them.
    ///
    /// The call runs to its end even if its client leaves; [`CallContext::cancelled`] then reports that the client no longer awaits
    /// the answer. The call is dropped only while it awaits [`CallContext::roots`]. A panic is answered as an error.
    async fn call(&self, name: &str, arguments: JsonObject, context: CallContext) -> CallAnswer;

    /// Ends the work that the calls began. The server calls it once at its end, and waits for a limited time.
    async fn stop(&self);
}

/// A server's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceInfo {
    /// Name, for programs: `nexus-spawn`.
    pub name: String,
    /// Version.
    pub version: String,
    /// Instructions for the model. Every known client shows at least the first 250 characters.
    pub instructions: String,
}

impl ServiceInfo {
    /// Creates a server's description of itself.
    pub fn new(name: impl Into<String>, version: impl Into<String>, instructions: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), instructions: instructions.into() }
    }
}

/// Effects of a tool's calls, in the categories that clients distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolKind {
    /// Only reads or waits. Some clients run no other tool without asking the user.
    ReadOnly,
    /// Adds something with each call.
    Adds,
    /// Adds or replaces something. Repeating the call changes nothing more.
    AddsOnce,
    /// Ends or removes something. Repeating the call changes nothing more.
    RemovesOnce,
}

/// A tool, as clients list it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServedTool {
    /// Name by which models call the tool.
    pub name: String,
    /// Name for people.
    pub title: Option<String>,
    /// Purpose of the tool, and when to call it, for the model. All known clients show up to 2,048 characters uncut.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub input_schema: Value,
    /// JSON Schema of the structured content, an object.
    pub output_schema: Option<Value>,
    /// Effects of a call.
    pub kind: ToolKind,
    /// True if a call may take long. A client with the tasks extension then gets a protocol task.
    pub may_take_long: bool,
}

impl ServedTool {
    /// Creates a tool without title and output schema, of the kind [`ToolKind::Adds`], that answers soon.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: description.into(),
            input_schema,
            output_schema: None,
            kind: ToolKind::Adds,
            may_take_long: false,
        }
    }

    /// Sets the name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the schema of the structured content.
    #[must_use]
    pub fn with_output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Sets the effects of a call.
    #[must_use]
    pub fn with_kind(mut self, kind: ToolKind) -> Self {
        self.kind = kind;
        self
    }

    /// Declares that a call may take long.
    #[must_use]
    pub fn long(mut self) -> Self {
        self.may_take_long = true;
        self
    }
}

/// Answer to a call.
///
/// Some clients show their model only the text and some only the structured content, so each must be complete.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallAnswer {
    /// Structured content for programs, an object. Errors have none.
    pub structured: Option<Value>,
    /// Text for the model.
    pub text: String,
    /// True if the call failed. The text then has advice.
    pub is_error: bool,
}

impl CallAnswer {
    /// Creates a successful answer whose text is the JSON of `value`.
    pub fn structured(value: Value) -> Self {
        let text = value.to_string();
        Self { structured: Some(value), text, is_error: false }
    }

    /// Creates a successful answer from a value that serializes to a JSON object. Any other value, such as a map whose keys are not
    /// strings, becomes an error.
    pub fn of(value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => Self::structured(value),
            Err(error) => Self::error(format!("the answer cannot be written as JSON: {error}")),
        }
    }

    /// Creates a successful answer with a separate text, which must say the same as the JSON.
    pub fn with_text(value: Value, text: impl Into<String>) -> Self {
        Self { structured: Some(value), text: text.into(), is_error: false }
    }

    /// Creates a failed answer with the fault and the advice for the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self { structured: None, text: text.into(), is_error: true }
    }

    /// Limits the answer to [`MAX_ANSWER_BYTES`]. A larger answer becomes an error with advice on how to get less. A larger error
    /// text is cut, with a note.
    pub(crate) fn bounded(mut self, tool: &str) -> Self {
        let structured_bytes = self.structured.as_ref().map_or(0, |structured| structured.to_string().len());
        if self.is_error {
            cut(&mut self.text);
            return self;
        }
        let bytes = structured_bytes.max(self.text.len());
        if bytes <= MAX_ANSWER_BYTES {
            return self;
        }
        tracing::error!(tool, bytes, "an answer is larger than the limit of the clients");
        Self::error(format!(
            "the answer of {tool} has {bytes} bytes, more than the {MAX_ANSWER_BYTES} that clients accept. \
             The call itself succeeded. Request less: a smaller `limit` or `length`, or the next page with \
             `offset`, if the tool has them."
        ))
    }
}

/// Cuts a text at [`MAX_ANSWER_BYTES`], and adds a note.
fn cut(text: &mut String) {
    const MARK: &str = " [cut here: the message was longer]";
    if text.len() <= MAX_ANSWER_BYTES {
        return;
    }
    text.truncate(text.floor_char_boundary(MAX_ANSWER_BYTES - MARK.len()));
    text.push_str(MARK);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_within_the_bound_is_passed_as_it_is() {
        let answer = CallAnswer::structured(json!({ "text": "x".repeat(MAX_ANSWER_BYTES - 11) }));
        assert_eq!(answer.text.len(), MAX_ANSWER_BYTES);
        assert_eq!(answer.clone().bounded("read"), answer);
    }

    #[test]
    fn an_answer_above_the_bound_says_how_to_page() {
        let answer =
            CallAnswer::structured(json!({ "text": "x".repeat(MAX_ANSWER_BYTES - 10) })).bounded("read");
        assert!(answer.is_error && answer.structured.is_none());
        assert!(answer.text.contains("read") && answer.text.contains("`offset`"), "{}", answer.text);
    }

    #[test]
    fn a_long_error_is_cut_between_characters_and_says_so() {
        let answer = CallAnswer::error("ü".repeat(MAX_ANSWER_BYTES)).bounded("read");
        assert!(answer.text.len() <= MAX_ANSWER_BYTES && answer.text.ends_with("was longer]"));
    }
}

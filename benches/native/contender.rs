//! What is measured: a client of the Responses API.

use std::future::Future;
use std::pin::Pin;

/// What a client is doing, until it is done.
pub(crate) type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One client, bound to one base URL. It keeps its connections from one request to the next.
pub(crate) trait Contender: Send + Sync {
    /// Asks once and reads the answer to its end; shows each piece of text.
    fn stream<'a>(&'a self, on_delta: &'a mut (dyn FnMut(&str) + Send)) -> Work<'a>;

    /// Asks, answers the tool calls, and asks again, until the answer has no call. Counts the calls.
    fn tool_loop<'a>(&'a self, calls: &'a mut usize) -> Work<'a>;
}

/// A client that takes part.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// Its name in the tables.
    pub(crate) name: &'static str,
    /// Makes one for a base URL that ends in `/v1`.
    pub(crate) make: fn(&str) -> Box<dyn Contender>,
}

/// What every client asks.
pub(crate) const PROMPT: &str = "Read the parts of the program and say what each of them is for.";

/// What every client is told beforehand.
pub(crate) const INSTRUCTIONS: &str = "You are a careful reader of programs. Use the tool for each part.";

/// The model that every client names.
pub(crate) const MODEL: &str = "bench-1";

/// The tool's name.
pub(crate) const TOOL: &str = "lookup";

/// The tool's description.
pub(crate) const TOOL_DESCRIPTION: &str = "Returns the beginning of a file.";

/// The JSON Schema of the tool's arguments.
pub(crate) fn tool_schema() -> serde_json::Value {
    serde_json::json!({
        "type": "object",
        "properties": { "path": { "type": "string", "description": "Relative to the folder of the program." } },
        "required": ["path"],
        "additionalProperties": false,
    })
}

/// What the tool answers to its arguments.
pub(crate) fn tool_answer(path: &str) -> String {
    format!(
        "//! {path}: reads a stream of events, one at a time, and hands each of them on as soon as it is whole."
    )
}

/// The path in the tool's arguments, where a client leaves them as text.
pub(crate) fn path_of(arguments: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Arguments {
        path: String,
    }
    serde_json::from_str::<Arguments>(arguments).expect("arguments").path
}

//! Combines tools made from closures into a [`ToolRouter`].

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use serde_json::Value;

use super::{Tool, ToolCall, ToolDefinition, ToolResult, ToolRouter, reach, schema, typed::CheckedTool};
use crate::scope::Denial;

/// Longest name of a tool, in characters. Source: the limit of every vendor's function calling.
const MAX_NAME: usize = 64;

/// The caller's tools, created from async closures.
///
/// ```
/// use std::sync::Arc;
///
/// use nexus_core::{Tool, Toolbox, TurnHost};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     /// The first number.
///     a: i64,
///     /// The second number.
///     b: i64,
/// }
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Submit {
///     answer: String,
/// }
///
/// let tools = Toolbox::new()
///     .with(Tool::new("add", "Adds two whole numbers.", |Add { a, b }| async move {
///         a.checked_add(b).ok_or("the sum is too large")
///     }).read_only())
///     .with(Tool::new("submit", "Hands in the answer.", |Submit { answer }| async move {
///         println!("{answer}");
///     }).terminal());
/// assert!(tools.quarantined().is_empty());
/// let host = TurnHost::new().with_tools(Arc::new(tools));
/// # let _ = host;
/// ```
///
/// A faulty tool does not affect the others. The toolbox leaves out these tools, and [`Toolbox::quarantined`] lists them with the reasons:
///
/// - a tool whose name is taken, or is not made of 1 to 64 letters, digits, `_` and `-`;
/// - a tool whose schema does not describe an object, because a vendor would reject the whole request;
/// - a tool whose hand-written schema is not a JSON Schema;
/// - a tool with a path argument whose pointer is not a JSON Pointer, or has no target in the schema and would protect nothing.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<CheckedTool>,
    places: HashMap<String, usize>,
    quarantined: Vec<Quarantined>,
    /// The definitions, once a session has asked for them.
    shared: OnceLock<Arc<[ToolDefinition]>>,
}

impl Toolbox {
    /// Creates an empty toolbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool, or puts it into [quarantine](Self::quarantined). Tools are offered in the order in which
    /// they were added.
    #[must_use]
    pub fn with(mut self, tool: Tool) -> Self {
        let name = tool.definition().name.clone();
        match self.admitted(tool) {
            Ok(tool) => {
                self.places.insert(name, self.tools.len());
                self.tools.push(tool);
                // Drop the shared definitions, because they lack the new tool.
                self.shared.take();
            }
            Err(reason) => self.quarantined.push(Quarantined { name, reason }),
        }
        self
    }

    /// Returns the tools that were left out, with the reasons.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    fn admitted(&self, tool: Tool) -> Result<CheckedTool, QuarantineReason> {
        let name = &tool.definition().name;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(fits) {
            return Err(QuarantineReason::NameNotAllowed);
        }
        if self.places.contains_key(name) {
            return Err(QuarantineReason::NameTaken);
        }
        if let Some(path) = tool.definition().paths.iter().find(|path| !path.pointer.starts_with('/')) {
            return Err(QuarantineReason::NotAPointer { pointer: path.pointer.clone() });
        }
        let tool = tool.prepared().map_err(|unfit| match unfit {
            schema::Unfit::NotASchema(problem) => QuarantineReason::NotASchema { problem },
            schema::Unfit::NotAnObject => QuarantineReason::NotAnObjectSchema,
        })?;
        let ToolDefinition { input_schema, paths, .. } = tool.definition();
        match paths.iter().find(|path| !reach::leads_somewhere(input_schema, &path.pointer)) {
            Some(path) => Err(QuarantineReason::NoSuchArgument { pointer: path.pointer.clone() }),
            None => Ok(tool),
        }
    }

    fn find(&self, name: &str) -> Option<&CheckedTool> {
        self.places.get(name).and_then(|place| self.tools.get(*place))
    }
}

#[async_trait]
impl ToolRouter for Toolbox {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    fn shared_definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::clone(self.shared.get_or_init(|| self.definitions().into()))
    }

    fn check_arguments(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        self.find(tool).map_or(Ok(()), |tool| tool.check(arguments))
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        match self.find(&call.name) {
            Some(tool) => tool.call(call.arguments).await,
            None => {
                let known = self.tools.iter().map(|tool| tool.definition().name.as_str());
                ToolResult::error(Denial::unknown(&call.name, known).to_string())
            }
        }
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.tools.iter().map(|tool| &tool.definition().name).collect();
        f.debug_struct("Toolbox").field("tools", &names).field("quarantined", &self.quarantined).finish()
    }
}

/// A tool that a [`Toolbox`] left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The tool's name, as it was given.
    pub name: String,
    /// Reason why the tool cannot be offered.
    pub reason: QuarantineReason,
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tool {:?} is left out: {}", self.name, self.reason)
    }
}

/// Reason why a tool cannot be offered.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuarantineReason {
    /// An earlier tool has the name.
    NameTaken,
    /// The name is not made of 1 to 64 ASCII letters, digits, `_` and `-`.
    NameNotAllowed,
    /// The schema of the arguments is not a JSON Schema.
    NotASchema {
        /// Its fault, with its position.
        problem: String,
    },
    /// No object fits the schema of the arguments, but arguments are always an object.
    NotAnObjectSchema,
    /// The pointer to a path is not a JSON Pointer to an argument.
    NotAPointer {
        /// The pointer.
        pointer: String,
    },
    /// The schema has no argument at the pointer, so the path would never be checked.
    NoSuchArgument {
        /// The pointer.
        pointer: String,
    },
}

impl fmt::Display for QuarantineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken => f.write_str("an earlier tool has its name"),
            Self::NameNotAllowed => {
                write!(f, "its name must be 1 to {MAX_NAME} letters, digits, `_` and `-`")
            }
            Self::NotASchema { problem } => write!(f, "its schema is not a JSON Schema: {problem}"),
            Self::NotAnObjectSchema => f.write_str("its schema does not describe an object"),
            Self::NotAPointer { pointer } => write!(f, "{pointer:?} is not a JSON Pointer to an argument"),
            Self::NoSuchArgument { pointer } => {
                write!(
                    f,
                    "{pointer:?} does not match an argument of its schema; write the pointer of the \
                    path argument"
                )
            }
        }
    }
}

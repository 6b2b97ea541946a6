//! Tools made from closures, gathered into a [`ToolRouter`].

use std::{collections::HashMap, fmt};

use async_trait::async_trait;

use super::{
    Tool, ToolCall, ToolDefinition, ToolResult, ToolRouter, arguments::shortened, schema, typed::Prepared,
};

/// Longest name of a tool, in characters. Source: what every vendor's function calling takes.
const MAX_NAME: usize = 64;

/// How many names an answer to an unknown one lists.
const MAX_LISTED: usize = 20;

/// The caller's tools, made from async closures.
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
/// One bad tool does not spoil the rest. A tool whose name is taken or is not made of 1 to 64 letters, digits,
/// `_` and `-`, or whose schema is no JSON Schema of an object, is left out: a vendor would refuse the whole
/// request for its sake. [`Toolbox::quarantined`] lists what was left out, and why.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Prepared>,
    places: HashMap<String, usize>,
    quarantined: Vec<Quarantined>,
}

impl Toolbox {
    /// An empty one.
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
            }
            Err(reason) => self.quarantined.push(Quarantined { name, reason }),
        }
        self
    }

    /// The tools that were left out.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    fn admitted(&self, tool: Tool) -> Result<Prepared, QuarantineReason> {
        let name = &tool.definition().name;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(fits) {
            return Err(QuarantineReason::NameNotAllowed);
        }
        if self.places.contains_key(name) {
            return Err(QuarantineReason::NameTaken);
        }
        tool.prepared().map_err(|unfit| match unfit {
            schema::Unfit::NotASchema(problem) => QuarantineReason::NotASchema { problem },
            schema::Unfit::NotAnObject => QuarantineReason::NotAnObjectSchema,
        })
    }

    /// What a model is told that called for a tool which is not here.
    fn unknown(&self, name: &str) -> ToolResult {
        let name = shortened(name, 2 * MAX_NAME);
        if self.tools.is_empty() {
            return ToolResult::error(format!("there is no tool named {name:?}, nor any other"));
        }
        let known = || self.tools.iter().map(|tool| tool.definition().name.as_str());
        let mut near: Vec<_> = known()
            .map(|known| (strsim::jaro_winkler(&name, known), known))
            .filter(|(nearness, _)| *nearness > 0.8)
            .collect();
        near.sort_by(|left, right| right.0.total_cmp(&left.0));
        let mut text = format!("there is no tool named {name:?}");
        if let Some((_, nearest)) = near.first() {
            text.push_str(&format!("; perhaps {nearest:?} was meant"));
        }
        let listed: Vec<_> = known().take(MAX_LISTED).collect();
        let rest = self.tools.len() - listed.len();
        text.push_str(&format!(". The tools are: {}", listed.join(", ")));
        if rest > 0 {
            text.push_str(&format!(", and {rest} more"));
        }
        ToolResult::error(text)
    }
}

#[async_trait]
impl ToolRouter for Toolbox {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        match self.places.get(&call.name).and_then(|place| self.tools.get(*place)) {
            Some(tool) => tool.call(call.arguments).await,
            None => self.unknown(&call.name),
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
    /// Why it cannot be offered.
    pub reason: QuarantineReason,
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tool {:?} is left out: {}", self.name, self.reason)
    }
}

/// Why a tool cannot be offered.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuarantineReason {
    /// An earlier tool has the name.
    NameTaken,
    /// The name is not made of 1 to 64 ASCII letters, digits, `_` and `-`.
    NameNotAllowed,
    /// What should describe the arguments is no JSON Schema.
    NotASchema {
        /// What is wrong with it, and where.
        problem: String,
    },
    /// No object fits the schema of the arguments, and arguments are always an object.
    NotAnObjectSchema,
}

impl fmt::Display for QuarantineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken => f.write_str("an earlier tool has its name"),
            Self::NameNotAllowed => {
                write!(f, "its name is not made of 1 to {MAX_NAME} letters, digits, `_` and `-`")
            }
            Self::NotASchema { problem } => write!(f, "its schema is not a JSON Schema: {problem}"),
            Self::NotAnObjectSchema => f.write_str("its schema is not that of an object"),
        }
    }
}

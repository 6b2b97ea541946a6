//! A tool made from an async closure.

use std::{fmt, future::Future, panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{IntoToolResult, ToolDefinition, ToolResult, arguments, reach, schema};
use crate::{
    json_schema::SchemaChecker,
    scope::{Denial, PathAccess},
    turn::Effects,
};

/// Parses the arguments and returns the future of the call. `Err` is the fault of the arguments, for the model.
type Handler = Arc<dyn Fn(Value) -> Result<BoxFuture<'static, ToolResult>, String> + Send + Sync>;

/// Parses the arguments, to check them only.
type Reader = fn(&Value) -> Result<(), String>;

/// One tool: its definition for the model, and the closure that answers a call.
///
/// The closure takes one value, which is deserialised from the model's arguments and whose schema the model sees. Unknown keys are treated as the
/// type's own `Deserialize` treats them, except for keys next to a path ([`Tool::reading`]). The closure returns any [`IntoToolResult`]. It may be
/// called several times at once; put state that its calls share into an [`Arc`].
///
/// ```
/// use std::sync::Arc;
///
/// use nexus_core::{Tool, ToolFault};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Divide {
///     /// What is divided.
///     dividend: i64,
///     /// By what. Not zero.
///     divisor: i64,
/// }
///
/// let divide = Tool::new("divide", "Divides two whole numbers.", |numbers: Divide| async move {
///     numbers.dividend.checked_div(numbers.divisor).ok_or("the result is no number")
/// })
/// .read_only();
///
/// let books = Arc::new(vec!["Emma", "Persuasion"]);
/// let books = Tool::without_arguments("books", "Lists the books.", move || {
///     let books = Arc::clone(&books);
///     async move { books.join(", ") }
/// });
/// assert_eq!(divide.definition().input_schema["required"], serde_json::json!(["dividend", "divisor"]));
/// # let _ = books;
/// ```
///
/// # Errors and panics
///
/// Malformed arguments are answered with the fault, its position, and the schema if it is short; the closure is not called, and behind a
/// [`Session`](crate::Session) the call is denied. The model sees constraints that exist only in the schema, such as
/// `#[schemars(range(max = 9))]`, but the closure has to enforce them.
///
/// A panic in the closure or its future is answered with an error that only names the panic. Its message is for the author, may quote any data of
/// the tool, and has been printed by the panic hook; the model cannot use it. If panics abort, they abort.
#[derive(Clone)]
pub struct Tool {
    definition: ToolDefinition,
    handler: Handler,
    reader: Reader,
    /// Checks the arguments against a hand-written schema, or is the reason why the schema is invalid. `None` if the schema is derived from
    /// the type that parses the arguments.
    checker: Option<Result<SchemaChecker, String>>,
}

impl Tool {
    /// Creates a tool whose arguments are an `A`. Its effects are [`Effects::Unknown`] until the caller sets them.
    ///
    /// This function checks nothing. A [`Toolbox`](super::Toolbox) leaves out an invalid tool and reports the reason.
    pub fn new<A, H, F>(name: impl Into<String>, description: impl Into<String>, handler: H) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        H: Fn(A) -> F + Send + Sync + 'static,
        F: Future<Output: IntoToolResult> + Send + 'static,
    {
        let definition = ToolDefinition::new(name, description, schema::of::<A>());
        let handler = move |value| arguments::read(&value).map(|read| finish(handler(read)));
        let reader = |value: &_| arguments::read::<A>(value).map(drop);
        Self { definition, handler: Arc::new(handler), reader, checker: None }
    }

    /// Creates a tool without arguments. Any object that the model writes as arguments is ignored.
    pub fn without_arguments<H, F>(
        name: impl Into<String>,
        description: impl Into<String>,
        handler: H,
    ) -> Self
    where
        H: Fn() -> F + Send + Sync + 'static,
        F: Future<Output: IntoToolResult> + Send + 'static,
    {
        let definition = ToolDefinition::new(name, description, schema::of_nothing());
        let handler = move |_| Ok(finish(handler()));
        Self { definition, handler: Arc::new(handler), reader: |_| Ok(()), checker: None }
    }

    /// Creates a tool with a hand-written schema. Checks the arguments against the schema, then passes them on unchanged. Needs the feature
    /// `schema`.
    ///
    /// ```
    /// use nexus_core::{Json, Tool};
    /// use serde_json::{Value, json};
    ///
    /// let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    /// let echo = Tool::with_schema("echo", "Says it again.", schema, |arguments: Value| async move {
    ///     Json(arguments)
    /// });
    /// # let _ = echo;
    /// ```
    #[cfg(feature = "schema")]
    pub fn with_schema<H, F>(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: Value,
        handler: H,
    ) -> Self
    where
        H: Fn(Value) -> F + Send + Sync + 'static,
        F: Future<Output: IntoToolResult> + Send + 'static,
    {
        let checker = SchemaChecker::new(&schema);
        let definition = ToolDefinition::new(name, description, schema);
        let handler = move |value| Ok(finish(handler(value)));
        Self { definition, handler: Arc::new(handler), reader: |_| Ok(()), checker: Some(checker) }
    }

    /// Declares that a call only reads.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.with_effects(Effects::Read)
    }

    /// Sets the possible effects of a call.
    #[must_use]
    pub fn with_effects(mut self, effects: Effects) -> Self {
        self.definition = self.definition.with_effects(effects);
        self
    }

    /// Marks the tool as one for submitting the answer. It is exempt from the tool budget. Its first successful call closes the
    /// [`Session`](crate::Session) and ends the turn successfully ([`FinishReason::Submitted`](crate::FinishReason::Submitted)). If the
    /// request has an output schema, the turn still needs an answer of that form. See [`Tool::submit`].
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.definition = self.definition.terminal();
        self
    }

    /// Marks the tool as one whose calls may be repeated: see [`ToolDefinition::idempotent`].
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.definition = self.definition.idempotent();
        self
    }

    /// Requires the host's approval of each call: see [`Approver`](crate::Approver).
    #[must_use]
    pub fn needs_approval(mut self) -> Self {
        self.definition = self.definition.needs_approval();
        self
    }

    /// Declares the argument at `pointer` as a path that the tool reads. A session allows a call only if the path is in its scope, and the
    /// closure receives the checked path; see [`PathArgument`](crate::PathArgument).
    ///
    /// Only the value at the pointer is checked. A model could pass a path under another key, such as a `#[serde(alias)]`. Therefore a tool
    /// from [`Tool::new`] rejects keys that its schema does not have, in all objects that the pointer passes through, except those with
    /// `additionalProperties`. The closure of [`Tool::with_schema`] must read its path only at the pointer. A [`Toolbox`](super::Toolbox)
    /// leaves out a tool whose pointer has no target in the schema. The schema's own constraints apply to the path that the closure
    /// receives.
    ///
    /// ```
    /// # use nexus_core::Tool;
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// # struct Look { path: String }
    /// let look = Tool::new("look", "Shows a file.", |Look { path }| async move {
    ///     std::fs::read_to_string(path).map_err(|error| error.to_string())
    /// })
    /// .reading("/path");
    /// assert_eq!(look.definition().paths.len(), 1);
    /// ```
    #[must_use]
    pub fn reading(self, pointer: impl Into<String>) -> Self {
        self.with_path(pointer, PathAccess::Read)
    }

    /// Like [`Tool::reading`], for a path that the tool writes.
    #[must_use]
    pub fn writing(self, pointer: impl Into<String>) -> Self {
        self.with_path(pointer, PathAccess::Write)
    }

    fn with_path(mut self, pointer: impl Into<String>, access: PathAccess) -> Self {
        self.definition = self.definition.with_path(pointer, access);
        self
    }

    /// Returns the definition that the model sees.
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Checks the schema, and returns the tool ready for use.
    pub(super) fn prepared(mut self) -> Result<CheckedTool, schema::Unfit> {
        let checker = schema::checked(&mut self.definition.input_schema, self.checker.take())?;
        Ok(CheckedTool { checker, tool: self })
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// Tool whose schema is valid.
#[derive(Clone, Debug)]
pub(super) struct CheckedTool {
    tool: Tool,
    checker: Option<SchemaChecker>,
}

impl CheckedTool {
    pub(super) fn definition(&self) -> &ToolDefinition {
        &self.tool.definition
    }

    /// Answers a call. Catches a panic.
    pub(super) async fn call(&self, arguments: Value) -> ToolResult {
        // A panic may leave only the closure's own state half changed, and later calls access that state through the closure's own locks.
        let answer = AssertUnwindSafe(async { self.answer(arguments).await }).catch_unwind().await;
        answer.unwrap_or_else(|_panic| {
            ToolResult::error(format!(
                "the tool {:?} panicked; part of its work may be done",
                self.definition().name
            ))
        })
    }

    /// Returns the fault of `arguments`, for the model, without calling the closure.
    pub(super) fn check(&self, arguments: &Value) -> Result<(), String> {
        let checked = self.fits(arguments).and_then(|()| (self.tool.reader)(arguments));
        checked.map_err(|problem| arguments::with_schema(self.definition(), &problem))
    }

    fn fits(&self, arguments: &Value) -> Result<(), String> {
        match &self.checker {
            Some(checker) => arguments::check(arguments, checker),
            None => {
                let ToolDefinition { input_schema, paths, .. } = self.definition();
                let mut paths = paths.iter();
                paths.try_for_each(|path| reach::check_keys(arguments, input_schema, &path.pointer))
            }
        }
    }

    async fn answer(&self, arguments: Value) -> ToolResult {
        let arguments = arguments::or_empty(arguments);
        match self.fits(&arguments).and_then(|()| (self.tool.handler)(arguments)) {
            Ok(work) => work.await,
            Err(problem) => {
                let problem = arguments::with_schema(self.definition(), &problem);
                let tool = self.definition().name.clone();
                ToolResult::error(Denial::Unfit { tool, problem }.to_string())
            }
        }
    }
}

fn finish<F>(work: F) -> BoxFuture<'static, ToolResult>
where
    F: Future<Output: IntoToolResult> + Send + 'static,
{
    async move { work.await.into_tool_result() }.boxed()
}

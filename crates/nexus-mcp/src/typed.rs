//! Tools whose arguments and answers are types, over a value that is opened at the first call.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::{OnceCell, watch};

use super::{
    context::CallContext,
    schema,
    service::{CallAnswer, JsonObject, ServedTool, ToolKind},
};

/// Pause between two checks if work still runs.
const PROGRESS_PAUSE: Duration = Duration::from_millis(200);

/// Description of a tool. Its schemas come from types.
#[derive(Clone, Copy, Debug)]
pub struct ToolDescription {
    /// Name by which models call the tool.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Purpose of the tool, and when to call it, for the model.
    pub text: &'static str,
    /// Effects of a call.
    pub kind: ToolKind,
    /// True if a call may take long.
    pub may_take_long: bool,
}

impl ToolDescription {
    /// Creates the description of a tool that answers soon.
    pub const fn new(name: &'static str, title: &'static str, kind: ToolKind, text: &'static str) -> Self {
        Self { name, title, text, kind, may_take_long: false }
    }

    /// Creates the description of a tool that waits for work.
    pub const fn waiting(
        name: &'static str,
        title: &'static str,
        kind: ToolKind,
        text: &'static str,
    ) -> Self {
        Self { name, title, text, kind, may_take_long: true }
    }

    /// Returns the tool with arguments of the type `Q` and answers of the type `A`.
    pub fn served<Q, A>(&self) -> ServedTool
    where
        Q: JsonSchema + DeserializeOwned,
        A: JsonSchema + Serialize,
    {
        let tool = ServedTool::new(self.name, self.text, schema::of_arguments::<Q>())
            .with_title(self.title)
            .with_output_schema(schema::of_answer::<A>())
            .with_kind(self.kind);
        if self.may_take_long { tool.long() } else { tool }
    }
}

/// A value that is opened at the first call, so that listing the tools depends on no configuration and no file. `S` is a handle
/// whose clones share the running work.
pub struct OnFirstCall<S> {
    open: Arc<dyn Fn() -> Result<S, String> + Send + Sync>,
    opened: OnceCell<S>,
    is_stopping: AtomicBool,
}

impl<S: Clone + Send + Sync + 'static> OnFirstCall<S> {
    /// Creates tools over the result of `open`, which may block. `open` is called at the first call of a tool. If it fails, the
    /// next call of a tool calls it again.
    pub fn new<E: fmt::Display>(open: impl Fn() -> Result<S, E> + Send + Sync + 'static) -> Self {
        let open = Arc::new(move || open().map_err(|error| error.to_string()));
        Self { open, opened: OnceCell::new(), is_stopping: AtomicBool::new(false) }
    }

    async fn open(&self) -> Result<S, String> {
        let opening = || async {
            let open = Arc::clone(&self.open);
            tokio::task::spawn_blocking(move || open()).await.unwrap_or_else(|error| {
                Err(format!(
                    "the configuration could not be loaded: {error}; make the same call again, and report this"
                ))
            })
        };
        let opened = self.opened.get_or_try_init(opening).await?;
        match self.is_stopping.load(Ordering::SeqCst) {
            true => {
                Err("the server is ending; restart it, then make the same call again: no work is lost"
                    .to_owned())
            }
            false => Ok(opened.clone()),
        }
    }

    /// Answers a call that ends soon. The call continues to its end even if the client leaves.
    pub async fn answer<Q, A, E, F>(
        &self,
        tool: &str,
        arguments: JsonObject,
        call: impl FnOnce(S, Q) -> F,
    ) -> CallAnswer
    where
        Q: JsonSchema + DeserializeOwned,
        A: Serialize,
        E: fmt::Display,
        F: Future<Output = Result<A, E>>,
    {
        let request = match schema::read::<Q>(tool, arguments) {
            Ok(request) => request,
            Err(problem) => return CallAnswer::error(problem),
        };
        match self.open().await {
            Ok(opened) => answer(call(opened, request).await),
            Err(error) => CallAnswer::error(error),
        }
    }

    /// Answers a call that waits for work, and forwards the lines of `progress` meanwhile. The wait ends when the client
    /// leaves; the work continues. For a client that fetches the answer later, the call is repeated while `is_running` returns
    /// true for its answer.
    pub async fn answer_waiting<Q, A, E, F>(
        &self,
        tool: &str,
        arguments: JsonObject,
        context: &CallContext,
        progress: impl Fn(&S, &Q) -> Option<watch::Receiver<String>>,
        is_running: impl Fn(&A) -> bool,
        call: impl Fn(S, Q) -> F,
    ) -> CallAnswer
    where
        Q: JsonSchema + DeserializeOwned + Clone,
        A: Serialize,
        E: fmt::Display,
        F: Future<Output = Result<A, E>>,
    {
        let request = match schema::read::<Q>(tool, arguments) {
            Ok(request) => request,
            Err(problem) => return CallAnswer::error(problem),
        };
        let opened = match self.open().await {
            Ok(opened) => opened,
            Err(error) => return CallAnswer::error(error),
        };
        let answered = async {
            loop {
                let answered = call(opened.clone(), request.clone()).await;
                if !(context.is_deferred() && answered.as_ref().is_ok_and(&is_running)) {
                    return answer(answered);
                }
            }
        };
        tokio::select! {
            // `biased`: a call that is complete is answered, even if it is cancelled at the same time.
            biased;
            answered = answered => answered,
            never = tell_progress(|| progress(&opened, &request), context) => match never {},
            () = context.cancelled().cancelled() => {
                CallAnswer::error(format!("{tool} no longer waits; the running work continues. Make the same \
                    call again"))
            }
        }
    }

    /// Stops answering calls. Returns the opened value, if a call has opened it.
    pub fn stop(&self) -> Option<&S> {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.opened.get()
    }
}

impl<S> fmt::Debug for OnFirstCall<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnFirstCall").field("is_open", &self.opened.initialized()).finish_non_exhaustive()
    }
}

fn answer<A: Serialize, E: fmt::Display>(answered: Result<A, E>) -> CallAnswer {
    match answered {
        Ok(answer) => CallAnswer::of(&answer),
        Err(error) => CallAnswer::error(error.to_string()),
    }
}

/// Forwards progress lines while it is polled.
async fn tell_progress(
    follow: impl Fn() -> Option<watch::Receiver<String>>,
    context: &CallContext,
) -> Infallible {
    loop {
        let Some(mut lines) = follow() else {
            tokio::time::sleep(PROGRESS_PAUSE).await;
            continue;
        };
        loop {
            let line = lines.borrow_and_update().clone();
            if !line.is_empty() {
                context.progress().say(line);
            }
            if lines.changed().await.is_err() {
                break;
            }
        }
        tokio::time::sleep(PROGRESS_PAUSE).await;
    }
}

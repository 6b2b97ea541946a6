//! A service with a tool for each thing that can happen.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use nexus_mcp::{
    CallAnswer, CallContext, ClientRoots, JsonObject, ServedTool, ServiceInfo, ToolKind, ToolService,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// What happened to the service. Clones see the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deeds {
    /// Waits that were begun.
    pub(crate) begun: Arc<AtomicU32>,
    /// Waits that were told that nobody waits for them.
    pub(crate) left: Arc<AtomicU32>,
    /// Steps that were done, whoever waited.
    pub(crate) done: Arc<AtomicU32>,
    /// How often it was stopped.
    pub(crate) stopped: Arc<AtomicU32>,
    /// Something of these changed.
    pub(crate) changed: Arc<Notify>,
}

impl Deeds {
    pub(crate) fn count(&self, what: &AtomicU32) {
        what.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Waits until something has happened so often.
    pub(crate) async fn reaches(&self, what: &AtomicU32, times: u32) {
        let reached = async {
            loop {
                let changed = self.changed.notified();
                if what.load(Ordering::SeqCst) >= times {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reached).await.expect("it happens in time");
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Workshop {
    pub(crate) deeds: Deeds,
    /// Written when the service is stopped.
    pub(crate) note: Option<PathBuf>,
    /// Ends what `step` began, and what `hold` waits for.
    pub(crate) release: Arc<Notify>,
}

#[async_trait::async_trait]
impl ToolService for Workshop {
    fn info(&self) -> ServiceInfo {
        ServiceInfo::new("workshop", "1.0.0", "Call `echo`, then `wait`.")
    }

    fn tools(&self) -> Vec<ServedTool> {
        let object = json!({ "type": "object" });
        let text =
            json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        vec![
            ServedTool::new("echo", "Says it again.", text.clone())
                .with_title("Echo")
                .with_output_schema(text)
                .with_kind(ToolKind::ReadOnly),
            ServedTool::new("wait", "Waits until nobody waits, or `seconds`.", object.clone())
                .with_kind(ToolKind::ReadOnly)
                .long(),
            ServedTool::new("step", "Begins a step that goes on by itself.", object.clone()),
            ServedTool::new("remove", "Removes.", object.clone()).with_kind(ToolKind::RemovesOnce),
            ServedTool::new("fail", "Fails.", object.clone()),
            ServedTool::new("panic", "Breaks.", object.clone()),
            ServedTool::new("big", "Answers `bytes` bytes.", object.clone()),
            ServedTool::new("roots", "Says the client's roots.", object.clone())
                .with_kind(ToolKind::ReadOnly),
            ServedTool::new("print", "Writes to standard output.", object.clone()),
            ServedTool::new("hold", "Waits until it is released.", object)
                .with_kind(ToolKind::ReadOnly)
                .long(),
        ]
    }

    async fn call(&self, name: &str, arguments: JsonObject, context: CallContext) -> CallAnswer {
        let number = |name: &str| arguments.get(name).and_then(Value::as_f64);
        match name {
            "echo" => match arguments.get("text") {
                Some(Value::String(text)) => CallAnswer::structured(json!({ "text": text })),
                _ => CallAnswer::error("`text` is missing: call echo with {\"text\": \"…\"}"),
            },
            "wait" => {
                context.progress().say("sawing");
                self.deeds.count(&self.deeds.begun);
                let seconds = Duration::from_secs_f64(number("seconds").unwrap_or(60.0));
                let running = tokio::select! {
                    () = tokio::time::sleep(seconds) => false,
                    () = context.cancelled().cancelled() => {
                        self.deeds.count(&self.deeds.left);
                        true
                    }
                };
                CallAnswer::structured(json!({ "running": running, "deferred": context.is_deferred() }))
            }
            "step" => {
                context.progress().say("planing");
                let this = self.clone();
                let released = Arc::clone(&self.release);
                let step = tokio::spawn(async move {
                    let released = released.notified();
                    this.deeds.count(&this.deeds.begun);
                    released.await;
                    this.deeds.count(&this.deeds.done);
                });
                tokio::select! {
                    _ = step => CallAnswer::structured(json!({ "done": true })),
                    () = context.cancelled().cancelled() => CallAnswer::structured(json!({ "done": false })),
                }
            }
            "hold" => {
                context.progress().say("sawing");
                let released = self.release.notified();
                self.deeds.count(&self.deeds.begun);
                released.await;
                CallAnswer::structured(json!({ "deferred": context.is_deferred() }))
            }
            "panic" => panic!("as it was told to"),
            "big" => {
                let bytes = number("bytes").unwrap_or(100_000.0);
                CallAnswer::structured(json!({ "text": "x".repeat(bytes as usize) }))
            }
            "roots" => match context.roots().await {
                ClientRoots::Named(roots) => CallAnswer::structured(json!({ "roots": roots })),
                other => CallAnswer::error(format!("{other:?}")),
            },
            "print" => {
                println!("this must not reach the client");
                CallAnswer::structured(json!({ "printed": true }))
            }
            other => CallAnswer::error(format!("{other} fails: call echo instead")),
        }
    }

    async fn stop(&self) {
        self.deeds.count(&self.deeds.stopped);
        if let Some(note) = &self.note {
            std::fs::write(note, "stopped").expect("the note can be written");
        }
    }
}

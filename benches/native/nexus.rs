//! Nexus itself, through its public API: the kind `responses`, and whole turns.

use std::sync::Arc;

use nexus_core::{
    BackendId, BuildContext, EventEnvelope, ExecutionBackend, Tool, Toolbox, TurnEvent, TurnHost, TurnRequest,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::contender::{
    Contender, Entry, INSTRUCTIONS, MODEL, PROMPT, TOOL, TOOL_DESCRIPTION, Work, tool_answer,
};

/// Nexus.
pub(crate) const NEXUS: Entry = Entry { name: "nexus", make: |base_url| Box::new(Nexus::new(base_url)) };

struct Nexus {
    backend: Arc<dyn ExecutionBackend>,
    tools: Arc<Toolbox>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Lookup {
    /// Relative to the folder of the program.
    path: String,
}

impl Nexus {
    fn new(base_url: &str) -> Self {
        let registry = nexus_backends::registry();
        let settings = [("base_url".to_owned(), base_url.into())].into_iter().collect();
        // No turn here keeps anything, so the folders are never used.
        let context = BuildContext::in_home(std::env::temp_dir()).with_base_directory(std::env::temp_dir());
        let kind = registry.kind("responses").expect("the kind is part of this build");
        let backend = kind.build(BackendId::from("responses"), &settings, &context).expect("a backend");
        let lookup = Tool::new(TOOL, TOOL_DESCRIPTION, |Lookup { path }| async move { tool_answer(&path) });
        Self { backend, tools: Arc::new(Toolbox::new().with(lookup.read_only())) }
    }

    fn request() -> TurnRequest {
        TurnRequest::new(PROMPT).with_system(INSTRUCTIONS).with_model(MODEL)
    }
}

impl Contender for Nexus {
    fn stream<'a>(&'a self, on_delta: &'a mut (dyn FnMut(&str) + Send)) -> Work<'a> {
        Box::pin(async move {
            let mut sink = |envelope: EventEnvelope| {
                if let TurnEvent::TextDelta(delta) = envelope.event {
                    on_delta(&delta.text);
                }
            };
            self.backend.run_turn(Self::request(), TurnHost::new(), &mut sink).await.expect("a turn");
        })
    }

    fn tool_loop<'a>(&'a self, calls: &'a mut usize) -> Work<'a> {
        Box::pin(async move {
            let host = TurnHost::new().with_tools(self.tools.clone());
            let mut sink = |_: EventEnvelope| {};
            let result = self.backend.run_turn(Self::request(), host, &mut sink).await.expect("a turn");
            *calls += result.tool_calls.len();
        })
    }
}

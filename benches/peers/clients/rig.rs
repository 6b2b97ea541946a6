//! `rig-core`: its model for the Responses API, with the loop over tool calls in the caller's hands.

use futures::StreamExt as _;
use rig_core::Model;
use rig_core::completion::{CompletionRequest, CompletionResponse, ToolDefinition};
use rig_core::message::{Message, ToolResultContent};
use rig_core::providers::openai::OpenAIConfig;
use rig_core::providers::openai::responses_api::wire::Responses;
use rig_core::streaming::{Item, StreamEvent};

use super::KEY;
use crate::native::contender::{
    Contender, Entry, INSTRUCTIONS, MODEL, PROMPT, TOOL, TOOL_DESCRIPTION, Work, tool_answer, tool_schema,
};

/// `rig-core`.
pub(crate) const RIG: Entry = Entry {
    name: "rig-core",
    make: |base_url| {
        Box::new(Rig { model: OpenAIConfig::new(KEY).with_base_url(base_url).client().responses(MODEL) })
    },
};

struct Rig {
    model: Model<Responses>,
}

impl Rig {
    async fn ask(
        &self,
        request: CompletionRequest,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> CompletionResponse {
        let mut events = self.model.stream(request).expect("a stream");
        while let Some(event) = events.next().await {
            if let Item::Event(StreamEvent::Text { text, .. }) = event.expect("an event") {
                on_delta(&text);
            }
        }
        events.finish().await.expect("the stream broke off")
    }
}

fn prompt() -> CompletionRequest {
    CompletionRequest::new(PROMPT).preamble(INSTRUCTIONS)
}

impl Contender for Rig {
    fn stream<'a>(&'a self, on_delta: &'a mut (dyn FnMut(&str) + Send)) -> Work<'a> {
        Box::pin(async move {
            self.ask(prompt(), on_delta).await;
        })
    }

    fn tool_loop<'a>(&'a self, calls: &'a mut usize) -> Work<'a> {
        Box::pin(async move {
            let name = TOOL.try_into().expect("a name");
            let mut request = prompt().tool(ToolDefinition::new(name, TOOL_DESCRIPTION, tool_schema()));
            loop {
                let response = self.ask(request.clone(), &mut |_| {}).await;
                let results: Vec<_> = response
                    .tool_calls()
                    .map(|call| {
                        let arguments = call.function.arguments_value();
                        let path = arguments.get("path").and_then(|path| path.as_str()).expect("a path");
                        call.result(vec![ToolResultContent::text(tool_answer(path))])
                    })
                    .collect();
                if results.is_empty() {
                    break;
                }
                *calls += results.len();
                request = request
                    .message(response.message().expect("a message"))
                    .message(Message::tool_results(results));
            }
        })
    }
}

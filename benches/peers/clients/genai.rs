//! `genai`: one chat interface over many vendors; here its adapter for the Responses API.

use futures::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, StreamEnd, Tool, ToolResponse};
use genai::resolver::{AuthData, Endpoint, ServiceTargetResolver};
use genai::{Client, ModelIden, ServiceTarget};

use super::KEY;
use crate::native::contender::{
    Contender, Entry, INSTRUCTIONS, MODEL, PROMPT, TOOL, TOOL_DESCRIPTION, Work, tool_answer, tool_schema,
};

/// `genai`.
pub(crate) const GENAI: Entry = Entry {
    name: "genai",
    make: |base_url| {
        let endpoint = Endpoint::from_owned(format!("{base_url}/"));
        let resolver = ServiceTargetResolver::from_resolver_fn(
            move |target: ServiceTarget| -> Result<ServiceTarget, genai::resolver::Error> {
                Ok(ServiceTarget {
                    endpoint: endpoint.clone(),
                    auth: AuthData::from_single(KEY),
                    model: ModelIden::new(AdapterKind::OpenAIResp, target.model.model_name),
                })
            },
        );
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let client = Client::builder().with_reqwest(http).with_service_target_resolver(resolver).build();
        Box::new(Genai { client: client.expect("a client") })
    },
};

struct Genai {
    client: Client,
}

impl Genai {
    /// One request; returns what was captured of the answer.
    async fn ask(
        &self,
        request: ChatRequest,
        options: &ChatOptions,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> StreamEnd {
        let mut response =
            self.client.exec_chat_stream(MODEL, request, Some(options)).await.expect("a stream");
        let mut end = None;
        while let Some(event) = response.stream.next().await {
            match event.expect("an event") {
                ChatStreamEvent::Chunk(chunk) => on_delta(&chunk.content),
                ChatStreamEvent::End(captured) => end = Some(captured),
                _ => {}
            }
        }
        end.expect("the stream broke off")
    }
}

fn prompt() -> ChatRequest {
    ChatRequest::new(vec![ChatMessage::user(PROMPT)]).with_system(INSTRUCTIONS)
}

impl Contender for Genai {
    fn stream<'a>(&'a self, on_delta: &'a mut (dyn FnMut(&str) + Send)) -> Work<'a> {
        Box::pin(async move {
            // What every other client here hands over at the end too: the whole text and the usage.
            let options = ChatOptions::default().with_capture_content(true).with_capture_usage(true);
            self.ask(prompt(), &options, on_delta).await;
        })
    }

    fn tool_loop<'a>(&'a self, calls: &'a mut usize) -> Work<'a> {
        Box::pin(async move {
            let tool = Tool::new(TOOL).with_description(TOOL_DESCRIPTION).with_schema(tool_schema());
            let options = ChatOptions::default().with_capture_tool_calls(true).with_capture_usage(true);
            let mut request = prompt().with_tools(vec![tool]);
            loop {
                let end = self.ask(request.clone(), &options, &mut |_| {}).await;
                let made = end.captured_into_tool_calls().unwrap_or_default();
                if made.is_empty() {
                    break;
                }
                let answers: Vec<ToolResponse> = made
                    .iter()
                    .map(|call| {
                        let path = call.fn_arguments.get("path").and_then(|path| path.as_str());
                        ToolResponse::new(call.call_id.clone(), tool_answer(path.expect("a path")))
                    })
                    .collect();
                *calls += answers.len();
                request = request.append_message(made);
                for answer in answers {
                    request = request.append_message(answer);
                }
            }
        })
    }
}

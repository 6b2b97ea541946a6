//! `async-openai`: typed requests and events. It has no loop of its own, so the loop is the caller's.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::responses::{
    CreateResponse, EasyInputContent, EasyInputMessage, FunctionCallOutput, FunctionCallOutputItemParam,
    FunctionTool, FunctionToolCall, InputItem, InputParam, Item, MessageType, OutputItem,
    ResponseStreamEvent, Role, Tool,
};
use futures::StreamExt as _;

use super::KEY;
use crate::native::contender::{
    Contender, Entry, INSTRUCTIONS, MODEL, PROMPT, TOOL, TOOL_DESCRIPTION, Work, path_of, tool_answer,
    tool_schema,
};

/// `async-openai`.
pub(crate) const ASYNC_OPENAI: Entry = Entry {
    name: "async-openai",
    make: |base_url| {
        let config = OpenAIConfig::new().with_api_base(base_url).with_api_key(KEY);
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Box::new(AsyncOpenai { client: Client::build(http, config) })
    },
};

struct AsyncOpenai {
    client: Client<OpenAIConfig>,
}

impl AsyncOpenai {
    /// One request; returns the calls that the model made.
    async fn ask(
        &self,
        input: Vec<InputItem>,
        tools: Option<Vec<Tool>>,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Vec<FunctionToolCall> {
        let request = CreateResponse {
            model: Some(MODEL.to_owned()),
            instructions: Some(INSTRUCTIONS.to_owned()),
            input: InputParam::Items(input),
            tools,
            store: Some(false),
            stream: Some(true),
            ..CreateResponse::default()
        };
        let mut events = self.client.responses().create_stream(request).await.expect("a stream");
        let (mut calls, mut is_complete) = (Vec::new(), false);
        while let Some(event) = events.next().await {
            match event.expect("an event") {
                ResponseStreamEvent::ResponseOutputTextDelta(event) => on_delta(&event.delta),
                ResponseStreamEvent::ResponseOutputItemDone(event) => {
                    if let OutputItem::FunctionCall(call) = event.item {
                        calls.push(call);
                    }
                }
                ResponseStreamEvent::ResponseCompleted(_) => is_complete = true,
                _ => {}
            }
        }
        assert!(is_complete, "the stream broke off");
        calls
    }
}

fn prompt() -> Vec<InputItem> {
    vec![InputItem::EasyMessage(EasyInputMessage {
        r#type: MessageType::Message,
        role: Role::User,
        content: EasyInputContent::Text(PROMPT.to_owned()),
        phase: None,
    })]
}

impl Contender for AsyncOpenai {
    fn stream<'a>(&'a self, on_delta: &'a mut (dyn FnMut(&str) + Send)) -> Work<'a> {
        Box::pin(async move {
            self.ask(prompt(), None, on_delta).await;
        })
    }

    fn tool_loop<'a>(&'a self, calls: &'a mut usize) -> Work<'a> {
        Box::pin(async move {
            let tools = vec![Tool::Function(FunctionTool {
                name: TOOL.to_owned(),
                description: Some(TOOL_DESCRIPTION.to_owned()),
                parameters: Some(tool_schema()),
                strict: Some(true),
                ..FunctionTool::default()
            })];
            let mut input = prompt();
            loop {
                let made = self.ask(input.clone(), Some(tools.clone()), &mut |_| {}).await;
                if made.is_empty() {
                    break;
                }
                for call in made {
                    *calls += 1;
                    let (call_id, output) = (call.call_id.clone(), tool_answer(&path_of(&call.arguments)));
                    input.push(InputItem::Item(Item::FunctionCall(call)));
                    input.push(InputItem::Item(Item::FunctionCallOutput(FunctionCallOutputItemParam {
                        call_id: Some(call_id),
                        output: FunctionCallOutput::Text(output),
                        id: None,
                        status: None,
                        name: None,
                        namespace: None,
                        caller: None,
                    })));
                }
            }
        })
    }
}

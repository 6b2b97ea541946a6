//! The floor: `reqwest`, `eventsource-stream` and typed `serde_json`, as a careful program would put them
//! together in an afternoon. Also the bare requests of another client's loop, read by the same code.

use bytes::Bytes;
use eventsource_stream::Eventsource as _;
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};

use super::contender::{
    Contender, Entry, INSTRUCTIONS, MODEL, PROMPT, TOOL, TOOL_DESCRIPTION, Work, path_of, tool_answer,
    tool_schema,
};
use super::recorded::Recorded;

/// The floor client.
pub(crate) const FLOOR: Entry = Entry { name: "floor", make: |base_url| Box::new(Floor::new(base_url)) };

/// The requests that another client made in its tool loop, made again by the floor client. It reads the answers
/// and has no loop: nothing is dispatched, nothing is written down, no request is put together.
pub(crate) const BARE_REQUESTS: Entry = Entry {
    name: "bare requests",
    make: |base_url| {
        let base_url = base_url.to_owned();
        Box::new(BareRequests { floor: Floor::new(&base_url), base_url, recorded: Recorded::default() })
    },
};

struct Floor {
    client: reqwest::Client,
    url: String,
}

struct BareRequests {
    floor: Floor,
    base_url: String,
    recorded: Recorded,
}

/// An event, with what this client wants of it.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "item_id")]
    _item_id: Option<String>,
    #[serde(rename = "output_index")]
    _output_index: Option<u64>,
    #[serde(rename = "content_index")]
    _content_index: Option<u64>,
    #[serde(rename = "sequence_number")]
    _sequence_number: Option<u64>,
    delta: Option<String>,
    item: Option<Item>,
    response: Option<Response>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    Message {
        role: String,
        content: serde_json::Value,
    },
    FunctionCall {
        call_id: String,
        name: String,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: String,
        output: String,
    },
    #[serde(other)]
    Other,
}

impl Item {
    fn is_call(&self) -> bool {
        matches!(self, Self::FunctionCall { .. })
    }
}

#[derive(Deserialize)]
struct Response {
    status: String,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    instructions: &'a str,
    input: &'a [Item],
    tools: &'a [serde_json::Value],
    stream: bool,
    store: bool,
}

impl Floor {
    fn new(base_url: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { client, url: format!("{base_url}/responses") }
    }

    /// One request; returns the items that the model finished.
    async fn ask(
        &self,
        input: &[Item],
        tools: &[serde_json::Value],
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Vec<Item> {
        let request =
            Request { model: MODEL, instructions: INSTRUCTIONS, input, tools, stream: true, store: false };
        self.post(serde_json::to_vec(&request).expect("a request").into(), on_delta).await
    }

    async fn post(&self, body: Bytes, on_delta: &mut (dyn FnMut(&str) + Send)) -> Vec<Item> {
        let response =
            self.client.post(&self.url).header("content-type", "application/json").body(body).send();
        let response = response.await.expect("a response").error_for_status().expect("success");
        let mut events = response.bytes_stream().eventsource();
        let (mut items, mut is_complete) = (Vec::new(), false);
        while let Some(event) = events.next().await {
            let event: Event = serde_json::from_str(&event.expect("an event").data).expect("a known shape");
            match (event.kind.as_str(), event.delta, event.item, event.response) {
                ("response.output_text.delta", Some(text), ..) => on_delta(&text),
                ("response.output_item.done", _, Some(item), _) => items.push(item),
                ("response.completed", .., Some(response)) => is_complete = response.status == "completed",
                _ => {}
            }
        }
        assert!(is_complete, "the stream broke off");
        items
    }
}

fn prompt() -> Vec<Item> {
    vec![Item::Message { role: "user".to_owned(), content: PROMPT.into() }]
}

impl Contender for Floor {
    fn stream<'a>(&'a self, on_delta: &'a mut (dyn FnMut(&str) + Send)) -> Work<'a> {
        Box::pin(async move {
            self.ask(&prompt(), &[], on_delta).await;
        })
    }

    fn tool_loop<'a>(&'a self, calls: &'a mut usize) -> Work<'a> {
        Box::pin(async move {
            let tools = [serde_json::json!({
                "type": "function", "name": TOOL, "description": TOOL_DESCRIPTION, "parameters": tool_schema(),
                "strict": true,
            })];
            let mut input = prompt();
            loop {
                let items = self.ask(&input, &tools, &mut |_| {}).await;
                let before = *calls;
                for item in items {
                    if let Item::FunctionCall { call_id, arguments, .. } = &item {
                        *calls += 1;
                        let output = tool_answer(&path_of(arguments));
                        let call_id = call_id.clone();
                        input.push(item);
                        input.push(Item::FunctionCallOutput { call_id, output });
                    }
                }
                if *calls == before {
                    break;
                }
            }
        })
    }
}

impl Contender for BareRequests {
    fn stream<'a>(&'a self, on_delta: &'a mut (dyn FnMut(&str) + Send)) -> Work<'a> {
        self.floor.stream(on_delta)
    }

    fn tool_loop<'a>(&'a self, calls: &'a mut usize) -> Work<'a> {
        Box::pin(async move {
            for body in self.recorded.bodies(&self.floor.client, &self.base_url).await {
                *calls += self
                    .floor
                    .post(body.clone(), &mut |_| {})
                    .await
                    .iter()
                    .filter(|item| item.is_call())
                    .count();
            }
        })
    }
}

//! What a name costs: turns of a named conversation on a native backend, beside the same turns run bare with the same items.
//!
//! A second table has the cost of a tool in scope: turns with many tools, beside turns without tools.
//!
//! `cargo bench -p nexus-benches --bench conversation`, or with `-- --quick` for a first look. With `-- --strict` it ends with 1
//! if a turn of a named conversation takes over 0.3 ms longer than the bare one, or a tool costs over 1 µs, with the bytes of its definition.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nexus::{
    BuildContext, ConversationMode, ConversationName, ConversationOptions, ConversationTurn, Conversations,
    EventEnvelope, Recorder, Registry, ResumeHandle, Router, Tool, Toolbox, TurnHost, TurnOrder, TurnRequest,
    WhenLost,
};
use nexus_core::{
    FinishReason, Provenance,
    item::{Author, Item, ItemPart},
    redact::Redactor,
    turn::MessageEnded,
};
use serde_json::json;

/// Most that a turn of a named conversation may take longer than the bare one.
const MOST: Duration = Duration::from_micros(300);
/// Most that a tool in scope may take at each turn, with the bytes of its definition.
const MOST_OF_TOOL: Duration = Duration::from_micros(1);
/// Number of tools in scope.
const TOOLS: usize = 1_000;
/// Numbers of messages before the turns.
const LENGTHS: [usize; 4] = [32, 122, 1_022, 10_000];
const ANSWER: &str = "Titan is the largest moon of Saturn, and the only one with a thick atmosphere.";
const QUESTION: &str = "Which moon of Saturn is the largest, and what is known of its air?";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let (rounds, is_strict) = (if has("--quick") { 15 } else { 101 }, has("--strict"));
    let address = serve();
    let router = router(&address);
    println!("wire       messages   bare        named       beyond      ratio   hold       list");
    let mut is_kept = true;
    for wire in ["chat", "responses"] {
        for length in LENGTHS {
            let row = row(&router, wire, length, rounds).await;
            let beyond = row.named.saturating_sub(row.bare);
            is_kept &= beyond <= MOST;
            println!(
                "{wire:<10} {length:>8}   {:>8.3} ms {:>8.3} ms {:>8.3} ms   {:>5.2}   {:>6.2} ms  {:>6.2} ms",
                ms(row.bare),
                ms(row.named),
                ms(beyond),
                row.named.as_secs_f64() / row.bare.as_secs_f64(),
                ms(row.hold),
                ms(row.list),
            );
        }
    }
    println!("wire          tools   bare        tools       each tool");
    for wire in ["chat", "responses"] {
        let (bare, tools) = tools_in_scope(&router, wire, rounds).await;
        let each = tools.saturating_sub(bare) / TOOLS as u32;
        is_kept &= each <= MOST_OF_TOOL;
        println!(
            "{wire:<10} {TOOLS:>8}   {:>8.3} ms {:>8.3} ms {:>8.0} ns",
            ms(bare),
            ms(tools),
            each.as_secs_f64() * 1e9
        );
    }
    if is_strict && !is_kept { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Medians of one length.
struct Row {
    bare: Duration,
    named: Duration,
    /// Time to open the conversation in a new process, with its items.
    hold: Duration,
    /// Time of a list after a change.
    list: Duration,
}

/// Runs bare turns and named ones alternately, because the machine's speed changes over a run.
async fn row(router: &Router, wire: &str, length: usize, rounds: usize) -> Row {
    let home = tempfile::tempdir().expect("a folder");
    let store = Conversations::in_home(home.path());
    let name: ConversationName = "moons".parse().expect("a name");
    let mut held = store.hold(&name).expect("a conversation");
    let mut items = Vec::new();
    while items.len() < length {
        items.push(said(Author::User, QUESTION));
        items.push(said(Author::Assistant, ANSWER));
        let state = json!({ "version": 3, "conversation": "3f0c2f5e-52a5-4a0e-8a53-0d7a5f0b8a11" });
        let handle = (items.len() >= length)
            .then(|| ResumeHandle::new(wire.into(), state).with_items(items.iter().cloned().collect()));
        held.add(turn(), handle).expect("a turn is stored");
    }
    let (mut bare, mut named) = (Vec::new(), Vec::new());
    let mut sink = |_: EventEnvelope| {};
    let options = ConversationOptions::new().when_lost(WhenLost::Fail);
    for _ in 0..rounds {
        // The named conversation grows with each round, so the bare turn resumes its present items.
        let handle = held.resume().expect("a handle").clone();
        let request = TurnRequest::new(QUESTION).with_conversation(ConversationMode::resume(handle));
        let began = Instant::now();
        router.run_turn(wire, request, TurnHost::new(), &mut sink).await.expect("a turn");
        bare.push(began.elapsed());
        let began = Instant::now();
        let turn = held
            .run_turn(router, wire, TurnRequest::new(QUESTION), TurnHost::new(), options, &mut sink)
            .await
            .expect("a turn");
        named.push(began.elapsed());
        assert!(turn.outcome.is_ok() && turn.stored.expect("a turn is stored"), "{:?}", turn.continuity);
    }
    drop(held);
    let mut holds = Vec::new();
    let mut lists = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        drop(store.hold(&name).expect("a conversation"));
        holds.push(began.elapsed());
        let began = Instant::now();
        assert_eq!(store.list().expect("a list").conversations.len(), 1);
        lists.push(began.elapsed());
    }
    Row { bare: median(bare), named: median(named), hold: median(holds), list: median(lists) }
}

/// Runs turns without tools and turns with many, alternately. Returns the medians of both.
async fn tools_in_scope(router: &Router, wire: &str, rounds: usize) -> (Duration, Duration) {
    let property = |words: &str| json!({ "type": "string", "description": words });
    let schema = json!({
        "type": "object",
        "properties": {
            "path": property("Relative to the folder of the project."),
            "pattern": property("Regular expression of the lines to return."),
            "lines": { "type": "array", "items": { "type": "integer", "minimum": 1 } },
        },
        "required": ["path"],
        "additionalProperties": false,
    });
    let mut toolbox = Toolbox::new();
    for number in 0..TOOLS {
        let name = format!("tool_{number}");
        let use_of_it = "Reads a file of the project, and returns the lines that fit.";
        toolbox = toolbox.with(Tool::with_schema(&name, use_of_it, schema.clone(), |_| async { "read" }));
    }
    assert!(toolbox.quarantined().is_empty());
    let tools = Arc::new(toolbox);
    let (mut bare, mut with_tools) = (Vec::new(), Vec::new());
    let mut sink = |_: EventEnvelope| {};
    for _ in 0..rounds {
        let began = Instant::now();
        router.run_turn(wire, TurnRequest::new(QUESTION), TurnHost::new(), &mut sink).await.expect("a turn");
        bare.push(began.elapsed());
        let began = Instant::now();
        // The host is new at each turn, as in most programs; the tools are the same.
        let host = TurnHost::new().with_tools(tools.clone());
        router.run_turn(wire, TurnRequest::new(QUESTION), host, &mut sink).await.expect("a turn");
        with_tools.push(began.elapsed());
    }
    (median(bare), median(with_tools))
}

fn said(role: Author, text: &str) -> Item {
    Item::message(role, vec![ItemPart::text(text)])
}

fn turn() -> ConversationTurn {
    let mut recorder = Recorder::new();
    recorder.observe(&MessageEnded::new("m".into(), ANSWER).into());
    let result = recorder.into_result(FinishReason::Stop, Provenance::new("chat".into()));
    let request = TurnRequest::new(QUESTION);
    ConversationTurn::of(&request, &Ok(result), &TurnOrder::default(), &Redactor::default()).expect("a turn")
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn router(address: &str) -> Router {
    let registry: Registry = nexus_backends::registry();
    let backend = |kind: &str| {
        format!(
            "  {kind}: {{ kind: {kind}, base_url: \"http://{address}/v1\", vendor: loopback, auth: none }}\n"
        )
    };
    let text = format!(
        "groups: {{ chat: [chat], responses: [responses] }}\nmodels: {{ small: {{ chat: small, responses: small }} }}\nbackends:\n{}{}types:\n  \
         chat: {{ group: chat, model: small }}\n  responses: {{ group: responses, model: small }}\n",
        backend("chat"),
        backend("responses"),
    );
    let context = BuildContext::in_home(std::env::temp_dir()).with_base_directory(std::env::temp_dir());
    Router::builder(registry, context).from_str(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Serves both wires on a thread for each connection, and returns the address.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || answer_all(connection));
        }
    });
    address
}

fn answer_all(connection: TcpStream) {
    connection.set_nodelay(true).expect("a socket");
    let mut reader = BufReader::new(connection.try_clone().expect("a socket"));
    let mut connection = connection;
    loop {
        let (mut length, mut path) = (0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if path.is_empty() {
                path.clone_from(&line);
            }
            if let Some((_, value)) =
                line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case("content-length"))
            {
                length = value.trim().parse().unwrap_or(0);
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let (kind, body) = reply(&path);
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        if connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body.as_bytes())).is_err()
        {
            return;
        }
    }
}

fn reply(path: &str) -> (&'static str, String) {
    let event = |value: serde_json::Value| match value["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {value}\n\n"),
        None => format!("data: {value}\n\n"),
    };
    let body = if path.contains("/models") {
        return ("application/json", json!({ "object": "list", "data": [{ "id": "small" }] }).to_string());
    } else if path.contains("/chat/completions") {
        let delta = json!({ "role": "assistant", "content": ANSWER });
        let chunk = json!({ "id": "1", "object": "chat.completion.chunk", "model": "small",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
        let last = json!({ "id": "1", "object": "chat.completion.chunk", "model": "small",
            "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 } });
        format!("{}{}data: [DONE]\n\n", event(chunk), event(last))
    } else {
        let item = json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": ANSWER, "annotations": [] }] });
        let done = json!({ "type": "response.output_item.done", "output_index": 0, "item": item });
        let completed = json!({ "type": "response.completed", "response": { "id": "resp_1", "status": "completed",
            "model": "small", "output": [item],
            "usage": { "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 } } });
        format!("{}{}", event(done), event(completed))
    };
    ("text/event-stream", body)
}

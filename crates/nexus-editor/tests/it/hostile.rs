//! Lines that no good client sends, clients that go away, and clients that do not read.

use std::time::{Duration, Instant};

use nexus_core::turn::TextDelta;
use nexus_editor::AcpEnd;
use nexus_testkit::scripted::{Act, answer};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::kit::{PATIENCE, Raw, Stage, fake, prompt, waiting};

fn talker() -> Stage {
    Stage::new(&[&fake("alpha", [answer("Here.")])])
}

#[tokio::test]
async fn every_line_has_its_answer_and_the_next_one_counts() {
    let stage = talker();
    let mut raw = Raw::start(stage.agent());
    for (line, code) in [
        (&b"{"[..], -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b"null", -32600),
        (br#"{"jsonrpc":"2.0","id":{},"method":"initialize"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
    ] {
        raw.send(line).await;
        assert_eq!(raw.next().await["error"]["code"], code, "{line:?}");
    }
    for (id, method, code) in [
        (json!(0), "session/new", -32600),
        (json!("text"), "session/prompt", -32600),
        (json!(null), "initialize", -32602),
    ] {
        raw.request(id.clone(), method, json!({})).await;
        let answer = raw.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{method}");
    }
    let session = raw.begin(&stage).await;
    for (method, params, code) in [
        ("no/such", json!({}), -32601),
        ("_ext", json!({}), -32601),
        ("logout", json!({}), -32601),
        ("authenticate", json!({ "methodId": "x" }), -32602),
        ("session/prompt", json!({ "sessionId": session }), -32602),
        ("session/prompt", json!({ "sessionId": session, "prompt": [{ "type": "sound" }] }), -32602),
        ("session/prompt", json!({ "sessionId": session, "prompt": "text" }), -32602),
        ("session/prompt", json!([]), -32602),
        ("session/set_mode", json!({ "sessionId": session, "modeId": "\u{1b}[2J" }), -32602),
        ("session/set_config_option", json!({ "sessionId": session, "configId": "x", "value": "y" }), -32602),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "mode", "value": 7 }),
            -32602,
        ),
    ] {
        let answer = raw.call(3, method, params).await;
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
    }
    // None of these wants an answer.
    for note in [
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "nobody" } }),
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": 7 }),
        json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": 99 } }),
        json!({ "jsonrpc": "2.0", "method": "_ext" }),
        json!({ "jsonrpc": "2.0", "id": 12345, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": "x", "error": 7 }),
    ] {
        raw.send(note.to_string().as_bytes()).await;
    }
    let answer = raw.call(4, "session/prompt", prompt(&session, "Go.")).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let (last, end) = raw.end().await;
    assert!(last.iter().all(|message| message.get("error").is_none()), "{last:?}");
    assert!(matches!(end, AcpEnd::InputClosed), "{end:?}");
}

#[tokio::test]
async fn a_prompt_without_words_is_an_error() {
    let stage = talker();
    let mut raw = Raw::start(stage.agent());
    let session = raw.begin(&stage).await;
    for text in ["", " \n"] {
        let answer = raw.call(3, "session/prompt", prompt(&session, text)).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    raw.end().await;
    assert_eq!(stage.kept(), [] as [std::path::PathBuf; 0]);
}

#[tokio::test]
async fn a_line_without_end_is_refused_and_costs_no_memory() {
    let stage = talker();
    let (theirs, ours) = tokio::io::duplex(1 << 20);
    let agent = stage.agent();
    let serving = tokio::spawn(async move {
        let (input, output) = tokio::io::split(ours);
        agent.serve(input, output, std::future::pending()).await
    });
    let (output, mut input) = tokio::io::split(theirs);
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..66 {
        input.write_all(&piece).await.unwrap();
    }
    input.write_all(b"\n{\"method\":\"session/new\",\"params\":\"").await.unwrap();
    for _ in 0..66 {
        input.write_all(&piece).await.unwrap();
    }
    input.write_all(b"\",\"jsonrpc\":\"2.0\",\"id\":6}\n{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n").await.unwrap();
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(output));
    let mut next =
        async || -> Value { serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap() };
    let refused = next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(null), &json!(-32700)));
    let refused = next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(6), &json!(-32700)));
    assert_eq!(next().await["id"], 7);
    drop(input);
    drop(lines);
    serving.await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_input_ends_what_runs() {
    let waiting = waiting("One moment.");
    let stage = Stage::new(&[&fake("alpha", [waiting])]);
    let mut raw = Raw::start(stage.agent());
    let session = raw.begin(&stage).await;
    raw.request(json!("p"), "session/prompt", prompt(&session, "Go.")).await;
    while !raw.next().await.to_string().contains("moment") {}
    let (last, end) = raw.end().await;
    let answer = last.iter().find(|message| message["id"] == "p").unwrap();
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert!(matches!(end, AcpEnd::InputClosed), "{end:?}");
}

#[tokio::test]
async fn a_prompt_is_cancelled_by_the_id_of_its_request() {
    let waiting = waiting("One moment.");
    let stage = Stage::new(&[&fake("alpha", [waiting])]);
    let mut raw = Raw::start(stage.agent());
    let session = raw.begin(&stage).await;
    raw.request(json!(0), "session/prompt", prompt(&session, "Go.")).await;
    while !raw.next().await.to_string().contains("moment") {}
    let cancel = json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": 0 } });
    raw.send(cancel.to_string().as_bytes()).await;
    assert_eq!(raw.answer(json!(0)).await["result"]["stopReason"], "cancelled");
    raw.end().await;
}

#[tokio::test]
async fn a_cancellation_right_behind_the_prompt_counts() {
    let stage = Stage::new(&[&fake("alpha", [vec![Act::Hang]])]);
    let mut raw = Raw::start(stage.agent());
    let session = raw.begin(&stage).await;
    let asked =
        json!({ "jsonrpc": "2.0", "id": 5, "method": "session/prompt", "params": prompt(&session, "Go.") });
    let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    raw.send(format!("{asked}\n{cancel}").as_bytes()).await;
    assert_eq!(raw.answer(json!(5)).await["result"]["stopReason"], "cancelled");
    raw.end().await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_agent() {
    let waiting = waiting("One moment.");
    let stage = Stage::new(&[&fake("alpha", [waiting])]);
    let (theirs, ours) = tokio::io::duplex(1 << 16);
    let agent = stage.agent();
    let serving = tokio::spawn(async move {
        let (input, output) = tokio::io::split(ours);
        agent.serve(input, output, std::future::pending()).await
    });
    drop(theirs);
    let end = tokio::time::timeout(PATIENCE, serving).await.unwrap().unwrap();
    assert!(matches!(end, AcpEnd::InputClosed | AcpEnd::OutputFailed(_)), "{end:?}");
}

#[tokio::test]
async fn a_turn_waits_for_a_client_that_does_not_read_and_a_cancellation_still_comes_through() {
    let many = (0..400).map(|number| {
        // Each is a message of its own, so that none is joined with another or dropped.
        Act::Tell(nexus_core::turn::MessageEnded::new(format!("m{number}").into(), "x".repeat(20_000)).into())
    });
    let mut script: Vec<Act> = many.collect();
    script.push(Act::Tell(TextDelta::new("last".into(), "last").into()));
    script.push(Act::Hang);
    let fake = fake("alpha", [script]);
    let stage = Stage::new(&[&fake]);
    let mut raw = Raw::start(stage.agent());
    let session = raw.begin(&stage).await;
    raw.request(json!(5), "session/prompt", prompt(&session, "Go.")).await;
    let until = Instant::now() + PATIENCE;
    while fake.events_sent() < 10 {
        assert!(Instant::now() < until, "the turn does not begin");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // A turn that did not wait would go on meanwhile.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let told = fake.events_sent();
    assert!(told < 200, "{told} of 400 messages are on their way");
    let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    raw.send(cancel.to_string().as_bytes()).await;
    // Reads from now on.
    let answer = raw.answer(json!(5)).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    raw.end().await;
}

#[tokio::test]
async fn servers_that_are_not_there_are_told_once() {
    let stage = talker();
    let mut raw = Raw::start(stage.agent());
    raw.call(
        1,
        "initialize",
        json!({ "protocolVersion": 1, "clientCapabilities": { "session": { "notices": {} } } }),
    )
    .await;
    let servers = json!([
        { "name": "gone", "command": "/no/such/server", "args": [], "env": [] },
        { "name": "mute", "command": "/bin/false", "args": [], "env": [] },
        // It fails in another way each time.
        { "name": "moody", "command": "/bin/sh", "args": ["-c", "[ -e was ] && echo '{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":1,\"message\":\"no\"}}'; : > was"], "env": [] },
        { "name": "far", "type": "http", "url": "http://127.0.0.1:1/", "headers": [] },
    ]);
    let answer = raw.call(2, "session/new", json!({ "cwd": stage.cwd(), "mcpServers": servers })).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    for expected in [4, 0] {
        raw.request(json!(3), "session/prompt", prompt(&session, "Go.")).await;
        let mut notices = 0;
        loop {
            let message = raw.next().await;
            if message["id"] == 3 {
                break;
            }
            let update = &message["params"]["update"];
            notices += u32::from(
                update["sessionUpdate"] == "notice" && update["title"].as_str().unwrap().contains("MCP"),
            );
        }
        assert_eq!(notices, expected);
    }
    raw.end().await;
}

#[tokio::test]
async fn more_requests_than_can_be_worked_on_are_answered_too() {
    let stage = Stage::new(&[&fake("alpha", [vec![Act::Hang]])]);
    let mut raw = Raw::start(stage.agent());
    raw.call(1, "initialize", json!({ "protocolVersion": 1 })).await;
    let mut refused = 0;
    for number in 0..300_u64 {
        let answer = raw.call(2, "session/new", json!({ "cwd": stage.cwd() })).await;
        if let Some(error) = answer.get("error") {
            assert!(error["message"].as_str().unwrap().contains("requests are in progress"), "{error}");
            refused += 1;
            continue;
        }
        let session = answer["result"]["sessionId"].as_str().unwrap();
        raw.request(json!(1_000 + number), "session/prompt", prompt(session, "Go.")).await;
    }
    assert!(refused > 30, "{refused}");
    let (last, _) = raw.end().await;
    let cancelled = last.iter().filter(|message| message["result"]["stopReason"] == "cancelled").count();
    assert!(cancelled > 200, "{cancelled}");
}

//! The fifteen tools as a client has them: how large answers are, what a call in the wrong status is told, and several clients
//! over the protocol.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use nexus_mcp::{CallAnswer, CallContext, MAX_ANSWER_BYTES, StdioSettings, ToolService as _, serve_lines};
use nexus_tasks::{EntryProgress, TaskTools, Tasks};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::kit::{Act, Seen, World, honest};

/// The tools over the tasks of a world.
fn tools(tasks: &Tasks) -> Arc<TaskTools> {
    let tasks = tasks.clone();
    Arc::new(TaskTools::new(move || Ok(tasks.clone())))
}

async fn call(tools: &TaskTools, name: &str, arguments: Value) -> CallAnswer {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    tools.call(name, arguments, CallContext::unattended()).await
}

/// The structured answer of a call that does not fail: the text says the same, it fits, and it is of its schema.
async fn told(tools: &TaskTools, name: &str, arguments: Value) -> Value {
    let answer = call(tools, name, arguments).await;
    assert!(!answer.is_error, "{name}: {}", answer.text);
    let structured = answer.structured.expect("structured content");
    assert_eq!(serde_json::from_str::<Value>(&answer.text).unwrap(), structured, "{name}");
    assert!(answer.text.len() <= MAX_ANSWER_BYTES, "{name} answers {} bytes", answer.text.len());
    let served = tools.tools().into_iter().find(|tool| tool.name == name).unwrap();
    jsonschema::validate(&served.output_schema.unwrap(), &structured)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    structured
}

/// A text of so many bytes in which every character is written as two in JSON.
fn long(begin: &str, bytes: usize) -> String {
    format!("{begin} {}", "\"".repeat(bytes - begin.len() - 1))
}

/// The longest id of a criterion.
fn criterion(number: usize) -> String {
    format!("c{number:02}{}", "x".repeat(61))
}

/// A brief in which everything is as long and as much as may be.
fn largest() -> Value {
    let criteria: Vec<Value> =
        (0..64).map(|number| json!({ "id": criterion(number), "text": long("it holds", 2_048) })).collect();
    let plan: Vec<Value> = (0..12)
        .map(|number| {
            let path = format!("src/{number}.txt");
            json!({
                "tier": "execution", "phase": "implement", "agent_type": "executor",
                "outcome": long(&format!("make {path}\n"), 2_048),
                "criteria": (0..64).map(criterion).collect::<Vec<_>>(),
                "write_slice": [path],
                "parallel_group": if number < 6 { "g".repeat(64) } else { "h".repeat(64) },
            })
        })
        .collect();
    json!({
        "problem": long("Files are missing.", 16 << 10),
        "criteria": criteria,
        "out_of_scope": (0..64).map(|_| long("not this", 2_048)).collect::<Vec<_>>(),
        "read": ["."],
        "write": ["src"],
        "plan": plan,
    })
}

/// Agents that say as much as they may.
fn talkative(seen: &Seen) -> Vec<Act> {
    match seen.phase {
        "orchestrate" => vec![Act::Call("submit_brief", largest())],
        "implement" => {
            let claims: Vec<Value> = (0..20).map(|_| json!({ "text": long("it is there", 1_000) })).collect();
            // All but one of them are somebody else's.
            let write = |number| {
                let path = format!("src/{number}.txt");
                Act::Call("write_file", json!({ "path": path, "content": "x\n".repeat(2_000) }))
            };
            let submit = json!({ "claims": claims, "action": "step_done" });
            (0..12).map(write).chain([Act::Call("submit_handoff", submit)]).collect()
        }
        _ => {
            // The first review sends the work back, with all that may be said.
            let decision = if seen.turn < 2 { "retry" } else { "advance" };
            let judgement = if decision == "retry" { "fail" } else { "pass" };
            let line = if seen.turn < 4 { "diff:src/0.txt:1" } else { "diff:src/6.txt:1" };
            let judged = |id: String| json!({ "id": id, "judgement": judgement, "evidence": [line] });
            let criteria: Vec<Value> =
                (0..64).map(criterion).chain(["outcome".to_owned()]).map(judged).collect();
            let mut said = json!({ "decision": decision, "criteria": criteria, "alignment": 0.9 });
            said["retry_hint"] = json!(long("look again", 2_000));
            if decision == "retry" {
                let evidence = said["criteria"][0]["evidence"].clone();
                let concern = json!({ "text": long("this is lost", 2_000), "evidence": evidence });
                said["blocking_concerns"] = json!([concern.clone(), concern.clone(), concern]);
            }
            vec![Act::Call("submit_verdict", said)]
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_fits_whatever_a_task_holds() {
    let Some(world) = World::new(talkative) else { return };
    let tools = tools(&world.tasks);
    let labels: serde_json::Map<String, Value> =
        (0..16).map(|number| (format!("{number:0>256}"), json!("\"".repeat(256)))).collect();
    let others = [world.create().await.task_id, world.create().await.task_id];
    let create = json!({
        "goal": long("Make files.", 16 << 10),
        "context": long("It is known.", 64 << 10),
        "project": world.project(),
        "labels": labels,
        "linked_workspace_ids": others,
    });
    let id = told(&tools, "task_create", create).await["task_id"].as_str().unwrap().to_owned();
    let of = |more: Value| {
        let mut arguments = more;
        arguments["task_id"] = json!(id);
        arguments
    };
    // Calls come back before the end on a slow machine.
    let to_end = async |name: &str| loop {
        let report = told(&tools, name, of(json!({}))).await;
        if report["running"] != true {
            return report;
        }
    };
    let framed = to_end("task_orchestrate").await;
    assert_eq!(framed["task"]["status"], "active", "{framed:#}");
    assert_eq!(framed["task"]["plan"].as_array().unwrap().len(), 14, "two bands and their reviews");
    for _ in 0..2 {
        let report = to_end("task_run_turn").await;
        assert_eq!(report["step"]["end"], "advanced", "{report:#}");
        let status = told(&tools, "task_status", of(json!({}))).await;
        assert_eq!(status["plan"].as_array().unwrap().len(), 14);
        assert!(!status["criteria"].as_array().unwrap().is_empty());
    }
    let status = told(&tools, "task_status", of(json!({}))).await;
    assert_eq!(status["status"], "complete");
    assert_eq!(status["plan"][13]["progress"], json!(EntryProgress::Done));
    let result = told(&tools, "task_result", of(json!({}))).await;
    assert_eq!(result["files_in_all"], 12);
    // Everything is there in pages.
    let mut brief = String::new();
    let mut offset = json!(0);
    while !offset.is_null() {
        let page = told(&tools, "task_artifact", of(json!({ "artifact": "brief", "offset": offset }))).await;
        brief.push_str(page["text"].as_str().unwrap());
        offset = page["next_offset"].clone();
    }
    for number in 0..64 {
        assert!(brief.contains(&criterion(number)), "{number} is in the brief");
    }
    let mut offset = json!(0);
    let mut events = 0;
    while !offset.is_null() {
        let page = told(&tools, "task_log", of(json!({ "offset": offset }))).await;
        events += page["events"].as_array().unwrap().len();
        offset = page["next_offset"].clone();
    }
    assert!(events > 30, "{events}");
    told(&tools, "task_list", json!({})).await;
    let note = json!({ "note": long("Once more.", 2_048) });
    told(&tools, "task_reopen", of(note)).await;
    told(&tools, "task_cancel", of(json!({}))).await;
    for name in ["tier_list", "agent_list"] {
        told(&tools, name, json!({})).await;
    }
}

#[tokio::test]
async fn a_call_in_the_wrong_status_names_the_one_that_is_right() {
    let Some(world) = World::new(honest) else { return };
    let tools = tools(&world.tasks);
    let id = world.create().await.task_id;
    let wrong = async |name: &str, more: Value, right: &str| {
        let mut arguments = more;
        arguments["task_id"] = json!(id);
        let answer = call(&tools, name, arguments).await;
        assert!(answer.is_error && answer.text.contains(right), "{name}: {}", answer.text);
    };
    let note = || json!({ "note": "again" });
    // To be framed.
    wrong("task_run_turn", json!({}), "task_orchestrate").await;
    wrong("task_run_turn", json!({ "entry": 0 }), "task_orchestrate").await;
    wrong("task_reopen", note(), "only a task that has ended can be reopened").await;
    wrong("task_orchestrate", json!({ "answers": ["x"] }), "task_orchestrate without answers").await;
    wrong("task_artifact", json!({ "artifact": "brief" }), "task_").await;
    wrong("task_artifact", json!({ "artifact": "../status.json" }), "verdict-N").await;
    // Active.
    told(&tools, "task_orchestrate", json!({ "task_id": id })).await;
    wrong("task_reopen", note(), "only a task that has ended can be reopened").await;
    wrong("task_run_turn", json!({ "entry": 5 }), "task_run_turn without entry").await;
    wrong("task_run_turn", json!({ "entry": 50 }), "task_status").await;
    // Cancelled.
    told(&tools, "task_cancel", json!({ "task_id": id })).await;
    wrong("task_run_turn", json!({}), "task_reopen").await;
    wrong("task_orchestrate", json!({}), "task_reopen").await;
    wrong("task_reopen", json!({ "note": " " }), "note").await;
    wrong("task_reopen", json!({ "note": "x", "from_entry": 50 }), "task_status lists the plan").await;
    // Complete.
    told(&tools, "task_reopen", json!({ "task_id": id, "note": "again" })).await;
    while told(&tools, "task_run_turn", json!({ "task_id": id })).await["status"] == "active" {}
    wrong("task_run_turn", json!({}), "task_result").await;
    wrong("task_orchestrate", json!({}), "task_result").await;
    wrong("task_cancel", json!({}), "task_reopen").await;
}

#[tokio::test]
async fn a_call_waits_as_long_as_it_is_asked_and_comes_back_running() {
    let Some(world) = World::new(|_| vec![Act::Hang]) else { return };
    let tools = tools(&world.tasks);
    let id = world.create().await.task_id;
    for (asked, least) in [(0, 0), (1, 1)] {
        for name in ["task_orchestrate", "task_status"] {
            let began = std::time::Instant::now();
            let answer = told(&tools, name, json!({ "task_id": id, "wait_s": asked })).await;
            assert_eq!(answer["running"], true);
            let waited = began.elapsed();
            assert!(
                waited >= Duration::from_secs(least) && waited < Duration::from_secs(60),
                "{name}: {waited:?}"
            );
        }
    }
    let answer = call(&tools, "task_status", json!({ "task_id": id, "wait_s": -1 })).await;
    assert!(answer.is_error && answer.text.contains("wait_s"), "{}", answer.text);
    tools.stop().await;
}

/// A client that writes and reads lines.
struct Client {
    input: io::PipeWriter,
    output: mpsc::UnboundedReceiver<Value>,
    notices: Vec<Value>,
}

impl Client {
    fn of(tools: &Arc<TaskTools>) -> Self {
        let (theirs, input) = io::pipe().unwrap();
        let (output, ours) = io::pipe().unwrap();
        let (sender, receiver) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                let line = serde_json::from_str(&line).expect("every line is JSON");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let service = Arc::clone(tools);
        tokio::spawn(serve_lines(
            service,
            StdioSettings::default(),
            BufReader::new(theirs),
            ours,
            std::future::pending(),
        ));
        Self { input, output: receiver, notices: Vec::new() }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    async fn next(&mut self) -> Value {
        tokio::time::timeout(Duration::from_secs(60), self.output.recv())
            .await
            .expect("in time")
            .expect("a line")
    }

    /// The answer to a request; what is told beside is kept.
    async fn answer(&mut self, id: u32) -> Value {
        loop {
            let line = self.next().await;
            if line["id"] == id {
                return line["result"].clone();
            }
            self.notices.push(line);
        }
    }

    fn begin(&mut self, id: u32, tool: &str, arguments: &Value, meta: &Value) {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    }

    async fn call(&mut self, id: u32, tool: &str, arguments: &Value) -> Value {
        self.begin(id, tool, arguments, &json!({}));
        self.answer(id).await["structuredContent"].clone()
    }
}

/// Of a client that takes answers later.
fn taking_tasks() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
    })
}

/// Agents whose work waits for the test.
fn held(gate: &Arc<Semaphore>) -> impl Fn(&Seen) -> Vec<Act> + use<> {
    let gate = Arc::clone(gate);
    move |seen| {
        let mut acts = honest(seen);
        if seen.phase == "implement" {
            acts.insert(0, Act::Wait(Arc::clone(&gate)));
        }
        acts
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_join_one_step_and_are_told_its_progress() {
    let gate = Arc::new(Semaphore::new(0));
    let Some(world) = World::new(held(&gate)) else { return };
    let tools = tools(&world.tasks);
    let (mut one, mut other) = (Client::of(&tools), Client::of(&tools));
    let id = world.framed().await;
    let step = json!({ "task_id": id });
    one.begin(1, "task_run_turn", &step, &json!({ "progressToken": "p" }));
    world.until(|world| world.turns("implement") == 1).await;
    other.begin(1, "task_run_turn", &step, &json!({}));
    // A client that gives up changes nothing of the step.
    let mut third = Client::of(&tools);
    third.begin(1, "task_run_turn", &step, &json!({}));
    let cancelled =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    third.send(&cancelled);
    loop {
        let notice = one.next().await;
        assert_eq!(
            (&notice["method"], &notice["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("p"))
        );
        let line = notice["params"]["message"].as_str().unwrap();
        if line.starts_with("step 1 of 3") {
            break;
        }
    }
    gate.add_permits(1);
    let (first, second) = (one.answer(1).await, other.answer(1).await);
    assert_eq!(first["structuredContent"], second["structuredContent"]);
    assert_eq!(first["structuredContent"]["step"]["end"], "advanced", "{first:#}");
    assert_eq!(world.turns("implement"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_fetches_answers_later_gets_a_whole_step_by_one_call() {
    let gate = Arc::new(Semaphore::new(0));
    let Some(world) = World::new(held(&gate)) else { return };
    let tools = tools(&world.tasks);
    let mut client = Client::of(&tools);
    let id = world.framed().await;
    // It is given a protocol task although the call itself would come back after a second.
    client.begin(1, "task_run_turn", &json!({ "task_id": id, "wait_s": 2 }), &taking_tasks());
    let created = client.answer(1).await;
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    let fetch = json!({ "taskId": created["taskId"], "_meta": taking_tasks() });
    let mut number = 1;
    let mut get = async |client: &mut Client| {
        number += 1;
        client.send(&json!({ "jsonrpc": "2.0", "id": number, "method": "tasks/get", "params": fetch }));
        client.answer(number).await
    };
    let working = get(&mut client).await;
    assert_eq!(working["status"], "working");
    assert!(working["statusMessage"].as_str().unwrap().starts_with("step 1 of 3"), "{working}");
    // Another client asks plainly meanwhile, and is told that it runs: longer than the call was to wait.
    let mut other = Client::of(&tools);
    let plain = other.call(1, "task_run_turn", &json!({ "task_id": id, "wait_s": 3 })).await;
    assert_eq!(plain["running"], true);
    assert_eq!(get(&mut client).await["status"], "working");
    gate.add_permits(1);
    let fetched = loop {
        let fetched = get(&mut client).await;
        if fetched["status"] != "working" {
            break fetched;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let report = &fetched["result"]["structuredContent"];
    assert_eq!(
        (&report["running"], &report["step"]["end"]),
        (&json!(false), &json!("advanced")),
        "{fetched:#}"
    );
    assert_eq!(world.turns("implement"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_below_the_roots_of_a_client_is_taken_and_of_no_other_client() {
    let Some(world) = World::with(honest, &json!({}), |options| options.roots.clear()) else { return };
    let tools = tools(&world.tasks);
    let create = json!({ "goal": "Make files.", "project": world.project() });
    // The end of one of them would end what they share.
    let mut clients = [Client::of(&tools), Client::of(&tools), Client::of(&tools)].into_iter();
    let mut gone = Vec::new();
    let mut begin = async |roots: Option<PathBuf>| {
        let mut client = clients.next().expect("a client");
        let capabilities = if roots.is_some() { json!({ "roots": {} }) } else { json!({}) };
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" } });
        client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }));
        client.answer(1).await;
        client.begin(2, "task_create", &create, &json!({}));
        if let Some(root) = roots {
            let asked = client.next().await;
            assert_eq!(asked["method"], "roots/list");
            let listed = json!({ "roots": [{ "uri": format!("file://{}", root.display()) }] });
            client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": listed }));
        }
        let answer = client.answer(2).await;
        gone.push(client);
        answer
    };
    let refused = begin(None).await;
    assert_eq!(refused["isError"], true);
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("nexus.yaml"), "{refused}");
    assert_eq!(begin(Some(world.root.join("elsewhere"))).await["isError"], true);
    let created = begin(Some(world.root.clone())).await;
    assert_eq!(created["structuredContent"]["status"], "framing", "{created}");
}

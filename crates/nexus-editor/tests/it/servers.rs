//! Servers of tools that the client names: what they answer, and how long they are waited for.

use std::{fs, path::Path, time::Duration};

use agent_client_protocol::v1::schema::{McpServer, McpServerStdio, NewSessionRequest, SessionId};
use nexus_core::{ToolAccess, ToolContent, ToolResult};
use nexus_testkit::scripted::{Act, ScriptedBackend, answer};
use serde_json::{Value, json};

use crate::kit::{Editor, PATIENCE, Person, Raw, Stage, fake, prompt};

/// The most that a tool answers a model with, in bytes.
const MOST_BYTES: usize = 10_000;

const MINUTE: Duration = Duration::from_secs(60);

/// A server in the shell with one tool, `look`. `call` answers the request `$id`, and begins with the file `called`; it is up with the
/// line that it adds to `starts`.
fn server(call: &str) -> String {
    format!(
        r#"echo >> starts
        while read -r line; do
            id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
            case "$line" in
            *'"initialize"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}';;
            *'"tools/list"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"tools":[{{"name":"look","description":"Looks.","inputSchema":{{"type":"object"}}}}]}}}}';;
            *'"tools/call"'*) : > called; {call};;
            *'"notifications/cancelled"'*) : > cancelled;;
            esac
        done"#
    )
}

/// Answers with a content that `$text` is the JSON of.
const ANSWER: &str =
    r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":%s%s}}\n' "$id" "$text" "$more""#;

fn talker(acts: Vec<Act>) -> std::sync::Arc<ScriptedBackend> {
    fake("alpha", [acts.into_iter().chain(answer("Done.")).collect()])
}

async fn session(editor: &Editor, stage: &Stage, script: &str) -> SessionId {
    editor.initialize().await;
    let arguments = vec!["-c".to_owned(), script.to_owned()];
    let server = McpServer::Stdio(McpServerStdio::new("s", "/bin/sh").args(arguments));
    let request = NewSessionRequest::new(stage.cwd()).mcp_servers(vec![server]);
    editor.ask(request).await.unwrap().session_id
}

/// What the tool of a server answers the model of one turn.
async fn answered(call: &str) -> ToolResult {
    let fake = talker(vec![Act::Call("s_look", json!({}))]);
    let stage = Stage::new(&[&fake]);
    stage
        .drive(Person::Allows, async |editor| {
            let session = session(&editor, &stage, &server(call)).await;
            editor.prompt(&session, "Go.").await.unwrap();
        })
        .await;
    fake.answers().pop().expect("it was called")
}

fn texts(result: &ToolResult) -> String {
    let texts = result.content.iter().map(|content| match content {
        ToolContent::Text { text } => text.clone(),
        ToolContent::Json { value } => value.to_string(),
        _ => String::new(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

async fn until_there(file: &Path) {
    let until = std::time::Instant::now() + PATIENCE;
    while !file.exists() {
        assert!(std::time::Instant::now() < until, "{} is not written", file.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sets the clock forward.
async fn let_pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_result_of_four_megabytes_reaches_the_model_cut_and_with_a_note() {
    let long = r#"text='[{"type":"text","text":"'$(head -c 4000000 /dev/zero | tr '\0' x)'"}]'; more=;"#;
    let failed = r#"text='[{"type":"text","text":"'$(head -c 4000000 /dev/zero | tr '\0' x)'"}]'; more=',"isError":true';"#;
    let value =
        r#"text='[]'; more=',"structuredContent":{"log":"'$(head -c 4000000 /dev/zero | tr '\0' x)'"}';"#;
    let many = r#"text='[{"type":"text","text":"x"}'$(head -c 40000 /dev/zero | sed 's/\x00/,{"type":"text","text":"lines of a log"}/g')']'; more=;"#;
    for (name, content) in [("long", long), ("failed", failed), ("value", value), ("many", many)] {
        let result = answered(&format!("{content} {ANSWER}")).await;
        let text = texts(&result);
        assert!(text.len() <= MOST_BYTES, "{name}: {} bytes reach the model", text.len());
        let end = &text[text.len().saturating_sub(300)..];
        assert!(end.contains("left out"), "{name}: the model is not told: {end}");
        assert_eq!(result.is_error, name == "failed");
    }
}

#[tokio::test]
async fn a_picture_that_is_too_large_is_named_and_one_that_is_not_stays() {
    let picture = |bytes: usize| {
        format!(
            r#"text='[{{"type":"text","text":"seen"}},{{"type":"image","mimeType":"image/png","data":"'$(head -c {bytes} /dev/zero | tr '\0' A)'"}}]'; more=; {ANSWER}"#
        )
    };
    let result = answered(&picture(1 << 20)).await;
    assert!(
        matches!(&result.content[..], [ToolContent::Text { .. }, ToolContent::Image { data, .. }] if data.len() == 1 << 20)
    );
    let result = answered(&picture(6 << 20)).await;
    assert!(
        !result.content.iter().any(|content| matches!(content, ToolContent::Image { .. })),
        "a picture of 6 MiB reaches the model"
    );
    assert!(texts(&result).contains("picture"), "{}", texts(&result));
}

#[tokio::test]
async fn a_small_result_is_passed_as_it_is() {
    let call =
        format!(r#"text='[{{"type":"text","text":"one"}},{{"type":"text","text":"two"}}]'; more=; {ANSWER}"#);
    assert_eq!(
        answered(&call).await,
        ToolResult::ok(vec![ToolContent::text("one"), ToolContent::text("two")])
    );
}

#[tokio::test]
async fn a_call_that_is_never_answered_ends_after_ten_minutes() {
    let fake = talker(vec![Act::Call("s_look", json!({}))]);
    let stage = Stage::new(&[&fake]);
    stage
        .drive(Person::Allows, async |editor| {
            let session = session(&editor, &stage, &server("true")).await;
            let asking = editor.prompt(&session, "Go.");
            let passing = async {
                until_there(&stage.cwd().join("called")).await;
                let_pass(11 * MINUTE).await;
            };
            let asked = async { tokio::join!(asking, passing).0 };
            let asked = tokio::time::timeout(11 * MINUTE + PATIENCE / 2, asked).await;
            // Its server is told that the answer is not wanted any more.
            asked.expect("the call is still waited for after eleven minutes").unwrap();
            until_there(&stage.cwd().join("cancelled")).await;
        })
        .await;
    let answer = fake.answers().pop().unwrap();
    assert!(answer.is_error && texts(&answer).contains("10m"), "{answer:?}");
}

#[tokio::test]
async fn progress_extends_the_time_of_a_call() {
    let fake = talker(vec![Act::Call("s_look", json!({}))]);
    let stage = Stage::new(&[&fake]);
    let token = r#"token=$(printf '%s' "$line" | sed -n 's/.*"progressToken":\([0-9]*\).*/\1/p')"#;
    let call = format!(
        r#"{token}
            for step in 1 2 3; do
                while [ ! -e step$step ]; do sleep 0.01; done
                printf '{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":%s,"progress":%s}}}}\n' "$token" $step
                : > told$step
            done
            while [ ! -e step4 ]; do sleep 0.01; done
            text='[{{"type":"text","text":"at last"}}]'; more=; {ANSWER}"#
    );
    stage
        .drive(Person::Allows, async |editor| {
            let session = session(&editor, &stage, &server(&call)).await;
            let cwd = stage.cwd();
            let passing = async {
                until_there(&cwd.join("called")).await;
                for step in 1..=3 {
                    let_pass(9 * MINUTE).await;
                    fs::write(cwd.join(format!("step{step}")), "").unwrap();
                    until_there(&cwd.join(format!("told{step}"))).await;
                    // What was told is on its way through a pipe and two tasks of this program.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                fs::write(cwd.join("step4"), "").unwrap();
            };
            tokio::join!(editor.prompt(&session, "Go."), passing).0.unwrap();
        })
        .await;
    let answer = fake.answers().pop().unwrap();
    assert_eq!(texts(&answer), "at last");
}

#[tokio::test]
async fn a_cancelled_prompt_takes_its_call_back() {
    let fake = talker(vec![Act::Call("s_look", json!({}))]);
    let stage = Stage::new(&[&fake]);
    stage
        .drive(Person::Allows, async |editor| {
            let session = session(&editor, &stage, &server("true")).await;
            let cancelling = async {
                until_there(&stage.cwd().join("called")).await;
                let cancel = agent_client_protocol::v1::schema::CancelNotification::new(session.clone());
                editor.connection.send_notification(cancel).unwrap();
            };
            tokio::join!(editor.prompt(&session, "Go."), cancelling).0.unwrap();
            until_there(&stage.cwd().join("cancelled")).await;
        })
        .await;
}

/// A client that is shown notices, and a session with a server.
async fn begun(stage: &Stage, script: &str) -> (Raw, String) {
    let mut raw = Raw::start(stage.agent());
    let capabilities = json!({ "session": { "notices": {} } });
    raw.call(1, "initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities })).await;
    let servers = json!([{ "name": "s", "command": "/bin/sh", "args": ["-c", script], "env": [] }]);
    let answer = raw.call(2, "session/new", json!({ "cwd": stage.cwd(), "mcpServers": servers })).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    (raw, session)
}

/// Waits for the answer to a prompt, and returns what was told meanwhile.
async fn told(raw: &mut Raw, id: u64) -> String {
    let mut told = String::new();
    loop {
        let message = raw.next().await;
        if message["id"] == id && message.get("method").is_none() {
            assert!(message.get("error").is_none(), "{message}");
            return told;
        }
        let update: &Value = &message["params"]["update"];
        for text in [&update["title"], &update["content"]["text"]] {
            told.push_str(text.as_str().unwrap_or_default());
            told.push('\n');
        }
    }
}

fn names(fake: &ScriptedBackend) -> Vec<String> {
    fake.asked().last().unwrap().tool_names()
}

fn starts(stage: &Stage) -> usize {
    fs::read_to_string(stage.cwd().join("starts")).unwrap_or_default().len()
}

/// Hangs unless there is a file `mended`.
fn hanging() -> String {
    format!("if [ ! -e mended ]; then echo >> starts; exec cat > /dev/null; fi; {}", server("true"))
}

#[tokio::test]
async fn a_server_that_hangs_costs_its_time_once_and_is_started_again_on_demand() {
    let fake = talker(Vec::new());
    let stage = Stage::new(&[&fake]);
    let (mut raw, session) = begun(&stage, &hanging()).await;
    raw.request(json!(3), "session/prompt", prompt(&session, "Go.")).await;
    until_there(&stage.cwd().join("starts")).await;
    let_pass(MINUTE).await;
    let first = told(&mut raw, 3).await;
    assert!(first.contains("s: it listed no tools within 30 s"), "{first}");
    for id in [4, 5] {
        raw.request(json!(id), "session/prompt", prompt(&session, "Go on.")).await;
        let further = told(&mut raw, id).await;
        assert_eq!(starts(&stage), 1, "the prompt waits for the server again");
        assert!(!further.contains("MCP"), "it is told again: {further}");
    }
    assert!(first.contains("/servers"), "how to try again is not told: {first}");

    // Not mended yet.
    raw.request(json!(6), "session/prompt", prompt(&session, "/servers")).await;
    while starts(&stage) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let_pass(MINUTE).await;
    let again = told(&mut raw, 6).await;
    assert!(again.contains("s: it listed no tools within 30 s"), "{again}");

    fs::write(stage.cwd().join("mended"), "").unwrap();
    raw.request(json!(7), "session/prompt", prompt(&session, "/servers")).await;
    let mended = told(&mut raw, 7).await;
    assert!(mended.contains("Running MCP servers: 1 of 1. Tools: 1."), "{mended}");
    raw.request(json!(8), "session/prompt", prompt(&session, "Go.")).await;
    told(&mut raw, 8).await;
    assert_eq!(names(&fake), ["s_look"]);
    raw.end().await;
}

#[tokio::test]
async fn prompts_that_are_cancelled_while_a_server_starts_wait_for_the_same_start() {
    let fake = talker(Vec::new());
    let stage = Stage::new(&[&fake]);
    let (mut raw, session) = begun(&stage, &hanging()).await;
    for id in [3, 4, 5] {
        raw.request(json!(id), "session/prompt", prompt(&session, "Go.")).await;
        until_there(&stage.cwd().join("starts")).await;
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
        raw.send(cancel.to_string().as_bytes()).await;
        let answer = raw.answer(json!(id)).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled");
    }
    assert_eq!(starts(&stage), 1, "each prompt starts the server anew");
    raw.request(json!(6), "session/prompt", prompt(&session, "Go.")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let_pass(MINUTE).await;
    assert!(told(&mut raw, 6).await.contains("s: it listed no tools within 30 s"));
    assert_eq!(starts(&stage), 1, "a cancelled prompt's server is started anew");
    raw.end().await;
}

#[tokio::test]
async fn descriptions_that_are_too_long_for_a_model_are_cut_and_such_schemas_left_out() {
    let fake = talker(Vec::new());
    let stage = Stage::new(&[&fake]);
    let listed = r#"long=$(head -c 2000000 /dev/zero | tr '\0' x)
        while read -r line; do
            id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
            case "$line" in
            *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}';;
            *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"wordy","description":"%s","inputSchema":{"type":"object"}},{"name":"huge","inputSchema":{"type":"object","description":"%s"}},{"name":"look","inputSchema":{"type":"object"}}]}}\n' "$id" "$long" "$long";;
            esac
        done"#;
    let (mut raw, session) = begun(&stage, listed).await;
    raw.request(json!(3), "session/prompt", prompt(&session, "Go.")).await;
    let told = told(&mut raw, 3).await;
    let described = fake.asked().last().unwrap().tools.iter().map(|tool| tool.description.len()).max();
    assert!(described <= Some(MOST_BYTES + 100), "{described:?} bytes of a description reach the model");
    assert_eq!(names(&fake), ["s_wordy", "s_look"], "a schema of 2 MB reaches the model");
    assert!(told.contains("huge"), "{told}");
    raw.end().await;
}

#[tokio::test]
async fn servers_of_the_configuration_are_offered_beside_those_of_the_editor() {
    let fake = talker(vec![Act::Call("trees_look", json!({}))]);
    let mut stage = Stage::new(&[&fake]);
    stage.options = stage.options.with_access(ToolAccess::Unrestricted);
    let answering = format!(r#"text='[{{"type":"text","text":"a green tree"}}]'; more=; {ANSWER}"#);
    let command = json!(["/bin/sh", "-c", server(&answering)]);
    stage.configure(&format!(
        "groups: {{ alpha: [alpha] }}\ntypes: {{ alpha: {{ group: alpha }} }}\nmcp_servers:\n  \
         trees: {{ command: {command} }}\n  gone: {{ command: [/no/such/program] }}\n"
    ));
    let (mut raw, id) = begun(&stage, &server("true")).await;
    raw.request(json!(3), "session/prompt", prompt(&id, "/servers")).await;
    let listed = told(&mut raw, 3).await;
    assert!(listed.contains("Running MCP servers: 2 of 3. Tools: 2."), "{listed}");
    assert!(listed.contains("mcp_servers.gone: its tools are missing: "), "{listed}");
    raw.end().await;

    stage
        .drive(Person::Allows, async |editor| {
            let session = session(&editor, &stage, &server("true")).await;
            editor.prompt(&session, "Go.").await.unwrap();
        })
        .await;
    assert_eq!(names(&fake), ["trees_look", "s_look"]);
    assert_eq!(texts(&fake.answers().pop().unwrap()), "a green tree");

    // A server that the configuration requires stops the prompt, and the session goes on.
    stage.configure(
        "groups: { alpha: [alpha] }\ntypes: { alpha: { group: alpha } }\n\
         mcp_servers: { gone: { command: [/no/such/program], required: true } }\n",
    );
    let (mut raw, id) = begun(&stage, &server("true")).await;
    raw.request(json!(3), "session/prompt", prompt(&id, "Go.")).await;
    let refused = raw.answer(json!(3)).await;
    assert!(refused["error"].to_string().contains("mcp_servers.gone: "), "{refused}");
    raw.end().await;
}

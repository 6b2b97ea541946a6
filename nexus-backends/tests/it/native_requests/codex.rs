//! `codex-sub-token`: both shapes of the endpoint.

use std::time::{Duration, SystemTime};

use nexus_backends::codex::CodexSubToken;
use nexus_core::{Availability, Effort, ErrorKind, Retry, TurnEvent, TurnHost, TurnRequest};
use nexus_testkit::sim::{Dialect, Fault, Model, RateLimit, RecordedRequest, Reply, Scenario, Sim};
use serde_json::{Value, json};

use super::support::{
    Recorded, TOKEN, adder, backend, build, compare, compare_headers, input, of_type, run, sum,
};

/// What the vendor's program tells about itself, its installation and the user's folders.
const ABOUT_ITSELF: [&str; 7] = [
    "version",
    "x-codex-beta-features",
    "x-codex-window-id",
    "x-codex-turn-metadata",
    "x-codex-routing-hint",
    "content-encoding",
    "x-codex-turn-state",
];
const BOOKKEEPING: &str = "internal_chat_message_metadata_passthrough";

/// Runs the sum on `model`, at a server that refuses what the endpoint refuses.
async fn requests(model: Model, effort: Effort) -> (Sim, Vec<RecordedRequest>) {
    let name = model.name.clone();
    let sim = Sim::start(Dialect::Responses, Scenario::new(sum()).models([model]).strict()).unwrap();
    let request =
        TurnRequest::new("Add 20 and 22.").with_system("Be brief.").with_model(name).with_effort(effort);
    let (outcome, _) = run(&backend(&CodexSubToken, &sim, json!({})), request, adder()).await;
    assert_eq!(outcome.unwrap().text, "The sum is 42.");
    let calls = sim.main_calls();
    assert_eq!(calls.len(), 2);
    (sim, calls)
}

#[tokio::test]
async fn a_classic_request_is_as_the_vendors_program_makes_it() {
    let (_sim, calls) = requests(Model::new("gpt-5.5"), Effort::Medium).await;
    for (sent, name) in calls.iter().zip(["request-classic-gpt-5.5-1", "request-classic-gpt-5.5-2"]) {
        let theirs = Recorded::read(name);
        // How wordy an answer is to be is left to the model; so is what the program notes about itself.
        let absent = ["client_metadata", "text"];
        compare(&sent.json, theirs.body(), &absent, &["input", "tools", "prompt_cache_key"]);
        let tool = &sent.json["tools"][0];
        compare(tool, &theirs.body()["tools"][0], &[], &["name", "description", "parameters"]);
        compare_messages(sent, &theirs);
    }
    compare_round(&calls, &Recorded::read("request-classic-gpt-5.5-2"));
}

#[tokio::test]
async fn a_lite_request_is_as_the_vendors_program_makes_it() {
    let (_sim, calls) = requests(Model::new("gpt-6.1-sol").lite(), Effort::Low).await;
    for (sent, name) in calls.iter().zip(["request-lite-gpt-6.1-sol-1", "request-lite-gpt-6.1-sol-2"]) {
        let theirs = Recorded::read(name);
        compare(&sent.json, theirs.body(), &["client_metadata", "text"], &["input", "prompt_cache_key"]);
        let (ours, first) = (&input(sent)[0], &theirs.input()[0]);
        compare(ours, first, &["id"], &["tools"]);
        compare(&ours["tools"][0], &first["tools"][0], &[], &["tools"]);
        // The second of their functions is a function like ours; the first takes JavaScript.
        let (tool, function) = (&ours["tools"][0]["tools"][0], &first["tools"][0]["tools"][1]);
        compare(tool, function, &[], &["name", "description", "parameters"]);
        compare_messages(sent, &theirs);
        assert_eq!(sent.header("x-openai-internal-codex-responses-lite"), Some("true"));
    }
    let reasoning = of_type(input(&calls[1]), "reasoning");
    compare_reasoning(&reasoning, &Recorded::read("request-lite-gpt-6.1-sol-2"));
}

/// System text, then the prompt, in messages of the same form.
fn compare_messages(sent: &RecordedRequest, theirs: &Recorded) {
    let ours = of_type(input(sent), "message");
    let theirs = of_type(theirs.input(), "message");
    let roles: Vec<&Value> = ours.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["developer", "user"]);
    assert_eq!(ours[0]["content"], json!([{ "type": "input_text", "text": "Be brief." }]));
    compare(ours[0], theirs[0], &["id", BOOKKEEPING], &["content"]);
    compare(ours[1], theirs[theirs.len() - 1], &["id", BOOKKEEPING], &["content"]);
}

fn compare_reasoning(ours: &[&Value], theirs: &Recorded) {
    let theirs = of_type(theirs.input(), "reasoning");
    assert_eq!(ours.len(), 1);
    // What was encrypted goes back as it came.
    assert!(ours[0]["encrypted_content"].is_string(), "{}", ours[0]);
    assert!(ours[0]["summary"].is_array());
    for key in ["type", "id", "summary", "encrypted_content"] {
        assert!(theirs[0].get(key).is_some(), "{key}");
    }
}

/// Reasoning, call and output follow the prompt in this order.
fn compare_round(calls: &[RecordedRequest], theirs: &Recorded) {
    let said = input(&calls[1]);
    assert_eq!(said[..2], *input(&calls[0]));
    let types = |items: &[Value]| items.iter().map(|item| item["type"].clone()).collect::<Vec<_>>();
    assert_eq!(types(&said[2..]), types(&theirs.input()[4..]));
    compare_reasoning(&of_type(said, "reasoning"), theirs);
    let (call, output) = (of_type(said, "function_call")[0], of_type(said, "function_call_output")[0]);
    let different = ["id", "name", "arguments", "call_id", "output"];
    compare(call, of_type(theirs.input(), "function_call")[0], &[BOOKKEEPING], &different);
    compare(output, of_type(theirs.input(), "function_call_output")[0], &["id", BOOKKEEPING], &different);
    assert_eq!(output["output"], "42");
    assert_eq!(output["call_id"], call["call_id"]);
}

#[tokio::test]
async fn headers_are_those_of_the_vendors_program_under_our_own_name() {
    let (_sim, calls) = requests(Model::new("gpt-5.5"), Effort::Medium).await;
    compare_headers(&calls[0], &Recorded::read("request-classic-gpt-5.5-1"), &ABOUT_ITSELF);
    compare_headers(&calls[1], &Recorded::read("request-classic-gpt-5.5-2"), &ABOUT_ITSELF[..6]);
    let (_sim, lite) = requests(Model::new("gpt-6.1-sol").lite(), Effort::Low).await;
    compare_headers(&lite[0], &Recorded::read("request-lite-gpt-6.1-sol-1"), &ABOUT_ITSELF);

    for call in calls.iter().chain(&lite) {
        assert_eq!(call.bearer(), Some(TOKEN));
        assert_eq!(call.header("chatgpt-account-id"), Some("account-1"));
        assert_eq!(call.header("originator"), Some("nexus"));
        assert_eq!(call.header("user-agent"), Some(concat!("nexus/", env!("CARGO_PKG_VERSION"))));
        let conversation = call.json["prompt_cache_key"].as_str();
        for name in ["session-id", "thread-id", "x-client-request-id"] {
            assert_eq!(call.header(name), conversation, "{name}");
        }
    }
}

#[tokio::test]
async fn where_the_server_put_the_turn_is_told_within_the_turn_alone() {
    let scenario = Scenario::new(sum().into_iter().chain(sum())).models(["gpt-5.5"]);
    let sim = Sim::start(Dialect::Responses, scenario).unwrap();
    let backend = backend(&CodexSubToken, &sim, json!({}));
    for _ in 0..2 {
        run(&backend, TurnRequest::new("Add."), adder()).await.0.unwrap();
    }
    let states: Vec<bool> =
        sim.main_calls().iter().map(|call| call.header("x-codex-turn-state").is_some()).collect();
    assert_eq!(states, [false, true, false, true]);
}

#[tokio::test]
async fn a_used_up_plan_is_told_with_the_time_of_its_reset() {
    let resets_at = 4_000_000_000;
    let sim = Sim::start(Dialect::Responses, Reply::fault(Fault::usage_limit(resets_at))).unwrap();
    let request = TurnRequest::new("Hi").with_model("gpt-5.5");
    let (outcome, events) = run(&backend(&CodexSubToken, &sim, json!({})), request, TurnHost::new()).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UsageLimit);
    assert_eq!(error.retry(), Retry::At(SystemTime::UNIX_EPOCH + Duration::from_secs(resets_at)));
    assert!(events.iter().any(|event| matches!(event, TurnEvent::RateLimit(_))));
}

#[tokio::test]
async fn how_near_the_limits_are_is_news() {
    let reply = Reply::text("Hello").rate_limit(RateLimit::warning(93.0, 4_000_000_000));
    let sim = Sim::start(Dialect::Responses, reply).unwrap();
    let request = TurnRequest::new("Hi").with_model("gpt-5.5");
    let (outcome, events) = run(&backend(&CodexSubToken, &sim, json!({})), request, TurnHost::new()).await;
    outcome.unwrap();
    let news = events.iter().find_map(|event| match event {
        TurnEvent::RateLimit(news) => Some(news),
        _ => None,
    });
    assert_eq!(news.unwrap().used_percent, Some(93.0));
}

#[tokio::test]
async fn without_a_credential_a_turn_says_what_to_do() {
    let sim = Sim::start(Dialect::Responses, Reply::text("Hello")).unwrap();
    let backend = build(&CodexSubToken, &sim.base_url(), json!({})).unwrap();
    let remedy = "run `nexus login codex`";
    let Availability::Unauthenticated { remedy: told } = backend.probe().await else {
        panic!("it has no credential");
    };
    assert!(told.contains(remedy), "{told}");
    let error = run(&backend, TurnRequest::new("Hi"), TurnHost::new()).await.0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(format!("{error:?} {error}").contains(remedy), "{error:?}");
    assert!(sim.requests().is_empty());
}

#[tokio::test]
async fn an_api_key_is_not_spent_on_a_plan() {
    let sim = Sim::start(Dialect::Responses, Reply::text("Hello")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "sk-canary").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let settings = json!({ "credential": { "file": path }, "model": "gpt-5.5" });
    let backend = build(&CodexSubToken, &sim.base_url(), settings).unwrap();
    let error = run(&backend, TurnRequest::new("Hi"), TurnHost::new()).await.0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BillingMismatch);
    assert!(!format!("{error:?}").contains("canary"));
    assert!(sim.requests().is_empty());
}

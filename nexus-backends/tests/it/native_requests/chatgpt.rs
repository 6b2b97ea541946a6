//! `chatgpt-sub-token`: what the public API takes of a plan. Source: OpenAI's pages on "Sign in with ChatGPT" for open-source
//! apps, above all their preview limitations; no request of a program was recorded.

use nexus_backends::codex::ChatgptSubToken;
use nexus_core::{Effort, ErrorKind, Limits, Retry, TurnHost, TurnRequest};
use nexus_testkit::sim::{Dialect, Model, Reply, Scenario, Sim};
use serde_json::json;

use super::support::{TOKEN, adder, backend, input, run, sum, warnings};

/// What must not be in a request.
const REFUSED: [&str; 16] = [
    "background",
    "conversation",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "moderation",
    "multi_agent",
    "prompt",
    "prompt_cache_retention",
    "safety_identifier",
    "temperature",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
    "previous_response_id",
];

#[tokio::test]
async fn a_request_holds_what_a_plan_may_ask_and_no_more() {
    let models = [Model::new("gpt-6.1-sol").public_plan()];
    let sim = Sim::start(Dialect::Responses, Scenario::new(sum()).models(models).strict()).unwrap();
    let request = TurnRequest::new("Add 20 and 22.")
        .with_system("Be brief.")
        .with_effort(Effort::Low)
        .with_limits(Limits::new().with_output_tokens(1_000));
    let (outcome, events) = run(&backend(&ChatgptSubToken, &sim, json!({})), request, adder()).await;
    assert_eq!(outcome.unwrap().text, "The sum is 42.");
    assert_eq!(warnings(&events), [""; 0]);
    let calls = sim.main_calls();
    assert_eq!(calls.len(), 2);
    for call in &calls {
        assert_eq!((call.path.as_str(), call.bearer()), ("/v1/responses", Some(TOKEN)));
        assert_eq!((&call.json["store"], &call.json["stream"]), (&json!(false), &json!(true)));
        assert_eq!(call.json["model"], "gpt-6.1-sol", "the first that the account is shown");
        for field in REFUSED.into_iter().chain(["tools", "instructions"]) {
            assert_eq!(call.json.get(field), None, "{field}");
        }
        let items = input(call);
        assert!(items.iter().all(|item| item["role"] != "system"), "{items:?}");
        assert_eq!((&items[0]["type"], &items[0]["role"]), (&json!("additional_tools"), &json!("developer")));
        assert_eq!(items[0]["tools"][0]["type"], "namespace");
        assert_eq!(items[0]["tools"][0]["tools"][0]["name"], "add");
        assert_eq!(items[1]["role"], "developer");
        for header in ["chatgpt-account-id", "originator", "x-openai-internal-codex-responses-lite"] {
            assert_eq!(call.header(header), None, "{header}");
        }
    }
    let second = input(&calls[1]);
    assert!(second.iter().any(|item| item["type"] == "function_call_output"), "the history goes along");
}

#[tokio::test]
async fn a_limit_that_is_reached_within_the_stream_is_one_and_no_time_is_made_up() {
    let code = "subscription_sharing_usage_limit_exceeded";
    let reply = Reply::text("Half of it").broken(code, "The limit is reached.");
    let sim = Sim::start(Dialect::Responses, Scenario::new([reply])).unwrap();
    let request = TurnRequest::new("Hello.").with_model("gpt-6.1-sol");
    let (outcome, _) = run(&backend(&ChatgptSubToken, &sim, json!({})), request, TurnHost::new()).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::UsageLimit, Retry::Never), "{error:?}");
    let message = error.message().unwrap();
    assert!(message.contains("The limit is reached.") && message.contains("settings/usage"), "{message}");
}

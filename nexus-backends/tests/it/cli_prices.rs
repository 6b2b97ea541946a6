//! `prices` of a delegated backend: they give the cost of a turn whose program reports tokens and no cost.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

use nexus_backends::{claude::cli::ClaudeCli, grok::cli::GrokCli};
use nexus_core::{
    BuildContext, CostReport, CostSource, Enforcement, ErrorKind, ExecutionBackend, Limit, Limits,
    ToolAccess, TurnRequest, Usd,
};
use serde_json::{Value, json};

use crate::{
    codex_transcripts,
    support::{player::Player, ran::Ran},
};

/// Price of a million tokens at which one token costs one dollar.
const DOLLAR: u32 = 1_000_000;

/// Settings with a price of these models: a dollar for each token of input and output.
fn metered(models: &[&str]) -> Value {
    let price = json!({ "input": DOLLAR, "output": DOLLAR });
    let prices: BTreeMap<_, _> = models.iter().map(|model| (*model, price.clone())).collect();
    json!({ "credential": { "env": "TOKEN" }, "billing": "metered", "prices": prices })
}

fn request() -> TurnRequest {
    TurnRequest::new("As recorded.").with_tool_access(ToolAccess::Unrestricted)
}

/// Asserts that each of a turn's tokens costs a dollar, as computed.
#[track_caller]
fn costs_its_tokens(ran: &Ran, tokens: u64) {
    let result = ran.result();
    assert_eq!(result.usage.total_tokens(), Some(tokens));
    let cost = result.cost.expect("the turn has a cost");
    assert!((cost.usd.0 - tokens as f64).abs() < 1e-6, "{cost:?} for {tokens}");
    assert_eq!(cost.source, CostSource::Estimated);
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_reports_no_cost_so_prices_give_it_and_enforce_a_limit() {
    // The sandbox of the recording.
    let recorded = || request().with_tool_access(ToolAccess::ReadOnly);
    let player = |settings: Value| codex_transcripts::player_with("command-ok", settings);
    let plain = player(json!({ "credential": { "env": "TOKEN" } }));
    let capabilities = plain.backend.capabilities();
    assert_eq!((capabilities.cost, capabilities.limits.cost), (CostReport::Never, Enforcement::Unsupported));
    let ran = plain.play(recorded()).await;
    assert_eq!(ran.result().cost, None);
    let model = ran.result().provenance.model.clone().expect("the recording names the model");

    let priced = player(metered(&[model.as_str()]));
    let capabilities = priced.backend.capabilities();
    assert_eq!((capabilities.cost, capabilities.limits.cost), (CostReport::Estimated, Enforcement::Ours));
    costs_its_tokens(&priced.play(recorded()).await, 300);

    let limited = |usd: f64| recorded().with_limits(Limits::new().with_cost(Usd(usd)));
    assert!(priced.play(limited(300.0)).await.outcome.is_ok());
    let ran = player(metered(&[model.as_str()])).play(limited(100.0)).await;
    assert_eq!(ran.error().kind(), ErrorKind::LimitReached(Limit::Cost));
    assert!(
        ran.error().partial().cost.is_some_and(|cost| cost.usd.0 >= 150.0),
        "{:?}",
        ran.error().partial()
    );

    // Nothing would enforce a limit without the price of the model.
    let ran = player(metered(&["another"])).play(limited(100.0)).await;
    assert_eq!(ran.error().kind(), ErrorKind::LimitReached(Limit::Cost));
    assert!(ran.error().to_string().contains("`prices`"), "{}", ran.error());
    let ran = player(metered(&["another"])).play(limited(100.0).with_model(model)).await;
    assert_eq!(ran.error().kind(), ErrorKind::Unsupported);
    assert!(ran.error().partial().usage.total_tokens().is_none(), "no process was started");
    let ran = player(metered(&["another"])).play(recorded()).await;
    assert_eq!(ran.result().cost, None, "a cost of another model would be wrong");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_that_claude_reports_wins_over_prices() {
    const RECORDING: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/claude/plain_stdin.jsonl");
    let models = ["claude-opus-4-8", "claude-opus-4-8[1m]"];
    for (filter, reported) in [("s/x/x/", Some(0.000_499_25)), (r#"s/"total_cost_usd":[0-9.]*,//"#, None)] {
        let script = format!("sed -e '{filter}' '{RECORDING}'");
        let player = Player::new(&ClaudeCli, "2.1.197 (Claude Code)", metered(&models), &script);
        let limits = player.backend.capabilities().limits;
        assert_eq!(limits.cost, Enforcement::Vendor, "prices do not replace the program's own limit");
        let ran = player.play(request()).await;
        match reported {
            Some(usd) => assert_eq!(ran.result().cost.unwrap().usd, Usd(usd)),
            None => costs_its_tokens(&ran, 56),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_grok_that_reports_no_cost_gets_a_computed_one() {
    const RECORDING: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/grok/fmt-streaming-json.jsonl");
    let play = |filter: &'static str| async move {
        let script = format!("sed -e '{filter}' '{RECORDING}'");
        let player = Player::new(&GrokCli, "grok 1.0.41 (0)", metered(&["grok-4.6"]), &script);
        player.play(request().with_model("grok-4.6").in_directory(player.folder.path())).await
    };
    let ran = play("s/x/x/").await;
    costs_its_tokens(&ran, ran.result().usage.total_tokens().unwrap());
    let ran = play(r#"s/"num_turns":1/"num_turns":1,"total_cost_usd":0.25/"#).await;
    let cost = ran.result().cost.unwrap();
    assert_eq!((cost.usd, cost.source), (Usd(0.25), CostSource::Reported));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_reports_tokens_at_its_end_gets_a_cost_and_no_limit() {
    const AGENT: &str = r#"#!/bin/sh
hear() { IFS= read -r line || exit 0; }
say() { printf '%s\n' "$1"; }
hear
say '{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}'
hear
say '{"id":2,"result":{"sessionId":"s","models":{"currentModelId":"m","availableModels":[{"modelId":"m","name":"M"}]}}}'
hear
say '{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."}}}}'
say '{"id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":7,"outputTokens":5,"totalTokens":12}}}'
hear
"#;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("agent");
    fs::write(&program, AGENT).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let work = folder.path().join("work");
    fs::create_dir_all(&work).unwrap();
    let environment = BTreeMap::from([
        ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ("HOME".to_owned(), folder.path().to_str().unwrap().to_owned()),
    ]);
    let context = BuildContext::in_home(folder.path().join("nexus")).with_environment(environment);
    let mut settings = metered(&["m"]);
    settings.as_object_mut().unwrap().remove("credential");
    settings["command"] = json!([program]);
    let kind = nexus_backends::registry().kind("acp").cloned().unwrap();
    let backend = kind.build("agent".into(), settings.as_object().unwrap(), &context).unwrap();
    assert_eq!(backend.capabilities().limits.cost, Enforcement::Unsupported, "it would be checked too late");
    costs_its_tokens(&Ran::of(&*backend, request().in_directory(&work)).await, 12);
}

//! A real program of a vendor in files that travelled: it works there, and goes on with its conversation in the next turn.

use std::{collections::BTreeMap, sync::Arc};

use nexus_backends::{claude::cli::ClaudeCli, codex::cli::CodexCli};
use nexus_core::{
    Approval, Approver, BackendId, BackendKind, BuildContext, ConversationMode, ExecutionBackend, NullSink,
    TurnHost,
};
use nexus_fleet::{Fleet, FleetBackend};
use nexus_testkit::{
    nats::NatsServer,
    real,
    sim::{Dialect, Reply, Scenario, Sim, ToolCall},
};
use serde_json::{Value, json};

use super::{
    checkout::{Checkout, names},
    shell::{POOL, caller_settings, script, stop, worker_settings},
};
use crate::support::remote::WorkerThread;

/// Two turns of one conversation, in each of which the program runs a command in a subfolder.
async fn works_and_goes_on(
    kind: &dyn BackendKind,
    dialect: Dialect,
    call: fn(&str) -> ToolCall,
    (model, token, settings): (&str, &str, Value),
) {
    let (server, home) = (NatsServer::start().await, tempfile::tempdir().unwrap());
    let checkout = Checkout::with(&[("sub/a", "1\n"), ("b", "1\n")]);
    let commands = ["pwd >> where; echo 2 >> a", "pwd >> where; echo 3 >> a"];
    let [first, second] = commands.map(call);
    let replies = [Reply::call(first), Reply::text("One."), Reply::call(second), Reply::text("Two.")];
    let sim = Sim::start(dialect, Scenario::new(replies)).expect("a vendor");
    let mut settings = settings.as_object().expect("an object").clone();
    settings.insert("base_url".to_owned(), sim.base_url().into());
    let environment = BTreeMap::from([
        // No API key, and no token of anybody's.
        ("TOKEN".to_owned(), token.to_owned()),
        ("HOME".to_owned(), home.path().join("user").display().to_string()),
        ("PATH".to_owned(), std::env::var("PATH").expect("a PATH")),
    ]);
    std::fs::create_dir(home.path().join("user")).unwrap();
    let context = BuildContext::in_home(home.path().join("home")).with_environment(environment);
    let local: Arc<dyn ExecutionBackend> =
        kind.build(BackendId::new("program"), &settings, &context).expect("a backend");
    let (of_worker, backend) = (worker_settings(&server.url(), home.path()), Arc::clone(&local));
    let start = move || WorkerThread::start_with(of_worker, POOL, backend, context);
    let worker = tokio::task::spawn_blocking(start).await.expect("a worker");
    let fleet = Fleet::new(caller_settings(&server.url(), home.path())).expect("a thread");
    let caller = FleetBackend::new(local, POOL, fleet);

    let mut conversation = ConversationMode::Keep;
    for (prompt, answer) in [("The first prompt.", "One."), ("The second prompt.", "Two.")] {
        let approver = Approver::new(|_| std::future::ready(Approval::Granted));
        let host = TurnHost::new().with_approver(approver);
        let request = script(&checkout.path().join("sub"), prompt);
        let request = request.with_model(model).with_conversation(conversation);
        let result = caller.run_turn(request, host, &mut NullSink).await.expect("a result");
        assert_eq!(result.text, answer, "{result:#?}");
        conversation = ConversationMode::resume(result.resume.expect("a handle"));
    }
    assert_eq!(checkout.read("sub/a"), "1\n2\n3\n");
    let place = checkout.read("sub/where");
    let places: Vec<_> = place.lines().collect();
    assert!(places.len() == 2 && places[0] == places[1] && places[0].ends_with("/files/sub"), "{place}");
    let calls = sim.main_calls();
    let last = format!("{:?}", calls.last().expect("a call").conversation);
    assert!(last.contains("The first prompt.") && last.contains("The second prompt."), "{last}");
    assert_eq!(checkout.git(&["rev-list", "--count", "HEAD"]), "3");
    assert_eq!(checkout.git(&["status", "--porcelain"]), "");
    assert_eq!(names(&home.path().join("worker")), Vec::<String>::new());
    stop(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server and a real Claude Code"]
async fn claude_code_works_in_files_that_travelled_and_goes_on_there() {
    let call = |command: &str| {
        ToolCall::function("Bash", json!({ "command": command, "description": "Writes a file" }))
    };
    let program = real::last("NEXUS_REAL_CLAUDE");
    let settings = json!({ "executable": program, "billing": "metered", "credential": { "env": "TOKEN" } });
    works_and_goes_on(
        &ClaudeCli,
        Dialect::Anthropic,
        call,
        ("claude-sonnet-5", "sk-ant-canary-token", settings),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server and a real Codex"]
async fn codex_works_in_files_that_travelled_and_goes_on_there() {
    let call = |command: &str| ToolCall::function("exec_command", json!({ "cmd": command }));
    let credential = json!({ "env": "TOKEN", "account": "account-of-the-test" });
    let settings = json!({ "executable": real::last("NEXUS_REAL_CODEX"), "credential": credential });
    works_and_goes_on(&CodexCli, Dialect::Responses, call, ("gpt-5.5", "canary-token", settings)).await;
}

//! The tools of a server of `mcp_servers`, called by a native backend and by each vendor's program.

use std::{collections::BTreeMap, fs, sync::Arc};

use libtest_mimic::{Failed, Trial};
use nexus::{
    Approval, Approver, BuildContext, EventEnvelope, MCP_SERVERS, McpServers, OpenServers, Router,
    ServerWorkspace, ToolAccess, TurnHost, TurnRequest,
};
use nexus_testkit::{
    conformance::{ModelCall, Witness as _},
    fake_cli::{FakeCli, FakeScript, Vendor},
    sim::{Dialect, Reply, Scenario, Sim, ToolCall},
};
use serde_json::json;

const KINDS: [&str; 4] = ["house", "claude-cli", "codex-cli", "grok-cli"];
const CANARY: &str = "canary-0123456789abcdef0123456789abcdef";

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::test("mcp_servers::each_backend_calls_a_tool_of_the_configuration_if_it_may", || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(each_backend()).map_err(Failed::from)
    })]
}

/// A server with one tool, `look`. A call leaves a line in `called`, and answers with the secret of the server.
const SERVER: &str = r#"while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}';;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"look","description":"Looks.","inputSchema":{"type":"object"}}]}}';;
    *'"tools/call"'*) echo >> called; printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"a green tree and %s"}]}}\n' "$id" "$SECRET";;
    esac
done"#;

async fn each_backend() -> Result<(), String> {
    for (kind, approval, person) in [
        ("always", Some(Approval::Granted), "allows"),
        ("always", Some(Approval::Refused { reason: None }), "denies"),
        ("always", None, "is away"),
        ("never", None, "is away"),
    ]
    .into_iter()
    .flat_map(|(entry, approval, person)| KINDS.map(|kind| (kind, (entry, approval.clone()), person)))
    {
        let (entry, approval) = approval;
        let may = entry == "never" || person == "allows";
        let told = format!("{kind}, approval: {entry}, the person {person}");
        turn(kind, entry, approval, may).await.map_err(|error| format!("{told}: {error}"))?;
    }
    Ok(())
}

async fn turn(kind: &str, entry: &str, approval: Option<Approval>, may: bool) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    fs::create_dir(&project).unwrap();
    let part = |call: ToolCall| Scenario::new([Reply::call(call), Reply::text("Done.")]);
    let server = Sim::start(Dialect::Responses, part(ToolCall::function("trees_look", json!({})))).unwrap();
    let script = FakeScript::imitate(part(ToolCall::mcp("nexus", "trees_look", json!({}))));
    let vendor = KINDS.iter().position(|known| *known == kind).unwrap().checked_sub(1);
    let program = vendor.map(|index| FakeCli::install(Vendor::ALL[index], &script).unwrap());
    let backend = match &program {
        None => format!("{{ kind: responses, base_url: {:?}, model: any }}", server.base_url()),
        Some(program) => {
            let executable = program.executable().display().to_string();
            format!("{{ executable: {executable:?}, billing: metered, credential: {{ env: TOKEN }} }}")
        }
    };
    let command = serde_json::to_string(&["sh", "-c", SERVER]).unwrap();
    let text = format!(
        "groups: {{ main: [{kind}] }}\ntypes: {{ writer: {{ group: main }} }}\nbackends:\n  {kind}: {backend}\n\
         mcp_servers:\n  trees:\n    command: {command}\n    approval: {entry}\n    \
         environment: {{ SECRET: {{ credential: {{ env: SECRET }} }} }}\n  gone: {{ command: [./gone] }}\n"
    );
    let environment = BTreeMap::from([
        ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ("HOME".to_owned(), folder.path().join("home").display().to_string()),
        ("TOKEN".to_owned(), "token-of-the-backend".to_owned()),
        ("SECRET".to_owned(), CANARY.to_owned()),
    ]);
    let context = BuildContext::in_home(folder.path().join("nexus")).with_environment(environment);
    let router =
        Router::from_str(&text, nexus::registry(), context).unwrap_or_else(|error| panic!("{error}"));

    let request =
        TurnRequest::new("Look.").in_directory(project.clone()).with_tool_access(ToolAccess::ScopedOnly);
    let servers = McpServers::read(router.section(MCP_SERVERS).as_ref(), router.context()).unwrap();
    let open = OpenServers::new("never");
    // The server writes down its calls in the project, whatever the turn itself may do. It needs no sandbox of the machine.
    let workspace = ServerWorkspace::new(ToolAccess::Unrestricted, project.clone());
    let (tools, warnings) = open.tools(&servers, &workspace).await.map_err(|error| error.to_string())?;
    let mut host = TurnHost::new().with_tools(Arc::new(tools)).with_warnings(warnings);
    if let Some(approval) = approval {
        host = host.with_approver(Approver::new(move |_| {
            let approval = approval.clone();
            async move { approval }
        }));
    }
    let mut events = Vec::new();
    let mut sink = |envelope: EventEnvelope| events.push(envelope);
    let outcome = router.run_turn("writer", request, host, &mut sink).await;
    open.stop().await;
    let result = outcome.map_err(|error| format!("{error:#?}"))?;
    let shown = format!("{events:?} {result:?}");
    if shown.contains("canary") {
        return Err(format!("a secret of the server is shown: {shown}"));
    }
    if !format!("{:?}", events.first()).contains("mcp_servers.gone: its tools are missing") {
        return Err(format!("the missing server is not the first event: {shown}"));
    }
    if project.join("called").exists() != may {
        return Err(format!("the server was called: {}: {shown}", !may));
    }
    let last = match &program {
        None => format!("{:?}", ModelCall::from(&*server.main_calls().last().unwrap().conversation)),
        Some(program) => format!("{:?}", program.model_calls().pop()),
    };
    if last.contains("a green tree and [redacted]") != may || last.contains("canary") {
        return Err(format!("the model was shown: {last}"));
    }
    Ok(())
}

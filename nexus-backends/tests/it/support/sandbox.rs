//! The sandbox of Nexus in this test program.

use std::{
    path::Path,
    sync::{Arc, Once},
};

use nexus_core::{
    BackendKind, ConversationMode, EventEnvelope, ExecutionBackend, Tool, ToolAccess, Toolbox, TurnHost,
    TurnRequest,
};
use nexus_process::sandbox::{Sandbox, open_network, set_network_opener};
use nexus_testkit::{
    child_test,
    sim::{Reply, Scenario, ToolCall},
};
use serde_json::json;

use super::ran::Ran;
use super::stage::Stage;

/// Names the folder of a run to the test that opens its network.
const FOLDER: &str = "NEXUS_TEST_OPENS_NETWORK";

/// The opener of this test program's networks.
#[test]
fn a_network_is_opened() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        open_network(Path::new(&folder)).unwrap();
    }
}

/// Lets this program open networks.
pub(crate) fn can_open_networks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let opener = tempfile::tempdir().unwrap().keep().join("opener");
        child_test::install(&opener, a_network_is_opened, FOLDER);
        set_network_opener(opener, "open");
    });
}

/// Returns true if this machine has a sandbox. One that has none passes, and says why.
pub(crate) async fn has_sandbox() -> bool {
    match Sandbox::new().check().await {
        Ok(()) => true,
        Err(error) => {
            assert!(
                std::env::var_os("NEXUS_TEST_SANDBOX").is_none(),
                "there must be a sandbox here: {error}"
            );
            eprintln!("SKIPPED, not shown here: {error}");
            false
        }
    }
}

/// Runs turns of a real program in the sandbox of Nexus: its commands write in the working directory alone and read no other
/// files, it calls the caller's tools at each level, and its conversation is resumed.
pub(crate) async fn encloses_a_real_program<Kind: BackendKind>(stage: Stage<Kind>, model: &str) {
    assert!(has_sandbox().await);
    can_open_networks();
    let bare = stage.backend();
    let stage = stage.with("enforce", json!("sandbox"));
    let backend = stage.backend();
    let secret = stage.write("secret.txt", "canary-of-the-user");
    let new = stage.path("new.txt");
    let command = format!(
        "echo x > made.txt; echo x > {}; cat {}; cat {}/secret.txt; echo tried",
        new.display(),
        secret.display(),
        stage.path("work/..").display(),
    );
    for access in [ToolAccess::WorkspaceWrite, ToolAccess::ReadOnly, ToolAccess::ScopedOnly] {
        let has_commands = access == ToolAccess::WorkspaceWrite;
        let command = has_commands.then(|| ToolCall::shell(&command));
        let lookup = ToolCall::mcp("nexus", "lookup", json!({}));
        let calls = command.into_iter().chain([lookup]).map(Reply::call);
        stage.sim.set_scenario(Scenario::new(calls.chain([Reply::text("Done.")])));
        let earlier = stage.calls().len();
        let request = TurnRequest::new("First.").with_model(model).with_tool_access(access);
        let request = request.in_directory(stage.path("work")).with_conversation(ConversationMode::Keep);
        let ran = run(&*backend, request.clone()).await;
        assert_eq!(ran.result().text, "Done.", "{access:?}");
        let calls = stage.calls();
        let told: Vec<_> =
            calls.iter().skip(earlier).flat_map(|call| call.conversation.tool_results()).collect();
        let told = told.join("\n");
        assert!(told.contains("violet"), "{access:?}: {told}");
        assert_eq!(told.contains("tried"), has_commands, "{access:?}: {told}");
        assert!(!told.contains("canary") && !new.exists(), "{access:?}: {told}");
        assert!(stage.path("work/made.txt").exists(), "{access:?}: {told}");

        // The conversation goes on inside, and without the sandbox.
        let mut handle = ran.result().resume.clone().expect("a handle");
        for backend in [&backend, &bare] {
            stage.sim.set_scenario(Scenario::text("Again."));
            let mut request = request.clone().with_conversation(ConversationMode::resume(handle));
            request.prompt = TurnRequest::new("Second.").prompt;
            let ran = run(&**backend, request).await;
            assert_eq!(ran.result().text, "Again.", "{access:?}");
            handle = ran.result().resume.clone().expect("a handle");
            let calls = stage.calls();
            let said = calls.last().unwrap().conversation.user_texts().join("\n");
            assert!(said.contains("First.") && said.contains("Second."), "{access:?}: {said}");
        }
    }
}

async fn run(backend: &dyn ExecutionBackend, request: TurnRequest) -> Ran {
    let lookup = Tool::with_schema("lookup", "Looks a word up.", json!({ "type": "object" }), |_| async {
        Ok::<_, String>("violet".to_owned())
    });
    let host = TurnHost::new().with_tools(Arc::new(Toolbox::new().with(lookup.read_only())));
    let mut events = Vec::new();
    let mut sink = |envelope: EventEnvelope| events.push(envelope.event);
    let outcome = backend.run_turn(request, host, &mut sink).await;
    Ran { outcome, events }
}

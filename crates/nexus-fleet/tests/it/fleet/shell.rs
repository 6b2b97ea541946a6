//! A backend whose prompts are shell scripts, run where the turn works; and the workers that have it.

use std::{path::Path, process::Stdio, sync::Arc};

use nexus_core::{
    AccessEnforcer, AccessSupport, BuildContext, ConversationMode, Effects, ErrorKind, ExecutionBackend,
    FinishReason, Phase, ResumeHandle, Support, ToolAccess, TurnRequest,
    harness::Failure,
    turn::{ToolCallFinished, ToolCallStarted, ToolCallStatus, ToolOrigin},
};
use nexus_fleet::{Fleet, FleetBackend, FleetSettings, WorkerSettings, WorkspaceMode};
use nexus_testkit::{
    nats::NatsServer,
    scripted::{ScriptedBackend, ScriptedEnd, ScriptedTurn},
};
use serde_json::json;

use crate::support::remote::WorkerThread;

pub(crate) const POOL: &str = "builders";

/// A backend that runs the prompt as a script, in the working directory. The answer is what it prints; its failure is one of the
/// vendor's. A conversation is good in the folder alone in which it began.
pub(crate) fn shell() -> Arc<dyn ExecutionBackend> {
    let backend = ScriptedBackend::new("shell", |turn| Box::pin(run(turn)));
    Arc::new(backend.capable(|capabilities| {
        let kept = AccessSupport::Kept(AccessEnforcer::None);
        capabilities.access.read_only = kept;
        capabilities.access.workspace_write = kept;
        capabilities.extra_roots = Support::Yes;
    }))
}

async fn run(turn: &mut ScriptedTurn<'_>) -> ScriptedEnd {
    turn.model_call()?;
    let folder = turn.request.working_directory.clone().expect("a working directory");
    if let ConversationMode::Resume { handle, .. } = &turn.request.conversation
        && handle.state()["folder"] != json!(folder)
    {
        let reason = format!("it was in {}, and not in {}", handle.state()["folder"], folder.display());
        return Err(Failure::new(ErrorKind::ConversationLost, reason));
    }
    turn.log.resume = Some(ResumeHandle::new("shell".into(), json!({ "folder": folder })));
    let call = turn.call_id("own");
    turn.event(ToolCallStarted::new(call.clone(), "shell", ToolOrigin::Harness, Effects::Wrote));
    let script = turn.request.prompt_text();
    let roots: Vec<_> = turn.request.extra_roots.iter().map(|root| root.display().to_string()).collect();
    let child = tokio::process::Command::new("/bin/sh")
        .args(["-eu", "-c", &script])
        .current_dir(&folder)
        .env("ROOTS", roots.join(":"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = turn.wait(Phase::Tool, child).await?.expect("a shell");
    turn.event(ToolCallFinished::new(call, ToolCallStatus::Succeeded, Vec::new()));
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::new(ErrorKind::VendorFailure, reason));
    }
    turn.say(String::from_utf8_lossy(&output.stdout).trim());
    Ok((FinishReason::Stop, None))
}

/// A turn that may write, in this folder.
pub(crate) fn script(folder: &Path, script: &str) -> TurnRequest {
    TurnRequest::new(script).in_directory(folder).with_tool_access(ToolAccess::WorkspaceWrite)
}

/// Settings of a caller whose files travel, by way of folders in `home`.
pub(crate) fn caller_settings(url: &str, home: &Path) -> FleetSettings {
    FleetSettings {
        servers: vec![url.to_owned()],
        workspace: WorkspaceMode::Git,
        workspaces: Some(home.join("caller")),
        ..FleetSettings::default()
    }
}

/// A caller with these settings.
pub(crate) fn caller_with(settings: FleetSettings) -> FleetBackend {
    FleetBackend::new(shell(), POOL, Fleet::new(settings).expect("a thread"))
}

pub(crate) fn caller(server: &NatsServer, home: &Path) -> FleetBackend {
    caller_with(caller_settings(&server.url(), home))
}

/// Settings of a worker that shares no folder with anybody.
pub(crate) fn worker_settings(url: &str, home: &Path) -> FleetSettings {
    FleetSettings {
        servers: vec![url.to_owned()],
        workspaces: Some(home.join("worker")),
        worker: WorkerSettings {
            name: Some("w1".to_owned()),
            turns: Some(4),
            access: Some(ToolAccess::WorkspaceWrite),
            ..WorkerSettings::default()
        },
        ..FleetSettings::default()
    }
}

pub(crate) async fn worker_with(settings: FleetSettings, home: &Path) -> WorkerThread {
    let context = BuildContext::in_home(home.join("home"));
    let start = move || WorkerThread::start_with(settings, POOL, shell(), context);
    tokio::task::spawn_blocking(start).await.expect("a worker")
}

pub(crate) async fn worker(server: &NatsServer, home: &Path) -> WorkerThread {
    worker_with(worker_settings(&server.url(), home), home).await
}

pub(crate) async fn stop(worker: WorkerThread) {
    tokio::task::spawn_blocking(move || drop(worker)).await.expect("the worker ends");
}

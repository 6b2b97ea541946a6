//! One prompt: a turn of the session's conversation.

use std::sync::{Arc, Mutex};

use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, Error, NoticeSeverity, PromptResponse, SessionInfoUpdate, SessionUpdate,
    StopReason,
};
use nexus_backends::mcp_servers::ServerWorkspace;
use nexus_conversations::{ConversationOptions, ConversationOutcome};
use nexus_core::{PromptBlock, ToolAccess, ToolRouter as _, TurnHost, TurnRequest};
use nexus_router::Router;
use serde_json::{Value, json};

use crate::{
    calls::OpenCalls,
    client_text,
    diff::Files,
    failure::{of_configuration, of_conversation, stop_reason},
    modes,
    outgoing::lock,
    permission::Asking,
    prompt::Asked,
    question::EditorQuestions,
    session::RunningPrompt,
    session_client::{SessionClient, meta},
    setup::{Setup, blocking},
    updates::Updates,
};

/// Answers a prompt. The ids of its messages and calls begin with `prefix`.
///
/// # Errors
///
/// The prompt, the configuration or the conversation cannot be used, or the turn failed.
pub(crate) async fn prompt(
    setup: &Arc<Setup>,
    client: &SessionClient,
    running: &RunningPrompt,
    prefix: String,
    content: Vec<ContentBlock>,
) -> Result<PromptResponse, Error> {
    let session = &running.session;
    let asked = Asked::read(content)?;
    let (mode, access) = {
        let state = lock(&session.state);
        (state.mode.clone(), state.access)
    };
    let router = blocking(setup, Setup::router).await?.map_err(of_configuration)?;
    let blocks = match asked {
        Asked::Explain(kind) => {
            let text = explained(&router, kind.as_deref().unwrap_or(&mode)).await?;
            client.update(SessionUpdate::AgentMessageChunk(ContentChunk::new(ContentBlock::from(text))));
            return Ok(PromptResponse::new(StopReason::EndTurn));
        }
        Asked::Servers => {
            let workspace =
                ServerWorkspace::new(router.enforceable_access(mode.as_str(), access), session.cwd.clone());
            return servers(client, running, &router, &workspace).await;
        }
        Asked::Turn(blocks) => blocks,
    };
    modes::check_kind(&router, &mode).map_err(of_configuration)?;
    let title = client_text::title(&said(&blocks));
    let name = session.name.clone();
    // Lock the conversation before the servers start, so that a busy one fails at once.
    let mut held = blocking(setup, move |setup| setup.conversations.hold(&name))
        .await?
        .map_err(|error| of_conversation(&error))?;

    let request = request(client, running, &router, &mode, access, blocks);
    let workspace = ServerWorkspace::of(&request);
    // Servers may start slowly, so a cancellation must also work here.
    let offered = tokio::select! {
        offered = session.servers.tools(&router, &workspace) => offered.map_err(of_configuration)?,
        () = running.cancel.cancelled() => return Ok(PromptResponse::new(StopReason::Cancelled)),
    };
    report_faults(client, &offered.faults);
    let host = TurnHost::new().with_cancel(running.cancel.clone()).with_tools(Arc::new(offered.tools));
    let host = host.with_warnings(offered.warnings);
    let calls = Arc::new(Mutex::new(OpenCalls::new(prefix.clone())));
    let (folder, redactor) = (session.cwd.clone(), host.session().redactor().clone());
    let files = blocking(setup, move |_| Files::below(&folder, redactor)).await?;
    let files = Arc::new(files);
    let questions =
        EditorQuestions { client: client.clone(), modes: client.questions.clone(), prefix: prefix.clone() };
    let asking = Asking {
        client: client.clone(),
        cwd: session.cwd.clone(),
        calls: Arc::clone(&calls),
        files: Arc::clone(&files),
        questions: questions.clone(),
    };
    let host = host.with_approver(asking.approver(setup.options.permission_within));
    let mut updates = Updates::new(client.clone(), prefix, session.cwd.clone(), calls, files, questions);
    let outcome =
        held.run_turn(&router, mode.as_str(), request, host, ConversationOptions::new(), &mut updates).await;
    updates.end();
    let turn = outcome.map_err(|error| of_conversation(&error))?;
    // Forgetting at a vendor may take long, so let other processes continue the conversation.
    drop(held);
    keep(setup, client, running, &turn, title).await?;
    for handle in &turn.superseded {
        if let Err(error) = router.forget(handle).await {
            tracing::warn!(backend = %handle.backend(), %error, "it may still store its own copy of a \
                conversation");
        }
    }
    // A failed turn may be stored, too, so return its error only now.
    let reason = stop_reason(&turn.outcome, updates.finish.as_ref())?;
    Ok(PromptResponse::new(reason).meta(meta(facts(&turn))))
}

/// Reports missing servers of the client to the user.
fn report_faults(client: &SessionClient, faults: &[String]) {
    for fault in faults {
        let text = format!("an MCP server of the client or one of its tools is missing: {fault}");
        client.notice(NoticeSeverity::Warning, &text, json!({ "warning": true }));
    }
}

/// Starts the servers again that did not start, and reports the running ones.
async fn servers(
    client: &SessionClient,
    running: &RunningPrompt,
    router: &Router,
    workspace: &ServerWorkspace,
) -> Result<PromptResponse, Error> {
    let session = &running.session;
    let looking = async {
        session.servers.try_again().await;
        let offered = session.servers.tools(router, workspace).await.map_err(of_configuration)?;
        Ok::<_, Error>((offered, session.servers.count().await))
    };
    let (offered, (named, there)) = tokio::select! {
        found = looking => found?,
        () = running.cancel.cancelled() => return Ok(PromptResponse::new(StopReason::Cancelled)),
    };
    let tools = offered.tools.definitions().len();
    let mut text = format!("Running MCP servers: {there} of {named}. Tools: {tools}.\n");
    for fault in offered.faults.into_iter().chain(offered.warnings) {
        text.push_str(&format!("- {}\n", client_text::harmless(&fault)));
    }
    client.update(SessionUpdate::AgentMessageChunk(ContentChunk::new(ContentBlock::from(text))));
    Ok(PromptResponse::new(StopReason::EndTurn))
}

/// Returns the request of a turn. Lowers the access level to one that the backend can enforce, and reports that to the user.
fn request(
    client: &SessionClient,
    running: &RunningPrompt,
    router: &Router,
    mode: &str,
    access: ToolAccess,
    blocks: Vec<PromptBlock>,
) -> TurnRequest {
    let kept = router.enforceable_access(mode, access);
    let told = (kept != access).then(|| (mode.to_owned(), kept));
    // Without this, each prompt of the session would repeat the notice.
    let before = std::mem::replace(&mut lock(&running.session.state).told_level, told.clone());
    if told.is_some() && told != before {
        let text = format!(
            "the backend of the mode {mode} does not support the access level {}: this turn has {}",
            access.as_str(),
            kept.as_str()
        );
        client.notice(NoticeSeverity::Info, &text, json!({ "access": kept }));
    }
    let mut request = TurnRequest::default().in_directory(running.session.cwd.clone()).with_tool_access(kept);
    request.prompt = blocks;
    request
}

/// Stores the record of the session, and tells the user if a turn is not stored.
async fn keep(
    setup: &Arc<Setup>,
    client: &SessionClient,
    running: &RunningPrompt,
    turn: &ConversationOutcome,
    title: String,
) -> Result<(), Error> {
    match &turn.stored {
        Ok(true) => {
            let session = Arc::clone(&running.session);
            let is_first = {
                let mut state = lock(&session.state);
                let is_first = state.title.is_none();
                // The title is the beginning of the first prompt, so keep it.
                state.title.get_or_insert_with(|| title.clone());
                is_first
            };
            if is_first {
                client.update(SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title)));
            }
            // Write the record if it is missing: an earlier write failed, or another program deleted it.
            blocking(setup, move |setup| {
                if is_first || !setup.records.has(&session.name) {
                    session.store(&setup.records);
                }
            })
            .await?;
        }
        Ok(false) => {}
        Err(error) => {
            let text = format!("this turn is not stored, so the next turn does not include it: {error}");
            client.notice(NoticeSeverity::Error, &text, json!({ "stored": false }));
        }
    }
    Ok(())
}

/// Returns the backend of a turn, and its usage.
fn facts(turn: &ConversationOutcome) -> Value {
    let (provenance, usage, cost) = match &turn.outcome {
        Ok(result) => (Some(&result.provenance), &result.usage, &result.cost),
        Err(error) => {
            let partial = error.partial();
            (partial.provenance.as_ref(), &partial.usage, &partial.cost)
        }
    };
    json!({
        "backend": provenance.map(|provenance| &provenance.backend),
        "model": provenance.and_then(|provenance| provenance.model.as_ref()),
        "usage": usage,
        "cost": cost,
        "conversation": turn.continuity,
    })
}

/// Explains which backend would run a prompt of this type.
async fn explained(router: &Router, kind: &str) -> Result<String, Error> {
    // Read the holds again: another process may have written one.
    router.refresh_holds().await;
    let explanation = router.explain(kind).map_err(|error| of_configuration(error.to_string()))?;
    let text = client_text::harmless(&explanation.to_string());
    // The fence must be longer than any run of backticks in the text.
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    Ok(format!("{fence}text\n{text}\n{fence}\n"))
}

/// Returns the texts of a prompt.
fn said(blocks: &[PromptBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        PromptBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    if text.trim().is_empty() { "(a picture)".to_owned() } else { text }
}

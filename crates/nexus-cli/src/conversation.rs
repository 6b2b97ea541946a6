//! `nexus conversation`: conversations that have a name.

use std::process::ExitCode;

use nexus::{
    BuildContext, Conversation, ConversationError, ConversationErrorKind, ConversationMessage,
    ConversationName, ConversationSummary, Conversations, PromptBlock, ResumeHandle, Router, ToolCallStatus,
    harness::run_blocking,
};
use serde_json::json;

use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, ConversationCommand},
    command_error::CommandError,
    config,
    output::{complain, printable, printable_lines, say, say_json},
    show::{shown, word},
};

pub(crate) async fn conversation(
    config: &ConfigArgs,
    command: ConversationCommand,
) -> Result<ExitCode, CommandError> {
    let store = store();
    match command {
        ConversationCommand::List { json } => {
            let list = blocking(move || store.list()).await?;
            for found in &list.conversations {
                match json {
                    true => say_json(found),
                    false => say(printable(&described(found))),
                }
            }
            for error in &list.unreadable {
                complain(printable_lines(&error.to_string()));
            }
            return Ok(match list.unreadable.is_empty() {
                true => ExitCode::SUCCESS,
                false => ExitCode::from(EXIT_FAILED),
            });
        }
        ConversationCommand::Show { name, json } => {
            let (summary, conversation) =
                blocking(move || Ok((store.summary(&name)?, store.load(&name)?))).await?;
            match json {
                true => say_json(&json!({ "conversation": summary, "turns": conversation.turns })),
                false => say(shown(&text_of(&summary, &conversation))),
            }
        }
        ConversationCommand::Fork { name, new_name, at, json } => {
            let fork = blocking(move || store.fork(&name, &new_name, at)).await?;
            match json {
                true => say_json(&fork),
                false => say(printable(&described(&fork))),
            }
        }
        ConversationCommand::Delete { name, json } => return delete(config, store, name, json).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// The conversations of the home.
pub(crate) fn store() -> Conversations {
    Conversations::in_home(BuildContext::from_process().home)
}

async fn delete(
    config: &ConfigArgs,
    store: Conversations,
    name: ConversationName,
    as_json: bool,
) -> Result<ExitCode, CommandError> {
    let (of_hold, of_sweep, deleted) = (store.clone(), store.clone(), name.clone());
    let held = blocking(move || {
        match of_hold.summary(&deleted).and_then(|_| of_hold.hold(&deleted)) {
            Ok(held) => Ok(Some(held)),
            // It is deleted all the same.
            Err(error) if error.kind() == ConversationErrorKind::Damaged => Ok(None),
            Err(error) => Err(error),
        }
    })
    .await?;
    let mut forgotten = Ok(());
    match held {
        // First, since only the name has the handle. It cannot be done at all without a configuration.
        Some(held) => {
            if let Some(handle) = held.resume() {
                forgotten = forget(&config::load(config)?, handle).await;
            }
            blocking(move || held.delete()).await?;
        }
        None => {
            let deleted = name.clone();
            if let Some(handle) = blocking(move || store.delete(&deleted)).await? {
                forgotten = match config::load(config) {
                    Ok(router) => forget(&router, &handle).await,
                    Err(error) => Err(still_there(&handle, &error.to_string())),
                };
            }
        }
    }
    let swept = blocking(move || of_sweep.sweep()).await;
    let reasons: Vec<String> = [
        swept.as_ref().err().map(|error| format!("its messages are still stored: {error}")),
        forgotten.err(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let swept = swept.unwrap_or_default();
    match as_json {
        true => say_json(
            &json!({ "deleted": name, "files": swept.files, "bytes": swept.bytes, "errors": reasons }),
        ),
        false => say(format_args!("{name} is deleted: {} files of {} bytes", swept.files, swept.bytes)),
    }
    for reason in &reasons {
        complain(printable_lines(&format!("{name}: {reason}")));
    }
    Ok(if reasons.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

/// Has the backend that made the handle delete what it keeps.
pub(crate) async fn forget(router: &Router, handle: &ResumeHandle) -> Result<(), String> {
    router.forget(handle).await.map(drop).map_err(|error| still_there(handle, &error.to_string()))
}

fn still_there(handle: &ResumeHandle, reason: &str) -> String {
    format!("{} may still keep its own copy: {reason}", handle.backend())
}

/// Runs `work` where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ConversationError> + Send + 'static,
) -> Result<T, CommandError> {
    Ok(run_blocking(work).await.map_err(|_| CommandError::failed("the work on files ended early"))??)
}

pub(crate) fn described(summary: &ConversationSummary) -> String {
    let resumes = summary.resumes.as_ref().map(|backend| format!(" · {backend}")).unwrap_or_default();
    format!("{} · {} messages · {} turns{resumes}", summary.name, summary.messages, summary.turns)
}

/// A conversation for a person: each message under its number.
pub(crate) fn text_of(summary: &ConversationSummary, conversation: &Conversation) -> String {
    let mut text = format!("{}\n", printable(&described(summary)));
    let mut number = 0;
    for turn in &conversation.turns {
        if turn.begins_afresh {
            text.push_str("\n(The model of what follows was not shown what is above.)\n");
        }
        for message in &turn.messages {
            number += 1;
            let (head, body) = match message {
                ConversationMessage::User { content } => ("user".to_owned(), words(content)),
                ConversationMessage::Assistant { text, complete } => {
                    let by = turn
                        .backend
                        .as_ref()
                        .map(|backend| format!(" · {}", printable(backend.as_str())))
                        .unwrap_or_default();
                    let cut_off = if *complete { "" } else { " · cut off" };
                    (format!("assistant{by}{cut_off}"), text.clone())
                }
                ConversationMessage::ToolCall { tool, arguments, status, output, .. } => {
                    let how = match status {
                        ToolCallStatus::Succeeded => "",
                        ToolCallStatus::Failed => " · failed",
                        ToolCallStatus::Denied => " · denied",
                        _ => " · unfinished",
                    };
                    let arguments = arguments.as_deref().unwrap_or_default();
                    (format!("tool {}{how}", printable(tool)), format!("{arguments}\n{}", words(output)))
                }
                _ => ("a message that this version does not know".to_owned(), String::new()),
            };
            text.push_str(&format!("\n### {number} · {head}\n\n{}\n", body.trim_end_matches('\n')));
        }
        if let Some(kind) = turn.failure {
            text.push_str(&format!("\n(The turn failed: {}.)\n", word(kind)));
        }
        if !turn.not_stored.is_empty() {
            text.push_str(&format!("\n(Not stored: {}.)\n", turn.not_stored));
        }
    }
    text.trim_end_matches('\n').to_owned()
}

fn words(blocks: &[PromptBlock]) -> String {
    let words = blocks.iter().map(|block| match block {
        PromptBlock::Text { text } => text.as_str(),
        _ => "(a picture)",
    });
    words.collect::<Vec<_>>().join("\n\n")
}

impl From<ConversationError> for CommandError {
    fn from(error: ConversationError) -> Self {
        use ConversationErrorKind::{InvalidName, NameTaken, NoSuchMessage, Unknown};
        match error.kind() {
            InvalidName | NameTaken | NoSuchMessage | Unknown => error.to_string().into(),
            _ => Self::failed(error),
        }
    }
}

//! `nexus conversation`: named conversations.

use std::process::ExitCode;

use nexus::{
    BuildContext, Conversation, ConversationError, ConversationErrorKind, ConversationMessage,
    ConversationName, ConversationSummary, ConversationTurn, Conversations, PromptBlock, ResumeHandle,
    Router, ToolCallStatus,
};
use nexus_files::counted;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, ConversationCommand},
    command_error::CommandError,
    config,
    output::{AnswerWriter, complain, printable, printable_lines, say},
    schema::foreign::{ConversationTurnSchema, SummarySchema},
    show::{shown, word},
    works::blocking,
};

/// A conversation of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct ListedConversation(#[schemars(with = "SummarySchema")] pub(crate) ConversationSummary);

/// A conversation with its turns.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShownConversation {
    /// The agent session that uses this conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// Summary of the conversation.
    pub(crate) conversation: ListedConversation,
    /// Its turns, the oldest first.
    #[schemars(with = "Vec<ConversationTurnSchema>")]
    pub(crate) turns: Vec<ConversationTurn>,
}

/// A conversation that was deleted.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeletedConversation {
    /// Its name.
    deleted: String,
    /// Number of deleted files.
    files: u64,
    /// Their size together, in bytes.
    bytes: u64,
    /// Parts that could not be deleted, each with the reason.
    errors: Vec<String>,
}

pub(crate) async fn conversation(
    out: AnswerWriter,
    config: &ConfigArgs,
    command: ConversationCommand,
) -> Result<ExitCode, CommandError> {
    let store = store();
    match command {
        ConversationCommand::List => {
            let list = blocking(move || store.list()).await?;
            if list.conversations.is_empty() && list.unreadable.is_empty() {
                out.nothing("no conversations yet; `nexus run --conversation NAME` starts one");
            }
            for found in list.conversations {
                out.show(&ListedConversation(found), |found| say(printable(&described(&found.0))));
            }
            return Ok(exit_code_of(&list.unreadable));
        }
        ConversationCommand::Show { name } => show(out, None, name).await?,
        ConversationCommand::Fork { name, new_name, at } => {
            let fork = blocking(move || store.fork(&name, &new_name, at)).await?;
            out.show(&ListedConversation(fork), |fork| say(printable(&described(&fork.0))));
        }
        ConversationCommand::Delete { name } => return delete(out, config, store, name).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows a conversation, or the conversation of a session.
pub(crate) async fn show(
    out: AnswerWriter,
    session: Option<String>,
    name: ConversationName,
) -> Result<(), CommandError> {
    let (summary, conversation) = load(name).await?;
    let text = shown(&text_of(&summary, &conversation));
    let (conversation, turns) = (ListedConversation(summary), conversation.turns);
    out.line(&ShownConversation { session, conversation, turns }, text);
    Ok(())
}

/// Loads a conversation of the home, with its summary.
pub(crate) async fn load(
    name: ConversationName,
) -> Result<(ConversationSummary, Conversation), CommandError> {
    let store = store();
    blocking(move || Ok::<_, ConversationError>((store.summary(&name)?, store.load(&name)?))).await
}

/// Reports the unreadable entries of a list, and returns the exit code.
pub(crate) fn exit_code_of(unreadable: &[impl ToString]) -> ExitCode {
    unreadable.iter().for_each(|error| complain(printable_lines(&error.to_string())));
    if unreadable.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) }
}

/// The conversations of the home.
pub(crate) fn store() -> Conversations {
    Conversations::in_home(BuildContext::from_process().home)
}

/// Removes a conversation, and the copy that its backend stores. Its messages stay until a sweep. With `unchanged_since`, the
/// conversation stays if it has changed since that time, in milliseconds since 1970. The inner error says what the backend may still store.
pub(crate) async fn remove(
    config: &ConfigArgs,
    name: ConversationName,
    unchanged_since: Option<u64>,
) -> Result<Result<(), String>, CommandError> {
    let store = store();
    let (of_hold, deleted) = (store.clone(), name.clone());
    let held = blocking(move || {
        // Read the summary first, because `hold` also accepts a name without a conversation.
        match of_hold.summary(&deleted).and_then(|_| of_hold.hold(&deleted)) {
            Ok(held) => {
                // No other process can change it now.
                let changed = of_hold.summary(&deleted)?.updated_at_ms;
                match unchanged_since.is_some_and(|since| since != changed) {
                    true => Err(CommandError::failed("it changed meanwhile")),
                    false => Ok(Some(held)),
                }
            }
            // A damaged conversation can still be deleted.
            Err(error) if error.kind == ConversationErrorKind::Damaged => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await?;
    // The backend's copy goes first, since only the named conversation stores the handle. This step needs a configuration.
    if let Some(held) = held {
        let forgotten = match held.resume() {
            Some(handle) => forget(&config::load(config)?, handle).await,
            None => Ok(()),
        };
        blocking(move || held.delete()).await?;
        return Ok(forgotten);
    }
    Ok(match blocking(move || store.delete(&name)).await? {
        None => Ok(()),
        Some(handle) => match config::load(config) {
            Ok(router) => forget(&router, &handle).await,
            Err(error) => Err(still_there(&handle, &error.to_string())),
        },
    })
}

async fn delete(
    out: AnswerWriter,
    config: &ConfigArgs,
    store: Conversations,
    name: ConversationName,
) -> Result<ExitCode, CommandError> {
    let forgotten = remove(config, name.clone(), None).await?;
    let swept = blocking(move || store.sweep()).await;
    let reasons: Vec<String> = [
        swept.as_ref().err().map(|error| format!("its messages are still stored: {error}")),
        forgotten.err(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let swept = swept.unwrap_or_default();
    let (files, bytes) = (swept.files, swept.bytes);
    let deleted = DeletedConversation { deleted: name.to_string(), files, bytes, errors: reasons.clone() };
    out.line(
        &deleted,
        format_args!("{name} is deleted: {} of {}", counted(files, "file"), counted(bytes, "byte")),
    );
    for reason in &reasons {
        complain(printable_lines(&format!("{name}: {reason}")));
    }
    Ok(if reasons.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

/// Deletes the copy that the handle's backend stores.
pub(crate) async fn forget(router: &Router, handle: &ResumeHandle) -> Result<(), String> {
    router.forget(handle).await.map(drop).map_err(|error| still_there(handle, &error.to_string()))
}

fn still_there(handle: &ResumeHandle, reason: &str) -> String {
    format!("{} may still keep its own copy: {reason}", handle.backend())
}

pub(crate) fn described(summary: &ConversationSummary) -> String {
    let resumes = summary.resumes.as_ref().map(|backend| format!(" · {backend}")).unwrap_or_default();
    format!(
        "{} · {} · {}{resumes}",
        summary.name,
        counted(summary.messages, "message"),
        counted(summary.turns, "turn")
    )
}

/// Formats a conversation for people, each message under its number.
fn text_of(summary: &ConversationSummary, conversation: &Conversation) -> String {
    let mut text = format!("{}\n", printable(&described(summary)));
    let mut number = 0;
    for turn in &conversation.turns {
        if turn.begins_afresh {
            text.push_str("\n(The model of the following turns did not receive the messages above.)\n");
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
                _ => ("a message of a kind that this version does not know".to_owned(), String::new()),
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

/// Returns the beginning of the last answer of a conversation.
pub(crate) fn last_words(conversation: &Conversation) -> Option<String> {
    const LINES: usize = 12;
    let messages: Vec<_> = conversation.messages().collect();
    messages.into_iter().rev().find_map(|message| match message {
        ConversationMessage::Assistant { text, .. } if !text.trim().is_empty() => {
            let mut shown = text.trim().lines().take(LINES).collect::<Vec<_>>().join("\n");
            if text.trim().lines().count() > LINES {
                shown.push_str("\n\u{2026}");
            }
            Some(shown)
        }
        _ => None,
    })
}

fn words(blocks: &[PromptBlock]) -> String {
    let words = blocks.iter().map(|block| match block {
        PromptBlock::Text { text } => text.as_str(),
        _ => "(a picture)",
    });
    words.collect::<Vec<_>>().join("\n\n")
}

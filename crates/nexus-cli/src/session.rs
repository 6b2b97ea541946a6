//! `nexus session`: the conversations of agents.

use std::process::ExitCode;

use nexus::ConversationMessage;
use nexus_broker::{BrokerError, Sessions};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::SessionCommand,
    broker_home::memory,
    command_error::CommandError,
    conversation::{self, ListedConversation, described, exit_code_of, load},
    output::{AnswerWriter, complain, printable, printable_lines, say_json},
    schema::foreign::MessageSchema,
    works::blocking,
};

/// A session of an agent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedSession {
    /// The session.
    session: String,
    /// Its conversation.
    conversation: ListedConversation,
}

/// A message of a session that is exported.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExportedMessage {
    /// The session.
    session: String,
    /// The number of the message, from 1.
    number: u64,
    /// End of its turn, in milliseconds since 1970-01-01 00:00 UTC.
    turn_ended_at_ms: u64,
    /// The message.
    #[schemars(with = "MessageSchema")]
    message: ConversationMessage,
}

pub(crate) async fn session(out: AnswerWriter, command: SessionCommand) -> Result<ExitCode, CommandError> {
    let show = |session: String, found| {
        let listed = ListedSession { session, conversation: ListedConversation(found) };
        let text = printable(&format!("{}  {}", listed.session, described(&listed.conversation.0)));
        out.line(&listed, text);
    };
    match command {
        SessionCommand::List => {
            let list = of_broker(|sessions| sessions.list()).await?;
            if list.sessions.is_empty() && list.unreadable.is_empty() {
                out.nothing("no sessions yet; `nexus broker send AGENT TEXT` starts the session of an agent");
            }
            list.sessions.into_iter().for_each(|(key, summary)| show(key.to_string(), summary));
            return Ok(exit_code_of(&list.unreadable));
        }
        SessionCommand::Show { session } => {
            conversation::show(out, Some(session.to_string()), session.conversation()).await?;
        }
        SessionCommand::Fork { session, new_session, at } => {
            let name = new_session.to_string();
            show(name, of_broker(move |sessions| sessions.fork(&session, &new_session, at)).await?);
        }
        SessionCommand::Export { session } => {
            let (_, conversation) = load(session.conversation()).await?;
            let messages = conversation
                .turns
                .into_iter()
                .flat_map(|turn| turn.messages.into_iter().map(move |message| (turn.ended_at_ms, message)));
            for (number, (turn_ended_at_ms, message)) in (1..).zip(messages) {
                // These are lines of JSON, whether `--json` is given or not.
                say_json(&ExportedMessage {
                    session: session.to_string(),
                    number,
                    turn_ended_at_ms,
                    message,
                });
            }
        }
        SessionCommand::Search { words, limit } => {
            let found = blocking(move || {
                let memory = memory().map_err(|error| CommandError::of_named(&error))?;
                // If an update fails, the search still covers the messages that are indexed.
                if let Err(error) = memory.capture_all(&conversation::store()) {
                    complain(printable_lines(&format!("it cannot be searched completely: {error}")));
                }
                memory
                    .query(&words.join(" "), limit, |_| true)
                    .map_err(|error| CommandError::of_named(&error))
            });
            let found = found.await?;
            if found.is_empty() {
                out.nothing("no message contains these words");
            }
            for hit in found {
                let text = printable_lines(&hit.text);
                out.line(&hit, format_args!("{} {} ({}): {text}", hit.session, hit.message, hit.role));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn of_broker<T: Send + 'static>(
    work: impl FnOnce(&Sessions) -> Result<T, BrokerError> + Send + 'static,
) -> Result<T, CommandError> {
    // Sessions are read from files, which may block.
    blocking(move || {
        work(&Sessions::new(conversation::store())).map_err(|error| CommandError::of_named(&error))
    })
    .await
}

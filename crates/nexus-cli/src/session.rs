//! `nexus session`: the conversations of agents.

use std::process::ExitCode;

use nexus::{ConversationError, harness::run_blocking};
use nexus_broker::{BrokerError, BrokerErrorKind, SessionKey, Sessions};
use serde_json::json;

use crate::{
    EXIT_FAILED,
    args::SessionCommand,
    broker_home::memory,
    command_error::CommandError,
    conversation::{self, described, text_of},
    output::{complain, printable, printable_lines, say, say_json},
    show::shown,
};

pub(crate) async fn session(command: SessionCommand) -> Result<ExitCode, CommandError> {
    match command {
        SessionCommand::List { json } => {
            let list = of_broker(|sessions| sessions.list()).await?;
            for (key, summary) in list.sessions {
                match json {
                    true => say_json(&json!({ "session": key.to_string(), "conversation": summary })),
                    false => say(printable(&format!("{key}  {}", described(&summary)))),
                }
            }
            for error in &list.unreadable {
                complain(printable_lines(&error.to_string()));
            }
            if !list.unreadable.is_empty() {
                return Ok(ExitCode::from(EXIT_FAILED));
            }
        }
        SessionCommand::Show { session, json } => {
            let (summary, conversation) = load(&session).await?;
            match json {
                true => say_json(
                    &json!({ "session": session.to_string(), "conversation": summary, "turns": conversation.turns }),
                ),
                false => say(shown(&text_of(&summary, &conversation))),
            }
        }
        SessionCommand::Fork { session, new_session, at, json } => {
            let (from, to) = (session, new_session.clone());
            let fork = of_broker(move |sessions| sessions.fork(&from, &to, at)).await?;
            match json {
                true => say_json(&json!({ "session": new_session.to_string(), "conversation": fork })),
                false => say(printable(&format!("{new_session}  {}", described(&fork)))),
            }
        }
        SessionCommand::Export { session } => {
            let (_, conversation) = load(&session).await?;
            let mut number = 0_u64;
            for turn in &conversation.turns {
                for message in &turn.messages {
                    number += 1;
                    say_json(
                        &json!({ "session": session.to_string(), "number": number, "turn_ended_at_ms": turn.ended_at_ms, "message": message }),
                    );
                }
            }
        }
        SessionCommand::Search { words, limit, json } => {
            let found = blocking(move || {
                let memory = memory()?;
                // What is there is searched all the same.
                if let Err(error) = memory.capture_all(&conversation::store()) {
                    complain(printable_lines(&format!("not all of it can be searched: {error}")));
                }
                memory.query(&words.join(" "), limit, |_| true)
            })
            .await?;
            for hit in found {
                match json {
                    true => say_json(&hit),
                    false => say(format_args!(
                        "{} {} ({}): {}",
                        hit.session,
                        hit.message,
                        hit.role,
                        printable_lines(&hit.text)
                    )),
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn load(key: &SessionKey) -> Result<(nexus::ConversationSummary, nexus::Conversation), CommandError> {
    let (store, name) = (conversation::store(), key.conversation());
    conversation::blocking(move || Ok::<_, ConversationError>((store.summary(&name)?, store.load(&name)?)))
        .await
}

async fn of_broker<T: Send + 'static>(
    work: impl FnOnce(&Sessions) -> Result<T, BrokerError> + Send + 'static,
) -> Result<T, CommandError> {
    blocking(move || work(&Sessions::new(conversation::store()))).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BrokerError> + Send + 'static,
) -> Result<T, CommandError> {
    let ended =
        run_blocking(work).await.map_err(|_| CommandError::failed("the work on files ended early"))?;
    ended.map_err(|error| match error.kind {
        // As `nexus session show` has it.
        BrokerErrorKind::Unknown | BrokerErrorKind::Invalid => CommandError::usage(error),
        _ => CommandError::failed(error),
    })
}

//! `nexus forget`: deletes the conversations that a file of records refers to.

use std::{path::Path, process::ExitCode};

use nexus::{Forgotten, RecordFile, RecordLog};
use nexus_files::counted;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    EXIT_FAILED,
    args::ConfigArgs,
    command_error::{CommandError, with_causes},
    config,
    output::{AnswerWriter, complain, printable},
};

/// Conversation of a turn, with the outcome of its deletion.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ForgottenTurn {
    /// The turn.
    turn: String,
    /// The backend that stores its conversation.
    backend: String,
    /// Outcome. `None` if the conversation could not be deleted.
    #[schemars(with = "serde_json::Value")]
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten: Option<Forgotten>,
    /// Reason why it could not be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) async fn forget(
    out: AnswerWriter,
    config: &ConfigArgs,
    path: &Path,
) -> Result<ExitCode, CommandError> {
    let place = path.display();
    let log = RecordLog::read(path).map_err(|error| format!("{place}: {error}"))?;
    let file = RecordFile::open(path).map_err(|error| error.to_string())?;
    let router = config::load(config)?;
    let mut code = ExitCode::SUCCESS;
    let kept = log.turns.iter().filter_map(|turn| Some((turn, turn.resume()?))).collect::<Vec<_>>();
    if kept.is_empty() {
        complain(format_args!("{place}: it contains no conversation to forget"));
    }
    for (turn, handle) in kept {
        let (id, backend) = (turn.id.clone(), handle.backend().to_string());
        match router.forget(handle).await {
            Ok(forgotten) => {
                // Record each deletion at once, so that an interrupted command does not lose it.
                file.forgotten(&turn.id).map_err(CommandError::failed)?;
                let text = format!("{} · {backend}: {}", turn.name, words(forgotten));
                let turn = ForgottenTurn { turn: id, backend, forgotten: Some(forgotten), reason: None };
                out.line(&turn, printable(&text));
            }
            Err(error) => {
                let reason = with_causes(&error);
                let text = format!("{}: {reason}", turn.name);
                let turn = ForgottenTurn { turn: id, backend, forgotten: None, reason: Some(reason) };
                out.show(&turn, |_| complain(printable(&text)));
                code = ExitCode::from(EXIT_FAILED);
            }
        }
    }
    Ok(code)
}

/// Describes the outcome for a conversation.
fn words(forgotten: Forgotten) -> String {
    match forgotten {
        Forgotten::Deleted { files, bytes } => {
            format!("deleted, {} of {}", counted(files, "file"), counted(bytes, "byte"))
        }
        Forgotten::WasGone => "it was already deleted from the backend".to_owned(),
        Forgotten::InHandle => "only in this file; delete the file to forget it".to_owned(),
        _ => "forgotten".to_owned(),
    }
}

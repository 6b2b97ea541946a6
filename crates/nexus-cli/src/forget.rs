//! `nexus forget`: the conversations that a file of records was kept for, deleted.

use std::{path::Path, process::ExitCode};

use nexus::{Forgotten, RecordFile, RecordLog, TurnRecord};
use serde_json::json;

use crate::{
    EXIT_FAILED,
    args::ConfigArgs,
    command_error::CommandError,
    config,
    output::{complain, printable, say, say_json},
};

pub(crate) async fn forget(
    config: &ConfigArgs,
    path: &Path,
    as_json: bool,
) -> Result<ExitCode, CommandError> {
    let place = path.display();
    let log = RecordLog::read(path).map_err(|error| format!("{place}: {error}"))?;
    let file = RecordFile::open(path).map_err(|error| error.to_string())?;
    let router = config::load(config)?;
    let mut code = ExitCode::SUCCESS;
    let kept = log.turns.iter().filter_map(|turn| Some((turn, turn.resume()?))).collect::<Vec<_>>();
    if kept.is_empty() {
        complain(format_args!("{place}: there is no conversation in it to forget"));
    }
    for (turn, handle) in kept {
        let shown = Shown { turn, backend: handle.backend().as_str(), as_json };
        match router.forget(handle).await {
            Ok(forgotten) => {
                let noted = file.forgotten(&turn.id);
                noted.map_err(|error| CommandError::failed(format_args!("{error}")))?;
                shown.forgotten(forgotten);
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                shown.failed(&format!("{error}{}", cause.unwrap_or_default()));
                code = ExitCode::from(EXIT_FAILED);
            }
        }
    }
    Ok(code)
}

/// A turn whose conversation is forgotten, for the one who asked.
struct Shown<'a> {
    turn: &'a TurnRecord,
    backend: &'a str,
    as_json: bool,
}

impl Shown<'_> {
    fn forgotten(&self, forgotten: Forgotten) {
        if self.as_json {
            return say_json(
                &json!({ "turn": self.turn.id, "backend": self.backend, "forgotten": forgotten }),
            );
        }
        let what = match forgotten {
            Forgotten::Deleted { files, bytes } => format!("deleted, {files} files of {bytes} bytes"),
            Forgotten::WasGone => "not there any more".to_owned(),
            Forgotten::InHandle => "in this file alone; delete the file to be rid of it".to_owned(),
            _ => "forgotten".to_owned(),
        };
        say(printable(&format!("{} · {}: {what}", self.turn.name, self.backend)));
    }

    fn failed(&self, reason: &str) {
        match self.as_json {
            true => say_json(&json!({ "turn": self.turn.id, "backend": self.backend, "error": reason })),
            false => complain(printable(&format!("{}: {reason}", self.turn.name))),
        }
    }
}

//! `nexus debate advance`: one stage, or all that are left.

use std::process::ExitCode;

use nexus_debates::{DebateAdvanceRequest, DebateView, Debates};

use super::{note, show};
use crate::{
    command_error::CommandError,
    interrupt,
    output::{say, say_json},
};

pub(super) async fn walk(
    debates: &Debates,
    debate: &str,
    all: bool,
    json: bool,
) -> Result<ExitCode, CommandError> {
    let walked = tokio::select! {
        walked = stages(debates, debate, all) => walked,
        listened = interrupt::interrupted() => {
            note("the stage is stopped …");
            debates.shutdown().await;
            listened.map_err(|error| CommandError::failed(format_args!("signals cannot be listened to: {error}")))?;
            return Ok(interrupt::exit_code());
        }
    };
    debates.shutdown().await;
    let view = walked?;
    match json {
        true => say_json(&view),
        false => say(show::view(&view)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Goes on until one stage was run, or the debate is done.
async fn stages(debates: &Debates, debate: &str, all: bool) -> Result<DebateView, CommandError> {
    loop {
        let view = stage(debates, debate).await?;
        note(&format!("next: {}", show::status(&view)));
        if !all || view.status == "done" {
            return Ok(view);
        }
    }
}

async fn stage(debates: &Debates, debate: &str) -> Result<DebateView, CommandError> {
    let mut last = String::new();
    loop {
        let request = DebateAdvanceRequest { debate_id: debate.to_owned(), wait_s: Some(1) };
        let view = debates.advance(request).await?;
        if !view.running {
            return Ok(view);
        }
        let line = view.progress.unwrap_or_default();
        if line != last {
            note(&line);
            last = line;
        }
    }
}

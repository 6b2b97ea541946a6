//! `nexus hold`: backends that are suspended because their vendor refused a turn.

use std::{process::ExitCode, time::SystemTime};

use nexus::{BackendId, hold::Hold};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, HoldCommand},
    checks::HeldBackend,
    command_error::CommandError,
    config,
    output::{AnswerWriter, complain, printable},
};

/// A hold.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedHold {
    /// The backend.
    #[schemars(with = "String")]
    backend: BackendId,
    #[serde(flatten)]
    hold: HeldBackend,
    /// True while it suspends the backend. The next turn tests a backend whose hold is over.
    is_standing: bool,
}

/// Outcome of a release.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReleasedHold {
    /// The backend.
    #[schemars(with = "String")]
    backend: BackendId,
    /// False if it was not suspended.
    released: bool,
}

pub(crate) async fn hold(
    out: AnswerWriter,
    config: &ConfigArgs,
    command: HoldCommand,
) -> Result<ExitCode, CommandError> {
    let router = config::load(config)?;
    let holds = router.refresh_holds().await;
    match command {
        HoldCommand::List => {
            let now = SystemTime::now();
            if holds.is_empty() {
                out.nothing("no backend is suspended");
            }
            for hold in &holds {
                out.line(&ListedHold::of(hold, now), printable(&line(hold, now)));
            }
        }
        HoldCommand::Release { backends, all } => {
            let known = router.backends();
            let mut ids: Vec<BackendId> = backends.into_iter().map(BackendId::new).collect();
            // The store may have holds of backends that another configuration names.
            let is_known =
                |id: &BackendId| known.contains_key(id) || holds.iter().any(|hold| hold.backend == *id);
            if let Some(unknown) = ids.iter().find(|id| !is_known(id)) {
                let names: Vec<_> = known.keys().map(BackendId::as_str).collect();
                let message = format!("unknown backend {:?}; valid: {}", unknown.as_str(), names.join(", "));
                return Err(CommandError::usage(message));
            }
            if all {
                ids = holds.into_iter().map(|hold| hold.backend).collect();
                if ids.is_empty() {
                    out.nothing("no backend is suspended");
                }
            }
            let mut are_all_released = true;
            for backend in ids {
                let released = router.release(&backend).await;
                let text = match released {
                    true => format!("{backend}: released"),
                    false => format!("{backend}: was not suspended"),
                };
                out.line(&ReleasedHold { backend: backend.clone(), released }, printable(&text));
                // The store has logged why it cannot be written.
                if router.refresh_holds().await.iter().any(|hold| hold.backend == backend) {
                    complain(printable(&format!("{backend} is still suspended")));
                    are_all_released = false;
                }
            }
            if !are_all_released {
                return Ok(ExitCode::from(EXIT_FAILED));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl ListedHold {
    fn of(hold: &Hold, now: SystemTime) -> Self {
        Self {
            backend: hold.backend.clone(),
            hold: HeldBackend::of(hold),
            is_standing: hold.is_standing(now),
        }
    }
}

/// A hold on a line.
fn line(hold: &Hold, now: SystemTime) -> String {
    match hold.is_standing(now) {
        true => format!("{}  {}", hold.backend, hold.spoken(now)),
        false => format!("{}  over: the next turn tests it: {}", hold.backend, hold.reason),
    }
}

//! Failures: each with its kind, its retry, what was produced, and within a bounded time.

use nexus_core::{ErrorKind, Retry};

use crate::{
    conformance::{
        finding::{Verdict, same},
        trial::Trial,
    },
    sim::Reply,
};

pub(crate) async fn a_refused_credential_is_unauthenticated(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::status(401)).await?;
    let turn = staged.run(staged.request("Hello.")).await?;
    let error = turn.error()?;
    trial.expect_kind(error, &[ErrorKind::Unauthenticated])?;
    same("retry", &error.retry(), &Retry::Never)
}

pub(crate) async fn a_connection_that_is_refused_is_a_transport_error(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage_refused().await?;
    let turn = staged.run(staged.request("Hello.")).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::Transport])
}

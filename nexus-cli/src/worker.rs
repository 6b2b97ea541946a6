//! `nexus worker`: turns of a pool, run on this machine.

use std::{pin::pin, process::ExitCode};

use nexus::{CancelToken, Offer, Worker};

use crate::{
    args::{ConfigArgs, WorkerArgs},
    command_error::CommandError,
    config,
    interrupt::{self, Interrupts},
    output::{complain, printable, say},
};

pub(crate) async fn worker(config: &ConfigArgs, args: &WorkerArgs) -> Result<ExitCode, CommandError> {
    let (router, fleet) = config::load_for_worker(config)?;
    let mut settings = fleet.settings().clone();
    if let Some(name) = &args.name {
        settings.worker.name = Some(name.clone());
    }
    if let Some(turns) = args.turns {
        settings.worker.turns = Some(turns.get());
    }
    let worker = Worker::connect(settings, &args.pool, router).await.map_err(CommandError::failed)?;
    let signals = |error| CommandError::failed(format_args!("signals cannot be listened to: {error}"));
    let mut interrupts = Interrupts::listen().map_err(signals)?;
    let drain = CancelToken::new();
    let name = worker.name().to_owned();
    let mut running = pin!(worker.run(drain.clone(), |offer| tell(&name, &args.pool, offer)));
    let ended = tokio::select! {
        ended = &mut running => ended,
        came = interrupts.next() => {
            came.map_err(signals)?;
            complain("no further turn is taken, and those that run go on to their end; once more ends them at once");
            drain.cancel();
            tokio::select! {
                ended = &mut running => ended,
                came = interrupts.next() => {
                    came.map_err(signals)?;
                    complain("the turns that ran are ended");
                    return Ok(interrupt::exit_code());
                }
            }
        }
    };
    ended.map_err(CommandError::failed)?;
    Ok(ExitCode::SUCCESS)
}

/// Says that turns are taken from now on.
fn tell(name: &str, pool: &str, offer: &Offer) {
    say(format_args!("{name} takes turns of {pool}"));
    for (backend, version) in &offer.backends {
        let version = version.as_deref().map(|version| format!("  {}", printable(version)));
        say(format_args!("  {backend}{}", version.unwrap_or_default()));
    }
    for (backend, reason) in &offer.missing {
        say(format_args!("  {backend}  not offered: {}", printable(reason)));
    }
}

//! `nexus worker`: runs turns of a pool on this machine.

use std::{collections::BTreeMap, pin::pin, process::ExitCode};

use nexus::{CancelToken, Fleet, Offer, TraceContext, Worker};

use crate::{
    args::{ConfigArgs, WorkerArgs},
    command_error::CommandError,
    config,
    interrupt::{self, Interrupts},
    output::{complain, printable, say},
};

pub(crate) async fn worker(
    config: &ConfigArgs,
    args: &WorkerArgs,
    trace_context: Option<TraceContext>,
) -> Result<ExitCode, CommandError> {
    let (router, fleet) = config::load_for_worker(config)?;
    let mut settings = fleet.settings().clone();
    if let Some(name) = &args.name {
        settings.worker.name = Some(name.clone());
    }
    if let Some(turns) = args.turns {
        settings.worker.turns = Some(turns.get());
    }
    let worker = Worker::connect(settings, &args.pool, router).await.map_err(CommandError::failed)?;
    let (worker, lent) = with_logins(worker, &fleet)?;
    let worker = traced(worker, trace_context);
    let signals = |error| CommandError::deaf(&error);
    let mut interrupts = Interrupts::listen().map_err(signals)?;
    let drain = CancelToken::new();
    let name = worker.name().to_owned();
    let mut running = pin!(worker.run(drain.clone(), |offer| tell(&name, &args.pool, offer, &lent)));
    let ended = tokio::select! {
        ended = &mut running => ended,
        came = interrupts.next() => {
            came.map_err(signals)?;
            complain("no further turn is taken, and running turns finish; press again to stop them \
                immediately");
            drain.cancel();
            tokio::select! {
                ended = &mut running => ended,
                came = interrupts.next() => {
                    came.map_err(signals)?;
                    complain("the running turns are stopped");
                    // Returning drops `running`, which stops its turns.
                    return Ok(interrupt::exit_code());
                }
            }
        }
    };
    ended.map_err(CommandError::failed)?;
    Ok(ExitCode::SUCCESS)
}

/// Gives the worker the logins that it owns. Also returns them, each with the number of machines that share it.
#[cfg(feature = "login")]
fn with_logins(mut worker: Worker, fleet: &Fleet) -> Result<(Worker, BTreeMap<String, usize>), CommandError> {
    let (owned, context) = (worker.owned_logins(), nexus::BuildContext::from_process());
    for word in owned.keys() {
        let owner = &fleet.settings().login_owner[word];
        let mut network = nexus::http::Network::default().with_inherited_proxy(owner.inherit_proxy);
        network.ca_file.clone_from(&owner.ca_file);
        let login = nexus::login(word).map_err(CommandError::failed)?;
        let manager = login.manager(&context, &network).map_err(CommandError::failed)?;
        worker = worker.with_login(word, std::sync::Arc::new(manager));
    }
    Ok((worker, owned))
}

/// A build without logins shares none: it rejects a configuration that shares a login.
#[cfg(not(feature = "login"))]
fn with_logins(worker: Worker, _fleet: &Fleet) -> Result<(Worker, BTreeMap<String, usize>), CommandError> {
    Ok((worker, BTreeMap::new()))
}

/// If spans are exported, makes the worker's spans children of its callers' spans.
#[cfg(feature = "otlp")]
fn traced(worker: Worker, trace_context: Option<TraceContext>) -> Worker {
    match trace_context {
        Some(context) => worker.with_trace(context, crate::telemetry::Telemetry::adopt),
        None => worker,
    }
}

#[cfg(not(feature = "otlp"))]
fn traced(worker: Worker, _: Option<TraceContext>) -> Worker {
    worker
}

/// Reports that the worker takes turns from now on.
fn tell(name: &str, pool: &str, offer: &Offer, lent: &BTreeMap<String, usize>) {
    say(format_args!("{name} takes turns of {pool}"));
    for (backend, version) in &offer.backends {
        let version = version.as_deref().map(|version| format!("  {}", printable(version)));
        say(format_args!("  {backend}{}", version.unwrap_or_default()));
    }
    for (backend, reason) in &offer.missing {
        say(format_args!("  {backend}  not offered: {}", printable(reason)));
    }
    for (login, machines) in lent {
        let plural = if *machines == 1 { "" } else { "s" };
        say(format_args!("  the login {login} is lent to {machines} machine{plural}"));
    }
}

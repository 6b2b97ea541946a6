//! `nexus fleet`: shows the state of a fleet, and creates its resources on the servers.

use std::{process::ExitCode, time::SystemTime};

use nexus::{FleetKey, FleetStatus, PoolStatus, WorkerStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::{ConfigArgs, FleetCommand},
    command_error::CommandError,
    config,
    output::{AnswerWriter, complain, printable, say},
    spoken_time::spoken_instant,
    works::{self, WatchProgress},
};

/// Resources that were created on the servers of a fleet.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FleetSetup {
    /// Pools whose queues exist now.
    pools: Vec<String>,
}

/// Public key of this machine.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MachineKey {
    /// The key, as `login_owner` takes it.
    public_key: String,
}

/// Event of `nexus fleet status --watch`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum FleetEvent {
    /// State of the fleet, read from its servers.
    Status {
        /// State of the fleet.
        status: FleetStatus,
    },
    /// The servers did not answer.
    Unreachable {
        /// Reason.
        message: String,
    },
}

pub(crate) async fn fleet(
    out: AnswerWriter,
    config: &ConfigArgs,
    command: FleetCommand,
) -> Result<ExitCode, CommandError> {
    let fleet = config::load_fleet(config)?;
    match command {
        FleetCommand::Status { watch: None, .. } => {
            out.show(&fleet.status().await.map_err(CommandError::failed)?, print);
        }
        FleetCommand::Status { watch: Some(interval), .. } => {
            let mut has_shown = false;
            // After the first answer, the watch continues even if the servers stop answering.
            return works::watch(
                works::every(interval),
                || ExitCode::SUCCESS,
                async || {
                    match fleet.status().await {
                        Ok(status) => {
                            let is_next = std::mem::replace(&mut has_shown, true);
                            out.show(&FleetEvent::Status { status }, |event| {
                                if is_next {
                                    say("");
                                }
                                if let FleetEvent::Status { status } = event {
                                    print(status);
                                }
                            });
                        }
                        Err(error) if !has_shown => return Err(CommandError::failed(error)),
                        Err(error) => {
                            let message = error.to_string();
                            out.event(|| FleetEvent::Unreachable { message }, || complain(error));
                        }
                    }
                    Ok(WatchProgress::GoesOn)
                },
            )
            .await;
        }
        FleetCommand::Setup { pool } => {
            let pools: Vec<_> = pool.iter().map(String::as_str).collect();
            fleet.set_up(&pools).await.map_err(CommandError::failed)?;
            out.show(&FleetSetup { pools: pool }, |made| {
                say("the streams and buckets exist");
                made.pools.iter().for_each(|pool| say(format_args!("the queue of {pool} exists")));
            });
        }
        FleetCommand::Key => {
            let file = fleet.settings().key_file.as_deref();
            let file = file.ok_or_else(|| CommandError::failed("fleet: key_file: does not name a file"))?;
            let public_key = FleetKey::read_or_make(file).map_err(CommandError::failed)?.public().to_string();
            out.show(&MachineKey { public_key }, |key| say(&key.public_key));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(status: &FleetStatus) {
    say(format_args!("nats-server {}", printable(&status.server)));
    if status.pools.is_empty() {
        say("no pool has a queue or a worker");
    }
    for (name, pool) in &status.pools {
        say(format_args!("\n{name}: {}", waiting(pool)));
        let width = pool.workers.keys().map(String::len).max().unwrap_or(0);
        for (name, worker) in &pool.workers {
            say(format_args!("  {name:width$}  {}", worker_line(worker)));
        }
        if pool.workers.is_empty() {
            say(format_args!("  no worker: start one with `nexus worker --pool {name}`"));
        }
    }
    let now = SystemTime::now();
    for (account, hold) in &status.holds {
        let until = spoken_instant(hold.until, now);
        let probing = if hold.probing { "; a turn probes whether the account works again" } else { "" };
        let (account, reason) = (printable(account), printable(&hold.reason));
        say(format_args!("\n{account} is on hold until {until}: {reason}{probing}"));
    }
}

/// Describes the turns that wait in a pool.
fn waiting(pool: &PoolStatus) -> String {
    let any = pool.waiting.iter().map(|(priority, count)| (format!("of {priority} priority"), *count));
    let own = pool.waiting_for.iter().map(|(worker, count)| (format!("for {worker}"), *count));
    let parts: Vec<_> =
        any.chain(own).filter(|(_, count)| *count > 0).map(|(of, count)| format!("{count} {of}")).collect();
    let all = pool.waiting.values().chain(pool.waiting_for.values()).sum::<u64>();
    let turns = if all == 1 { "turn" } else { "turns" };
    match parts.as_slice() {
        [] => "nothing waits".to_owned(),
        parts => format!("{all} {turns} waiting: {}", parts.join(", ")),
    }
}

fn worker_line(worker: &WorkerStatus) -> String {
    let backends = worker.backends.iter().map(|(backend, version)| match version {
        Some(version) => format!("{backend} ({})", printable(version)),
        None => backend.clone(),
    });
    let (running, slots) = (worker.running.len(), worker.slots);
    let draining = if worker.is_draining { "  draining" } else { "" };
    format!("{running} of {slots} turns  {}{draining}", backends.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use nexus::Priority;

    use super::*;

    #[test]
    fn what_waits_is_counted_where_it_waits() {
        let mut pool = PoolStatus::default();
        assert_eq!(waiting(&pool), "nothing waits");
        pool.waiting.extend([(Priority::High, 2), (Priority::Normal, 0), (Priority::Low, 1)]);
        pool.waiting_for.insert("m1".to_owned(), 1);
        assert_eq!(waiting(&pool), "4 turns waiting: 2 of high priority, 1 of low priority, 1 for m1");
    }
}

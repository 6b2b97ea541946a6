//! `nexus serve`: one process that runs the queued tasks, the agents and the servers of a home.

mod event;
mod parts;
mod settings;
mod start;

use std::{
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    sync::{Mutex, PoisonError},
};

use nexus::{BuildContext, CancelToken};
use nexus_mcp::{ServerFile, ServerFileError};
use nexus_tasks::{TaskQueue, Tasks};

pub(crate) use self::{
    event::ServeEvent,
    settings::ServeSection,
    start::{ensure_server, is_running},
};
use self::{
    parts::{ServerParts, binary_replaced, note_program, run_again},
    settings::ServeSettings,
};
use crate::{
    args::{ConfigArgs, ServeArgs},
    command_error::{CommandError, with_causes},
    config,
    interrupt::{self, Interrupts},
    output::{self, AnswerWriter},
    task,
    works::blocking,
};

/// Name of the server's files in the home.
const NAME: &str = "serve";

pub(crate) async fn serve(
    out: AnswerWriter,
    config: &ConfigArgs,
    args: ServeArgs,
) -> Result<ExitCode, CommandError> {
    if args.detached {
        start::leave_session();
    }
    let context = BuildContext::from_process();
    // The signals of a service manager may come at any time from now on.
    let mut interrupts = Interrupts::listen().map_err(|error| CommandError::deaf(&error))?;
    let router = config::load_for_tasks(config)?;
    let settings = ServeSettings::of(&router).map_err(CommandError::failed)?;
    let home = std::path::absolute(&context.home).map_err(CommandError::failed)?;
    let tasks = task::with_router(router.clone(), context)?;
    let at_once = args.tasks.unwrap_or(settings.max_tasks_at_once);
    if at_once.get() > settings::MAX_TASKS_AT_ONCE {
        return Err(CommandError::usage("--tasks is more than 64"));
    }
    note_program();
    let claim = HomeClaim::of(&home).await?;
    ServeEvent::Started { process: std::process::id(), tasks_at_once: at_once.get() }.show(out);
    let (drain, end) = (CancelToken::new(), CancelToken::new());
    let queue = TaskQueue::new(tasks.clone(), at_once);
    let queue = if args.until_idle { queue.until_idle() } else { queue };
    let parts = ServerParts {
        out,
        config,
        home: &home,
        settings: &settings,
        router: &router,
        tasks: &tasks,
        drain: &drain,
        end: &end,
    };
    let (mut is_replaced, mut is_broken) = (false, false);
    let running = async {
        loop {
            let run_queue = queue.run(&drain, |event| ServeEvent::of_queue(event).show(out));
            if !args.until_idle {
                tokio::join!(run_queue, parts.run(&claim, args.webhooks));
                return Ok(());
            }
            run_queue.await;
            // A command that queues a task relies on the server whose claim it sees. So look once more after the claim is released.
            claim.release();
            if drain.is_cancelled() || !has_work(&tasks).await? {
                return Ok(());
            }
            match claim.renew(&home).await {
                // Another server took over.
                Err(_) if is_running(&home) => return Ok(()),
                renewed => renewed?,
            }
        }
    };
    let mut running = std::pin::pin!(running);
    let begin_drain = || {
        drain.cancel();
        // A command that queues a task from now on starts another server, which waits for the locks of the running steps.
        claim.release();
    };
    let mut was_signalled = false;
    let ended: Result<ExitCode, CommandError> = loop {
        tokio::select! {
            ended = &mut running => break ended.map(|()| ExitCode::SUCCESS),
            came = interrupts.next() => {
                came.map_err(|error| CommandError::deaf(&error))?;
                if was_signalled && !interrupt::was_hangup() {
                    ServeEvent::Draining { reason: "running steps and turns are stopped; they are repeated at the next start".to_owned() }.show(out);
                    end.cancel();
                    tasks.shutdown().await;
                    running.await?;
                    return Ok(interrupt::exit_code());
                }
                ServeEvent::Draining {
                    reason: "no further work begins, and running steps and turns finish; a second signal stops them".to_owned(),
                }.show(out);
                was_signalled = true;
                begin_drain();
            }
            () = output::broken(), if !is_broken => {
                is_broken = true;
                // A full disk loses the output alone, and tasks continue. A reader that went away wants no more of it.
                if output::is_reader_gone() {
                    begin_drain();
                }
            }
            () = binary_replaced(), if !drain.is_cancelled() => {
                is_replaced = true;
                ServeEvent::Draining {
                    reason: "the program was replaced: running steps and turns finish, then the new program starts".to_owned(),
                }.show(out);
                begin_drain();
            }
        }
    };
    tasks.shutdown().await;
    let code = ended?;
    // A person who ends the server does not want the new program to start.
    if is_replaced && !was_signalled {
        return Err(run_again());
    }
    Ok(code)
}

/// The right to be the server of a home, until it is released.
pub(crate) struct HomeClaim(Mutex<Option<ServerFile>>);

impl HomeClaim {
    async fn of(home: &Path) -> Result<Self, CommandError> {
        let claim = Self(Mutex::new(None));
        claim.renew(home).await?;
        Ok(claim)
    }

    /// Claims the home again, after a release.
    async fn renew(&self, home: &Path) -> Result<(), CommandError> {
        let home = home.to_owned();
        let claimed = blocking(move || Ok::<_, CommandError>(ServerFile::claim(&home, NAME))).await?;
        let claimed = claimed.map_err(|error| match error {
            ServerFileError::Running { running } => {
                let known = running.map(|running| {
                    format!(" in process {}, with its tools at {}", running.pid, running.address)
                });
                CommandError::failed(format_args!(
                    "`nexus serve` already runs for this home{}",
                    known.unwrap_or_default()
                ))
                .with_advice("queue tasks for it with `nexus task queue TASK`, or stop it first")
            }
            error => CommandError::failed(with_causes(&error)),
        })?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(claimed);
        Ok(())
    }

    /// Writes the address that a second server names, unless the claim was released.
    pub(super) fn announce(&self, address: SocketAddr) -> Result<(), ServerFileError> {
        let claim = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claim.as_ref().map_or(Ok(()), |claim| claim.announce(address))
    }

    fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Returns true if a queued task can run.
async fn has_work(tasks: &Tasks) -> Result<bool, CommandError> {
    let queued = tasks.queued().await?;
    Ok(queued.tasks.iter().any(|task| task.status != nexus_tasks::TaskStatusWord::ClarificationNeeded))
}

//! `nexus serve`: one process that runs the queued tasks, the agents and the servers of a home.

mod event;
mod parts;
mod settings;
mod start;

use std::process::ExitCode;

use nexus::{BuildContext, CancelToken};
use nexus_mcp::{ServerFile, ServerFileError};
use nexus_tasks::{TaskQueue, Tasks};

pub(crate) use self::{
    event::ServeEvent,
    settings::ServeSection,
    start::{ensure_server, is_running},
};
use self::{
    parts::{ServerParts, binary_replaced, run_again},
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
    let mut own_claim = Some(claim(&home).await?);
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
            if let (false, Some(claim)) = (args.until_idle, &own_claim) {
                tokio::join!(run_queue, parts.run(claim, args.webhooks));
                return Ok(());
            }
            run_queue.await;
            // A command that queues a task relies on the server whose claim it sees. So look once more after the claim is released.
            drop(own_claim.take());
            if drain.is_cancelled() || !has_work(&tasks).await? {
                return Ok(());
            }
            match claim(&home).await {
                Ok(again) => own_claim = Some(again),
                // Another server took over.
                Err(_) => return Ok(()),
            }
        }
    };
    let mut running = std::pin::pin!(running);
    let ended: Result<ExitCode, CommandError> = loop {
        tokio::select! {
            ended = &mut running => break ended.map(|()| ExitCode::SUCCESS),
            came = interrupts.next() => {
                came.map_err(|error| CommandError::deaf(&error))?;
                if drain.is_cancelled() {
                    ServeEvent::Draining { reason: "running steps and turns are stopped; they are repeated at the next start".to_owned() }.show(out);
                    end.cancel();
                    tasks.shutdown().await;
                    running.await?;
                    return Ok(interrupt::exit_code());
                }
                ServeEvent::Draining {
                    reason: "no further work begins, and running steps and turns finish; a second signal stops them".to_owned(),
                }.show(out);
                drain.cancel();
            }
            () = output::broken(), if !is_broken => {
                is_broken = true;
                // A full disk loses the output alone, and tasks continue. A reader that went away wants no more of it.
                if output::is_reader_gone() {
                    drain.cancel();
                }
            }
            () = binary_replaced(), if !is_replaced => {
                is_replaced = true;
                ServeEvent::Draining {
                    reason: "the program was replaced: running steps and turns finish, then the new program starts".to_owned(),
                }.show(out);
                drain.cancel();
            }
        }
    };
    tasks.shutdown().await;
    let code = ended?;
    if is_replaced {
        return Err(run_again());
    }
    Ok(code)
}

/// Claims the right to be the server of the home.
async fn claim(home: &std::path::Path) -> Result<ServerFile, CommandError> {
    let home = home.to_owned();
    let claimed = blocking(move || Ok::<_, CommandError>(ServerFile::claim(&home, NAME))).await?;
    claimed.map_err(|error| match error {
        ServerFileError::Running { running } => {
            let known = running
                .map(|running| format!(" in process {}, with its tools at {}", running.pid, running.address));
            CommandError::failed(format_args!(
                "`nexus serve` already runs for this home{}",
                known.unwrap_or_default()
            ))
            .with_advice("queue tasks for it with `nexus task queue TASK`, or stop it first")
        }
        error => CommandError::failed(with_causes(&error)),
    })
}

/// Returns true if a queued task can run.
async fn has_work(tasks: &Tasks) -> Result<bool, CommandError> {
    let queued = tasks.queued().await?;
    Ok(queued.tasks.iter().any(|task| task.status != nexus_tasks::TaskStatusWord::ClarificationNeeded))
}

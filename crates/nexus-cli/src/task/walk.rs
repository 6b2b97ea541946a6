//! `nexus task run`: a task walked to its end.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    process::ExitCode,
};

use nexus_tasks::{
    TaskOrchestrateRequest, TaskReport, TaskResultRequest, TaskRunTurnRequest, TaskStatusRequest, Tasks,
};

use super::{note, show};
use crate::{
    EXIT_FAILED,
    args::RunTaskArgs,
    command_error::CommandError,
    interrupt,
    output::{printable, say, say_json},
};

pub(super) async fn walk(tasks: &Tasks, task: &str, args: &RunTaskArgs) -> Result<ExitCode, CommandError> {
    let walked = tokio::select! {
        walked = steps(tasks, task, args) => walked,
        listened = interrupt::interrupted() => {
            note("the step is put back …");
            tasks.shutdown().await;
            return match listened {
                Ok(()) => Ok(interrupt::exit_code()),
                Err(error) => Err(CommandError::failed(format_args!("signals cannot be listened to: {error}"))),
            };
        }
    };
    let code = match walked {
        Ok(is_well) => end(tasks, task, args, is_well).await,
        Err(error) => Err(error),
    };
    // What goes on in the background, such as the map of the project, is stopped.
    tasks.shutdown().await;
    code
}

/// Goes on until the task ends, or waits for its caller. Says whether that is what was asked for.
async fn steps(tasks: &Tasks, task: &str, args: &RunTaskArgs) -> Result<bool, CommandError> {
    let mut answers = Some(args.answer.clone()).filter(|answers| !answers.is_empty());
    loop {
        let report = status(tasks, task).await?;
        match report.status.as_str() {
            "framing" => orchestrate(tasks, task, None).await?,
            "clarification_needed" => match answers.take().or_else(|| asked(&report)) {
                Some(answers) => orchestrate(tasks, task, Some(answers)).await?,
                None => {
                    for question in &report.questions {
                        note(&format!("question: {question}"));
                    }
                    note(&format!("answer by `nexus task run {task} --answer TEXT`, once for each question"));
                    return Ok(false);
                }
            },
            "active" => {
                let is_advanced = step(tasks, task).await?;
                if args.step {
                    return Ok(is_advanced);
                }
            }
            status => return Ok(status == "complete"),
        }
    }
}

async fn orchestrate(
    tasks: &Tasks,
    task: &str,
    mut answers: Option<Vec<String>>,
) -> Result<(), CommandError> {
    loop {
        let request =
            TaskOrchestrateRequest { task_id: task.to_owned(), answers: answers.take(), wait_s: None };
        let framed = watched(tasks, task, tasks.orchestrate(request)).await?;
        if !framed.running {
            for line in show::plan(&framed.task) {
                note(&line);
            }
            return Ok(());
        }
    }
}

/// One step. Says whether it advanced.
async fn step(tasks: &Tasks, task: &str) -> Result<bool, CommandError> {
    loop {
        let request = TaskRunTurnRequest { task_id: task.to_owned(), ..TaskRunTurnRequest::default() };
        let turn = watched(tasks, task, tasks.run_turn(request)).await?;
        if let Some(step) = turn.step.filter(|_| !turn.running) {
            note(&show::step(&step));
            return Ok(matches!(step.end.as_str(), "advanced" | "completed"));
        }
    }
}

/// Waits for a call, and says what happens meanwhile.
async fn watched<T>(
    tasks: &Tasks,
    task: &str,
    call: impl Future<Output = Result<T, nexus_tasks::TaskError>>,
) -> Result<T, CommandError> {
    let mut call = std::pin::pin!(call);
    let mut lines = None;
    let mut last = String::new();
    loop {
        let line = async {
            loop {
                if lines.is_none() {
                    lines = tasks.progress(task);
                }
                let Some(following) = &mut lines else {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                };
                let line = following.borrow_and_update().clone();
                if line != last {
                    return line;
                }
                if following.changed().await.is_err() {
                    // What ran has ended: the call comes back.
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            answer = &mut call => return answer.map_err(CommandError::from),
            line = line => {
                note(&line);
                last = line;
            }
        }
    }
}

async fn status(tasks: &Tasks, task: &str) -> Result<TaskReport, CommandError> {
    Ok(tasks.status(TaskStatusRequest { task_id: task.to_owned(), wait_s: Some(0) }).await?)
}

/// Asks the person at the terminal, if there is one.
fn asked(report: &TaskReport) -> Option<Vec<String>> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return None;
    }
    let mut answers = Vec::new();
    for question in &report.questions {
        note(&format!("question: {}", printable(question)));
        let mut answer = String::new();
        // The end of input is no answer.
        if io::stdin().lock().read_line(&mut answer).ok()? == 0 {
            return None;
        }
        answers.push(answer.trim().to_owned());
    }
    Some(answers)
}

async fn end(tasks: &Tasks, task: &str, args: &RunTaskArgs, is_well: bool) -> Result<ExitCode, CommandError> {
    let result = tasks.result(TaskResultRequest { task_id: task.to_owned(), offset: 0 }).await?;
    match args.json {
        true => say_json(&result),
        false => say(show::result(&result)),
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

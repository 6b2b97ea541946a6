//! `nexus task run`: runs a task to its end.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    process::ExitCode,
};

use nexus_tasks::{
    EntryView, QueueRow, StepEndWord, StepView, TaskOrchestrateRequest, TaskReport, TaskResult,
    TaskResultRequest, TaskRunTurnRequest, TaskStatusWord, Tasks,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{show, status};
use crate::{
    EXIT_FAILED,
    args::RunTaskArgs,
    command_error::CommandError,
    output::{AnswerWriter, printable, say},
    works::{note, unless_stopped},
};

/// Event of `nexus task run`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum TaskRunEvent {
    /// Current activity.
    Progress {
        /// In words.
        text: String,
    },
    /// The task is framed.
    Plan {
        /// Its plan.
        plan: Vec<EntryView>,
    },
    /// The goal cannot be framed without answers.
    Questions {
        /// The questions.
        questions: Vec<String>,
    },
    /// A step ended.
    Step {
        /// The step.
        step: StepView,
    },
    /// The task was queued for a server.
    Queued {
        /// Its entry in the queue.
        task: QueueRow,
        /// True if this command started a server.
        is_server_started: bool,
    },
    /// The command ends.
    Result {
        /// Result of the task so far.
        result: TaskResult,
    },
}

/// One run of a task.
struct TaskWalk<'a> {
    out: AnswerWriter,
    tasks: &'a Tasks,
    task: &'a str,
}

pub(super) async fn walk(
    out: AnswerWriter,
    tasks: &Tasks,
    task: &str,
    args: &RunTaskArgs,
) -> Result<ExitCode, CommandError> {
    let walk = TaskWalk { out, tasks, task };
    let walked = unless_stopped(walk.steps(args), async || note("reverting the step …")).await;
    let code = match walked {
        Ok(is_well) => show_result(out, tasks, task, is_well).await,
        Err(error) => Err(error),
    };
    // Stops background work, such as the map of the project.
    tasks.shutdown().await;
    code
}

impl TaskWalk<'_> {
    /// Runs steps until the task ends or waits for its caller. Returns true if it reached the requested end.
    async fn steps(&self, args: &RunTaskArgs) -> Result<bool, CommandError> {
        // Answers of the command line belong to the first questions; later questions need answers of their own.
        let mut answers = Some(args.answer.clone()).filter(|answers| !answers.is_empty());
        loop {
            let report = status(self.tasks, self.task).await?;
            match report.status {
                TaskStatusWord::Framing => self.orchestrate(None).await?,
                TaskStatusWord::ClarificationNeeded => match answers.take().or_else(|| self.asked(&report)) {
                    Some(answers) => self.orchestrate(Some(answers)).await?,
                    None => {
                        ask(self.out, &report);
                        return Ok(false);
                    }
                },
                TaskStatusWord::Active => {
                    let is_advanced = self.step().await?;
                    if args.step {
                        return Ok(is_advanced);
                    }
                }
                status => return Ok(status == TaskStatusWord::Complete),
            }
        }
    }

    async fn orchestrate(&self, mut answers: Option<Vec<String>>) -> Result<(), CommandError> {
        loop {
            let request = TaskOrchestrateRequest {
                task_id: self.task.to_owned(),
                // Send the answers once, because a repeated call only joins the running work.
                answers: answers.take(),
                wait_s: None,
            };
            let framed = self.watched(self.tasks.orchestrate(request)).await?;
            if !framed.running {
                let print = || show::plan(&framed.task).iter().for_each(|line| note(line));
                self.out.event(|| TaskRunEvent::Plan { plan: framed.task.plan.clone() }, print);
                return Ok(());
            }
        }
    }

    /// Runs one step. Returns true if it advanced.
    async fn step(&self) -> Result<bool, CommandError> {
        loop {
            let request =
                TaskRunTurnRequest { task_id: self.task.to_owned(), ..TaskRunTurnRequest::default() };
            let turn = self.watched(self.tasks.run_turn(request)).await?;
            if let Some(step) = turn.step.filter(|_| !turn.running) {
                self.out.event(|| TaskRunEvent::Step { step: step.clone() }, || note(&show::step(&step)));
                return Ok(matches!(step.end, StepEndWord::Advanced | StepEndWord::Completed));
            }
        }
    }

    /// Waits for a call, and shows its progress.
    async fn watched<T>(
        &self,
        call: impl Future<Output = Result<T, nexus_tasks::TaskError>>,
    ) -> Result<T, CommandError> {
        let mut call = std::pin::pin!(call);
        let mut lines = None;
        let mut last = String::new();
        loop {
            let line = async {
                loop {
                    if lines.is_none() {
                        lines = self.tasks.progress(self.task);
                    }
                    // The call starts the job, so the job may not exist yet.
                    let Some(following) = &mut lines else {
                        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                        continue;
                    };
                    let line = following.borrow_and_update().clone();
                    if line != last {
                        return line;
                    }
                    if following.changed().await.is_err() {
                        // The sender is gone, so the call is about to return.
                        std::future::pending::<()>().await;
                    }
                }
            };
            tokio::select! {
                answer = &mut call => return answer.map_err(CommandError::from),
                line = line => {
                    self.out.event(|| TaskRunEvent::Progress { text: line.clone() }, || note(&line));
                    last = line;
                }
            }
        }
    }

    /// Asks the person at the terminal. `None` if no person can answer.
    fn asked(&self, report: &TaskReport) -> Option<Vec<String>> {
        if self.out.is_json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        let mut answers = Vec::new();
        for question in &report.questions {
            note(&format!("question: {}", printable(question)));
            let mut answer = String::new();
            // End of input means that the person gave no answer.
            if io::stdin().lock().read_line(&mut answer).ok()? == 0 {
                return None;
            }
            answers.push(answer.trim().to_owned());
        }
        Some(answers)
    }
}

/// Prints the unanswered questions of a task.
pub(super) fn ask(out: AnswerWriter, report: &TaskReport) {
    let print = || {
        report.questions.iter().for_each(|question| note(&format!("question: {question}")));
        note(&format!(
            "answer with `nexus task run {} --answer TEXT`, once for each question",
            report.task_id
        ));
    };
    out.event(|| TaskRunEvent::Questions { questions: report.questions.clone() }, print);
}

/// Prints the result of a task so far. `is_well` decides about the exit code.
pub(super) async fn show_result(
    out: AnswerWriter,
    tasks: &Tasks,
    task_id: &str,
    is_well: bool,
) -> Result<ExitCode, CommandError> {
    let request = TaskResultRequest { task_id: task_id.to_owned(), offset: 0 };
    let result = tasks.result(request).await?;
    let text = show::result(&result);
    out.event(|| TaskRunEvent::Result { result }, || say(text));
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

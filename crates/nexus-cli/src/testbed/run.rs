//! `nexus testbed run`: runs an experiment from its start, or resumes it.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use nexus::{BuildContext, CancelToken, spending::SpendingBook};
use nexus_files::counted;
use nexus_testbed::{
    Answer, Arm, ArmContext, ArmSummary, Comparison, Experiment, ExperimentPlan, ExperimentResults,
    ExperimentSummary, Outcome, RunMode, RunRecord, Script, TestbedError, TurnBounds,
};

use schemars::JsonSchema;
use serde::Serialize;

use super::traps;
use crate::{
    args::RunTestbedArgs,
    command_error::CommandError,
    config, interrupt,
    output::{AnswerWriter, printable, say},
    works::note,
};

/// Event of `nexus testbed run`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum TestbedEvent {
    /// The experiment starts, or resumes.
    Started {
        /// Number of runs in the experiment.
        runs: u64,
        /// Number of finished runs.
        finished: u64,
        /// Minimum number of agent turns in the remaining runs.
        fewest_turns: u64,
        /// Maximum number of agent turns in the remaining runs.
        most_turns: u64,
    },
    /// A run is finished.
    Run(FinishedRun),
    /// Figures of an arm.
    Arm(ArmFigures),
    /// Comparison of two arms.
    Comparison(ArmComparison),
}

/// Run of an experiment.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FinishedRun {
    /// Its number, from 0.
    number: u64,
    /// The arm.
    arm: String,
    /// The trap.
    trap: String,
    /// Answer that the arm was given: `planted` or `right`.
    answer: Answer,
    /// Outcome of the run. `None` if the run is invalid.
    outcome: Option<Outcome>,
    /// Reason why the run is invalid, if it is.
    invalid: Option<String>,
    /// Duration of the run.
    seconds: f64,
}

/// Figures of an arm. Intervals are at 95 %.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ArmFigures {
    /// The arm.
    arm: String,
    /// Wrong answers that it caught.
    caught: u32,
    /// Wrong answers that it was given.
    wrong_answers: u32,
    /// Interval of the share that it caught.
    caught_interval: [f64; 2],
    /// Right answers that it rejected.
    refused: u32,
    /// Right answers that it was given.
    right_answers: u32,
    /// Interval of the share that it rejected.
    refused_interval: [f64; 2],
    /// Invalid runs.
    invalid: u32,
}

/// Difference of two arms in the wrong answers that they catch. The interval is at 95 %.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ArmComparison {
    first: String,
    second: String,
    /// Share of the first arm minus that of the second. `None` if an arm was given no wrong answer.
    difference: Option<f64>,
    /// Its interval.
    interval: [f64; 2],
    /// Fisher's exact p, one-sided: the first arm is higher.
    first_higher: f64,
    /// Fisher's exact p, one-sided: the first arm is lower.
    first_lower: f64,
    /// Fisher's exact p, two-sided.
    two_sided: f64,
}

pub(super) async fn run(out: AnswerWriter, args: &RunTestbedArgs) -> Result<ExitCode, CommandError> {
    let plan = ExperimentPlan {
        mode: if args.whole { RunMode::Task } else { RunMode::Review },
        repeats: args.runs,
        answers: if args.answers.is_empty() { Answer::ALL.to_vec() } else { args.answers.clone() },
        arms: arms(&args.arms)?,
        traps: traps(&args.traps)?,
    };
    let build = BuildContext::from_process();
    let spending: Arc<dyn SpendingBook> = Arc::new(config::spending_book(&build));
    let context = ArmContext { registry: nexus::registry(), build, spending: Some(spending) };
    // Check the plan first, so that an invalid one creates no folder.
    plan.check(&context)?;
    let mut experiment = Experiment::open(&args.folder, plan)?;
    let (bounds, real) = experiment.turns(&context)?;
    let (runs, made) = (experiment.description().runs(), experiment.finished().len() as u64);
    let started = || TestbedEvent::Started {
        runs,
        finished: made,
        fewest_turns: bounds.fewest,
        most_turns: bounds.most,
    };
    let print = || {
        note(&format!(
            "{}, of which {made} are finished; the rest takes {}",
            counted(runs, "run"),
            shown(bounds)
        ));
    };
    out.event(started, print);
    if !real.is_empty() {
        let real = real.join(", ");
        if !args.real {
            let problem = format!("the turns of {real} use vendors and cost money: give --real to run them");
            return Err(problem.into());
        }
        note(&format!("the turns of {real} use vendors, which charge for them"));
        if !args.yes && !is_agreed()? {
            return Err("nothing was run: give --yes to run it without a question".into());
        }
    }
    let cancel = CancelToken::new();
    let on_run = |run: &RunRecord| {
        let print = || note(&format!("{}/{runs} {}", run.key.number + 1, line(run)));
        out.event(|| TestbedEvent::Run(FinishedRun::of(run)), print);
    };
    let outcome = {
        let mut running = std::pin::pin!(experiment.run(&context, &cancel, on_run));
        tokio::select! {
            outcome = &mut running => outcome,
            listened = interrupt::interrupted() => {
                note("the present run is discarded; the same command continues after the last finished run");
                cancel.cancel();
                match running.await {
                    // `Ok` means that the last run finished at that moment.
                    Ok(()) | Err(TestbedError::Cancelled) => {}
                    Err(error) => note(&CommandError::from(error).to_string()),
                }
                return Err(CommandError::by_signal(listened));
            }
        }
    };
    outcome?;
    drop(experiment);
    show_summary(out, &args.folder)?;
    Ok(ExitCode::SUCCESS)
}

/// Loads the arms that the command line names.
fn arms(named: &[String]) -> Result<Vec<Arm>, CommandError> {
    if named.is_empty() {
        return Ok([Script::Anchored, Script::Probing].map(Arm::scripted).into());
    }
    let arm = |named: &String| match named.split_once('=') {
        Some((name, file)) => Ok(Arm::load(name, Path::new(file))?),
        None => match Script::ALL.into_iter().find(|script| script.as_str() == named) {
            Some(script) => Ok(Arm::scripted(script)),
            None => Err(format!(
                "{:?} is not an arm: name a script (anchored, probing, wary), or NAME=FILE with a nexus.yaml",
                printable(named)
            )
            .into()),
        },
    };
    named.iter().map(arm).collect()
}

fn shown(bounds: TurnBounds) -> String {
    format!("{} to {} of agents", bounds.fewest, counted(bounds.most, "turn"))
}

fn is_agreed() -> Result<bool, CommandError> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    note("go on? [y/N]");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(CommandError::failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn line(run: &RunRecord) -> String {
    let key = &run.key;
    let outcome = match (run.outcome(), run.invalid()) {
        (Some(outcome), _) => outcome.to_string(),
        (None, reason) => format!("invalid: {}", reason.unwrap_or_default()),
    };
    format!("{} on {}, {}: {outcome}", key.arm, key.trap, key.answer)
}

/// Shows the figures of the runs.
fn show_summary(out: AnswerWriter, folder: &Path) -> Result<(), CommandError> {
    let summary = ExperimentSummary::of(&ExperimentResults::read(folder)?);
    for arm in &summary.arms {
        let print = || {
            say(format_args!(
                "{}: caught {} of {} wrong answers (95 %: {:.2} to {:.2}), refused {} of {} right ones; {} invalid runs",
                arm.name,
                arm.caught.seen(),
                arm.caught.trials(),
                arm.caught_interval.low,
                arm.caught_interval.high,
                arm.refused.seen(),
                arm.refused.trials(),
                arm.invalid,
            ));
        };
        out.event(|| TestbedEvent::Arm(ArmFigures::of(arm)), print);
    }
    for pair in &summary.comparisons {
        let print = || {
            say(format_args!(
                "{} less {}: {} (95 %: {:.2} to {:.2}); Fisher's p {:.2e} one-sided that the first is higher, {:.2e} that it is \
                 lower, {:.2e} two-sided",
                pair.first,
                pair.second,
                pair.difference
                    .map_or_else(|| "nothing seen".to_owned(), |difference| format!("{difference:+.2}")),
                pair.interval.low,
                pair.interval.high,
                pair.fisher.first_higher,
                pair.fisher.first_lower,
                pair.fisher.two_sided,
            ));
        };
        out.event(|| TestbedEvent::Comparison(ArmComparison::of(pair)), print);
    }
    if !out.is_json() {
        say(format_args!("the report: nexus testbed report {} --output report.html", folder.display()));
    }
    Ok(())
}

impl FinishedRun {
    fn of(run: &RunRecord) -> Self {
        Self {
            number: run.key.number,
            arm: run.key.arm.clone(),
            trap: run.key.trap.clone(),
            answer: run.key.answer,
            outcome: run.outcome(),
            invalid: run.invalid(),
            seconds: run.seconds,
        }
    }
}

impl ArmFigures {
    fn of(arm: &ArmSummary) -> Self {
        Self {
            arm: arm.name.clone(),
            caught: arm.caught.seen(),
            wrong_answers: arm.caught.trials(),
            caught_interval: [arm.caught_interval.low, arm.caught_interval.high],
            refused: arm.refused.seen(),
            right_answers: arm.refused.trials(),
            refused_interval: [arm.refused_interval.low, arm.refused_interval.high],
            invalid: arm.invalid,
        }
    }
}

impl ArmComparison {
    fn of(pair: &Comparison) -> Self {
        Self {
            first: pair.first.clone(),
            second: pair.second.clone(),
            difference: pair.difference,
            interval: [pair.interval.low, pair.interval.high],
            first_higher: pair.fisher.first_higher,
            first_lower: pair.fisher.first_lower,
            two_sided: pair.fisher.two_sided,
        }
    }
}

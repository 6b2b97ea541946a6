//! `nexus testbed run`: an experiment, from its first run or from where it was cut off.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    path::Path,
    process::ExitCode,
};

use nexus::{BuildContext, CancelToken};
use nexus_testbed::{
    Answer, Arm, ArmContext, Experiment, ExperimentPlan, ExperimentResults, ExperimentSummary, RunMode,
    RunRecord, Script, TestbedError, TurnBounds,
};

use super::{ended, note, traps};
use crate::{
    args::RunTestbedArgs,
    command_error::CommandError,
    interrupt,
    output::{printable, say},
};

pub(super) async fn run(args: &RunTestbedArgs) -> Result<ExitCode, CommandError> {
    let plan = ExperimentPlan {
        mode: if args.whole { RunMode::Task } else { RunMode::Review },
        repeats: args.runs,
        answers: if args.answers.is_empty() { Answer::ALL.to_vec() } else { args.answers.clone() },
        arms: arms(&args.arms)?,
        traps: traps(&args.traps)?,
    };
    let context = ArmContext { registry: nexus::registry(), build: BuildContext::from_process() };
    plan.check(&context)?;
    let mut experiment = Experiment::open(&args.folder, plan)?;
    let (bounds, real) = experiment.turns(&context)?;
    let (runs, made) = (experiment.description().runs(), experiment.finished().len() as u64);
    note(&format!("{} runs, of which {made} are made; the rest takes {}", runs, shown(bounds)));
    if !real.is_empty() {
        let real = real.join(", ");
        if !args.real {
            let problem =
                format!("the turns of {real} cost something, for they ask vendors: say --real to run them");
            return Err(problem.into());
        }
        note(&format!("the turns of {real} ask vendors, and cost what those charge"));
        if !args.yes && !is_agreed()? {
            return Err("nothing was run: say --yes to run it without being asked".to_owned().into());
        }
    }
    let cancel = CancelToken::new();
    let told = |run: &RunRecord| note(&format!("{}/{runs} {}", run.key.number + 1, line(run)));
    let outcome = {
        let mut running = std::pin::pin!(experiment.run(&context, &cancel, told));
        tokio::select! {
            outcome = &mut running => outcome,
            listened = interrupt::interrupted() => {
                note("the run in flight is given up; the same command goes on behind the last that was finished");
                cancel.cancel();
                match running.await {
                    // The last one was finished in that moment.
                    Ok(()) | Err(TestbedError::Cancelled) => {}
                    Err(error) => note(&CommandError::from(error).to_string()),
                }
                return ended(listened);
            }
        }
    };
    outcome?;
    drop(experiment);
    tell(&args.folder)?;
    Ok(ExitCode::SUCCESS)
}

/// The arms that a command line names.
fn arms(named: &[String]) -> Result<Vec<Arm>, CommandError> {
    if named.is_empty() {
        return Ok([Script::Anchored, Script::Probing].map(Arm::scripted).into());
    }
    let arm = |named: &String| match named.split_once('=') {
        Some((name, file)) => Ok(Arm::load(name, Path::new(file))?),
        None => match Script::ALL.into_iter().find(|script| script.as_str() == named) {
            Some(script) => Ok(Arm::scripted(script)),
            None => Err(format!(
                "{:?} is no arm: name a script (anchored, probing, wary), or NAME=FILE with a nexus.yaml",
                printable(named)
            )
            .into()),
        },
    };
    named.iter().map(arm).collect()
}

fn shown(bounds: TurnBounds) -> String {
    format!("{} to {} turns of agents", bounds.fewest, bounds.most)
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

/// Says what the runs say.
fn tell(folder: &Path) -> Result<(), CommandError> {
    let summary = ExperimentSummary::of(&ExperimentResults::read(folder)?);
    for arm in &summary.arms {
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
    }
    for pair in &summary.comparisons {
        say(format_args!(
            "{} less {}: {} (95 %: {:.2} to {:.2}); Fisher's p {:.2e} one-sided that the first is higher, {:.2e} that it is lower, \
             {:.2e} two-sided",
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
    }
    say(format_args!("the report: nexus testbed report {} --output report.html", folder.display()));
    Ok(())
}

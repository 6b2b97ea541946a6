//! `nexus testbed`: measures which reviewers catch a confident wrong answer.

mod run;

use std::{process::ExitCode, sync::Arc};

use nexus::{BuildContext, CancelToken};
use nexus_tasks::TaskSettings;
use nexus_testbed::{
    ExperimentResults, ProofFolder, TestbedError, Trap, TrapProof, experiment_html, experiment_markdown,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    EXIT_FAILED,
    args::{TestbedCommand, TrapArgs},
    command_error::CommandError,
    interrupt,
    output::{AnswerWriter, printable, printable_lines, say},
    terminal::wrapped,
    works,
};

pub(crate) use self::run::TestbedEvent;

/// Trap of a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedTrap {
    /// Its name.
    name: String,
    /// Its kind.
    kind: String,
    /// Short description.
    about: String,
    /// The goal of its task.
    goal: String,
    /// Origin of the trap.
    from: String,
    /// SHA-256 of its files.
    sha256: String,
}

/// Result of running the programs of a trap.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProvenTrap {
    /// The trap.
    trap: String,
    /// True if all checks passed.
    is_sound: bool,
    /// The checks.
    checks: Vec<TrapCheck>,
}

/// Condition that a trap must meet.
#[derive(Debug, Serialize, JsonSchema)]
struct TrapCheck {
    /// The condition.
    holds: String,
    /// Reason why it does not hold, if it does not.
    fault: Option<String>,
}

pub(crate) async fn testbed(out: AnswerWriter, command: TestbedCommand) -> Result<ExitCode, CommandError> {
    match command {
        TestbedCommand::List(args) => traps(&args)?.iter().for_each(|trap| list(out, trap)),
        TestbedCommand::Prove(args) => return prove(out, &args).await,
        TestbedCommand::Run(args) => return run::run(out, &args).await,
        TestbedCommand::Report { folder, markdown, output } => {
            let results = ExperimentResults::read(&folder)?;
            let page = if markdown { experiment_markdown(&results) } else { experiment_html(&results) };
            works::report(out, page, output)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads the traps that the command line selects.
fn traps(args: &TrapArgs) -> Result<Vec<Arc<Trap>>, CommandError> {
    let all = match &args.traps {
        Some(folder) => Trap::load_all(folder),
        None => Trap::built_in(),
    };
    let all = all.map_err(TestbedError::from)?;
    if let Some(name) = args.names.iter().find(|name| !all.iter().any(|trap| trap.name() == **name)) {
        let known: Vec<&str> = all.iter().map(Trap::name).collect();
        return Err(format!("unknown trap {:?}; write one of {}", printable(name), known.join(", ")).into());
    }
    let is_meant = |trap: &Trap| args.names.is_empty() || args.names.iter().any(|name| name == trap.name());
    Ok(all.into_iter().filter(is_meant).map(Arc::new).collect())
}

fn list(out: AnswerWriter, trap: &Trap) {
    let listed = ListedTrap {
        name: trap.name().to_owned(),
        kind: trap.kind().to_owned(),
        about: trap.about().to_owned(),
        goal: trap.goal().to_owned(),
        from: trap.origin().to_owned(),
        sha256: trap.fingerprint().to_owned(),
    };
    out.show(&listed, |ListedTrap { name, kind, about, .. }| {
        say(wrapped(&printable_lines(&format!("{name}  {kind}\n    {about}")), 4));
    });
}

async fn prove(out: AnswerWriter, args: &TrapArgs) -> Result<ExitCode, CommandError> {
    let traps = traps(args)?;
    let folder = ProofFolder::make(&BuildContext::from_process().home.join("testbed"))?;
    let cancel = CancelToken::new();
    let mut proofs = std::pin::pin!(async {
        let mut are_sound = true;
        for trap in &traps {
            let proof = trap.prove(&folder.trap(), &TaskSettings::default(), &cancel).await?;
            are_sound &= proof.is_sound();
            show(out, &proof);
        }
        Ok::<_, TestbedError>(are_sound)
    });
    let proven = tokio::select! {
        are_sound = &mut proofs => are_sound?,
        listened = interrupt::interrupted() => {
            cancel.cancel();
            // Let the cancelled proofs end. Their results are not shown.
            let _ = proofs.await;
            return Err(CommandError::by_signal(listened));
        }
    };
    Ok(if proven { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

fn show(out: AnswerWriter, proof: &TrapProof) {
    let checks = proof.checks.iter();
    let checks = checks.map(|check| TrapCheck { holds: check.holds.clone(), fault: check.fault.clone() });
    let (trap, is_sound, checks) = (proof.trap.clone(), proof.is_sound(), checks.collect());
    out.show(&ProvenTrap { trap, is_sound, checks }, |proven| {
        let word = if proven.is_sound { "is a trap" } else { "is none" };
        let (all, faults) = (proof.checks.len(), proof.faults().count());
        say(format_args!("{} {word}: {} of {all} hold", proven.trap, all - faults));
        for check in proof.faults() {
            let fault = check.fault.as_deref().unwrap_or_default();
            say(printable_lines(&format!("    not so: {}: {fault}", check.holds)));
        }
    });
}

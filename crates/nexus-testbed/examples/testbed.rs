//! A confident wrong answer, shown to two kinds of reviewers: some trust the handoff, the others probe what the code did
//! before. Scripts play the models; the review is that of a real task.
//!
//!     cargo run -p nexus-turn-testbed --example testbed
//!
//! It needs git, Python and bubblewrap; without them it says what is missing.

use std::{error::Error, sync::Arc};

use nexus::{BuildContext, CancelToken, Registry};
use nexus_testbed::{
    Answer, Arm, ArmContext, Experiment, ExperimentPlan, ExperimentResults, ExperimentSummary, RunMode,
    Script, Trap, experiment_html,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("No login needed: scripts play the models.\n");
    let home = tempfile::tempdir()?;
    let root = home.path().canonicalize()?;
    let traps = Trap::built_in()?.into_iter().filter(|trap| trap.name() == "negatives").map(Arc::new);
    let plan = ExperimentPlan {
        mode: RunMode::Review,
        repeats: 1,
        answers: Answer::ALL.to_vec(),
        arms: [Script::Anchored, Script::Probing].map(Arm::scripted).into(),
        traps: traps.collect(),
    };
    for trap in &plan.traps {
        println!("trap      {}: {}\ngoal      {}", trap.name(), trap.about(), trap.goal());
        for claim in trap.claims() {
            println!("claim     {}", claim.text);
        }
    }
    let folder = root.join("experiment");
    let mut experiment = Experiment::open(&folder, plan)?;
    let context = ArmContext {
        registry: Registry::new(),
        build: BuildContext::in_home(root.join("home")),
        spending: None,
    };
    let told = |run: &nexus_testbed::RunRecord| {
        let outcome =
            run.outcome().map_or_else(|| run.invalid().unwrap_or_default(), |outcome| outcome.to_string());
        println!("run       {} before the {} answer: {outcome}", run.key.arm, run.key.answer);
        for concern in run.votes.iter().flat_map(|vote| vote.verdict.blocking_concerns()) {
            println!("concern   {} ({})", concern.text, concern.evidence[0]);
        }
    };
    experiment.run(&context, &CancelToken::new(), told).await?;
    let results = ExperimentResults::read(&folder)?;
    for arm in ExperimentSummary::of(&results).arms {
        let interval = arm.caught_interval;
        println!(
            "caught    {}: {} of {} ({:.2} to {:.2} at 95 %)",
            arm.name,
            arm.caught.seen(),
            arm.caught.trials(),
            interval.low,
            interval.high
        );
    }
    println!(
        "report    {} bytes of HTML, as `nexus testbed report` writes it",
        experiment_html(&results).len()
    );
    Ok(())
}

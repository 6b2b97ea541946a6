//! Running cases.

use nexus_core::Capabilities;

use super::{
    case::Case,
    catalogue::CASES,
    feature::Feature,
    finding::{Finding, ensure},
    report::{Entry, Outcome, Report},
    subject::Subject,
    trial::Trial,
};
use crate::sim::Scenario;

/// Runs every case whose name `filter` takes, one after the other.
///
/// # Errors
///
/// When no backend can be staged at all.
pub async fn run(subject: &dyn Subject, filter: impl Fn(&Case) -> bool) -> Result<Report, Finding> {
    let capabilities = declared(subject).await?;
    let mut entries = Vec::new();
    for case in CASES.iter().filter(|case| filter(case)) {
        let outcome = try_case(subject, case, &capabilities).await;
        entries.push(Entry { case: case.name, shows: case.shows(&capabilities), outcome });
    }
    let declared = Feature::ALL.iter().filter(|feature| feature.is_declared_by(subject, &capabilities));
    let declared = declared.copied().collect();
    Ok(Report { subject: subject.name().to_owned(), capabilities, declared, entries })
}

/// Runs the case `name`.
///
/// # Errors
///
/// The case does not exist, or no backend can be staged.
pub async fn run_case(subject: &dyn Subject, name: &str) -> Result<Outcome, Finding> {
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.ok_or_else(|| Finding::new("the case exists", name))?;
    let capabilities = declared(subject).await?;
    Ok(try_case(subject, case, &capabilities).await)
}

/// Runs the case `name` as a test. A case that does not apply passes.
///
/// # Panics
///
/// Panics with the finding if the case fails.
pub fn hold(subject: &dyn Subject, name: &str) {
    match run_case_blocking(subject, name) {
        Ok(None) => {}
        Ok(Some(reason)) => println!("skipped {name}: {reason}"),
        Err(finding) => panic!("{}: {name}: {finding}", subject.name()),
    }
}

/// Checks, as a test, that each declared capability has a case that the subject can stage. Every case is a test of its own,
/// so that case runs.
///
/// # Panics
///
/// Panics with the names of the capabilities that would stay unproven.
pub fn hold_declarations(subject: &dyn Subject) {
    if let Err(finding) = declarations(subject) {
        panic!("{}: {finding}", subject.name());
    }
}

/// Runs the case `name`. Returns the reason if the case does not apply to the subject.
pub(super) fn run_case_blocking(subject: &dyn Subject, name: &str) -> Result<Option<String>, Finding> {
    match block_on(run_case(subject, name))? {
        Outcome::Passed => Ok(None),
        Outcome::NotDeclared(feature) => Ok(Some(format!("{feature} is not declared"))),
        Outcome::NotStaged(reason) => Ok(Some(reason)),
        Outcome::Failed(finding) => Err(finding),
    }
}

/// Fails unless each capability that the backend declares has a case that the subject can stage.
pub(super) fn declarations(subject: &dyn Subject) -> Result<(), Finding> {
    let capabilities = block_on(declared(subject))?;
    let runs = |case: &&Case| {
        subject.cannot_stage(case.name).is_none()
            && case.needs.iter().all(|feature| feature.is_declared_by(subject, &capabilities))
    };
    let shown: Vec<Feature> = CASES.iter().filter(runs).flat_map(|case| case.shows(&capabilities)).collect();
    let unproven: Vec<_> = Feature::ALL
        .iter()
        .filter(|feature| feature.is_declared_by(subject, &capabilities) && !shown.contains(feature))
        .collect();
    ensure(unproven.is_empty(), "declarations", || format!("declared and shown by no case: {unproven:?}"))
}

async fn declared(subject: &dyn Subject) -> Result<Capabilities, Finding> {
    let trial = Trial::new(subject, "capabilities")?;
    let staged = trial.stage(Scenario::text("unused")).await?;
    Ok(staged.capabilities())
}

async fn try_case(subject: &dyn Subject, case: &Case, capabilities: &Capabilities) -> Outcome {
    let is_missing = |feature: &&Feature| !feature.is_declared_by(subject, capabilities);
    if let Some(missing) = case.needs.iter().find(is_missing) {
        let stands_for = missing.stands_for(capabilities).iter().find(is_missing);
        return Outcome::NotDeclared(*stands_for.unwrap_or(missing));
    }
    if let Some(reason) = subject.cannot_stage(case.name) {
        return Outcome::NotStaged(reason);
    }
    let trial = match Trial::new(subject, case.name) {
        Ok(trial) => trial.of(capabilities),
        Err(finding) => return Outcome::Failed(finding),
    };
    match (case.run)(&trial).await {
        Ok(()) => Outcome::Passed,
        Err(finding) => Outcome::Failed(finding),
    }
}

fn block_on<T>(future: impl Future<Output = Result<T, Finding>>) -> Result<T, Finding> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Finding::new("a runtime", error.to_string()))?.block_on(future)
}

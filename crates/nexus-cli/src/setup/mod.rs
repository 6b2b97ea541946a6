//! `nexus setup`: finds what the machine has, tries it, and writes the configuration.

mod edit;
mod person;
mod plan;
mod trial;

use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

use nexus::{BuildContext, NothingDetected, Vendor, detection::UnusedFinding, vendors};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use self::{
    person::Person,
    plan::{ConfigChange, ConfigPlan, ConfigState},
};
use crate::{
    EXIT_FAILED,
    activity::{self, Activity},
    args::{ConfigArgs, SetupArgs},
    checks::{self, Check, Severity, Survey},
    command_error::CommandError,
    config::{self, ConfigSource},
    doctor,
    output::{AnswerWriter, complain, printable, say},
    task,
    terminal::wrapped,
};

/// Result of `nexus setup`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SetupReport {
    /// Results of all checks and trials.
    checks: Vec<Check>,
    configuration: ConfigReport,
    /// True if the file is there, and a turn of one of its types would start.
    ready: bool,
    /// Next steps.
    next: Vec<String>,
}

/// The configuration file.
#[derive(Debug, Serialize, JsonSchema)]
struct ConfigReport {
    path: PathBuf,
    state: ConfigState,
    /// Entries that were added, or that are missing if the file was not written.
    added: Vec<String>,
    /// Backends that were found and not added, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
    /// Reason why the file cannot be edited.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Text that was not written: the whole file, or the entries to add by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// State of the machine.
struct Findings {
    checks: Vec<Check>,
    plan: ConfigPlan,
    /// Check of the planned configuration. `None` without one.
    survey: Option<Survey>,
    ways: Vec<String>,
}

pub(crate) async fn setup(
    out: AnswerWriter,
    config: &ConfigArgs,
    args: &SetupArgs,
) -> Result<ExitCode, CommandError> {
    let context = BuildContext::from_process();
    let path = plan::target(config.config.as_deref(), &context);
    // JSON is for programs, which answer no question.
    let mut person = if out.is_json() || args.yes { None } else { Person::at_terminal()? };
    let mut findings = Findings::look(path.clone(), &context).await?;
    if !out.is_json() {
        findings.checks.iter().for_each(print);
    }
    if let Some(person) = &mut person {
        let mut declined = BTreeSet::new();
        while offer_fix(&findings.checks, person, &mut declined).await? {
            // A command may fix several checks, so look at the whole machine again.
            let again = Findings::look(path.clone(), &context).await?;
            again.checks.iter().filter(|check| !findings.checks.contains(check)).for_each(print);
            findings = again;
        }
    }
    let Findings { mut checks, plan, survey, ways } = findings;
    let agrees = match (&mut person, plan.to_write()) {
        (_, None) => true,
        (Some(person), Some(text)) => {
            show_change(&plan, text);
            person.agrees(&format!("Write {}?", shown(&plan)), true).await?
        }
        (None, Some(_)) => args.yes,
    };
    let state = if agrees { plan.write()? } else { ConfigState::Proposed };
    let is_written = matches!(state, ConfigState::Written | ConfigState::Changed | ConfigState::Unchanged);
    if !out.is_json() {
        print_state(&plan, state);
    }
    let mut trials = Vec::new();
    let mut is_paid = false;
    if let (Some(survey), Some(file)) = (&survey, plan.file()) {
        let _activity = Activity::start("running a simulated turn of each vendor");
        let value = file.value()?;
        is_paid = is_paid_for_each_call(&value);
        let folder = path.parent().unwrap_or(&path);
        trials = trial::trials(&survey.backends, &value, folder).await?;
    }
    if !out.is_json() {
        trials.iter().for_each(print);
    }
    let have_passed = trials.iter().all(|trial| trial.severity != Severity::Problem);
    checks.extend(trials);
    let ready = is_written && have_passed && survey.as_ref().is_some_and(Survey::would_start);
    let next = next_steps(&checks, &ways, state, ready.then_some(is_paid));
    let configuration = ConfigReport::of(&plan, state);
    out.show(&SetupReport { checks, configuration, ready, next }, |report| {
        say("");
        for (index, next) in report.next.iter().enumerate() {
            say(wrapped(&format!("{} {next}", if index == 0 { "next:" } else { "     " }), 6));
        }
    });
    Ok(if ready { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

impl Findings {
    async fn look(path: PathBuf, context: &BuildContext) -> Result<Self, CommandError> {
        let _activity = Activity::start("looking at this machine");
        let mut checks = Vec::new();
        let (detected, ways) = match config::detect_again(context).await {
            Ok(detected) => {
                checks.extend(detected.entries().iter().map(|entry| {
                    Check::ok(format!("found {}", entry.backend.name), printable(&entry.backend.found))
                }));
                checks.extend(detected.unused().iter().map(unused));
                (Some(detected), Vec::new())
            }
            Err(NothingDetected { unused: found, ways }) => {
                let detail = match config::is_detection_off(context) {
                    true => "NEXUS_DETECTION=off: the machine was not searched",
                    false => {
                        "no program with a login, no login of Nexus, no API key and no local server was found"
                    }
                };
                checks.push(Check::missing("backends", detail));
                checks.extend(found.iter().map(unused));
                (None, ways)
            }
        };
        activity::set("checking the backends");
        let plan = ConfigPlan::of(path, detected.as_ref(), context)?;
        if detected.is_none() && !matches!(plan.change, ConfigChange::Nothing) {
            // The file may name backends that detection does not find.
            checks.retain(|check| check.subject != "backends");
        }
        #[cfg(feature = "login")]
        {
            let logins = checks::logins(context, std::time::SystemTime::now()).await?;
            checks.extend(logins.into_iter().filter(|check| check.severity == Severity::Problem));
        }
        let source = plan.file().map(ConfigSource::Trusted);
        let router = source.map(|source| config::load_source(source, context.clone())).transpose()?;
        let are_wanted = router.as_ref().is_some_and(doctor::runs_tasks);
        let mut survey = None;
        let tasks = match router {
            Some(router) => {
                let found = Survey::of(&router).await?;
                checks.extend(found.backends.iter().map(checks::Readiness::check).map(with_advised_command));
                checks.extend(found.types.iter().map(checks::TypeReadiness::check));
                survey = Some(found);
                task::with_router(router, context.clone())?
            }
            None => task::unconfigured()?,
        };
        checks.extend(checks::programs(&tasks, are_wanted).await.into_iter().map(|mut check| {
            // Turns run without the programs of tasks.
            if check.severity == Severity::Problem {
                check = check.noted();
            }
            check
        }));
        Ok(Self { checks, plan, survey, ways })
    }
}

/// Returns the check of a finding that is not used.
fn unused(finding: &UnusedFinding) -> Check {
    let check = Check::missing(printable(&finding.subject), printable(&finding.reason)).noted();
    match advised_command(&finding.reason) {
        Some(command) => check.with_command(command),
        None => check,
    }
}

/// Adds the command that the advice of a check names.
fn with_advised_command(mut check: Check) -> Check {
    if check.command.is_none() {
        check.command = check.fix.as_deref().and_then(advised_command).map(str::to_owned);
    }
    check
}

/// Returns the command in advice such as "run `nexus login NAME`".
fn advised_command(advice: &str) -> Option<&str> {
    let (_, rest) = advice.split_once("run `")?;
    let (command, _) = rest.split_once('`')?;
    // The advice may quote a path or a server's words, so only the commands of logins are offered.
    let own = command.strip_prefix("nexus login ");
    let is_own = own.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let of_programs = vendors().iter().filter_map(Vendor::program_login);
    let is_programs = of_programs.map(|login| format!("{login} login")).any(|login| login == command);
    (is_own || is_programs).then_some(command)
}

/// Offers the commands of failed checks, and runs the first one to which the person agrees. Returns true if a command ran.
async fn offer_fix(
    checks: &[Check],
    person: &mut Person,
    declined: &mut BTreeSet<String>,
) -> Result<bool, CommandError> {
    for check in checks.iter().filter(|check| !check.is_ok()) {
        let Some(command) = &check.command else { continue };
        if declined.contains(command) {
            continue;
        }
        let question = format!("{}: {}\nRun `{command}`?", check.subject, check.detail);
        if person.agrees(&question, false).await? {
            // A command that failed is offered again.
            person.run(command).await?;
            return Ok(true);
        }
        declined.insert(command.clone());
    }
    Ok(false)
}

fn print(check: &Check) {
    say(wrapped(&check.to_string(), 6));
    if let (Some(command), false) = (&check.command, check.is_ok()) {
        say(format_args!("      command: {command}"));
    }
}

fn shown(plan: &ConfigPlan) -> String {
    printable(&plan.path.display().to_string())
}

/// Shows what would be written, before the question.
fn show_change(plan: &ConfigPlan, text: &str) {
    match plan.added.as_slice() {
        [] => complain(format_args!("{} would be:\n{}", shown(plan), text.trim_end())),
        added => complain(format_args!("{} would get: {}", shown(plan), printable(&added.join(", ")))),
    }
}

fn print_state(plan: &ConfigPlan, state: ConfigState) {
    let path = shown(plan);
    for left_out in &plan.left_out {
        say(wrapped(&format!("note  not added: {left_out}"), 6));
    }
    let added = printable(&plan.added.join(", "));
    say(match (state, &plan.change) {
        (ConfigState::Written, _) => format!("\nwritten: {path}"),
        (ConfigState::Changed, _) => wrapped(&format!("\nchanged: {path}, with {added}"), 2),
        (ConfigState::Unchanged, _) => format!("\nunchanged: {path} has everything that was found"),
        (ConfigState::Proposed, ConfigChange::New(text)) => {
            format!("\nnot written: {path}. It would be:\n\n{}", text.trim_end())
        }
        (ConfigState::Proposed, _) => wrapped(&format!("\nnot changed: {path} would get {added}"), 2),
        (ConfigState::Refused, ConfigChange::Refused { reason, missing }) => {
            format!("\nnot changed: {path}: {reason}. Add these entries by hand:\n\n{}", missing.trim_end())
        }
        _ => format!("\nnot written: {path}, because nothing was found to write"),
    });
}

/// Returns true if every backend of a configuration is metered.
fn is_paid_for_each_call(configuration: &Value) -> bool {
    configuration["backends"].as_object().is_some_and(|backends| {
        !backends.is_empty() && backends.values().all(|settings| settings["billing"] == "metered")
    })
}

/// Returns the advice at the end. `ready` is `None` if no turn would start, else tells if each call is paid.
fn next_steps(checks: &[Check], ways: &[String], state: ConfigState, ready: Option<bool>) -> Vec<String> {
    let mut next: Vec<String> = match state {
        ConfigState::Proposed => vec!["`nexus setup --yes` writes the file".to_owned()],
        ConfigState::Refused => vec!["add the entries above, then run `nexus setup` again".to_owned()],
        ConfigState::Nothing => ways.to_vec(),
        _ => Vec::new(),
    };
    if let Some(is_paid) = ready {
        let price = if is_paid { " (each call is paid)" } else { "" };
        next.push(format!("nexus run 'What does this project do?'{price}"));
    } else if state == ConfigState::Nothing {
        next.push("`nexus setup` again; `nexus demo` shows a whole task without any of them".to_owned());
    } else if checks.iter().any(|check| check.severity == Severity::Problem) {
        next.push("fix the lines with FAIL, then run `nexus setup` again".to_owned());
    }
    next
}

impl ConfigReport {
    fn of(plan: &ConfigPlan, state: ConfigState) -> Self {
        let (mut reason, mut text) = (None, None);
        match &plan.change {
            ConfigChange::Refused { reason: why, missing } => {
                reason = Some(why.clone());
                text = Some(missing.clone());
            }
            ConfigChange::New(whole) | ConfigChange::Added(whole) if state == ConfigState::Proposed => {
                text = Some(whole.clone());
            }
            _ => {}
        }
        Self {
            path: plan.path.clone(),
            state,
            added: plan.added.clone(),
            left_out: plan.left_out.clone(),
            reason,
            text,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_known_commands_of_advice_are_offered() {
        for (advice, command) in [
            ("it is not logged in: run `claude auth login`", Some("claude auth login")),
            ("Nexus has no login for it: run `nexus login codex`", Some("nexus login codex")),
            ("run `nexus login codex; rm -r x`", None),
            ("run `rm -r x`", None),
            ("it has no model: load one", None),
        ] {
            assert_eq!(advised_command(advice), command, "{advice}");
        }
    }

    #[test]
    fn the_first_turn_is_called_paid_if_nothing_else_could_run_it() {
        let key = json!({ "kind": "responses", "billing": "metered" });
        for (backends, expected) in [
            (json!({ "openai": key }), "nexus run 'What does this project do?' (each call is paid)"),
            (
                json!({ "openai": key, "claude": { "kind": "claude-cli" } }),
                "nexus run 'What does this project do?'",
            ),
        ] {
            let is_paid = is_paid_for_each_call(&json!({ "backends": backends }));
            assert_eq!(next_steps(&[], &[], ConfigState::Written, Some(is_paid)), [expected]);
        }
        assert!(!is_paid_for_each_call(&json!({})));
    }
}

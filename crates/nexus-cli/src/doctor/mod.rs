//! `nexus doctor`: problems that stop turns on this machine, and advice on them.

mod finding;
mod hooks;
mod machine;

use std::{path::Path, process::ExitCode, time::SystemTime};

use nexus::{
    AccessEnforcer, AccessSupport, Availability, BackendId, BuildContext, Containment, DetectedConfig,
    ExecutionBackend, Router, SharedAddress, ToolAccess,
};
use nexus_tasks::{SandboxKind, TaskError, TaskPrograms};
use schemars::JsonSchema;
use serde::Serialize;

use self::finding::{Finding, Severity};
#[cfg(feature = "login")]
use crate::login_report::{LoginReport, LoginState};
use crate::{
    EXIT_FAILED,
    args::ConfigArgs,
    command_error::CommandError,
    config::{self, ConfigSource, FoundConfig},
    output::{AnswerWriter, printable, say},
    readiness::{Readiness, release_advice},
    task,
    terminal::wrapped,
};

/// Results of all checks on this machine.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Diagnosis {
    /// True if nothing stops turns from running.
    well: bool,
    /// Results, one for each check.
    findings: Vec<Finding>,
}

pub(crate) async fn doctor(out: AnswerWriter, args: &ConfigArgs) -> Result<ExitCode, CommandError> {
    let now = SystemTime::now();
    let context = BuildContext::from_process();
    let mut findings = vec![machine::clock(now)];
    findings.extend(machine::leftovers(&context.home));
    #[cfg(feature = "keyring")]
    findings.push(machine::keyring().await);
    #[cfg(feature = "login")]
    findings.extend(logins(&context, now).await?);
    findings.extend(configuration(args, &context).await);
    let hooks = nexus::harness::run_blocking(hooks::hooks).await;
    findings.extend(hooks.unwrap_or_default());
    let problems = findings.iter().filter(|finding| finding.state == Severity::Problem).count();
    out.show(&Diagnosis { well: problems == 0, findings }, |diagnosis| {
        let finding = |finding: &Finding| say(wrapped(&finding.to_string(), 6));
        diagnosis.findings.iter().for_each(finding);
        say(match problems {
            0 => "\nnothing is wrong".to_owned(),
            1 => "\n1 problem".to_owned(),
            problems => format!("\n{problems} problems"),
        });
    });
    Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

/// Checks the configuration and each of its backends.
async fn configuration(args: &ConfigArgs, context: &BuildContext) -> Vec<Finding> {
    const SUBJECT: &str = "configuration";
    let found = config::find(args, context).and_then(|found| match found {
        FoundConfig::Untrusted(untrusted) => {
            let advice = "read the file, then run `nexus trust`";
            Err(CommandError::no_configuration(untrusted.note()).with_advice(advice))
        }
        found => found.or_detect(context),
    });
    let source = match found {
        Ok(source) => source,
        Err(error) => {
            let report = error.into_report();
            let advice =
                report.advice.unwrap_or_else(|| "correct it, or name another with --config".to_owned());
            return vec![Finding::problem(SUBJECT, report.message, advice)];
        }
    };
    match config::load_source(source.clone(), context.clone()) {
        Ok(router) => {
            let mut findings = vec![Finding::fine(SUBJECT, printable(&source.to_string()))];
            let unused = source.detected().into_iter().flat_map(DetectedConfig::unused);
            findings.extend(unused.map(|unused| Finding::note("not used", printable(&unused.to_string()))));
            findings.extend(backends(&router).await);
            findings.extend(shared_addresses(&router).await);
            findings.extend(fleet(&router, &source, context.clone()).await);
            findings.extend(task_programs(router, context.clone()).await);
            findings
        }
        Err(error) => {
            vec![Finding::problem(
                SUBJECT,
                error.to_string(),
                "`nexus check --example` prints a valid example",
            )]
        }
    }
}

/// Probes all backends at once, and reports whether each could start.
async fn backends(router: &Router) -> Vec<Finding> {
    let backends = router.backends();
    let mut findings = Vec::new();
    for found in Readiness::of_all(router).await {
        findings.push(match &found.hold {
            Some(hold) => Finding::problem(
                format!("backend {}", found.id),
                printable(&hold.spoken(SystemTime::now())),
                format!("wait until then; {}", release_advice(&found.id)),
            ),
            None => backend_finding(&found.id, &found.availability),
        });
        let backend = backends.get(&found.id);
        if let Some(backend) = backend.filter(|_| found.availability.is_ready()) {
            findings.push(sandboxes(&found.id, &**backend));
            findings.extend(containment(&found.id, &**backend));
        }
    }
    findings
}

/// The programs that tasks need. A configuration that binds no agents of tasks can do without.
async fn task_programs(router: Router, context: BuildContext) -> Vec<Finding> {
    let is_wanted = router.kinds().iter().any(|kind| {
        let explained = router.explain(kind.as_str());
        explained.is_ok_and(|explained| explained.phase.as_deref() == Some("orchestrate"))
    });
    let TaskPrograms { git, sandbox } = match task::with_router(router, context) {
        Ok(tasks) => tasks.try_programs().await,
        Err(error) => {
            return vec![Finding::problem("tasks", error.to_string(), "correct the section `tasks`")];
        }
    };
    let finding = |subject: &str, found: Result<String, TaskError>| match found {
        Ok(text) => Finding::fine(subject, text),
        Err(error) if is_wanted => {
            Finding::problem(subject, printable(&error.message), printable(&error.advice))
        }
        Err(error) => Finding::note(subject, printable(&format!("{}; tasks need it", error.message))),
    };
    let sandbox = sandbox.map(|kind| match kind {
        SandboxKind::Bubblewrap => "bubblewrap works".to_owned(),
        SandboxKind::None => "none: tests run as this user with all that it may do".to_owned(),
    });
    vec![finding("git for tasks", git), finding("sandbox for tasks", sandbox)]
}

/// Reports vendors of one panel that are reached at the same address.
async fn shared_addresses(router: &Router) -> Vec<Finding> {
    let shared = router.shared_addresses().await;
    let finding = |shared: &SharedAddress| {
        let (subject, text) = (format!("panel {}", printable(&shared.panel)), printable(&shared.to_string()));
        match shared.is_refused {
            true => Finding::problem(subject, text, shared.advice()),
            false => Finding::note(subject, format!("{text}: {}", shared.advice())),
        }
    };
    shared.iter().map(finding).collect()
}

/// Checks the servers of the fleet. `None` without a fleet.
async fn fleet(router: &Router, source: &ConfigSource, context: BuildContext) -> Option<Finding> {
    const SUBJECT: &str = "fleet";
    const MEND: &str = "start the servers, or correct the section `fleet`";
    let fleet = match config::fleet_in(router, source, context) {
        Ok(fleet) => fleet?,
        Err(error) => return Some(Finding::problem(SUBJECT, error.to_string(), MEND)),
    };
    Some(match fleet.status().await {
        Ok(status) => {
            let workers = status.pools.values().map(|pool| pool.workers.len()).sum::<usize>();
            let workers = format!("{workers} worker{}", if workers == 1 { "" } else { "s" });
            Finding::fine(SUBJECT, format!("nats-server {}, {workers}", printable(&status.server)))
        }
        Err(error) => Finding::problem(SUBJECT, printable(&error.to_string()), MEND),
    })
}

fn backend_finding(id: &BackendId, found: &Availability) -> Finding {
    let subject = format!("backend {id}");
    match found {
        Availability::Ready { version, notes } => {
            let version = version.as_deref().map(|version| format!(" ({})", printable(version)));
            let text = format!("ready{}", version.unwrap_or_default());
            match notes.as_slice() {
                [] => Finding::fine(subject, text),
                notes => {
                    let notes = notes.iter().map(|note| printable(note)).collect::<Vec<_>>().join("; ");
                    Finding::note(subject, format!("{text}: {notes}"))
                }
            }
        }
        Availability::NotInstalled { looked_in, remedy } => {
            let places = looked_in.iter().map(|place| shown(place)).collect::<Vec<_>>().join(", ");
            Finding::problem(subject, format!("not installed; looked in {places}"), remedy)
        }
        Availability::Unauthenticated { remedy } => {
            Finding::problem(subject, "not logged in", printable(remedy))
        }
        Availability::Unusable { reason } => Finding::problem(
            subject,
            printable(reason),
            "fix the cause in the line, or park the backend in nexus.yaml",
        ),
        other => Finding::note(subject, format!("{other:?}")),
    }
}

/// Reports the enforcer of each access level of a backend.
fn sandboxes(id: &BackendId, backend: &dyn ExecutionBackend) -> Finding {
    let capabilities = backend.capabilities();
    let levels = [
        ("read-only", ToolAccess::ReadOnly),
        ("workspace-write", ToolAccess::WorkspaceWrite),
        ("unrestricted", ToolAccess::Unrestricted),
    ];
    let levels = levels.into_iter().map(|(name, level)| {
        let enforcer = match capabilities.access.of(level) {
            AccessSupport::Kept(AccessEnforcer::Os) => "enforced by the operating system",
            AccessSupport::Kept(AccessEnforcer::Vendor) => "enforced by the vendor's own program",
            AccessSupport::Kept(AccessEnforcer::None) => "not enforced",
            _ => "not offered",
        };
        format!("{name} {enforcer}")
    });
    Finding::fine(format!("sandbox {id}"), levels.collect::<Vec<_>>().join(", "))
}

/// Reports the mechanism that contains the processes of a delegated backend.
fn containment(id: &BackendId, backend: &dyn ExecutionBackend) -> Option<Finding> {
    let subject = format!("containment {id}");
    Some(match backend.capabilities().containment? {
        kind @ (Containment::Search | Containment::Subreaper) => Finding::note(
            subject,
            format!(
                "{kind}: processes of a killed program are stopped when Nexus starts again, not \
                immediately"
            ),
        ),
        kind => Finding::fine(subject, kind.to_string()),
    })
}

#[cfg(feature = "login")]
async fn logins(context: &BuildContext, now: SystemTime) -> Result<Vec<Finding>, CommandError> {
    Ok(LoginReport::all(context, now).await?.into_iter().map(login).collect())
}

#[cfg(feature = "login")]
fn login(report: LoginReport) -> Finding {
    let subject = format!("login {}", report.name.as_str());
    let reason = report.reason.unwrap_or_default();
    let mend = report.next.unwrap_or_default();
    match report.state {
        LoginState::LoggedIn => Finding::fine(subject, "logged in"),
        LoginState::LoggedOut => Finding::fine(subject, format!("none; to use your plan: {mend}")),
        LoginState::Over => Finding::problem(subject, reason, mend),
        LoginState::Unreadable => Finding::problem(
            subject,
            format!("it cannot be read: {reason}"),
            format!("move the file away, then {mend}"),
        ),
    }
}

fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

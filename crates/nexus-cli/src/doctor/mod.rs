//! `nexus doctor`: problems that stop turns on this machine, and advice on them.

mod hooks;
mod machine;
mod servers;

use std::{process::ExitCode, time::SystemTime};

use nexus::{
    AccessEnforcer, AccessSupport, BackendId, BuildContext, Containment, DetectedConfig, ExecutionBackend,
    Router, SharedAddress, ToolAccess,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    EXIT_FAILED,
    args::ConfigArgs,
    checks::{self, Check, Severity, Survey},
    command_error::CommandError,
    config::{self, ConfigSource, FoundConfig},
    output::{AnswerWriter, printable, say},
    task,
    terminal::wrapped,
};

/// Results of all checks on this machine.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Diagnosis {
    /// True if nothing stops turns from running.
    well: bool,
    /// Results, one for each check.
    findings: Vec<Check>,
}

pub(crate) async fn doctor(out: AnswerWriter, args: &ConfigArgs) -> Result<ExitCode, CommandError> {
    let now = SystemTime::now();
    let context = BuildContext::from_process();
    let mut findings = vec![machine::clock(now)];
    findings.extend(machine::leftovers(&context.home));
    #[cfg(feature = "keyring")]
    findings.push(machine::keyring().await);
    #[cfg(feature = "login")]
    findings.extend(checks::logins(&context, now).await?);
    findings.extend(configuration(args, &context).await);
    let hooks = nexus::harness::run_blocking(hooks::hooks).await;
    findings.extend(hooks.unwrap_or_default());
    let problems = findings.iter().filter(|finding| finding.severity == Severity::Problem).count();
    out.show(&Diagnosis { well: problems == 0, findings }, |diagnosis| {
        let finding = |finding: &Check| say(wrapped(&finding.to_string(), 6));
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
async fn configuration(args: &ConfigArgs, context: &BuildContext) -> Vec<Check> {
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
            return vec![Check::problem(SUBJECT, report.message, advice)];
        }
    };
    match config::load_source(source.clone(), context.clone()) {
        Ok(router) => {
            let mut findings = vec![Check::ok(SUBJECT, printable(&source.to_string()))];
            let unused = source.detected().into_iter().flat_map(DetectedConfig::unused);
            findings.extend(unused.map(|unused| Check::note("not used", printable(&unused.to_string()))));
            findings.extend(backends(&router).await);
            findings.extend(shared_addresses(&router).await);
            findings.extend(servers::servers(&router).await);
            findings.extend(fleet(&router, &source, context.clone()).await);
            findings.extend(task_programs(router, context.clone()).await);
            findings
        }
        Err(error) => {
            vec![Check::problem(SUBJECT, error.to_string(), "`nexus check --example` prints a valid example")]
        }
    }
}

/// Probes all backends at once, and reports whether each, and each type, could start.
async fn backends(router: &Router) -> Vec<Check> {
    let backends = router.backends();
    let survey = match Survey::of(router).await {
        Ok(survey) => survey,
        Err(error) => return vec![Check::failed("types", error.to_string()).fixed_by("correct the type")],
    };
    let mut findings = Vec::new();
    for found in &survey.backends {
        findings.push(found.check());
        let backend = backends.get(&found.id);
        if let Some(backend) = backend.filter(|_| found.availability.is_ready()) {
            findings.push(sandboxes(&found.id, &**backend));
            findings.extend(containment(&found.id, &**backend));
        }
    }
    // The backends have lines of their own, so list only the types that cannot start.
    findings.extend(survey.types.iter().map(checks::TypeReadiness::check).filter(|check| !check.is_ok()));
    findings
}

/// The programs that tasks need. A configuration that binds no agents of tasks can do without.
async fn task_programs(router: Router, context: BuildContext) -> Vec<Check> {
    let are_wanted = runs_tasks(&router);
    match task::with_router(router, context) {
        Ok(tasks) => checks::programs(&tasks, are_wanted).await,
        Err(error) => {
            vec![Check::failed("tasks", error.to_string()).fixed_by("correct the section `tasks`")]
        }
    }
}

/// Returns true if a type of the configuration plans tasks.
pub(crate) fn runs_tasks(router: &Router) -> bool {
    router.kinds().iter().any(|kind| {
        let explained = router.explain(kind.as_str());
        explained.is_ok_and(|explained| explained.phase.as_deref() == Some("orchestrate"))
    })
}

/// Reports vendors of one panel that are reached at the same address.
async fn shared_addresses(router: &Router) -> Vec<Check> {
    let shared = router.shared_addresses().await;
    let finding = |shared: &SharedAddress| {
        let (subject, text) = (format!("panel {}", printable(&shared.panel)), printable(&shared.to_string()));
        match shared.is_refused {
            true => Check::problem(subject, text, shared.advice()),
            false => Check::note(subject, format!("{text}: {}", shared.advice())),
        }
    };
    shared.iter().map(finding).collect()
}

/// Checks the servers of the fleet. `None` without a fleet.
async fn fleet(router: &Router, source: &ConfigSource, context: BuildContext) -> Option<Check> {
    const SUBJECT: &str = "fleet";
    const MEND: &str = "start the servers, or correct the section `fleet`";
    let fleet = match config::fleet_in(router, source, context) {
        Ok(fleet) => fleet?,
        Err(error) => return Some(Check::problem(SUBJECT, error.to_string(), MEND)),
    };
    Some(match fleet.status().await {
        Ok(status) => {
            let workers = status.pools.values().map(|pool| pool.workers.len()).sum::<usize>();
            let workers = format!("{workers} worker{}", if workers == 1 { "" } else { "s" });
            Check::ok(SUBJECT, format!("nats-server {}, {workers}", printable(&status.server)))
        }
        Err(error) => Check::problem(SUBJECT, printable(&error.to_string()), MEND),
    })
}

/// Reports the enforcer of each access level of a backend.
fn sandboxes(id: &BackendId, backend: &dyn ExecutionBackend) -> Check {
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
            AccessSupport::Kept(AccessEnforcer::Nexus) => "enforced by Nexus",
            AccessSupport::Kept(AccessEnforcer::None) => "not enforced",
            _ => "not offered",
        };
        format!("{name} {enforcer}")
    });
    Check::ok(format!("sandbox {id}"), levels.collect::<Vec<_>>().join(", "))
}

/// Reports the mechanism that contains the processes of a delegated backend.
fn containment(id: &BackendId, backend: &dyn ExecutionBackend) -> Option<Check> {
    let subject = format!("containment {id}");
    Some(match backend.capabilities().containment? {
        kind @ (Containment::Search | Containment::Subreaper) => Check::note(
            subject,
            format!(
                "{kind}: processes of a killed program are stopped when Nexus starts again, not \
                immediately"
            ),
        ),
        kind => Check::ok(subject, kind.to_string()),
    })
}

//! Checks of the programs that tasks need: git and the sandbox. Each is tried.

use std::env;

use nexus_tasks::{SandboxKind, TaskError, TaskPrograms, Tasks};

use super::check::Check;
use crate::{for_a_person::for_a_person, output::printable};

/// Package managers, each with its command that installs a package. The last field is true if it needs root.
const INSTALLERS: [(&str, &str, bool); 5] = [
    ("apt-get", "apt-get install", true),
    ("dnf", "dnf install", true),
    ("pacman", "pacman -S", true),
    ("apk", "apk add", true),
    ("brew", "brew install", false),
];

/// Tries git, and a command in the sandbox. `are_wanted` if a type of the configuration runs tasks.
pub(crate) async fn programs(tasks: &Tasks, are_wanted: bool) -> Vec<Check> {
    let TaskPrograms { git, sandbox } = tasks.try_programs().await;
    let sandbox = sandbox.map(|kind| match kind {
        SandboxKind::Bubblewrap => "bubblewrap works".to_owned(),
        SandboxKind::None => "none: tests run as this user with all that it may do".to_owned(),
    });
    vec![
        check("git for tasks", ("git", "git"), git, are_wanted),
        check("sandbox for tasks", ("bwrap", "bubblewrap"), sandbox, are_wanted),
    ]
}

fn check(
    subject: &str,
    (program, package): (&str, &str),
    found: Result<String, TaskError>,
    are_wanted: bool,
) -> Check {
    let error = match found {
        Ok(text) => return Check::ok(subject, text),
        Err(error) => error,
    };
    let detail = match are_wanted {
        true => printable(&error.message),
        false => printable(&format!("{}; tasks need it", error.message)),
    };
    let mut check = match is_on_path(program) {
        true => Check::failed(subject, detail),
        false => Check { command: install(package), ..Check::missing(subject, detail) },
    };
    if are_wanted {
        check = check.fixed_by(printable(&for_a_person(&error.advice)));
    } else {
        check = check.noted();
    }
    check
}

/// Returns the command that installs a package on this machine.
fn install(package: &str) -> Option<String> {
    let (_, command, needs_root) = INSTALLERS.into_iter().find(|(program, ..)| is_on_path(program))?;
    #[cfg(unix)]
    let is_root = rustix::process::geteuid().is_root();
    #[cfg(not(unix))]
    let is_root = true;
    let before = if needs_root && !is_root { "sudo " } else { "" };
    Some(format!("{before}{command} {package}"))
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    // A relative entry of PATH depends on the current folder, so it does not count.
    env::split_paths(&path).any(|folder| folder.is_absolute() && folder.join(program).is_file())
}

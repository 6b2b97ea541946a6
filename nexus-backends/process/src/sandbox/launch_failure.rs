//! Errors of the launcher and of bubblewrap, read from their messages.

use super::command::SandboxCommand;
use super::error::SandboxError;
use super::launch::{Launch, STAGE_SAYS};
use super::network::opener::OPENER_SAYS;

/// Advice where AppArmor forbids namespaces to bubblewrap.
const PROFILE: &str = "AppArmor forbids them: give /usr/bin/bwrap a profile with `userns,`, or allow them with \
     `sysctl kernel.apparmor_restrict_unprivileged_userns=0`";
/// Advice where AppArmor forbids namespaces, or the rights in them, to `unshare`. A profile for bubblewrap does not cover it.
const NETWORK_PROFILE: &str = "AppArmor forbids them: give /usr/bin/unshare a profile with `userns,`, beside that of \
     /usr/bin/bwrap, or allow them with `sysctl kernel.apparmor_restrict_unprivileged_userns=0`";
/// Maximum length of bubblewrap's messages in an error, in characters.
const SAID_CHARACTERS: usize = 500;

/// Converts the last messages of the launcher or of bubblewrap into an error.
pub(super) fn launch_failure(command: &SandboxCommand, launch: &Launch, said: &str) -> SandboxError {
    // The launcher has an empty environment, so these are the texts of the C locale.
    const WANTS: [&str; 4] = [
        "Resource temporarily unavailable",
        "Cannot allocate memory",
        "Too many open files",
        "No more processes",
    ];
    const FORBIDDEN: [&str; 8] = [
        "unshare: unshare failed",
        "unshare: write failed",
        "No permissions to create new namespace",
        "Creating new namespace failed",
        "setting up uid map",
        "loopback: ",
        "Can't mount proc",
        "Failed to make / slave",
    ];
    let said = said.trim();
    let line = said.lines().rev().find(|line| line.contains(": ")).unwrap_or(said);
    let line: String = line.strip_prefix("bwrap: ").unwrap_or(line).chars().take(SAID_CHARACTERS).collect();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| said.contains(phrase));
    let opener = said.lines().find_map(|line| line.strip_prefix(OPENER_SAYS));
    let opener: Option<String> = opener.map(|said| said.chars().take(SAID_CHARACTERS).collect());
    if has(&WANTS) {
        return SandboxError::Unusable { said: opener.unwrap_or(line), is_scarcity: true };
    }
    if let Some(said) = opener {
        // A security module can allow a namespace, and then deny its owner the rights in it.
        let is_denied =
            ["Operation not permitted", "Permission denied"].iter().any(|denied| said.contains(denied));
        return match is_denied {
            true => SandboxError::NetworkForbidden { way_out: what_forbids(NETWORK_PROFILE), said },
            false => SandboxError::NetworkNotOpened { said },
        };
    }
    if line.starts_with(STAGE_SAYS)
        || said.lines().any(|line| line.contains("not found")) && !said.contains("bwrap: ")
    {
        return SandboxError::ShellMissing { said: line };
    }
    if line.starts_with("execvp ") {
        let program = command.arguments.first().cloned().unwrap_or_default();
        return SandboxError::DidNotStart { program, said: line };
    }
    if line.starts_with("Can't chdir to ") {
        return SandboxError::FolderMissing { folder: command.folder.clone(), said: line };
    }
    if line.starts_with("Unknown option ") || line.contains("not permitted in setuid mode") {
        return SandboxError::BubblewrapTooOld { program: launch.bubblewrap.clone(), said: line };
    }
    if launch.has_network && line.starts_with("unshare: ") && has(&FORBIDDEN) {
        return SandboxError::NetworkForbidden { way_out: what_forbids(NETWORK_PROFILE), said: line };
    }
    if has(&FORBIDDEN) {
        return SandboxError::NamespacesForbidden { way_out: what_forbids(PROFILE), said: line };
    }
    SandboxError::Unusable { said: line, is_scarcity: false }
}

/// Returns the setting that forbids namespaces to this user, as far as the system shows it. `profile` is the advice if AppArmor does.
fn what_forbids(profile: &'static str) -> &'static str {
    let is = |setting: &str, value: &str| {
        std::fs::read_to_string(format!("/proc/sys/{setting}")).is_ok_and(|found| found.trim() == value)
    };
    if is("user/max_user_namespaces", "0") {
        "allow them with `sysctl user.max_user_namespaces=15000`"
    } else if is("kernel/unprivileged_userns_clone", "0") {
        "allow them with `sysctl kernel.unprivileged_userns_clone=1`"
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        profile
    } else {
        "a container's filter of system calls or a security module forbids them; with Docker, \
         `--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined` allows them"
    }
}

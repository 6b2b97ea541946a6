//! Checks of the machine that matter to every backend.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use crate::checks::Check;
use nexus_files::rfc3339;

/// A time before the first release of Nexus, since the Unix epoch. A clock that shows an earlier time is wrong.
const OLDEST_TIME: Duration = Duration::from_secs(1_767_225_600);

/// Checks the clock of the machine, since tokens expire by it.
pub(super) fn clock(now: SystemTime) -> Check {
    const SUBJECT: &str = "clock";
    let time = rfc3339::seconds(now);
    match now < SystemTime::UNIX_EPOCH + OLDEST_TIME {
        true => Check::problem(
            SUBJECT,
            format!("its time is {time}, which is in the past: logins and certificates depend on it"),
            "set the clock of this machine",
        ),
        false => Check::ok(SUBJECT, time),
    }
}

/// Ends processes and removes files that killed programs left behind, and reports them.
pub(super) fn leftovers(home: &Path) -> Vec<Check> {
    const SUBJECT: &str = "leftovers";
    let swept = match nexus::process::run_registry::sweep(home) {
        Ok(swept) => swept,
        Err(error) => {
            let text = format!("{} cannot be read: {error}", home.display());
            return vec![Check::problem(SUBJECT, text, "make it readable, or name another NEXUS_HOME")];
        }
    };
    let mut findings = Vec::new();
    if !swept.runs.is_empty() {
        let (runs, killed) = (swept.runs.len(), swept.killed);
        findings.push(Check::note(
            SUBJECT,
            format!(
                "removed {runs} runs of ended programs, and {killed} \
                processes"
            ),
        ));
    }
    for (path, error) in &swept.failures {
        let text = format!("{}: {error}", path.display());
        findings.push(Check::problem(SUBJECT, text, "stop the named processes, then run this command again"));
    }
    if findings.is_empty() {
        findings.push(Check::ok(SUBJECT, "none"));
    }
    findings
}

/// Checks that the keyring of the system can store keys and logins.
#[cfg(feature = "keyring")]
pub(super) async fn keyring() -> Check {
    const SUBJECT: &str = "keyring";
    let listed = nexus::harness::run_blocking(nexus::auth::store::KeyringKey::list).await;
    match listed {
        Ok(Ok(keys)) => Check::ok(SUBJECT, format!("answers; it stores {} keys of Nexus", keys.len())),
        Ok(Err(error)) => Check::note(
            SUBJECT,
            crate::output::printable(&format!(
                "{error}; logins are stored in files, and keys come from the environment"
            )),
        ),
        Err(_) => Check::note(SUBJECT, "it did not answer the request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_never_set_is_a_problem() {
        assert!(clock(SystemTime::UNIX_EPOCH).to_string().starts_with("FAIL"));
        assert!(clock(SystemTime::UNIX_EPOCH + OLDEST_TIME).to_string().starts_with("ok"));
    }
}

//! Points at which tests kill this process. Other builds do nothing there.

#[cfg(not(test))]
pub(crate) fn passed() {}

/// Kills this process with SIGKILL if the environment names this point.
#[cfg(test)]
pub(crate) fn passed() {
    use std::sync::atomic::{AtomicU32, Ordering};

    static PASSED: AtomicU32 = AtomicU32::new(0);
    let Some(at) = std::env::var_os(AT) else { return };
    if (PASSED.fetch_add(1, Ordering::SeqCst) + 1).to_string() == at.to_string_lossy() {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Environment variable with the name of the point.
#[cfg(test)]
pub(crate) const AT: &str = "NEXUS_TEST_CONVERSATION_KILL_AT";

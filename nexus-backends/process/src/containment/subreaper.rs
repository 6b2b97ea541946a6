//! Makes this program the subreaper of its descendants, while a child needs it.

use std::sync::{Mutex, PoisonError};

/// Number of children that need the setting, and true if this library set it and has to revert it.
static HELD: Mutex<(usize, bool)> = Mutex::new((0, false));

/// Guard: while one exists, orphans become children of this program.
#[derive(Debug)]
pub(crate) struct Subreaper(());

#[cfg(target_os = "linux")]
impl Subreaper {
    /// Makes this program the subreaper, unless it already is. Returns `None` if the system does not support it.
    pub(crate) fn hold() -> Option<Self> {
        use rustix::process::{child_subreaper, getpid, set_child_subreaper};
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        // If the host itself has set it, the setting stays when the last child ends.
        if held.0 == 0 && child_subreaper().ok()?.is_none() {
            set_child_subreaper(Some(getpid())).ok()?;
            held.1 = true;
        }
        held.0 += 1;
        Some(Self(()))
    }
}

#[cfg(not(target_os = "linux"))]
impl Subreaper {
    pub(crate) fn hold() -> Option<Self> {
        None
    }
}

impl Drop for Subreaper {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.0 -= 1;
        #[cfg(target_os = "linux")]
        if held.0 == 0 && std::mem::take(&mut held.1) {
            let _ = rustix::process::set_child_subreaper(None);
        }
    }
}

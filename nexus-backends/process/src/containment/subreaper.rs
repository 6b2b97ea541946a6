//! This program as the subreaper of its descendants, while somebody needs it.

use std::sync::{Mutex, PoisonError};

/// How many children are held so, and whether the setting is ours to take back.
static HELD: Mutex<(usize, bool)> = Mutex::new((0, false));

/// Orphans come to this program while one of these lives.
#[derive(Debug)]
pub(crate) struct Subreaper(());

#[cfg(target_os = "linux")]
impl Subreaper {
    /// Makes this program the subreaper, unless it is. `None` where the system has none.
    pub(crate) fn hold() -> Option<Self> {
        use rustix::process::{child_subreaper, getpid, set_child_subreaper};
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        // Where the host has set it, it is not ours to take back.
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

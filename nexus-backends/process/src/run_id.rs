//! The name of one run, which marks its processes, its folders and its entry in the run registry.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Name of one run on this machine. It contains only letters, digits and `-`, so it fits into a file name and a
/// variable.
///
/// The end of one process of a run ends every process with that run's name. So two processes with overlapping lives
/// need two names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(String);

impl RunId {
    /// Creates a unique name from the time, the process and a count. It is not a secret.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // Process ids repeat, also after a boot, so the time makes the name unique.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{:x}-{:x}-{count:x}", time.as_nanos(), std::process::id()))
    }

    /// Parses a stored name; `None` for an invalid one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // The name becomes a part of paths, so it must not contain a separator or a dot.
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        fits.then(|| Self(text.to_owned()))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for RunId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_survive_being_written_down() {
        let (first, second) = (RunId::new(), RunId::new());
        assert_ne!(first, second);
        assert_eq!(RunId::parse(first.as_str()), Some(first));
    }

    #[test]
    fn what_could_leave_a_folder_is_no_name() {
        for text in ["", "..", "a/b", "a\0b", "a b", &"x".repeat(65)] {
            assert_eq!(RunId::parse(text), None);
        }
    }
}

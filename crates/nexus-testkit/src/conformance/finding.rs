//! Finding of a case: the check that failed, and the observation.

use std::fmt;

/// Result of a case: success, or the first check that failed.
pub type Verdict = Result<(), Finding>;

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check, in a word or two. Tests with a deliberately wrong backend compare it.
    pub check: &'static str,
    /// Observed and expected values.
    pub detail: String,
}

impl Finding {
    /// The check `check` failed.
    pub fn new(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, detail: detail.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.detail)
    }
}

impl std::error::Error for Finding {}

/// Fails `check` unless `holds`.
pub(super) fn ensure(holds: bool, check: &'static str, detail: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Finding::new(check, detail())) }
}

/// Fails `check` unless the two are the same.
pub(super) fn same<T: PartialEq + fmt::Debug>(check: &'static str, seen: &T, wanted: &T) -> Verdict {
    ensure(seen == wanted, check, || format!("saw {}, wanted {}", short(seen), short(wanted)))
}

/// Fails `check` unless the texts are equal. The finding shows the first difference.
pub(super) fn same_text(check: &'static str, seen: &str, wanted: &str) -> Verdict {
    ensure(seen == wanted, check, || {
        let parted = seen.bytes().zip(wanted.bytes()).take_while(|(left, right)| left == right).count();
        format!(
            "saw {} bytes, wanted {}; they part at byte {parted}: saw {}, wanted {}",
            seen.len(),
            wanted.len(),
            around(seen, parted),
            around(wanted, parted)
        )
    })
}

/// A value for a person to read, not too long.
pub(super) fn short(value: &impl fmt::Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(600) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

fn around(text: &str, at: usize) -> String {
    let from = text.floor_char_boundary(at.saturating_sub(20));
    let to = text.floor_char_boundary((at + 40).min(text.len()));
    format!("{:?}", &text[from..to])
}

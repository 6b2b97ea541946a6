//! Which versions of Claude Code this backend knows.

/// The versions that the tests run.
const TESTED: [Version; 2] = [Version([2, 1, 197]), Version([2, 1, 329])];

/// Older ones damage characters of several bytes in their output. Source: the vendor's changelog, 2.1.94.
const OLDEST: Version = Version([2, 1, 94]);

/// A version: three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version([u32; 3]);

/// What is known of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It is tested.
    Tested,
    /// It can be tried; the text says why it may surprise.
    Untested(String),
    /// It does not work; the text says why.
    Unusable(String),
}

/// Judges what `claude --version` prints, such as `2.1.197 (Claude Code)`.
pub(super) fn judge(line: &str) -> Known {
    let tested = TESTED.map(|version| version.to_string()).join(" and ");
    match Version::read(line) {
        Some(version) if TESTED.contains(&version) => Known::Tested,
        Some(version) if version < OLDEST => Known::Unusable(format!(
            "Claude Code {version} damages its output: update it to {OLDEST} or later"
        )),
        Some(version) => Known::Untested(format!("Claude Code {version} is untested; {tested} are tested")),
        None => Known::Unusable(format!("the program is not Claude Code: its version is {line:?}")),
    }
}

/// The bare version in what `claude --version` prints.
pub(super) fn number(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or(line)
}

impl Version {
    fn read(line: &str) -> Option<Self> {
        let mut parts = number(line).splitn(3, '.').map(|part| part.split('-').next()?.parse().ok());
        let version = Self([parts.next()??, parts.next()??, parts.next()??]);
        line.contains("Claude Code").then_some(version)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self([major, minor, patch]) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        assert_eq!(judge("2.1.197 (Claude Code)"), Known::Tested);
        assert_eq!(judge("2.1.329 (Claude Code)"), Known::Tested);
        assert!(matches!(judge("2.2.0-beta.1 (Claude Code)"), Known::Untested(_)));
        assert!(matches!(judge("2.1.93 (Claude Code)"), Known::Unusable(_)));
        assert!(matches!(judge("1.99.0 (Claude Code)"), Known::Unusable(_)));
        for other in ["", "2.1", "GNU bash, version 5.2", "9.9.9", "99999999999.1.1 (Claude Code)"] {
            assert!(matches!(judge(other), Known::Unusable(_)), "{other:?}");
        }
    }
}

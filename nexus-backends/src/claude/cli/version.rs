//! Known versions of Claude Code.

use std::sync::LazyLock;

use crate::cli::versions::VersionTable;

/// Facts about each version.
pub(in crate::claude) static VERSIONS: LazyLock<VersionTable> =
    LazyLock::new(|| VersionTable::read(include_str!("versions.json")));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::settings::VersionsSetting;

    #[test]
    fn the_program_is_told_by_what_it_says() {
        let admits = |line: &str| VERSIONS.admit("/bin/claude".as_ref(), line, VersionsSetting::Warn).is_ok();
        assert!(admits("2.1.126 (Claude Code)") && admits("3.0.0-beta.1 (Claude Code)"));
        for line in
            ["2.1.125 (Claude Code)", "9.9.9", "hello world", "GNU bash, version 5.2", "(Claude Code)"]
        {
            assert!(!admits(line), "{line}");
        }
    }
}

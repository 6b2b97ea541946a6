//! Determines the version of Grok, and decides if it may run.

use std::{io::Read as _, sync::LazyLock};

use nexus_core::{ErrorKind, harness::Failure};

use super::{Grok, INSTALL, home};
use crate::cli::refusal;
use crate::cli::versions::{AdmittedVersion, VersionTable};
use nexus_process::executable::Executable;
use nexus_process::version::version_line;

/// Facts about each version.
pub(in crate::grok) static VERSIONS: LazyLock<VersionTable> =
    LazyLock::new(|| VersionTable::read(include_str!("versions.json")));

/// Returns a warning if the executable is a script: npm's launcher unpacks the program, about 160 MB, into the folder
/// of each run.
pub(super) fn launcher_warning(executable: &Executable) -> Option<String> {
    let mut head = [0; 2];
    let mut file = std::fs::File::open(executable.path()).ok()?;
    file.read_exact(&mut head).ok()?;
    (head == *b"#!").then(|| {
        let path = executable.path().display();
        format!(
            "{path} is a launcher, which delays each turn by seconds: name the program itself as `executable`"
        )
    })
}

impl Grok {
    /// Determines the version outside a turn, in a temporary folder.
    pub(super) async fn version_in_passing(
        &self,
        executable: &Executable,
    ) -> Result<AdmittedVersion, Failure> {
        let folder = tempfile::tempdir().map_err(|error| {
            let place = std::env::temp_dir();
            let reason = format!(
                "no folder can be created in {}: {error}; name another folder in TMPDIR",
                place.display()
            );
            Failure::new(ErrorKind::InvalidRequest, reason)
        })?;
        self.version(executable, folder.path()).await
    }

    /// Returns the version, if it may run. Files that the program writes go to `folder`.
    pub(super) async fn version(
        &self,
        executable: &Executable,
        folder: &std::path::Path,
    ) -> Result<AdmittedVersion, Failure> {
        let untold = |reason: String| Failure::new(ErrorKind::NotInstalled, format!("{reason}: {INSTALL}"));
        let environment = self
            .environment()
            .with("HOME", folder)
            .with("GROK_HOME", folder)
            .with(home::SWITCHES[2].0, home::SWITCHES[2].1)
            .build()
            .map_err(|error| untold(error.to_string()))?;
        let line = version_line(executable, &environment)
            .await
            .map_err(|error| refusal::untold(executable.path(), &error, INSTALL))?;
        VERSIONS.admit(executable.path(), &line, self.settings.versions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::settings::VersionsSetting;

    #[test]
    fn the_program_is_told_by_what_it_says() {
        let admits = |line: &str| VERSIONS.admit("/bin/grok".as_ref(), line, VersionsSetting::Warn).is_ok();
        assert!(admits("grok 1.0.41 (4220f3b224a6)") && admits("grok 1.2.0 (x)"));
        for line in ["grok 1.0.5 (x)", "grok 0.9.1", "hello world", "something else", "1.0.41"] {
            assert!(!admits(line), "{line}");
        }
    }
}

//! Which Grok it is, and whether it is one we know.

use std::io::Read as _;

use super::{Grok, INSTALL, home};
use nexus_process::executable::Executable;
use nexus_process::version::version_line;

/// Versions that every scenario was run with.
const TESTED: [&str; 1] = ["1.0.41"];
/// The vendor's service refuses clients before this one. Source: public reports of its refusal (HTTP 426).
const OLDEST: (u64, u64, u64) = (1, 0, 13);

/// A version, as `grok --version` tells it: `grok 1.0.41 (4220f3b224a6)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    text: String,
}

impl Version {
    /// Reads the line that `--version` prints.
    pub(super) fn read(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let is_number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
        Self { text: words.find(is_number).unwrap_or(line.trim()).to_owned() }
    }

    /// The number alone.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What to tell about a version that was not tested.
    pub(super) fn warning(&self) -> Option<String> {
        let is_tested = TESTED.contains(&self.text.as_str());
        (!is_tested).then(|| format!("grok {} is untested; tested is {}", self.text, TESTED.join(", ")))
    }

    /// Why this version cannot be used.
    pub(super) fn refusal(&self) -> Option<String> {
        let mut parts = self.text.split('.').map(|part| part.parse::<u64>().ok());
        let number = (parts.next()??, parts.next()??, parts.next()??);
        let (major, minor, patch) = OLDEST;
        (number < OLDEST).then(|| {
            format!("grok {} is too old: {major}.{minor}.{patch} or newer is needed; {INSTALL}", self.text)
        })
    }
}

/// What to tell about an executable that is a script: npm's launcher unpacks the program, some 160 MB, into
/// the folder of each run.
pub(super) fn launcher_warning(executable: &Executable) -> Option<String> {
    let mut head = [0; 2];
    let mut file = std::fs::File::open(executable.path()).ok()?;
    file.read_exact(&mut head).ok()?;
    (head == *b"#!").then(|| {
        let path = executable.path().display();
        format!(
            "{path} is a launcher, which costs each turn seconds: name the program itself as `executable`"
        )
    })
}

impl Grok {
    /// Asks for the version without a turn; an error is a sentence.
    pub(super) async fn version_in_passing(&self, executable: &Executable) -> Result<Version, String> {
        let folder =
            tempfile::tempdir().map_err(|error| format!("no temporary folder can be made: {error}"))?;
        self.version(executable, folder.path()).await
    }

    /// Asks for the version; what the program writes goes to `folder`.
    pub(super) async fn version(
        &self,
        executable: &Executable,
        folder: &std::path::Path,
    ) -> Result<Version, String> {
        let environment = self
            .environment()
            .with("HOME", folder)
            .with("GROK_HOME", folder)
            .with(home::SWITCHES[2].0, home::SWITCHES[2].1)
            .build()
            .map_err(|error| error.to_string())?;
        let line = version_line(executable, &environment).await.map_err(|error| error.to_string())?;
        Ok(Version::read(&line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_real_program_is_read() {
        let version = Version::read("grok 1.0.41 (4220f3b224a6)");
        assert_eq!(version.text(), "1.0.41");
        assert_eq!((version.warning(), version.refusal()), (None, None));
    }

    #[test]
    fn others_are_warned_of_or_refused() {
        assert!(Version::read("grok 1.2.0 (x)").warning().is_some());
        assert_eq!(Version::read("grok 1.2.0 (x)").refusal(), None);
        assert!(Version::read("grok 0.9.1").refusal().is_some());
        assert_eq!(Version::read("something else").refusal(), None);
    }
}

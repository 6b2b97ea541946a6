//! Known versions of a vendor's program: the floor, and the versions that `nexus-judge` tested, as listed in
//! `versions.json` beside the vendor's code.

use std::fmt;

use nexus_core::{ErrorKind, TurnRequest, harness::Failure};
use serde::Deserialize;

use super::settings::VersionsSetting;

/// Test scenario of structured output. A version that fails it may never end a turn with a schema.
const OUTPUT_SCENARIO: &str = "an_answer_in_shape_is_a_value";

/// Facts about the versions of one program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionTable {
    /// Name of the program.
    program: String,
    /// Text before the number in the output of `--version`.
    before: String,
    /// Text after the number in the output of `--version`.
    after: String,
    /// Command that installs the newest version.
    upgrade: String,
    floor: Floor,
    /// Tested versions, oldest first.
    judged: Vec<Judged>,
}

/// Oldest version that may run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Floor {
    version: Version,
    /// Problem of older versions, as a continuation of "it".
    because: String,
}

/// Tested version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Judged {
    version: Version,
    /// Scenarios that the version failed.
    failed: Vec<String>,
    /// Number of scenarios in the test.
    #[allow(dead_code, reason = "for people and for the program that writes the table")]
    scenarios: usize,
    /// Longest description of a tool that reaches the model whole, in UTF-16 units; `None` without a limit.
    description_units: Option<usize>,
}

/// Version that may run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AdmittedVersion {
    /// Version number.
    pub(crate) version: Version,
    /// Warning about the version: it is untested, or failed some tests.
    pub(crate) note: Option<String>,
}

impl VersionTable {
    /// Parses a table of this build.
    pub(crate) fn read(json: &str) -> Self {
        serde_json::from_str(json).expect("the tables of this build are read by its tests")
    }

    /// Checks the program at `path` by its output of `--version`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotInstalled`] if it is another program. [`ErrorKind::Unsupported`] for a version below the floor,
    /// and for an untested version if the setting requires a tested one.
    pub(crate) fn admit(
        &self,
        path: &std::path::Path,
        line: &str,
        setting: VersionsSetting,
    ) -> Result<AdmittedVersion, Failure> {
        let Self { program, upgrade, .. } = self;
        let Some(version) = self.number(line) else {
            // Another program may print anything, of any length.
            let line: String = line.chars().take(80).collect();
            let reason = format!("{} is not {program}: its version output is {line:?}", path.display());
            return Err(Failure::new(ErrorKind::NotInstalled, reason));
        };
        let refused = |reason| Err(Failure::new(ErrorKind::Unsupported, reason));
        let Floor { version: floor, because } = &self.floor;
        if version < *floor {
            return refused(format!(
                "{program} {version} is too old: it {because}; version {floor} or newer is needed: run \
                `{upgrade}`"
            ));
        }
        let note = self.note(&version);
        match (&note, setting) {
            (Some(note), VersionsSetting::Tested) => {
                let newest = self.judged.iter().rev().find(|judged| judged.failed.is_empty());
                let newest = newest.map(|judged| format!(", such as {}", judged.version)).unwrap_or_default();
                refused(format!("{note}; `versions: tested` requires a version that passed{newest}"))
            }
            _ => Ok(AdmittedVersion { version, note }),
        }
    }

    /// Returns the warning about a version; `None` if it passed all tests.
    fn note(&self, version: &Version) -> Option<String> {
        let program = &self.program;
        if let Some(judged) = self.judged.iter().find(|judged| judged.version == *version) {
            let failed = judged.failed.join(", ");
            return (!judged.failed.is_empty())
                .then(|| format!("{program} {version} failed some tests: {failed}"));
        }
        let after = self.judged.iter().find(|judged| judged.version > *version);
        // `judged` begins with the oldest version, so the first match from the end is the nearest.
        let before = self.judged.iter().rev().find(|judged| judged.version < *version);
        Some(match (before, after) {
            (Some(before), None) => {
                format!("{program} {version} is newer than the newest tested version, {}", before.version)
            }
            (None, Some(after)) => {
                format!("{program} {version} is older than the oldest tested version, {}", after.version)
            }
            (Some(before), Some(after)) => {
                format!("{program} {version} was not tested; {} and {} were", before.version, after.version)
            }
            (None, None) => format!("{program} {version} was not tested"),
        })
    }

    /// Rejects a turn with a schema if the nearest tested version gives no structured output.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], unless the setting allows any version.
    pub(crate) fn admit_output(
        &self,
        version: &Version,
        request: &TurnRequest,
        setting: VersionsSetting,
    ) -> Result<(), Failure> {
        let fails = |judged: &Judged| judged.failed.iter().any(|failed| failed == OUTPUT_SCENARIO);
        let is_asked = request.output.is_some() && setting != VersionsSetting::Any;
        if !is_asked || !self.around(version).is_some_and(fails) {
            return Ok(());
        }
        let able = self.judged.iter().find(|judged| judged.version > *version && !fails(judged));
        let able = able.map(|judged| format!("{} does: ", judged.version)).unwrap_or_default();
        let Self { program, upgrade, .. } = self;
        let reason =
            format!("{program} {version} does not end a turn with an answer schema; {able}run `{upgrade}`");
        Err(Failure::new(ErrorKind::Unsupported, reason))
    }

    /// Returns the longest description of a tool that reaches the model whole, in UTF-16 units, from the nearest tested
    /// version; `None` without a limit.
    pub(crate) fn description_units(&self, version: &Version) -> Option<usize> {
        self.around(version).and_then(|judged| judged.description_units)
    }

    /// Returns the nearest tested version: the version itself, else the previous one, else the oldest.
    fn around(&self, version: &Version) -> Option<&Judged> {
        let before = self.judged.iter().rev().find(|judged| judged.version <= *version);
        before.or_else(|| self.judged.first())
    }

    /// Parses the version number in the program's output of `--version`.
    fn number(&self, line: &str) -> Option<Version> {
        let (word, rest) = {
            let line = line.trim().strip_prefix(self.before.as_str())?;
            let end = line.find(char::is_whitespace).unwrap_or(line.len());
            line.split_at(end)
        };
        rest.starts_with(self.after.as_str()).then(|| word.parse().ok()).flatten()
    }
}

/// A version: three numbers, and an optional suffix after `-`. A version with a suffix precedes the one without.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Version {
    // The derived order compares the fields in this sequence. `false` is less than `true`, so a release follows its
    // suffixes.
    number: [u64; 3],
    is_release: bool,
    before_release: String,
}

impl std::str::FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, rest) = text.split_once('-').unwrap_or((text, ""));
        let parts: Vec<u64> = number.split('.').map(str::parse).collect::<Result<_, _>>().unwrap_or_default();
        let number = parts.try_into().map_err(|_| format!("{text:?} is not a valid version"))?;
        Ok(Self { number, is_release: rest.is_empty(), before_release: rest.to_owned() })
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.number;
        write!(f, "{major}.{minor}.{patch}")?;
        if self.is_release { Ok(()) } else { write!(f, "-{}", self.before_release) }
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::OutputSchema;

    use super::*;

    fn table() -> VersionTable {
        VersionTable::read(
            r#"{ "program": "Alpha", "before": "alpha ", "after": "", "upgrade": "alpha update",
                 "floor": { "version": "1.2.0", "because": "shows its token" },
                 "judged": [
                   { "version": "1.2.0", "failed": ["a_tool_is_hidden"], "scenarios": 9, "description_units": 2048 },
                   { "version": "1.4.0", "failed": [], "scenarios": 9, "description_units": 2048 },
                   { "version": "1.10.0", "failed": [], "scenarios": 9, "description_units": null } ] }"#,
        )
    }

    fn admitted(line: &str, setting: VersionsSetting) -> Result<Option<String>, (ErrorKind, String)> {
        let admitted = table().admit("/bin/alpha".as_ref(), line, setting);
        admitted
            .map(|admitted| admitted.note)
            .map_err(|failure| (failure.kind, failure.message.unwrap_or_default()))
    }

    #[test]
    fn newer_and_older_read_differently() {
        let note = |line: &str| admitted(line, VersionsSetting::Warn).unwrap().unwrap_or_default();
        assert_eq!(note("alpha 1.10.0 (x)"), "");
        assert!(note("alpha 1.11.0").contains("newer than the newest tested version, 1.10.0"));
        assert!(note("alpha 1.5.0").contains("was not tested; 1.4.0 and 1.10.0 were"));
        assert!(note("alpha 1.2.0").contains("failed some tests: a_tool_is_hidden"));
    }

    #[test]
    fn below_the_floor_is_refused_with_the_command_that_upgrades() {
        for line in ["alpha 1.1.99", "alpha 0.9.0", "alpha 1.2.0-alpha.1"] {
            let (kind, reason) = admitted(line, VersionsSetting::Warn).unwrap_err();
            assert_eq!(kind, ErrorKind::Unsupported);
            assert!(reason.contains("shows its token") && reason.contains("`alpha update`"), "{reason}");
        }
    }

    #[test]
    fn only_what_passed_is_taken_where_that_is_asked_for() {
        assert_eq!(admitted("alpha 1.4.0", VersionsSetting::Tested), Ok(None));
        for line in ["alpha 1.2.0", "alpha 1.5.0", "alpha 1.11.0"] {
            let (kind, reason) = admitted(line, VersionsSetting::Tested).unwrap_err();
            assert_eq!(kind, ErrorKind::Unsupported);
            assert!(reason.ends_with("such as 1.10.0"), "{reason}");
        }
    }

    #[test]
    fn another_program_is_told_apart() {
        for line in [
            "",
            "hello world",
            "alpha",
            "alpha 1.2",
            "1.4.0",
            "alphabet 1.4.0",
            "alpha v1.4.0",
            "alpha 1.4.0.1",
        ] {
            assert_eq!(
                admitted(line, VersionsSetting::Warn).unwrap_err().0,
                ErrorKind::NotInstalled,
                "{line:?}"
            );
        }
    }

    #[test]
    fn a_shape_is_refused_where_the_versions_around_give_none() {
        let table = VersionTable::read(
            r#"{ "program": "Alpha", "before": "alpha ", "after": "", "upgrade": "alpha update",
                 "floor": { "version": "1.2.0", "because": "shows its token" },
                 "judged": [
                   { "version": "1.2.0", "failed": ["an_answer_in_shape_is_a_value"], "scenarios": 9, "description_units": null },
                   { "version": "1.4.0", "failed": ["another"], "scenarios": 9, "description_units": null } ] }"#,
        );
        let shaped = TurnRequest::new("x").with_output(OutputSchema::new(serde_json::json!({})).unwrap());
        let refused = |version: &str, request: &TurnRequest, setting| {
            table.admit_output(&version.parse().unwrap(), request, setting).err()
        };
        for version in ["1.1.0", "1.2.0", "1.3.9"] {
            let failure = refused(version, &shaped, VersionsSetting::Warn).unwrap();
            assert_eq!(failure.kind, ErrorKind::Unsupported);
            let reason = failure.message.unwrap_or_default();
            assert!(reason.ends_with("with an answer schema; 1.4.0 does: run `alpha update`"), "{reason}");
            assert!(refused(version, &TurnRequest::new("x"), VersionsSetting::Warn).is_none());
            assert!(refused(version, &shaped, VersionsSetting::Any).is_none());
        }
        assert!(refused("1.4.0", &shaped, VersionsSetting::Warn).is_none());
        assert!(refused("2.0.0", &shaped, VersionsSetting::Tested).is_none());
    }

    #[test]
    fn a_limit_holds_for_the_versions_around_those_that_showed_it() {
        let units = |version: &str| table().description_units(&version.parse().unwrap());
        let expected = [
            ("1.1.0", Some(2048)),
            ("1.3.0", Some(2048)),
            ("1.9.0", Some(2048)),
            ("1.10.0", None),
            ("2.0.0", None),
        ];
        for (version, limit) in expected {
            assert_eq!(units(version), limit, "{version}");
        }
    }
}

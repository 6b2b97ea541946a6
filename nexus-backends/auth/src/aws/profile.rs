//! Profiles in the files of the vendor's command-line tool: `credentials` and `config` in the folder `.aws`.
//!
//! Source: "Configuration and credential file settings" of the AWS CLI.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nexus_core::Secret;
use zeroize::Zeroizing;

/// Largest file of profiles, in bytes. Source: our own bound.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Settings of one profile by name. `Debug` is missing, because a value may be secret.
#[derive(Default)]
pub(super) struct Profile {
    values: BTreeMap<String, Secret>,
}

/// Files with profiles.
#[derive(Clone, Debug)]
pub(super) struct ProfileFiles {
    pub(super) credentials: PathBuf,
    pub(super) config: PathBuf,
}

impl ProfileFiles {
    /// Reads a profile from both files. The values of the file `credentials` win. The error is the reason, with advice.
    pub(super) fn profile(&self, name: &str) -> Result<Profile, String> {
        let mut profile = Profile::default();
        let mut is_there = false;
        for (path, is_config) in [(&self.config, true), (&self.credentials, false)] {
            let Some(text) = read(path)? else { continue };
            is_there |= profile.add(&text, name, is_config);
        }
        match is_there {
            true => Ok(profile),
            false => Err(format!(
                "neither {} nor {} has the profile {name}: run `aws configure --profile {name}`, or correct \
                 `credential.aws.profile`",
                self.credentials.display(),
                self.config.display()
            )),
        }
    }
}

/// Reads a file of profiles; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Zeroizing<String>>, String> {
    use std::io::Read as _;

    let wrong = |reason: &dyn std::fmt::Display| format!("{} cannot be read: {reason}", path.display());
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(&error)),
    };
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(wrong(&"it is larger than 1 MiB"));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Some(Zeroizing::new(text.trim_start_matches('\u{feff}').to_owned()))),
        Err(_) => Err(wrong(&"it is not text in UTF-8")),
    }
}

impl Profile {
    /// Adds the settings of the profile in `text`. Returns true if it has the profile.
    fn add(&mut self, text: &str, name: &str, is_config: bool) -> bool {
        let mut is_here = false;
        let mut is_found = false;
        for line in text.lines() {
            let is_nested = line.starts_with([' ', '\t']);
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(section) = line.strip_prefix('[') {
                let section = section.split(']').next().unwrap_or_default().trim();
                is_here = is_section(section, name, is_config);
                is_found |= is_here;
                continue;
            }
            // An indented line belongs to the setting above it, such as the options of one service.
            let Some((key, value)) = line.split_once('=').filter(|_| is_here && !is_nested) else { continue };
            self.values.insert(key.trim().to_lowercase(), Secret::new(value.trim()));
        }
        is_found
    }

    /// Returns a setting that is not empty.
    pub(super) fn value(&self, key: &str) -> Option<&Secret> {
        self.values.get(key).filter(|value| !value.expose().is_empty())
    }

    /// Returns the first of the settings that the profile has.
    pub(super) fn first_of(&self, keys: &[&'static str]) -> Option<&'static str> {
        keys.iter().find(|key| self.value(key).is_some()).copied()
    }
}

/// Returns true if a section is the profile. In the file `config`, all profiles but `default` have a prefix.
fn is_section(section: &str, name: &str, is_config: bool) -> bool {
    let named = section.strip_prefix("profile").filter(|rest| rest.starts_with([' ', '\t'])).map(str::trim);
    match (is_config, named) {
        (true, Some(named)) => named.trim_matches(['"', '\'']) == name,
        (true, None) => name == "default" && section == name,
        (false, _) => section == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "\u{feff}# mine\n[default]\nregion = eu-west-1\naws_access_key_id = OLD\n\
        [profile work]\ncredential_process = tool --a=b\ns3 =\n  aws_access_key_id = nested\n\
        [profile \"two words\"]\nregion=x\n[bare]\nregion=y\n";

    fn files(config: Option<&str>, credentials: Option<&str>) -> (tempfile::TempDir, ProfileFiles) {
        let folder = tempfile::tempdir().unwrap();
        let files = ProfileFiles {
            credentials: folder.path().join("credentials"),
            config: folder.path().join("config"),
        };
        for (path, text) in [(&files.config, config), (&files.credentials, credentials)] {
            if let Some(text) = text {
                std::fs::write(path, text).unwrap();
            }
        }
        (folder, files)
    }

    #[test]
    fn a_profile_is_in_both_files_and_the_credentials_win() {
        let (_folder, files) = files(
            Some(CONFIG),
            Some("[default]\r\nAWS_ACCESS_KEY_ID = NEW\r\naws_secret_access_key=a=b+/\r\n"),
        );
        let profile = files.profile("default").ok().unwrap();
        let value = |key| profile.value(key).map(Secret::expose);
        assert_eq!(
            (value("aws_access_key_id"), value("aws_secret_access_key")),
            (Some("NEW"), Some("a=b+/"))
        );
        assert_eq!(value("region"), Some("eu-west-1"));
        let work = files.profile("work").ok().unwrap();
        assert_eq!(work.value("credential_process").map(Secret::expose), Some("tool --a=b"));
        assert!(work.value("aws_access_key_id").is_none() && work.value("s3").is_none());
        assert!(files.profile("two words").is_ok());
        // In `config` a section without the prefix is no profile.
        assert!(files.profile("bare").is_err());
    }

    #[test]
    fn a_missing_profile_names_the_files_and_the_setting() {
        let (_folder, files) = files(None, Some("[other]\naws_secret_access_key = canary\n"));
        let reason = files.profile("work").err().unwrap();
        assert!(reason.contains("credentials") && reason.contains("`credential.aws.profile`"), "{reason}");
        assert!(!reason.contains("canary"));
        std::fs::write(&files.credentials, [0xff, 0xfe, b'c']).unwrap();
        assert!(files.profile("other").err().unwrap().contains("not text"));
        std::fs::write(&files.credentials, vec![b'\n'; (1 << 20) + 1]).unwrap();
        assert!(files.profile("other").err().unwrap().contains("1 MiB"));
    }
}

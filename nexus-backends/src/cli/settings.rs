//! Settings of a delegated backend in `nexus.yaml`: one set of keys for every CLI.

use std::{path::PathBuf, sync::Arc};

use nexus_core::{BuildContext, CredentialSource, SettingsError};
use nexus_process::containment::ContainmentPolicy;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::host_list::HostList;
use crate::prices::Prices;
pub(crate) use crate::settings::Billing;
use crate::settings::{CredentialSetting, absolute, absolute_from_home, check_web_url, read_by_key};

/// Settings of a delegated backend. Every key may be left out.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// The program: a path, or a name to look for on the PATH.
    pub(crate) executable: Option<PathBuf>,
    pub(crate) credential: Option<CredentialSetting>,
    pub(crate) billing: Option<Billing>,
    /// The vendor's endpoint, for a gateway or a simulator.
    pub(crate) base_url: Option<String>,
    /// Folder for the redacted raw output of each process, for bug reports.
    pub(crate) record: Option<PathBuf>,
    /// Maximum length of a line that is read completely, in bytes. Default: 67108864.
    #[schemars(range(min = 1024))]
    pub(crate) max_line_bytes: Option<usize>,
    /// Mechanism that ends all processes of the CLI when the CLI ends. auto: the strongest that this machine allows (a
    /// PID namespace, a cgroup, a subreaper, a search). required: a namespace or a cgroup, or no turn. off: a search.
    /// Default: auto.
    pub(crate) containment: ContainmentPolicy,
    pub(crate) network: NetworkSettings,
    pub(crate) versions: VersionsSetting,
    /// Enforcer of the access levels below unrestricted: the program itself, where it was tested to enforce the level, or Nexus's
    /// sandbox around the program. Default: the program where it enforces the level, else the sandbox.
    pub(crate) enforce: Option<LevelEnforcer>,
    /// Hosts that the program reaches from the sandbox, such as api.example.com or localhost:8080, in addition to the host of
    /// `base_url`. Without `base_url`, the hosts of the program's vendor are allowed instead.
    pub(crate) hosts: HostList,
    /// Further files and folders that the program needs, shown read-only in the sandbox. Default: the packages or the Python
    /// environment of the program, and the tool chains of the user.
    pub(crate) program_folders: Vec<PathBuf>,
    /// Prices of models in US dollars for a million tokens, by the model's name, such as `{ gpt-x: { input: 2, output: 8 } }`.
    /// They give the cost of a turn, marked as computed, if the program reports tokens and no cost. They need `billing: metered`,
    /// because a plan is not paid by the token.
    pub(crate) prices: Prices,
}

/// Versions of the program that may run: untested ones too, with a warning (the default); only those that
/// passed all tests; or any, without rejecting turns that the version is known to fail. A version below the
/// floor never runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VersionsSetting {
    /// Untested versions too, with a warning.
    #[default]
    Warn,
    /// Versions that passed all tests.
    Tested,
    /// Any version, with a warning, and for any turn: even one that it is known not to finish.
    Any,
}

/// Enforcer of the access levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LevelEnforcer {
    /// The program, by its own rules or its own sandbox.
    Program,
    /// The sandbox of Nexus.
    Sandbox,
}

/// The host's network settings that a CLI gets.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NetworkSettings {
    /// Pass the host's proxy variables on.
    pub(crate) inherit_proxy: bool,
    /// File of certificate authorities, in PEM, to trust as well.
    pub(crate) ca_file: Option<PathBuf>,
}

impl Settings {
    /// Parses the settings; an error names the key.
    pub(crate) fn read(settings: &Map<String, Value>, context: &BuildContext) -> Result<Self, SettingsError> {
        settings.get("prices").map_or(Ok(()), Prices::check)?;
        let mut read: Self = read_by_key(settings)?;
        if !read.prices.is_empty() && read.billing != Some(Billing::Metered) {
            let reason = "apply only with `billing: metered`, because a plan is not paid by the token: add that, or remove them";
            return Err(SettingsError::new("prices", reason));
        }
        let absolute = |path| absolute(path, context);
        read.record = read.record.map(absolute);
        read.network.ca_file = read.network.ca_file.map(absolute);
        // A bare name is looked up on the `PATH`; a value with a separator is a path.
        read.executable = read.executable.map(|path| match path.components().count() {
            0 | 1 => path,
            _ => absolute(path),
        });
        check_web_url("base_url", read.base_url.as_deref())?;
        read.hosts.check("hosts")?;
        read.program_folders =
            read.program_folders.iter().map(|path| absolute_from_home(path, context)).collect();
        Ok(read)
    }

    /// Checks the settings of the sandbox, for a program that enforces the levels itself unless `enforce` says otherwise.
    pub(crate) fn check_enforcement(&self) -> Result<(), SettingsError> {
        let is_sandbox = self.enforce == Some(LevelEnforcer::Sandbox);
        let unused = [
            ("hosts", self.hosts.entries().next().is_some()),
            ("program_folders", !self.program_folders.is_empty()),
        ];
        match unused.into_iter().find(|(_, is_set)| *is_set && !is_sandbox) {
            Some((key, _)) => {
                Err(SettingsError::new(key, "applies only with `enforce: sandbox`: add that, or remove it"))
            }
            None => Ok(()),
        }
    }

    /// Returns the credential source that the settings name.
    pub(crate) fn credential_source(
        &self,
        context: &BuildContext,
    ) -> Result<Option<Arc<dyn CredentialSource>>, SettingsError> {
        self.credential.as_ref().map(|setting| setting.token_source(context)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(settings: Value) -> Result<Settings, SettingsError> {
        let Value::Object(settings) = settings else { panic!("settings are an object") };
        Settings::read(&settings, &BuildContext::in_home("/home").with_base_directory("/base"))
    }

    #[test]
    fn an_error_names_the_key() {
        assert_eq!(read(json!({ "billing": "both" })).unwrap_err().path, ["billing"]);
        assert_eq!(read(json!({ "containment": "exactly" })).unwrap_err().path, ["containment"]);
        assert_eq!(read(json!({ "excutable": "x" })).unwrap_err().path, ["excutable"]);
        assert_eq!(read(json!({ "base_url": "localhost" })).unwrap_err().path, ["base_url"]);
        assert_eq!(read(json!({ "enforce": "nobody" })).unwrap_err().path, ["enforce"]);
        assert_eq!(read(json!({ "hosts": ["https://a.test/"] })).unwrap_err().path, ["hosts"]);
        assert_eq!(read(json!({ "program_folders": "/opt" })).unwrap_err().path, ["program_folders"]);
    }

    #[test]
    fn prices_are_for_metered_billing_alone() {
        let prices = json!({ "m": { "input": 1, "output": 2 } });
        for billing in [Value::Null, json!("plan")] {
            let mut settings = json!({ "prices": prices });
            if !billing.is_null() {
                settings["billing"] = billing;
            }
            let error = read(settings).unwrap_err();
            assert_eq!(error.path, ["prices"]);
            assert!(error.reason.contains("billing: metered"), "{error}");
        }
        assert!(!read(json!({ "prices": prices, "billing": "metered" })).unwrap().prices.is_empty());
        assert!(read(json!({ "prices": {}, "billing": "plan" })).is_ok());
        let wrong = json!({ "prices": { "m": { "input": -1, "output": 2 } }, "billing": "metered" });
        assert_eq!(read(wrong).unwrap_err().path, ["prices", "m", "input"]);
    }

    #[test]
    fn settings_of_the_sandbox_need_the_sandbox() {
        let check = |settings| read(settings).unwrap().check_enforcement();
        assert_eq!(check(json!({ "hosts": ["a.test"] })).unwrap_err().path, ["hosts"]);
        let folders = json!({ "program_folders": ["/opt/x"], "enforce": "program" });
        assert_eq!(check(folders).unwrap_err().path, ["program_folders"]);
        assert_eq!(check(json!({ "hosts": ["a.test"], "enforce": "sandbox" })), Ok(()));
        assert_eq!(check(json!({})), Ok(()));
    }

    #[test]
    fn containment_is_automatic_unless_it_is_named() {
        let containment = |settings| read(settings).unwrap().containment;
        assert_eq!(containment(json!({})), ContainmentPolicy::Auto);
        assert_eq!(containment(json!({ "containment": "required" })), ContainmentPolicy::Required);
        assert_eq!(containment(json!({ "containment": "off" })), ContainmentPolicy::Off);
    }

    #[test]
    fn paths_are_relative_to_the_configuration() {
        let settings =
            read(json!({ "executable": "bin/x", "record": "rec", "program_folders": ["lib", "/opt"] }))
                .unwrap();
        assert_eq!(settings.program_folders, [PathBuf::from("/base/lib"), PathBuf::from("/opt")]);
        assert_eq!(settings.executable.unwrap(), PathBuf::from("/base/bin/x"));
        assert_eq!(settings.record.unwrap(), PathBuf::from("/base/rec"));
        assert_eq!(read(json!({ "executable": "x" })).unwrap().executable.unwrap(), PathBuf::from("x"));
    }
}

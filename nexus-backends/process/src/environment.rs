//! The environment of a child. It is built from an allow-list, and never inherited as a whole.
//!
//! The host's environment is passed in as a map. So a key in it cannot reach a child by accident, and a test needs no
//! process-wide state. The vendor's folder decides which further variables a CLI needs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use thiserror::Error;

/// Variables that are always copied from the host.
const ALWAYS: [&str; 4] = ["PATH", "LANG", "LANGUAGE", "TZ"];

/// Variables that are copied for [`NetworkSettings::Pass`]; the first four also in lower case.
const NETWORK: [&str; 7] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

/// Variables of one child. `Debug` shows only their names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

/// Selects the host's variables that reach a child.
#[derive(Debug)]
pub struct EnvironmentBuilder {
    host: Environment,
    chosen: Environment,
    refused: Option<EnvironmentError>,
}

/// Treatment of the host's proxy and certificate settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkSettings {
    /// The child gets none of them.
    Hide,
    /// The child gets `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`, `ALL_PROXY` (and lower case), `SSL_CERT_FILE`,
    /// `SSL_CERT_DIR` and `NODE_EXTRA_CA_CERTS` from the host.
    Pass,
}

/// Reason why a variable cannot be passed to a child. It never contains a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// The name is empty, or contains `=` or a NUL byte.
    #[error("{name:?} cannot name an environment variable")]
    Name {
        /// Name of the variable.
        name: OsString,
    },
    /// The value contains a NUL byte.
    #[error("the value of the environment variable {name:?} contains a NUL byte")]
    Value {
        /// Name of the variable.
        name: OsString,
    },
}

impl Environment {
    /// Returns an environment without variables.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Starts from the host's variables, outside of tests `std::env::vars_os()`. Copies `PATH`, `LANG`, `LANGUAGE`,
    /// `LC_*` and `TZ` at once, and no other variable.
    pub fn from_host(host: impl IntoIterator<Item = (OsString, OsString)>) -> EnvironmentBuilder {
        let host = Self { variables: host.into_iter().collect() };
        let variables = host
            .iter()
            .filter(|(name, _)| {
                name.to_str().is_some_and(|name| ALWAYS.contains(&name) || name.starts_with("LC_"))
            })
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        EnvironmentBuilder { host, chosen: Self { variables }, refused: None }
    }

    /// Adds or replaces one variable.
    ///
    /// # Errors
    ///
    /// An [`EnvironmentError`] if an environment cannot contain the name or the value.
    pub fn set(
        &mut self,
        name: impl Into<OsString>,
        value: impl Into<OsString>,
    ) -> Result<(), EnvironmentError> {
        let (name, value) = (name.into(), value.into());
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.contains(&b'=') || bytes.contains(&0) {
            return Err(EnvironmentError::Name { name });
        }
        if value.as_bytes().contains(&0) {
            return Err(EnvironmentError::Value { name });
        }
        self.variables.insert(name, value);
        Ok(())
    }

    /// Makes the child connect to `host` directly, with any proxy settings. Adds the host to `NO_PROXY` and `no_proxy`,
    /// unless no proxy is set. Programs differ in which of the two they read.
    ///
    /// # Errors
    ///
    /// An [`EnvironmentError`] if an environment cannot contain the name of the host.
    pub fn bypass_proxies(&mut self, host: &str) -> Result<(), EnvironmentError> {
        let names = ["NO_PROXY", "no_proxy"];
        let is_proxy = |name: &str| name.to_ascii_lowercase().ends_with("_proxy") && !names.contains(&name);
        if !self.names().filter_map(OsStr::to_str).any(is_proxy) {
            return Ok(());
        }
        let other = |name| names.into_iter().find(|other| *other != name);
        let lists = names.map(|name| {
            // A program that finds one of the two names set may ignore the other, so both need the whole list.
            let known = self.value(name).or_else(|| self.value(other(name)?)).unwrap_or_default();
            let mut list = known.to_owned();
            if !list.is_empty() {
                list.push(",");
            }
            list.push(host);
            (name, list)
        });
        lists.into_iter().try_for_each(|(name, list)| self.set(name, list))
    }

    /// Returns the value of `name`, if it is set.
    #[must_use]
    pub fn value(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.variables.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// Returns all names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.variables.keys().map(OsString::as_os_str)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets, so print only the names.
        formatter.debug_set().entries(self.variables.keys()).finish()
    }
}

impl EnvironmentBuilder {
    /// Adds or replaces one variable, such as `HOME` with the home that the turn may use.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        if let Err(error) = self.chosen.set(name, value) {
            // Report the error in `build`, so that the calls can be chained.
            self.refused.get_or_insert(error);
        }
        self
    }

    /// Copies the named variables, as far as the host has them.
    #[must_use]
    pub fn pass(mut self, names: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        for name in names {
            if let Some(value) = self.host.value(&name).map(OsStr::to_owned) {
                self = self.with(name.as_ref(), value);
            }
        }
        self
    }

    /// Sets the treatment of the host's proxy and certificate settings.
    #[must_use]
    pub fn network(self, settings: NetworkSettings) -> Self {
        match settings {
            NetworkSettings::Hide => self,
            NetworkSettings::Pass => {
                let lower = NETWORK.iter().take(4).map(|name| name.to_ascii_lowercase());
                self.pass(NETWORK).pass(lower)
            }
        }
    }

    /// Returns the finished environment.
    ///
    /// # Errors
    ///
    /// The first [`EnvironmentError`] of the earlier calls.
    pub fn build(self) -> Result<Environment, EnvironmentError> {
        self.refused.map_or(Ok(self.chosen), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<(OsString, OsString)> {
        [
            "PATH=/bin",
            "LC_ALL=C",
            "HOME=/home/a",
            "VENDOR_API_KEY=canary",
            "https_proxy=http://p",
            "SSL_CERT_FILE=/ca",
            "CI=1",
        ]
        .iter()
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
    }

    fn names(environment: &Environment) -> Vec<&str> {
        environment.names().filter_map(OsStr::to_str).collect()
    }

    #[test]
    fn only_the_allow_list_reaches_a_child() {
        let environment = Environment::from_host(host()).build().unwrap();
        assert_eq!(names(&environment), ["LC_ALL", "PATH"]);
    }

    #[test]
    fn network_settings_pass_when_asked_for() {
        let environment = Environment::from_host(host())
            .network(NetworkSettings::Pass)
            .pass(["CI", "ABSENT"])
            .build()
            .unwrap();
        assert_eq!(names(&environment), ["CI", "LC_ALL", "PATH", "SSL_CERT_FILE", "https_proxy"]);
    }

    #[test]
    fn a_host_that_is_asked_itself_is_so_by_either_variable() {
        let lists = |host: &[(&str, &str)]| {
            let host = host.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let mut environment =
                Environment::from_host(host).network(NetworkSettings::Pass).build().unwrap();
            environment.bypass_proxies("127.0.0.1").unwrap();
            let value = |name: &str| Some(environment.value(name)?.to_str().unwrap().to_owned());
            [value("NO_PROXY").unwrap_or_default(), value("no_proxy").unwrap_or_default()]
        };
        let proxy = ("https_proxy", "http://p");
        assert_eq!(lists(&[]), ["", ""]);
        assert_eq!(lists(&[proxy]), ["127.0.0.1", "127.0.0.1"]);
        assert_eq!(lists(&[proxy, ("no_proxy", "a,b")]), ["a,b,127.0.0.1", "a,b,127.0.0.1"]);
        assert_eq!(lists(&[proxy, ("NO_PROXY", "a"), ("no_proxy", "b")]), ["a,127.0.0.1", "b,127.0.0.1"]);
    }

    #[test]
    fn debug_shows_names_and_no_value() {
        let environment = Environment::from_host(host()).with("TOKEN", "canary").build().unwrap();
        let shown = format!("{environment:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("canary"), "{shown}");
        let shown = format!("{:?}", Environment::from_host(host()));
        assert!(shown.contains("VENDOR_API_KEY") && !shown.contains("canary"), "{shown}");
    }

    #[test]
    fn a_name_that_no_environment_can_hold_is_refused() {
        for name in ["", "A=B", "A\0"] {
            let error = Environment::from_host([]).with(name, "x").build().unwrap_err();
            assert_eq!(error, EnvironmentError::Name { name: name.into() });
        }
        let error = Environment::from_host([]).with("A", "x\0y").build().unwrap_err();
        assert_eq!(error, EnvironmentError::Value { name: "A".into() });
    }
}

//! Hosts that programs in the sandbox may reach: the setting, the network of a turn, and the words about refused hosts.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use nexus_core::SettingsError;
use nexus_process::sandbox::{AllowedHostError, AllowedHosts, RefusedConnection, SandboxNetwork};
use schemars::JsonSchema;
use serde::Deserialize;
use url::Host;

/// Maximum size of the words for the model, in bytes. They are added to an answer that may be as long as an answer can be.
const MAX_NOTICE_BYTES: usize = 300;

/// Maximum number of refused hosts that a turn reports to the caller by name. A command can ask for any number of names.
const MAX_WARNINGS: usize = 5;

/// A setting with hosts, such as `command_hosts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct HostList(Vec<String>);

impl HostList {
    /// Checks each entry of the setting `key`.
    ///
    /// # Errors
    ///
    /// The first entry that is not valid, with its fault and the advice.
    pub(crate) fn check(&self, key: &str) -> Result<(), SettingsError> {
        self.parsed().map(drop).map_err(|error| SettingsError::new(key, error.to_string()))
    }

    /// Returns the network of these hosts. `None` for an empty list.
    pub(crate) fn network(&self) -> Option<SandboxNetwork> {
        // `check` has rejected lists with faults. An error would only leave the sandbox without a network.
        let hosts = self.parsed().ok().filter(|hosts| !hosts.is_empty())?;
        Some(SandboxNetwork::new(hosts))
    }

    /// Returns the entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|entry| encoded(entry))
    }

    fn parsed(&self) -> Result<AllowedHosts, AllowedHostError> {
        let folded: Vec<String> = self.0.iter().map(|entry| encoded(entry)).collect();
        AllowedHosts::parse(folded.iter().map(String::as_str))
    }
}

/// Encodes an international name. Other entries stay as they are.
fn encoded(entry: &str) -> String {
    if entry.is_ascii() {
        return entry.to_owned();
    }
    // Programs request a name in its ASCII form, so the entry needs this form too.
    let (wildcard, rest) = entry.strip_prefix("*.").map_or(("", entry), |rest| ("*.", rest));
    let (host, port) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
    match Host::parse(host) {
        Ok(Host::Domain(name)) => format!("{wildcard}{name}{port}"),
        _ => entry.to_owned(),
    }
}

/// User of a [`TurnNetwork`], for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkUser {
    /// The program, such as `a command`.
    pub(crate) program: &'static str,
    /// Setting that lists the hosts.
    pub(crate) key: &'static str,
}

/// Network of the sandboxed programs of one turn.
#[derive(Debug)]
pub(crate) struct TurnNetwork {
    network: SandboxNetwork,
    user: NetworkUser,
    /// Hosts that the caller knows to be refused.
    reported: Mutex<BTreeSet<String>>,
    /// Number of refusals that the model knows.
    answered: Mutex<usize>,
}

impl TurnNetwork {
    pub(crate) fn new(network: SandboxNetwork, user: NetworkUser) -> Self {
        Self { network, user, reported: Mutex::default(), answered: Mutex::default() }
    }

    pub(crate) fn sandbox_network(&self) -> SandboxNetwork {
        self.network.clone()
    }

    /// Returns a sentence about the network for the model.
    pub(crate) fn description(&self) -> String {
        format!(
            "The network of commands reaches {} and nothing else. Programs use the proxy of HTTPS_PROXY, or connect to a \
             listed name directly.",
            self.network.hosts()
        )
    }

    /// Returns the words for the model about hosts that were refused since the last call.
    pub(crate) fn notice(&self) -> Option<String> {
        let refused = self.network.record().refused();
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<String> = refused.iter().skip(*answered).map(ToString::to_string).collect();
        *answered = refused.len();
        let mut text = format!("the network refused: {}", new.join("; "));
        if text.len() > MAX_NOTICE_BYTES {
            text.truncate(text.floor_char_boundary(MAX_NOTICE_BYTES));
            text.push_str(" …");
        }
        (!new.is_empty()).then_some(text)
    }

    /// Returns a warning for the caller about each host that was refused since the last call, with the entry that allows it. After a few
    /// hosts of the turn, a last warning has the number of the others so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = self.network.record().refused();
        let (mut warnings, known) = (Vec::new(), reported.len());
        for one in &refused {
            let is_new = reported.insert(one.entry.clone().unwrap_or_else(|| one.host.clone()));
            if is_new && reported.len() <= MAX_WARNINGS {
                warnings.push(self.warning(one));
            }
        }
        // True only in the call that exceeds the bound, so this warning comes once.
        if known <= MAX_WARNINGS && reported.len() > MAX_WARNINGS {
            warnings.push(format!(
                "{} was refused connections to {} more hosts; this turn reports no further ones",
                self.user.program,
                reported.len() - MAX_WARNINGS
            ));
        }
        warnings
    }

    /// Returns the warning about one refusal. The host can be the choice of an attacker, so the advice names the reason to add it.
    fn warning(&self, refused: &RefusedConnection) -> String {
        let NetworkUser { program, key } = self.user;
        match &refused.entry {
            Some(entry) => format!(
                "{program} was refused a connection: {refused}; if you trust that host, add {} to `{key}` in the entry of \
                 this backend in nexus.yaml",
                quoted(entry)
            ),
            None => format!("{program} was refused a connection: {refused}"),
        }
    }
}

impl Drop for TurnNetwork {
    fn drop(&mut self) {
        let record = self.network.record();
        let (connections, sent_bytes, received_bytes) =
            (record.connections(), record.sent_bytes(), record.received_bytes());
        if connections > 0 {
            tracing::debug!(
                connections,
                sent_bytes,
                received_bytes,
                "the sandboxed programs of a turn used the network"
            );
        }
    }
}

/// Quotes an entry that is not a plain word in YAML, which reads a bracket, an asterisk or a colon as something else.
fn quoted(entry: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match entry.chars().all(is_plain) {
        true => entry.to_owned(),
        false => format!("{entry:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(entries: &[&str]) -> HostList {
        HostList(entries.iter().map(|&entry| entry.to_owned()).collect())
    }

    #[test]
    fn a_name_is_folded_and_a_fault_is_named_with_its_entry() {
        let parsed =
            hosts(&["B\u{fc}cher.example", "*.B\u{fc}cher.example:8443", "PyPI.org"]).parsed().unwrap();
        assert_eq!(parsed.to_string(), "xn--bcher-kva.example, *.xn--bcher-kva.example:8443, pypi.org");
        for wrong in ["*", "https://pypi.org", "\u{fc} \u{fc}", ""] {
            let error = hosts(&["pypi.org", wrong]).check("command_hosts").unwrap_err();
            assert_eq!(error.path, ["command_hosts"]);
            assert!(error.reason.contains(&format!("{wrong:?}")), "{error}");
        }
        let error = hosts(&["https://me:c\u{e4}nary@pypi.org"]).check("command_hosts").unwrap_err();
        assert!(!error.reason.contains("nary") && error.reason.contains("@pypi.org"), "{error}");
        assert!(hosts(&[]).network().is_none());
    }

    #[test]
    fn an_entry_is_quoted_where_yaml_needs_it() {
        assert_eq!(quoted("pypi.org"), "pypi.org");
        assert_eq!(quoted("*.crates.io"), "\"*.crates.io\"");
        assert_eq!(quoted("[::1]:80"), "\"[::1]:80\"");
    }
}

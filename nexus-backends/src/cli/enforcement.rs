//! Enforcer of the access levels of a delegated program, by its settings.

use std::path::PathBuf;

use nexus_core::{AccessEnforcer, AccessSupport, AccessTable, ToolAccess};
use nexus_process::sandbox::AllowedHosts;
use url::Url;

use super::caller_tools;
use super::contract::TurnPlan;
use super::settings::{LevelEnforcer, Settings};
use crate::server_address::server_address;

impl Settings {
    /// Returns true if the sandbox of Nexus encloses a program that enforces every level itself unless the settings say otherwise.
    pub(crate) fn has_sandbox(&self, access: ToolAccess) -> bool {
        self.enforce == Some(LevelEnforcer::Sandbox) && access != ToolAccess::Unrestricted
    }

    /// Returns the enforcer of each level of such a program, which by itself enforces them as in `by_program`.
    pub(crate) fn access_table(&self, by_program: &AccessTable) -> AccessTable {
        let level = |access| match self.has_sandbox(access) {
            true => AccessSupport::Kept(AccessEnforcer::Nexus),
            false => by_program.of(access),
        };
        AccessTable {
            scoped_only: level(ToolAccess::ScopedOnly),
            read_only: level(ToolAccess::ReadOnly),
            workspace_write: level(ToolAccess::WorkspaceWrite),
            unrestricted: level(ToolAccess::Unrestricted),
        }
    }

    /// Returns the working directory of such a program's turn. A link that leads there does not exist in the sandbox.
    pub(crate) fn working_directory(&self, plan: &TurnPlan) -> PathBuf {
        let named = &plan.working_directory;
        let real = self.has_sandbox(plan.request.tool_access).then(|| named.canonicalize().ok()).flatten();
        real.unwrap_or_else(|| named.clone())
    }

    /// Returns the entries of the hosts that the program reaches from the sandbox.
    pub(super) fn sandbox_hosts(&self, plan: &TurnPlan, of_vendor: Vec<String>) -> Vec<String> {
        let mut hosts: Vec<String> = match &self.base_url {
            Some(url) => entries_of_server(url),
            None => of_vendor,
        };
        hosts.extend(self.hosts.entries());
        // The caller's tools are served on this machine.
        let tools = plan.tools.as_ref().and_then(|tools| server_address(tools.url()));
        hosts.extend(tools.map(|tools| format!("{}:{}", caller_tools::HOST, tools.port)));
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

/// Returns the entries of a list of hosts that allow the server of a URL, by its written and by its normalised name.
fn entries_of_server(url: &str) -> Vec<String> {
    let entry = |host: &str, port: u16| match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    let parsed = Url::parse(url).ok();
    let written = parsed.as_ref().and_then(|url| Some(entry(url.host_str()?, url.port_or_known_default()?)));
    let normalised = server_address(url).map(|server| entry(&server.host, server.port));
    let entries = written.into_iter().chain(normalised);
    entries.filter(|entry| AllowedHosts::parse([entry.as_str()]).is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_allowed_by_its_written_and_its_normalised_name() {
        let all = |url| entries_of_server(url).join(" ");
        assert_eq!(all("http://LOCALHOST:8080/v1"), "localhost:8080 localhost:8080");
        assert_eq!(all("https://api.example.com/v1"), "api.example.com:443 api.example.com:443");
        assert_eq!(all("http://127.0.0.2:80"), "127.0.0.2:80 localhost:80");
        assert_eq!(all("http://[::1]:8080"), "[::1]:8080 localhost:8080");
        assert_eq!(all("http://"), "");
    }

    #[test]
    fn the_sandbox_encloses_a_program_only_if_it_is_chosen_and_there_is_a_level() {
        let by = AccessSupport::Kept;
        let by_program = AccessTable {
            scoped_only: by(AccessEnforcer::Vendor),
            read_only: by(AccessEnforcer::Os),
            workspace_write: AccessSupport::Unsupported,
            unrestricted: by(AccessEnforcer::None),
        };
        for enforce in [None, Some(LevelEnforcer::Program)] {
            let settings = Settings { enforce, ..Settings::default() };
            assert_eq!(settings.access_table(&by_program), by_program, "{enforce:?}");
            assert!(!ToolAccess::ALL.into_iter().any(|access| settings.has_sandbox(access)));
        }
        let settings = Settings { enforce: Some(LevelEnforcer::Sandbox), ..Settings::default() };
        for access in ToolAccess::ALL {
            let is_level = access != ToolAccess::Unrestricted;
            let enforcer = if is_level { AccessEnforcer::Nexus } else { AccessEnforcer::None };
            assert_eq!(settings.access_table(&by_program).of(access), by(enforcer), "{access:?}");
            assert_eq!(settings.has_sandbox(access), is_level);
        }
    }
}

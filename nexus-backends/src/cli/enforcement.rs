//! Enforcer of the access levels of a delegated program, and the start of a process under it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use nexus_core::{AccessEnforcer, AccessSupport, AccessTable, ErrorKind, ToolAccess, harness::Failure};
use nexus_process::environment::{Environment, EnvironmentBuilder, EnvironmentError, NetworkSettings};
use nexus_process::executable::Executable;
use nexus_process::sandbox::AllowedHosts;
use nexus_process::spawn::{Invocation, StdinMode};
use url::Url;

use super::caller_tools;
use super::contract::TurnPlan;
use super::process_sandbox::ProcessSandbox;
use super::sandboxed_program::{SandboxFiles, SandboxedInvocation, SandboxedProgram};
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
    fn sandbox_hosts(&self, plan: &TurnPlan, of_vendor: Vec<String>) -> Vec<String> {
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

/// Needs of a program in the sandbox, beside those of its settings.
#[derive(Debug)]
pub(crate) struct SandboxNeeds {
    pub(crate) files: SandboxFiles,
    /// Hosts of the vendor's servers, for a program without a `base_url`.
    pub(crate) hosts: Vec<String>,
}

/// Start of one process.
#[derive(Debug)]
pub(crate) struct ProgramStart<'a> {
    pub(crate) plan: &'a TurnPlan,
    pub(crate) settings: &'a Settings,
    /// Variables of this machine.
    pub(crate) host: &'a BTreeMap<String, String>,
    pub(crate) executable: Executable,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) working_directory: PathBuf,
    pub(crate) stdin: StdinMode,
    /// Needs of the program in the sandbox of Nexus. `None` starts it without the sandbox.
    pub(crate) sandbox: Option<SandboxNeeds>,
}

/// Process that is ready to start.
#[derive(Debug)]
pub(crate) struct ReadyProcess {
    pub(crate) invocation: Invocation,
    /// Sandbox of Nexus around the process, if it has one.
    pub(crate) sandbox: Option<ProcessSandbox>,
    /// Working directory of the process.
    pub(crate) working_directory: PathBuf,
}

impl ProgramStart<'_> {
    /// Prepares the process. `with_variables` adds the program's own variables to those that every program gets. The sandbox sets
    /// `HOME` itself.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for a variable that no environment can contain, and the errors of [`SandboxedProgram::prepare`].
    pub(crate) async fn prepare(
        self,
        with_variables: impl FnOnce(EnvironmentBuilder) -> EnvironmentBuilder,
    ) -> Result<ReadyProcess, Failure> {
        let Self { plan, settings, host, executable, arguments, working_directory, stdin, sandbox } = self;
        let host = host.iter().map(|(name, value)| (name.into(), value.into()));
        if let Some(SandboxNeeds { mut files, hosts }) = sandbox {
            files.read_only.extend(settings.program_folders.iter().cloned());
            files.settings.extend(settings.network.ca_file.clone());
            let hosts = settings.sandbox_hosts(plan, hosts);
            let host = host.collect();
            let program =
                SandboxedProgram { plan, executable, arguments, host, files, hosts, working_directory };
            let SandboxedInvocation { invocation, sandbox, working_directory } =
                program.prepare(with_variables).await?;
            let invocation = invocation.stdin(stdin);
            return Ok(ReadyProcess { invocation, sandbox: Some(sandbox), working_directory });
        }
        let environment = environment_outside(plan, settings, host, with_variables)?;
        let invocation = Invocation::new(executable, &working_directory)
            .arguments(arguments)
            .environment(environment)
            .stdin(stdin);
        Ok(ReadyProcess { invocation, sandbox: None, working_directory })
    }
}

/// Returns the environment of a program without the sandbox.
///
/// # Errors
///
/// [`ErrorKind::InvalidRequest`] for a variable that no environment can contain.
pub(crate) fn environment_outside(
    plan: &TurnPlan,
    settings: &Settings,
    host: impl IntoIterator<Item = (OsString, OsString)>,
    with_variables: impl FnOnce(EnvironmentBuilder) -> EnvironmentBuilder,
) -> Result<Environment, Failure> {
    let mut builder = Environment::from_host(host);
    if settings.network.inherit_proxy {
        builder = builder.network(NetworkSettings::Pass);
    }
    let invalid = |error: EnvironmentError| Failure::of(ErrorKind::InvalidRequest, &error);
    let mut environment = with_variables(builder).build().map_err(invalid)?;
    if plan.tools.is_some() {
        environment.bypass_proxies(caller_tools::HOST).map_err(invalid)?;
    }
    Ok(environment)
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

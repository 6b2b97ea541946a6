//! Start of one process of a delegated program, with or without the sandbox of Nexus.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use nexus_core::{ErrorKind, harness::Failure};
use nexus_process::environment::{Environment, EnvironmentBuilder, EnvironmentError, NetworkSettings};
use nexus_process::executable::Executable;
use nexus_process::spawn::{Invocation, StdinMode};

use super::caller_tools;
use super::contract::TurnPlan;
use super::process_sandbox::ProcessSandbox;
use super::sandboxed_program::{SandboxFiles, SandboxedInvocation, SandboxedProgram};
use super::settings::Settings;

/// Needs of a program in the sandbox, in addition to those of its settings.
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
    // The caller's tools are served on loopback, where a proxy would not find them.
    if plan.tools.is_some() {
        environment.bypass_proxies(caller_tools::HOST).map_err(invalid)?;
    }
    Ok(environment)
}

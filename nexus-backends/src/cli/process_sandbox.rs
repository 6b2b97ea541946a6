//! Sandbox of Nexus around one process of a delegated backend.

use std::ffi::OsString;
use std::path::PathBuf;

use nexus_core::{ErrorKind, ToolAccess, harness::Failure, harness::run_blocking};
use nexus_process::environment::EnvironmentBuilder;
use nexus_process::executable::Executable;
use nexus_process::run_registry::RunEntry;
use nexus_process::sandbox::{
    AllowedHosts, Sandbox, SandboxCommand, SandboxError, SandboxLimits, SandboxNetwork, SandboxSupport,
    ToolChains, WithoutRepository, WorkspaceFolders,
};
use nexus_process::spawn::{Invocation, Process};

use super::program_files::{ProgramFiles, has_logins};
use crate::host_list::{NetworkUser, TurnNetwork};

/// User of the network in messages.
const NETWORK_USER: NetworkUser = NetworkUser { program: "the agent", key: "hosts" };
/// Path of a home inside, if this machine names none.
const HOME: &str = "/home/sandbox";

/// Program to run in the sandbox.
#[derive(Debug)]
pub(crate) struct SandboxedProgram {
    pub(crate) executable: Executable,
    pub(crate) arguments: Vec<OsString>,
    /// Variables of this machine, from which the tool chains are found.
    pub(crate) host: Vec<(OsString, OsString)>,
    /// Home of the program.
    pub(crate) home: SandboxHome,
    /// The user's home, if it is known.
    pub(crate) user_home: Option<PathBuf>,
    /// Folders below the user's home that are writable at the same place below the program's home. One that does not exist is left out.
    pub(crate) login_folders: Vec<PathBuf>,
    /// Further files and folders that the program reads.
    pub(crate) read_only: Vec<PathBuf>,
    /// Entries of the list of hosts.
    pub(crate) hosts: Vec<String>,
    /// Working directory of the turn.
    pub(crate) working_directory: PathBuf,
    /// True if that folder belongs to the turn or its conversation, so that it may be in the home of Nexus.
    pub(crate) is_private_directory: bool,
    /// Further folders of the turn.
    pub(crate) extra_roots: Vec<PathBuf>,
    /// Access level of the turn.
    pub(crate) access: ToolAccess,
    /// Home of Nexus.
    pub(crate) nexus_home: PathBuf,
    /// Entry of the run, which a sweep finds after the death of the host.
    pub(crate) run: RunEntry,
}

/// Home of a program in the sandbox.
#[derive(Debug)]
pub(crate) enum SandboxHome {
    /// Folder of this machine, which is shown writable at its own path.
    Folder(PathBuf),
    /// Empty folder in memory, at the path of the user's home where that is possible.
    Empty,
}

/// Sandbox around one process. Dropping it ends the network and moves repositories aside that the program created.
#[derive(Debug)]
pub(crate) struct ProcessSandbox {
    support: SandboxSupport,
    without_repository: WithoutRepository,
    network: Option<TurnNetwork>,
}

/// Program in its sandbox, ready to start.
#[derive(Debug)]
pub(crate) struct SandboxedInvocation {
    pub(crate) invocation: Invocation,
    pub(crate) sandbox: ProcessSandbox,
    /// Working directory inside.
    pub(crate) working_directory: PathBuf,
}

impl SandboxedProgram {
    /// Prepares the process. `with_variables` adds the program's own variables.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotInstalled`] if the machine lacks a program that the sandbox needs, [`ErrorKind::Unsupported`] if it does
    /// not allow a sandbox, [`ErrorKind::InvalidRequest`] for folders that cannot be shown.
    pub(crate) async fn prepare(
        self,
        with_variables: impl FnOnce(EnvironmentBuilder) -> EnvironmentBuilder,
    ) -> Result<SandboxedInvocation, Failure> {
        let invalid = |reason: String| Failure::new(ErrorKind::InvalidRequest, reason);
        let access = self.access;
        let (roots, nexus_home) = (self.extra_roots, self.nexus_home.clone());
        let (folder, is_private) = (self.working_directory.clone(), self.is_private_directory);
        let (host, program) = (self.host, self.executable.path().to_owned());
        let prepared = run_blocking(move || {
            let workspace = match is_private {
                true => WorkspaceFolders::of_private_folder(access, folder),
                false => WorkspaceFolders::resolve(access, &folder, &roots, &nexus_home)?,
            };
            let chains = ToolChains::find(host);
            let (sandbox, without_repository) = workspace.show_in(Sandbox::new(), &chains)?;
            let program = program.canonicalize().unwrap_or(program);
            Ok((sandbox, without_repository, chains, workspace, program))
        });
        let prepared = prepared.await.unwrap_or_else(|_| Err("the runtime is shutting down".to_owned()));
        let (sandbox, without_repository, chains, workspace, program) =
            prepared.map_err(|reason| invalid(format!("the working directory cannot be used: {reason}")))?;
        let files = ProgramFiles {
            program: Some(&program),
            folders: &self.read_only,
            nexus_home: &self.nexus_home,
            user_home: self.user_home.as_deref(),
        };
        let (mut sandbox, shown) = files.show_in(sandbox, &chains, &workspace).map_err(invalid)?;
        let home = match &self.home {
            SandboxHome::Folder(home) => {
                sandbox = sandbox.writable(home, home);
                home.clone()
            }
            SandboxHome::Empty => chains.home(workspace.folder()).unwrap_or_else(|| HOME.into()),
        };
        sandbox = sandbox.home(&home).limits(limits());
        for below in self.login_folders {
            let Some(outside) = self.user_home.as_ref().map(|user| user.join(&below)) else { continue };
            if outside.is_dir() {
                let outside = outside.canonicalize().unwrap_or(outside);
                if has_logins(&self.nexus_home, &outside) {
                    let reason = format!("`login_folders`: {} has the logins of Nexus", outside.display());
                    return Err(invalid(reason));
                }
                sandbox = sandbox.writable(outside, home.join(below));
            }
        }
        let mut network = None;
        if !self.hosts.is_empty() {
            let hosts = AllowedHosts::parse(self.hosts.iter().map(String::as_str));
            let hosts = hosts.map_err(|error| invalid(format!("`hosts`: {error}")))?;
            let allowed = SandboxNetwork::new(hosts);
            sandbox = sandbox.network(allowed.clone());
            network = Some(TurnNetwork::new(allowed, NETWORK_USER));
        }
        let environment = with_variables(chains.environment(&shown)).with("HOME", &home);
        let environment =
            environment.build().map_err(|error| Failure::of(ErrorKind::InvalidRequest, &error))?;
        let folder = match access {
            // The sandbox shows no workspace at this level.
            ToolAccess::ScopedOnly => home,
            // A link that leads there does not exist inside.
            _ => workspace.folder().to_owned(),
        };
        let command = SandboxCommand::new(std::iter::once(program.into_os_string()).chain(self.arguments))
            .folder(&folder)
            .environment(environment)
            .entry(&self.run);
        let (invocation, support) = sandbox.prepare(command).await.map_err(|error| failure(&error))?;
        let sandbox = ProcessSandbox { support, without_repository, network };
        Ok(SandboxedInvocation { invocation, sandbox, working_directory: folder })
    }
}

impl ProcessSandbox {
    /// Returns warnings about refused hosts, and about repositories that were moved aside. Called after the end of the process.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let refused = self.network.as_ref().map(TurnNetwork::warnings).unwrap_or_default();
        let planted = self.without_repository.set_aside();
        refused.into_iter().chain(planted.iter().map(ToString::to_string)).collect()
    }

    /// Replaces a failure whose cause is the sandbox.
    pub(crate) async fn explain(&self, found: &mut Failure, process: &Process) {
        if let Some(limit) = self.support.reached() {
            let reason = format!("the agent reached the limit of its sandbox on {limit}, and was ended");
            *found = Failure::new(ErrorKind::Crashed, reason);
            return;
        }
        let exit = process.wait().await;
        if let Some(error) = self.support.start_failure(&exit, &process.stderr_tail()) {
            *found = failure(&error);
        }
    }
}

impl Drop for ProcessSandbox {
    fn drop(&mut self) {
        // A turn that was dropped has no more warnings, but nothing may stay that git would run.
        self.without_repository.set_aside_and_log();
    }
}

/// Limits of an agent. They only protect the machine: an agent builds and tests whole projects, for as long as its turn may take.
fn limits() -> SandboxLimits {
    let mut limits = SandboxLimits::default();
    limits.cpu = std::time::Duration::MAX;
    limits.processes = 4096;
    limits.memory_bytes = 1 << 60;
    limits.file_bytes = 1 << 60;
    limits.disk_bytes = 64 << 30;
    limits.scratch_bytes = 4 << 30;
    limits
}

fn failure(error: &SandboxError) -> Failure {
    let kind = match error {
        SandboxError::BubblewrapMissing
        | SandboxError::BubblewrapTooOld { .. }
        | SandboxError::ShellMissing { .. }
        | SandboxError::DidNotStart { .. } => ErrorKind::NotInstalled,
        SandboxError::NamespacesForbidden { .. }
        | SandboxError::NetworkForbidden { .. }
        | SandboxError::NoNetworkOpener => ErrorKind::Unsupported,
        SandboxError::Path { .. }
        | SandboxError::PathRefused { .. }
        | SandboxError::NoMountPoint { .. }
        | SandboxError::FolderMissing { .. } => ErrorKind::InvalidRequest,
        _ => ErrorKind::Crashed,
    };
    Failure::of(kind, error)
}

//! Sandbox of Nexus around one process of a delegated backend.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nexus_core::{ErrorKind, ToolAccess, harness::Failure, harness::run_blocking};
use nexus_process::environment::EnvironmentBuilder;
use nexus_process::executable::Executable;
use nexus_process::run_registry::RunEntry;
use nexus_process::sandbox::{
    AllowedHosts, Sandbox, SandboxCommand, SandboxError, SandboxLimits, SandboxNetwork, SandboxSupport,
    ToolChains, WithoutRepository, WorkspaceFolders,
};
use nexus_process::spawn::{Invocation, Process};

use crate::host_list::{NetworkUser, TurnNetwork};

/// User of the network in messages.
const NETWORK_USER: NetworkUser = NetworkUser { program: "the agent", key: "hosts" };
/// Folder that holds the packages of npm. A package may use others beside it.
const NODE_PACKAGES: &str = "node_modules";
/// File that marks the folder of a virtual environment of Python.
const PYTHON_ENVIRONMENT: &str = "pyvenv.cfg";

/// Program to run in the sandbox.
#[derive(Debug)]
pub(crate) struct SandboxedProgram {
    pub(crate) executable: Executable,
    pub(crate) arguments: Vec<OsString>,
    /// Variables of this machine, from which the tool chains are found.
    pub(crate) host: Vec<(OsString, OsString)>,
    /// Home of the program.
    pub(crate) home: SandboxHome,
    /// Folders outside that are writable inside, with their paths inside.
    pub(crate) login_folders: Vec<(PathBuf, PathBuf)>,
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
    /// Empty folder in memory at this path.
    Empty(PathBuf),
}

impl SandboxHome {
    /// Returns the path inside.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::Empty(path) => path,
        }
    }
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
        let (roots, nexus_home) = (self.extra_roots, self.nexus_home);
        let (folder, is_private) = (self.working_directory.clone(), self.is_private_directory);
        let (host, program) = (self.host, self.executable.path().to_owned());
        let prepared = run_blocking(move || {
            let workspace = match is_private {
                true => WorkspaceFolders::of_private_folder(access, folder),
                false => WorkspaceFolders::resolve(access, &folder, &roots, &nexus_home)?,
            };
            let chains = ToolChains::find(host);
            let (sandbox, without_repository) = workspace.show_in(Sandbox::new(), &chains)?;
            let shown = workspace.roots().filter(|_| access != ToolAccess::ScopedOnly).cloned();
            let shown: Vec<PathBuf> = shown.collect();
            let program = program.canonicalize().unwrap_or(program);
            Ok((sandbox, without_repository, chains, shown, program))
        });
        let prepared = prepared.await.unwrap_or_else(|_| Err("the runtime is shutting down".to_owned()));
        let (mut sandbox, without_repository, chains, mut shown, program) =
            prepared.map_err(|reason| invalid(format!("the working directory cannot be used: {reason}")))?;
        let is_shown = |path: &Path, shown: &[PathBuf]| {
            shown.iter().chain(chains.folders()).any(|above| path.starts_with(above))
        };
        for path in std::iter::once(package_of(&program)).chain(self.read_only) {
            if is_shown(&path, &shown) || path.starts_with("/usr") {
                continue;
            }
            sandbox = sandbox.read_only(&path, &path);
            shown.push(path);
        }
        sandbox = sandbox.home(self.home.path()).limits(limits());
        if let SandboxHome::Folder(home) = &self.home {
            sandbox = sandbox.writable(home, home);
        }
        for (outside, inside) in self.login_folders {
            sandbox = sandbox.writable(outside, inside);
        }
        let mut network = None;
        if !self.hosts.is_empty() {
            let hosts = AllowedHosts::parse(self.hosts.iter().map(String::as_str));
            let hosts = hosts.map_err(|error| invalid(format!("`hosts`: {error}")))?;
            let allowed = SandboxNetwork::new(hosts);
            sandbox = sandbox.network(allowed.clone());
            network = Some(TurnNetwork::new(allowed, NETWORK_USER));
        }
        let environment = with_variables(chains.environment(&shown));
        let environment =
            environment.build().map_err(|error| Failure::of(ErrorKind::InvalidRequest, &error))?;
        let folder = match access {
            ToolAccess::ScopedOnly => self.home.path().to_owned(),
            _ => self.working_directory,
        };
        let command = SandboxCommand::new(std::iter::once(program.into_os_string()).chain(self.arguments))
            .folder(folder)
            .environment(environment)
            .entry(&self.run);
        let (invocation, support) = sandbox.prepare(command).await.map_err(|error| failure(&error))?;
        let sandbox = ProcessSandbox { support, without_repository, network };
        Ok(SandboxedInvocation { invocation, sandbox })
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

/// Returns the folder or file that a program needs to start, by its real path: its packages of npm, its environment of Python, else the
/// program alone.
pub(crate) fn package_of(real: &Path) -> PathBuf {
    let packages =
        real.ancestors().filter(|above| above.file_name().is_some_and(|name| name == NODE_PACKAGES));
    if let Some(packages) = packages.last() {
        return packages.to_owned();
    }
    let environment = real.ancestors().nth(2).filter(|above| above.join(PYTHON_ENVIRONMENT).is_file());
    environment.map_or_else(|| real.to_owned(), Path::to_owned)
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

//! Program of a delegated backend that runs in the sandbox of Nexus.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nexus_core::{ErrorKind, ToolAccess, harness::Failure, harness::run_blocking};
use nexus_process::environment::EnvironmentBuilder;
use nexus_process::executable::Executable;
use nexus_process::sandbox::{
    AllowedHosts, Sandbox, SandboxCommand, SandboxLimits, SandboxNetwork, ToolChains, WorkspaceFolders,
};
use nexus_process::spawn::Invocation;

use super::contract::TurnPlan;
use super::process_sandbox::{ProcessSandbox, failure};
use super::program_files::{ProgramFiles, has_logins};
use crate::host_list::{NetworkUser, TurnNetwork};

/// User of the network in messages.
const NETWORK_USER: NetworkUser = NetworkUser { program: "the agent", key: "hosts" };
/// Path of a home inside, if this machine names none.
const HOME: &str = "/home/sandbox";

/// Program to run in the sandbox.
#[derive(Debug)]
pub(crate) struct SandboxedProgram<'a> {
    /// Turn of the program, with the folders and the access level of its request.
    pub(crate) plan: &'a TurnPlan,
    pub(crate) executable: Executable,
    pub(crate) arguments: Vec<OsString>,
    /// Variables of this machine, from which the tool chains and the user's home are found.
    pub(crate) host: Vec<(OsString, OsString)>,
    pub(crate) files: SandboxFiles,
    /// Entries of the list of hosts.
    pub(crate) hosts: Vec<String>,
    /// Working directory of the process: that of the request, or one that belongs to the turn or its conversation.
    pub(crate) working_directory: PathBuf,
}

/// Files that a program sees in addition to the workspace, the tool chains and its own program.
#[derive(Debug)]
pub(crate) struct SandboxFiles {
    pub(crate) home: SandboxHome,
    /// Folders of the process and its conversation, writable at their own paths.
    pub(crate) writable: Vec<PathBuf>,
    /// Folders below the user's home that are writable at the same place below the program's home, and absolute ones that are writable
    /// at their own paths. One that does not exist is left out.
    pub(crate) login_folders: Vec<PathBuf>,
    /// Further files and folders that the program reads.
    pub(crate) read_only: Vec<PathBuf>,
    /// Further files and folders that it reads at these very paths, which may be links. One that does not exist is left out.
    pub(crate) settings: Vec<PathBuf>,
}

/// Home of a program in the sandbox.
#[derive(Debug)]
pub(crate) enum SandboxHome {
    /// Folder of this machine, which is shown writable at its own path.
    Folder(PathBuf),
    /// Empty folder in memory, at the path of the user's home where that is possible.
    Empty,
}

/// Program in its sandbox, ready to start.
#[derive(Debug)]
pub(crate) struct SandboxedInvocation {
    pub(crate) invocation: Invocation,
    pub(crate) sandbox: ProcessSandbox,
    /// Working directory inside.
    pub(crate) working_directory: PathBuf,
}

impl SandboxedProgram<'_> {
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
        let Self { plan, executable, arguments, host, files, hosts, working_directory } = self;
        let access = plan.request.tool_access;
        let is_private = plan.is_private_directory;
        let (roots, nexus_home) = (plan.request.extra_roots.clone(), plan.nexus_home.clone());
        let user_home = host.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
        let user_home = user_home.filter(|home| home.is_absolute());
        let program = executable.path().to_owned();
        // The search for tool chains and the resolution of folders read the disk.
        let prepared = run_blocking(move || {
            let workspace = match is_private {
                true => WorkspaceFolders::of_private_folder(access, working_directory),
                false => WorkspaceFolders::resolve(access, &working_directory, &roots, &nexus_home)?,
            };
            let chains = ToolChains::find(host);
            let (sandbox, without_repository) = workspace.show_in(Sandbox::new(), &chains)?;
            // The sandbox shows the real file, not the links that lead to it.
            let program = program.canonicalize().unwrap_or(program);
            Ok((sandbox, without_repository, chains, workspace, program))
        });
        let prepared = prepared.await.unwrap_or_else(|_| Err("the runtime is shutting down".to_owned()));
        let (sandbox, without_repository, chains, workspace, program) =
            prepared.map_err(|reason| invalid(format!("the working directory cannot be used: {reason}")))?;
        let shown_files = ProgramFiles {
            program: Some(&program),
            folders: &files.read_only,
            nexus_home: &plan.nexus_home,
            user_home: user_home.as_deref(),
        };
        let (mut sandbox, shown) = shown_files.show_in(sandbox, &chains, &workspace).map_err(invalid)?;
        if access == ToolAccess::ScopedOnly {
            // The workspace is not shown at this level, but a conversation is resumed only at its own path.
            sandbox = sandbox.scratch(workspace.folder());
        }
        let home = match files.home {
            SandboxHome::Folder(home) => {
                sandbox = sandbox.writable(&home, &home);
                home
            }
            SandboxHome::Empty => chains.home(workspace.folder()).unwrap_or_else(|| HOME.into()),
        };
        sandbox = sandbox.home(&home).limits(limits());
        for folder in &files.writable {
            sandbox = sandbox.writable(folder, folder);
        }
        for path in files.settings.iter().filter(|path| !shown.contains(path)) {
            let Ok(real) = path.canonicalize() else { continue };
            if has_logins(&plan.nexus_home, &real) {
                let reason = format!("{} has the logins of Nexus, which no program may read", path.display());
                return Err(invalid(reason));
            }
            sandbox = sandbox.read_only(real, path);
        }
        for below in files.login_folders {
            let outside = user_home.as_deref().unwrap_or(Path::new("")).join(&below);
            if outside.is_absolute() && outside.is_dir() {
                let outside = outside.canonicalize().unwrap_or(outside);
                if has_logins(&plan.nexus_home, &outside) {
                    let reason = format!("`login_folders`: {} has the logins of Nexus", outside.display());
                    return Err(invalid(reason));
                }
                sandbox = sandbox.writable(outside, home.join(below));
            }
        }
        let mut network = None;
        if !hosts.is_empty() {
            let hosts = AllowedHosts::parse(hosts.iter().map(String::as_str));
            let hosts = hosts.map_err(|error| invalid(format!("`hosts`: {error}")))?;
            let allowed = SandboxNetwork::new(hosts);
            sandbox = sandbox.network(allowed.clone());
            network = Some(TurnNetwork::new(allowed, NETWORK_USER));
        }
        let environment = with_variables(chains.environment(&shown)).with("HOME", &home);
        let environment =
            environment.build().map_err(|error| Failure::of(ErrorKind::InvalidRequest, &error))?;
        // Use the real path of the folder: the sandbox does not contain a link that leads to it.
        let folder = workspace.folder().to_owned();
        let command = SandboxCommand::new(std::iter::once(program.into_os_string()).chain(arguments))
            .folder(&folder)
            .environment(environment)
            .entry(&plan.run);
        let (invocation, support) = sandbox.prepare(command).await.map_err(|error| failure(&error))?;
        let sandbox = ProcessSandbox::new(support, without_repository, network);
        Ok(SandboxedInvocation { invocation, sandbox, working_directory: folder })
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

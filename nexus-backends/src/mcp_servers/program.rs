//! A program of the section `mcp_servers`, in the sandbox of a turn's access level.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use nexus_core::{BuildContext, ToolAccess, harness::run_blocking, redact::Redactor};
use nexus_mcp::client::{PreparedProcess, PreparedServer, ServerSource, USER_VARIABLES};
use nexus_process::{
    environment::{Environment, NetworkSettings},
    executable::Executable,
    sandbox::{
        Sandbox, SandboxCommand, SandboxError, SandboxLimits, ToolChains, WithoutRepository, WorkspaceFolders,
    },
    spawn::Invocation,
};
use tempfile::TempDir;

use super::{ServerWorkspace, entry::ProgramSettings};
use crate::cli::program_files::ProgramFiles;
use crate::settings::absolute_from_home;
use crate::settings::value::SettingValue;

/// Time for which a credential must be valid when a program starts. A program gets no other one later.
const CREDENTIAL_LIFE: Duration = Duration::from_secs(3600);
/// Shortest value of a host's variable that counts as a possible secret, in bytes. Source: our own choice.
const SHORTEST_SECRET: usize = 12;
/// Processor time of a program and its children. It may serve a chat that lasts a day.
const PROCESSOR_TIME: Duration = Duration::from_secs(24 * 3600);

/// A program that serves tools.
#[derive(Debug)]
pub(super) struct ServerProgram {
    settings: ProgramSettings,
    workspace: ServerWorkspace,
    context: BuildContext,
}

/// Values that live as long as the program.
#[derive(Debug, Default)]
struct ProgramFolders {
    /// Folders in which no repository may appear.
    without_repository: WithoutRepository,
    /// Working directory of a program that sees no workspace.
    _private: Option<TempDir>,
}

/// Layout of the sandbox of a program.
struct SandboxLayout {
    sandbox: Sandbox,
    program: PathBuf,
    folder: PathBuf,
    environment: Environment,
    folders: ProgramFolders,
}

impl ServerProgram {
    pub(super) fn new(settings: ProgramSettings, workspace: ServerWorkspace, context: BuildContext) -> Self {
        Self { settings, workspace, context }
    }

    /// Returns the host's variables.
    fn host(&self) -> Vec<(OsString, OsString)> {
        self.context.environment.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Returns the program. A path is relative to the folder of the configuration, and a name is searched for on the `PATH`.
    fn program(&self) -> PathBuf {
        match self.settings.program.contains('/') {
            true => {
                let path = self.context.base_directory.join(&self.settings.program);
                std::path::absolute(&path).unwrap_or(path)
            }
            false => self.settings.program.clone().into(),
        }
    }

    /// Adds the variables of the entry. The redactor learns the credentials.
    async fn add_variables(&self, environment: &mut Environment, redactor: &Redactor) -> Result<(), String> {
        for (name, value) in &self.settings.environment {
            let text = match value {
                SettingValue::Text(text) => text.clone(),
                SettingValue::Variable { variable } => {
                    let found = self.context.environment.get(variable);
                    let text = found.cloned().ok_or_else(|| format!("the variable {variable} is not set"))?;
                    // The value may be a secret. A short value is not one, and removing it would spoil other texts.
                    if text.len() >= SHORTEST_SECRET {
                        redactor.learn(&text);
                    }
                    text
                }
                SettingValue::Credential { credential } => {
                    let source = credential.token_source(&self.context).map_err(|error| error.to_string())?;
                    let lent = source.credential(CREDENTIAL_LIFE).await.map_err(|error| error.to_string())?;
                    redactor.learn(lent.token.expose());
                    lent.token.expose().to_owned()
                }
            };
            environment.set(name, text).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Prepares the program as this user, without a sandbox.
    async fn as_user(&self) -> Result<PreparedProcess, String> {
        let (folder, private) = self.working_folder()?;
        let environment = Environment::from_host(self.host()).network(NetworkSettings::Pass);
        let environment = environment.pass(USER_VARIABLES).pass(ToolChains::VARIABLES).build();
        let mut environment = environment.map_err(|error| error.to_string())?;
        let redactor = Redactor::default();
        self.add_variables(&mut environment, &redactor).await?;
        let path = environment.value("PATH").map(ToOwned::to_owned);
        let executable =
            Executable::find(self.program(), path.as_deref()).map_err(|error| error.to_string())?;
        let invocation = Invocation::new(executable, folder).arguments(&self.settings.arguments);
        let prepared = PreparedProcess::new(invocation.environment(environment)).with_redactor(redactor);
        Ok(prepared.with_guard(ProgramFolders {
            without_repository: WithoutRepository::default(),
            _private: private,
        }))
    }

    /// Prepares the program in the sandbox of the turn's level.
    async fn in_sandbox(&self) -> Result<PreparedProcess, String> {
        let (host, workspace, home) = (self.host(), self.workspace.clone(), self.context.home.clone());
        let (folder, private) = self.working_folder()?;
        let (program, shown) = (self.program(), self.program_folders());
        let laid_out =
            run_blocking(move || lay_out(host, &workspace, folder, private, &home, program, &shown)).await;
        let laid_out = laid_out.unwrap_or_else(|_| Err("the runtime is shutting down".to_owned()))?;
        let SandboxLayout { mut sandbox, program, folder, mut environment, folders } = laid_out;
        let redactor = Redactor::default();
        self.add_variables(&mut environment, &redactor).await?;
        if let Some(network) = self.settings.hosts.network() {
            if !network.can_open() {
                return Err(format!("it has no network: {}", SandboxError::NoNetworkOpener));
            }
            sandbox = sandbox.network(network);
        }
        // The program itself would fail later, with a message that does not name the cause.
        sandbox.check().await.map_err(|error| error.to_string())?;
        let words = std::iter::once(program.into_os_string());
        let words = words.chain(self.settings.arguments.iter().map(OsString::from));
        let command = SandboxCommand::new(words).folder(folder).environment(environment);
        let (invocation, support) = sandbox.prepare(command).await.map_err(|error| error.to_string())?;
        // The support must be dropped first: it still uses the folders.
        Ok(PreparedProcess::new(invocation).with_redactor(redactor).with_guard((support, folders)))
    }

    /// Returns the working folder. A program that sees no workspace gets an empty one.
    fn working_folder(&self) -> Result<(PathBuf, Option<TempDir>), String> {
        match (&self.workspace.folder, self.workspace.access) {
            (Some(folder), access) if access != ToolAccess::ScopedOnly => Ok((folder.clone(), None)),
            _ => {
                let private = TempDir::with_prefix("nexus-server-").map_err(|error| error.to_string())?;
                Ok((private.path().to_owned(), Some(private)))
            }
        }
    }

    /// Returns the further paths that the entry shows to the program.
    fn program_folders(&self) -> Vec<PathBuf> {
        let shown = self.settings.program_folders.iter();
        shown.map(|path| absolute_from_home(path, &self.context)).collect()
    }
}

#[async_trait]
impl ServerSource for ServerProgram {
    async fn prepare(&self) -> Result<PreparedServer, String> {
        let prepared = match self.workspace.access {
            ToolAccess::Unrestricted => self.as_user().await?,
            _ => self.in_sandbox().await?,
        };
        Ok(prepared.into())
    }
}

/// Lays out the sandbox. Blocks.
fn lay_out(
    host: Vec<(OsString, OsString)>,
    workspace: &ServerWorkspace,
    folder: PathBuf,
    private: Option<TempDir>,
    nexus_home: &Path,
    program: PathBuf,
    program_folders: &[PathBuf],
) -> Result<SandboxLayout, String> {
    let folders = match private.is_some() {
        true => WorkspaceFolders::of_private_folder(ToolAccess::ReadOnly, folder),
        false => WorkspaceFolders::resolve(workspace.access, &folder, &workspace.extra_roots, nexus_home)?,
    };
    let user_home = host.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
    let chains = ToolChains::find(host);
    let mut limits = SandboxLimits::default();
    limits.cpu = PROCESSOR_TIME;
    let mut sandbox = Sandbox::new().limits(limits);
    if let Some(home) = chains.home(folders.folder()) {
        sandbox = sandbox.home(home);
    }
    let (sandbox, without_repository) = folders.show_in(sandbox, &chains)?;
    // A bare name is looked up inside the sandbox. A path may be a link, which need not exist inside, so run its target.
    let is_path = program.components().count() > 1;
    let program = match is_path {
        false => program,
        true => program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?,
    };
    let files = ProgramFiles {
        program: is_path.then_some(program.as_path()),
        folders: program_folders,
        nexus_home,
        user_home: user_home.as_deref(),
    };
    let (sandbox, shown) = files.show_in(sandbox, &chains, &folders)?;
    let environment = chains.environment(&shown).build().map_err(|error| error.to_string())?;
    let guard = ProgramFolders { without_repository, _private: private };
    Ok(SandboxLayout { sandbox, program, folder: folders.folder().to_owned(), environment, folders: guard })
}

impl Drop for ProgramFolders {
    fn drop(&mut self) {
        // A repository that a program created could have this user run commands later.
        self.without_repository.set_aside_and_log();
    }
}

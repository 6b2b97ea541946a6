//! ToolSurroundings of commands: this machine's variables and tool chains, and the sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nexus_core::harness::run_blocking;
use nexus_core::{BuildContext, ToolAccess};
use nexus_process::environment::Environment;
use nexus_process::sandbox::{Sandbox, ToolChains};

use super::TurnFolders;

/// Shells that run command lines, the richest first.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// Parts of the host that the loop's own tools use.
#[derive(Clone)]
pub(crate) struct ToolSurroundings {
    environment: BTreeMap<String, String>,
    /// Home of Nexus, which no tool may change.
    pub(super) nexus_home: PathBuf,
    /// True if `AGENTS.md` files of the project are part of the system text.
    pub(super) project_text: bool,
}

/// Way to run command lines in one turn.
#[derive(Clone, Debug)]
pub(super) struct CommandRunner {
    pub(super) shell: &'static str,
    pub(super) folder: PathBuf,
    pub(super) environment: Environment,
    /// The sandbox; `None` to run as this user.
    pub(super) sandbox: Option<Sandbox>,
}

impl ToolSurroundings {
    pub(crate) fn new(context: &BuildContext, project_text: bool) -> Self {
        Self { environment: context.environment.clone(), nexus_home: context.home.clone(), project_text }
    }

    /// Prepares to run commands. `names` are the host's variables that commands may see. Fails with the reason and the advice if
    /// this machine has no sandbox.
    pub(super) async fn runner(
        &self,
        workspace: &TurnFolders,
        names: &[String],
    ) -> Result<CommandRunner, String> {
        let host: Vec<(OsString, OsString)> =
            self.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let (workspace, names) = (workspace.clone(), names.to_vec());
        let prepared = run_blocking(move || prepare(host, &workspace, &names)).await;
        let runner = prepared.unwrap_or_else(|_| Err("the runtime is shutting down".to_owned()))?;
        if let Some(sandbox) = &runner.sandbox {
            // Success is remembered: a machine does not lose its sandbox. A failure may have been a lack of memory.
            static WORKS: OnceLock<()> = OnceLock::new();
            if WORKS.get().is_none() {
                sandbox.check().await.map_err(|error| error.to_string())?;
                WORKS.get_or_init(|| ());
            }
        }
        Ok(runner)
    }
}

fn prepare(
    host: Vec<(OsString, OsString)>,
    workspace: &TurnFolders,
    names: &[String],
) -> Result<CommandRunner, String> {
    let shell = SHELLS.into_iter().find(|shell| Path::new(shell).exists());
    let shell = shell.ok_or_else(|| "this machine has no /bin/sh".to_owned())?;
    let folder = workspace.folder.clone();
    if workspace.access == ToolAccess::Unrestricted {
        let environment = Environment::from_host(host).pass(["HOME", "USER", "LOGNAME", "TMPDIR", "TERM"]);
        let environment = environment.pass(ToolChains::VARIABLES).pass(names).build();
        let environment = environment.map_err(|error| error.to_string())?;
        return Ok(CommandRunner { shell, folder, environment, sandbox: None });
    }
    let chains = ToolChains::find(host.clone());
    let mut sandbox = Sandbox::new();
    if let Some(home) = chains.home(&folder) {
        sandbox = sandbox.home(home);
    }
    for chain in chains.folders() {
        sandbox = sandbox.tool_chain(chain);
    }
    for root in workspace.roots() {
        sandbox = match workspace.access {
            ToolAccess::WorkspaceWrite => sandbox.writable(root, root),
            _ => sandbox.read_only(root, root),
        };
    }
    for path in workspace.protected() {
        sandbox = match path == workspace.nexus_home {
            true => sandbox.hidden(&path),
            // A file `.git` of a linked working tree, or a folder. A link to one cannot be mounted.
            false if path.symlink_metadata().is_ok_and(|found| !found.is_symlink()) => {
                sandbox.read_only(&path, &path)
            }
            false => sandbox,
        };
    }
    let roots: Vec<PathBuf> = workspace.roots().cloned().collect();
    let host_variables =
        Environment::from_host(host).pass(names).build().map_err(|error| error.to_string())?;
    let mut environment = chains.environment(&roots);
    for (name, value) in
        host_variables.iter().filter(|(name, _)| names.iter().any(|known| *name == known.as_str()))
    {
        environment = environment.with(name, value);
    }
    let environment = environment.build().map_err(|error| error.to_string())?;
    Ok(CommandRunner { shell, folder, environment, sandbox: Some(sandbox) })
}

// The variables of the host may be secrets.
impl std::fmt::Debug for ToolSurroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolSurroundings").field("home", &self.nexus_home).finish_non_exhaustive()
    }
}

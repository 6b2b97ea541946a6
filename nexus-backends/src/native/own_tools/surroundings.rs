//! Surroundings of commands: this machine's variables and tool chains, and the sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nexus_core::harness::run_blocking;
use nexus_core::{BuildContext, ToolAccess};
use nexus_process::environment::Environment;
use nexus_process::sandbox::{
    Sandbox, SandboxError, SandboxNetwork, ToolChains, WithoutRepository, WorkspaceFolders,
};

use super::project_text;
use crate::host_list::{HostList, NetworkUser, TurnNetwork};

/// User of the network in messages.
const NETWORK_USER: NetworkUser = NetworkUser { program: "a command", key: "command_hosts" };
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
    /// Network of commands in the sandbox.
    pub(super) network: Option<SandboxNetwork>,
}

/// Way to run command lines in one turn.
#[derive(Clone, Debug)]
pub(super) struct CommandRunner {
    pub(super) shell: &'static str,
    pub(super) folder: PathBuf,
    pub(super) environment: Environment,
    /// The sandbox; `None` to run as this user.
    pub(super) sandbox: Option<Sandbox>,
    /// Network of the sandbox.
    pub(super) network: Option<Arc<TurnNetwork>>,
    /// Writable folders in which no repository may appear.
    pub(super) without_git: WithoutRepository,
}

impl ToolSurroundings {
    pub(crate) fn new(context: &BuildContext, project_text: bool, hosts: &HostList) -> Self {
        Self {
            environment: context.environment.clone(),
            nexus_home: context.home.clone(),
            project_text,
            network: hosts.network(),
        }
    }

    /// Returns the `AGENTS.md` files that are part of the system text of a turn in `folder`. Blocks.
    pub(in crate::native) fn project_files(&self, folder: &Path) -> Vec<PathBuf> {
        match self.project_text {
            true => project_text::files(folder),
            false => Vec::new(),
        }
    }

    /// Returns the network of a turn's commands, with the reason if they have none in spite of the setting.
    fn turn_network(&self) -> (Option<Arc<TurnNetwork>>, Option<String>) {
        match &self.network {
            Some(network) if network.can_open() => {
                (Some(Arc::new(TurnNetwork::new(network.with_new_record(), NETWORK_USER))), None)
            }
            Some(_) => (None, Some(SandboxError::NoNetworkOpener.to_string())),
            None => (None, None),
        }
    }

    /// Prepares to run commands. `names` are the host's variables that commands may see. Returns a warning if commands have no network
    /// in spite of the setting. Fails with the reason and the advice if this machine has no sandbox.
    pub(super) async fn runner(
        &self,
        workspace: &WorkspaceFolders,
        names: &[String],
    ) -> Result<(CommandRunner, Option<String>), String> {
        let host: Vec<(OsString, OsString)> =
            self.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let (workspace, names) = (workspace.clone(), names.to_vec());
        let prepared = run_blocking(move || prepare(host, &workspace, &names)).await;
        let mut runner = prepared.unwrap_or_else(|_| Err("the runtime is shutting down".to_owned()))?;
        let Some(sandbox) = runner.sandbox.take() else { return Ok((runner, None)) };
        let (network, mut fault) = self.turn_network();
        if let Some(network) = network {
            let connected = sandbox.clone().network(network.sandbox_network());
            match connected.check().await {
                Ok(()) => {
                    (runner.sandbox, runner.network) = (Some(connected), Some(network));
                    return Ok((runner, None));
                }
                // Commands without a network are better than none.
                Err(error) => fault = Some(error.to_string()),
            }
        }
        // Each layout can fail by itself, so success of one is not remembered for another.
        sandbox.check().await.map_err(|error| error.to_string())?;
        runner.sandbox = Some(sandbox);
        Ok((runner, fault))
    }
}

fn prepare(
    host: Vec<(OsString, OsString)>,
    workspace: &WorkspaceFolders,
    names: &[String],
) -> Result<CommandRunner, String> {
    let shell = SHELLS.into_iter().find(|shell| Path::new(shell).exists());
    let shell = shell.ok_or_else(|| "this machine has no /bin/sh".to_owned())?;
    let folder = workspace.folder().to_owned();
    if workspace.access() == ToolAccess::Unrestricted {
        let environment = Environment::from_host(host).pass(["HOME", "USER", "LOGNAME", "TMPDIR", "TERM"]);
        let environment = environment.pass(ToolChains::VARIABLES).pass(names).build();
        let environment = environment.map_err(|error| error.to_string())?;
        return Ok(CommandRunner {
            shell,
            folder,
            environment,
            sandbox: None,
            network: None,
            without_git: WithoutRepository::default(),
        });
    }
    let chains = ToolChains::find(host.clone());
    let mut sandbox = Sandbox::new();
    if let Some(home) = chains.home(&folder) {
        sandbox = sandbox.home(home);
    }
    let (sandbox, without_git) = workspace.show_in(sandbox, &chains)?;
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
    Ok(CommandRunner { shell, folder, environment, sandbox: Some(sandbox), network: None, without_git })
}

// The variables of the host may be secrets.
impl std::fmt::Debug for ToolSurroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolSurroundings").field("home", &self.nexus_home).finish_non_exhaustive()
    }
}

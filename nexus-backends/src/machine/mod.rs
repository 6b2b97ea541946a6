//! This machine, as detectors see it: its search path, programs, logins and local servers.

#[cfg(feature = "native")]
mod listeners;
mod search_path;

#[cfg(any(feature = "cli", feature = "login", feature = "native"))]
use std::time::Duration;
use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use nexus_core::{
    BuildContext,
    detection::{LocalAnswer, Machine, OwnLoginState, ProgramAnswer, ProgramRun, ProgramSearch},
};

use self::search_path::SearchPath;

/// Longest run of a program for its version or login status. Source: our own choice; the slowest known one takes 0.85 s.
#[cfg(feature = "cli")]
const PROGRAM_LIMIT: Duration = Duration::from_secs(2);
/// Longest wait for a stored login. A keyring may wait for a person.
#[cfg(feature = "login")]
const LOGIN_LIMIT: Duration = Duration::from_secs(2);
/// Longest wait for a server on this machine.
#[cfg(feature = "native")]
const SERVER_LIMIT: Duration = Duration::from_secs(1);
/// Maximum amount of output of a program that is read, in bytes.
#[cfg(feature = "cli")]
const MOST_OUTPUT: usize = 64 << 10;

/// The machine of this process.
pub(crate) struct HostMachine {
    context: BuildContext,
    search_path: SearchPath,
    #[cfg(feature = "login")]
    login: fn(&str) -> Option<crate::OwnLogin>,
}

impl HostMachine {
    /// Creates the machine of a context. The current folder is the project, whose programs are not used.
    pub(crate) fn new(context: &BuildContext) -> Self {
        let variable = context.environment.get("PATH").map(String::as_str);
        let project = std::env::current_dir().ok();
        let search_path =
            SearchPath::judge(variable.unwrap_or_default(), project.as_deref(), home(context).as_deref());
        Self {
            context: context.clone(),
            search_path,
            #[cfg(feature = "login")]
            login: |_| None,
        }
    }

    /// Sets the function that finds a login by its name.
    #[cfg(feature = "login")]
    pub(crate) fn with_logins(self, login: fn(&str) -> Option<crate::OwnLogin>) -> Self {
        Self { login, ..self }
    }
}

/// Returns the home folder of the person.
fn home(context: &BuildContext) -> Option<PathBuf> {
    context.environment.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

// The context contains the environment, which may contain secrets.
impl fmt::Debug for HostMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMachine").field("search_path", &self.search_path).finish_non_exhaustive()
    }
}

#[async_trait]
impl Machine for HostMachine {
    fn variable(&self, name: &str) -> Option<String> {
        self.context.environment.get(name).filter(|value| !value.is_empty()).cloned()
    }

    fn home(&self) -> Option<PathBuf> {
        home(&self.context)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn program(&self, name: &str) -> ProgramSearch {
        self.search_path.program(name)
    }

    fn search_path(&self) -> String {
        self.search_path.usable()
    }

    #[cfg(feature = "cli")]
    async fn run(&self, run: ProgramRun<'_>) -> ProgramAnswer {
        run_program(self, run).await.unwrap_or_else(ProgramAnswer::Failed)
    }

    #[cfg(not(feature = "cli"))]
    async fn run(&self, _run: ProgramRun<'_>) -> ProgramAnswer {
        ProgramAnswer::Failed("this build starts no programs".to_owned())
    }

    #[cfg(feature = "login")]
    async fn own_login(&self, name: &str) -> OwnLoginState {
        let Some(login) = (self.login)(name) else { return OwnLoginState::None };
        let manager = match login.manager(&self.context, &crate::http::Network::default()) {
            Ok(manager) => manager,
            Err(error) => return OwnLoginState::Unusable(error.to_string()),
        };
        match tokio::time::timeout(LOGIN_LIMIT, manager.look()).await {
            Ok(Ok(None)) => OwnLoginState::None,
            Ok(Ok(Some(stored))) => {
                let now = std::time::SystemTime::now();
                let is_over = stored.login.life_left(now).is_some_and(|left| left.is_zero());
                match stored.refused {
                    Some(_) => {
                        OwnLoginState::Unusable(format!("the login is over: run `nexus login {name}`"))
                    }
                    // With a refresh token, the next turn renews the login by itself.
                    None if is_over && stored.login.refresh_token.is_none() => {
                        OwnLoginState::Unusable(format!("the login has expired: run `nexus login {name}`"))
                    }
                    None => OwnLoginState::Usable,
                }
            }
            Ok(Err(error)) => OwnLoginState::Unusable(error.to_string()),
            Err(_) => OwnLoginState::Unusable("the keyring does not answer".to_owned()),
        }
    }

    #[cfg(not(feature = "login"))]
    async fn own_login(&self, _name: &str) -> OwnLoginState {
        OwnLoginState::None
    }

    #[cfg(feature = "native")]
    async fn local_server(&self, address: SocketAddr, path: &str) -> LocalAnswer {
        // Checked before a byte is sent, because another user's server must not get a request.
        match listeners::listener(address) {
            listeners::Listener::None => return LocalAnswer::Nothing,
            listeners::Listener::OfOther(user) => {
                return LocalAnswer::Refused(format!(
                    "the server belongs to another user ({user}): if you trust that user, name the address in nexus.yaml"
                ));
            }
            listeners::Listener::Usable => {}
        }
        let answered = tokio::time::timeout(SERVER_LIMIT, fetch(address, path, &self.context)).await;
        answered.unwrap_or_else(|_| LocalAnswer::Failed("the server does not answer".to_owned()))
    }

    #[cfg(not(feature = "native"))]
    async fn local_server(&self, _address: SocketAddr, _path: &str) -> LocalAnswer {
        LocalAnswer::Nothing
    }
}

/// Requests a path from a server on a loopback address.
#[cfg(feature = "native")]
async fn fetch(address: SocketAddr, path: &str, context: &BuildContext) -> LocalAnswer {
    use crate::native::{settings::NativeSettings, transport::Transport};

    let settings =
        NativeSettings { base_url: Some(format!("http://{address}")), ..NativeSettings::default() };
    let transport = match Transport::new(&settings, context) {
        Ok(transport) => transport,
        Err(error) => return LocalAnswer::Failed(error.to_string()),
    };
    match transport.get(path, http::header::HeaderMap::new()).await {
        Ok(fetched) if fetched.status.is_success() => {
            LocalAnswer::Body(String::from_utf8_lossy(&fetched.body).into_owned())
        }
        Ok(fetched) if fetched.status == http::StatusCode::UNAUTHORIZED => {
            LocalAnswer::Failed("the server requires a key: name it in a configuration".to_owned())
        }
        // Other services use the same ports, and need not speak HTTP.
        Ok(_) | Err(_) => LocalAnswer::Nothing,
    }
}

/// Runs a program in an empty folder, with an environment that has the usable folders as its `PATH`.
#[cfg(feature = "cli")]
async fn run_program(machine: &HostMachine, run: ProgramRun<'_>) -> Result<ProgramAnswer, String> {
    use nexus_process::{
        environment::Environment,
        executable::Executable,
        spawn::{Bounds, EndedBy, Invocation},
    };

    let executable = Executable::at(run.program).map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| {
        format!("no folder can be created in {}: {error}", std::env::temp_dir().display())
    })?;
    let host = machine.context.environment.iter().map(|(name, value)| (name.into(), value.into()));
    let mut environment = Environment::from_host(host)
        .with("PATH", machine.search_path.usable())
        // An empty home, unless the detector passes the real one in the next line.
        .with("HOME", folder.path())
        .pass(run.pass);
    for (name, value) in run.set {
        environment = environment.with(*name, *value);
    }
    let environment = environment.build().map_err(|error| error.to_string())?;
    let mut bounds = Bounds::default();
    bounds.line_bytes = MOST_OUTPUT;
    bounds.time_limit = Some(PROGRAM_LIMIT);
    let process = Invocation::new(executable, folder.path())
        .arguments(run.arguments)
        .environment(environment)
        .bounds(bounds)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut output = String::new();
    while let Some(line) = process.next_line().await {
        // Reading continues beyond the bound, because a program blocks if its output is not read.
        if output.len() < MOST_OUTPUT {
            output.push_str(&String::from_utf8_lossy(&line.bytes));
            output.push('\n');
        }
    }
    let exit = process.wait().await;
    Ok(match exit.ended_by {
        EndedBy::TimeLimit => ProgramAnswer::Slow,
        _ => ProgramAnswer::Ended { is_success: exit.status.is_success(), output },
    })
}

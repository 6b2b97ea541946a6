//! Parts of the server besides the queue of tasks.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::Duration,
};

use nexus::{BuildContext, CancelToken, Router};
use nexus_broker::Views;
use nexus_debates::DebateTools;
use nexus_mcp::{HttpServer, HttpSettings, HttpToken, ServerFile, ServerFileError, ToolService};
use nexus_tasks::{TaskTools, Tasks};
use tokio::time::sleep;

use super::{
    HomeClaim,
    event::ServeEvent,
    settings::{RetainedKind, RetentionRule, ServeSettings},
};
use crate::{
    args::{CleanArgs, ConfigArgs, HomeItemKind},
    broker_home::{self, BrokerHome},
    broker_run::BrokerRun,
    clean::clean_by_rule,
    command_error::{CommandError, with_causes},
    debate,
    output::AnswerWriter,
    works::blocking,
};

/// Pause between two looks at a part that another program runs.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Pause after the failure of a part.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);
/// Time between two removals by the rules of retention.
const CLEAN_EVERY: Duration = Duration::from_secs(60 * 60);
/// Time between two looks at the file of this program.
const LOOK_AT_PROGRAM: Duration = Duration::from_secs(60);

/// Parts of a server, and what they need.
pub(super) struct ServerParts<'a> {
    pub(super) out: AnswerWriter,
    pub(super) config: &'a ConfigArgs,
    pub(super) home: &'a Path,
    pub(super) settings: &'a ServeSettings,
    pub(super) router: &'a Router,
    pub(super) tasks: &'a Tasks,
    /// Cancelled if no further work may begin.
    pub(super) drain: &'a CancelToken,
    /// Cancelled to stop running turns.
    pub(super) end: &'a CancelToken,
}

impl ServerParts<'_> {
    /// Runs all parts until the server drains. `claim` announces the address of the task tools.
    pub(super) async fn run(&self, claim: &HomeClaim, webhooks: Option<SocketAddr>) {
        let tasks = self.tasks.clone();
        let task_tools = TaskTools::new(move || Ok(tasks.clone()));
        let opened = debate::open(self.router, BuildContext::from_process());
        let debate_tools = async {
            match opened {
                Ok(debates) => {
                    let tools = DebateTools::new(move || Ok(debates.clone()));
                    self.serve_tools("nexus mcp debate", "debate", self.settings.debate_tools, tools, None)
                        .await;
                }
                Err(error) => self.problem(&format!("debates cannot be served: {error}")),
            }
        };
        tokio::join!(
            self.serve_tools("nexus mcp spawn", "spawn", self.settings.task_tools, task_tools, Some(claim)),
            debate_tools,
            self.run_broker(webhooks.or(self.settings.webhooks)),
            self.clean(),
        );
    }

    /// Serves tools over HTTP, once no other program of the home serves them.
    async fn serve_tools(
        &self,
        command: &'static str,
        files: &'static str,
        address: SocketAddr,
        tools: impl ToolService,
        claim: Option<&HomeClaim>,
    ) {
        let tools = Arc::new(tools);
        let mut is_deferred = false;
        while !self.drain.is_cancelled() {
            let home = self.home.to_owned();
            let claimed = blocking(move || Ok::<_, CommandError>(ServerFile::claim(&home, files))).await;
            let pause = match claimed {
                Ok(Ok(own)) => match self.bind(Arc::clone(&tools), files, address, &own).await {
                    Ok(server) => {
                        if let Some(claim) = claim {
                            self.announce(claim, server.address());
                        }
                        if !server.address().ip().is_loopback() {
                            self.problem(&format!(
                                "other machines can reach {}, and its traffic is not encrypted",
                                server.address()
                            ));
                        }
                        ServeEvent::Tools { command, url: server.url() }.show(self.out);
                        server.serve(self.drain.cancelled()).await;
                        return;
                    }
                    Err(error) => {
                        self.problem(&format!("the tools of `{command}` cannot be served: {error}; the next attempt is in a minute"));
                        FAILURE_PAUSE
                    }
                },
                Ok(Err(ServerFileError::Running { running })) => {
                    if !std::mem::replace(&mut is_deferred, true) {
                        let process = running.as_ref().map(|running| format!(" (process {})", running.pid));
                        let reason = format!(
                            "`{command} --http` already serves them{}; this server does so when it ends",
                            process.unwrap_or_default()
                        );
                        ServeEvent::Deferred { part: "tools", reason }.show(self.out);
                        if let (Some(claim), Some(running)) = (claim, running) {
                            self.announce(claim, running.address);
                        }
                    }
                    LOOK_AGAIN
                }
                Ok(Err(error)) => {
                    self.problem(&with_causes(&error));
                    FAILURE_PAUSE
                }
                Err(error) => {
                    self.problem(&error.to_string());
                    FAILURE_PAUSE
                }
            };
            self.rest(pause).await;
        }
    }

    /// Opens the HTTP server of some tools, and announces its address.
    async fn bind<S: ToolService>(
        &self,
        tools: Arc<S>,
        files: &str,
        address: SocketAddr,
        own: &ServerFile,
    ) -> Result<HttpServer, String> {
        let path = ServerFile::token_path(self.home, files);
        let token = HttpToken::load_or_create(&path).map_err(|error| with_causes(&error))?;
        let server = HttpServer::bind(tools, HttpSettings::new(address, token)).await;
        let server = server.map_err(|error| format!("{address} cannot be listened on: {error}"))?;
        own.announce(server.address()).map_err(|error| with_causes(&error))?;
        Ok(server)
    }

    /// Writes the address that a second server names. Its absence harms nothing else.
    fn announce(&self, claim: &HomeClaim, address: SocketAddr) {
        if let Err(error) = claim.announce(address) {
            self.problem(&with_causes(&error));
        }
    }

    /// Runs the agents and triggers of the section `broker`, once no other broker of the home does.
    async fn run_broker(&self, webhooks: Option<SocketAddr>) {
        if self.router.section("broker").is_none() {
            return;
        }
        let mut is_deferred = false;
        while !self.drain.is_cancelled() {
            let begun = blocking(|| Ok::<_, CommandError>(Views::begin(&broker_home::folder()))).await;
            let pause = match begun {
                Ok(Ok(views)) if views.is_writer() => match self.run_broker_with(views, webhooks).await {
                    Ok(()) => return,
                    Err(error) => {
                        self.problem(&format!("the broker failed: {error}; the next attempt is in a minute"));
                        FAILURE_PAUSE
                    }
                },
                Ok(Ok(_)) => {
                    if !std::mem::replace(&mut is_deferred, true) {
                        let reason = "`nexus broker run` already runs them; this server does so when it ends"
                            .to_owned();
                        ServeEvent::Deferred { part: "agents", reason }.show(self.out);
                    }
                    LOOK_AGAIN
                }
                Ok(Err(error)) => {
                    self.problem(&format!("the broker failed: {error}; the next attempt is in a minute"));
                    FAILURE_PAUSE
                }
                Err(error) => {
                    self.problem(&error.to_string());
                    FAILURE_PAUSE
                }
            };
            self.rest(pause).await;
        }
    }

    async fn run_broker_with(&self, views: Views, webhooks: Option<SocketAddr>) -> Result<(), CommandError> {
        let home = BrokerHome::load(self.config)?;
        let memory = blocking(broker_home::memory).await?;
        let broker = home.open_to_run(home.settings.max_turns_at_once, memory.clone()).await?;
        for (name, machine) in home.configure(&broker).await? {
            self.problem(&format!(
                "{name} is an agent of the machine {machine}, which runs its turns; `nexus broker start {name} --here` moves it"
            ));
        }
        let (drain, end) = (self.drain.clone(), self.end.clone());
        let run = BrokerRun { broker, memory, views, webhooks, drain, end };
        run.until_drained(&home, |event, text| ServeEvent::Broker { event, text }.show(self.out)).await
    }

    /// Removes old work by the rules of the configuration, every hour.
    async fn clean(&self) {
        while !self.drain.is_cancelled() && !self.settings.retention.is_empty() {
            for rule in &self.settings.retention {
                let show = |item| ServeEvent::Cleaned { item }.show(self.out);
                if let Err(error) = clean_by_rule(self.config, &options_of(rule), show).await {
                    self.problem(&format!(
                        "old work cannot be removed: {error}; the next attempt is in an hour"
                    ));
                }
            }
            self.rest(CLEAN_EVERY).await;
        }
    }

    /// Pauses, unless the server drains.
    async fn rest(&self, pause: Duration) {
        tokio::select! {
            () = sleep(pause) => {}
            () = self.drain.cancelled() => {}
        }
    }

    fn problem(&self, message: &str) {
        ServeEvent::Problem { message: message.to_owned() }.show(self.out);
    }
}

/// Returns the options of `nexus clean` with the meaning of a rule.
fn options_of(rule: &RetentionRule) -> CleanArgs {
    let kind = |kind: &RetainedKind| match kind {
        RetainedKind::Task => HomeItemKind::Task,
        RetainedKind::Debate => HomeItemKind::Debate,
        RetainedKind::Conversation => HomeItemKind::Conversation,
        RetainedKind::Session => HomeItemKind::Session,
        RetainedKind::Undo => HomeItemKind::Undo,
    };
    CleanArgs {
        kinds: rule.kinds.iter().map(kind).collect(),
        older_than: rule.age(),
        status: rule.statuses.clone(),
        keep: rule.keep,
        unlanded: false,
        dry_run: false,
        yes: true,
    }
}

/// The file of this program at its start: its path, device, inode and time of change.
static PROGRAM: LazyLock<Option<(PathBuf, ProgramFile)>> = LazyLock::new(|| {
    let path = std::env::current_exe().ok()?;
    let file = ProgramFile::at(&path)?;
    Some((path, file))
});

#[derive(PartialEq, Eq)]
struct ProgramFile {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl ProgramFile {
    fn at(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;

        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some(Self { device: found.dev(), inode: found.ino(), changed: (found.mtime(), found.mtime_nsec()) })
    }
}

/// Reads the file of this program, for a later comparison.
pub(super) fn note_program() {
    LazyLock::force(&PROGRAM);
}

/// Waits until another file has replaced this program.
pub(super) async fn binary_replaced() {
    let Some((path, file)) = &*PROGRAM else { return std::future::pending().await };
    loop {
        sleep(LOOK_AT_PROGRAM).await;
        // A missing file is being replaced, or the program was removed: then the running one continues.
        let Some(now) = ProgramFile::at(path).filter(|now| now != file) else { continue };
        // An installer may still write it. A file that stays as it is for a while is complete.
        sleep(LOOK_AGAIN).await;
        if ProgramFile::at(path).is_some_and(|later| later == now) {
            return;
        }
    }
}

/// Replaces this process by the new program, with the same arguments. Returns only if that fails.
pub(super) fn run_again() -> CommandError {
    use std::os::unix::process::CommandExt as _;

    let Some((path, _)) = &*PROGRAM else {
        return CommandError::failed("the path of this program is unknown");
    };
    let error = std::process::Command::new(path).args(std::env::args_os().skip(1)).exec();
    CommandError::failed(format_args!("the new program cannot be started: {}: {error}", path.display()))
}

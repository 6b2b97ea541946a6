//! A program that calls the server's tools, as its user would have it: registered by what `--help` says.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use nexus_testkit::sim::{Conversation, Dialect, Reply, Scenario, Sim};

use super::{
    models::{self, Served},
    stage::{CALLER_TOKEN, Stage},
};

/// Longest that a walk may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// One of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Claude,
    Codex,
    Grok,
}

/// How a program reaches the tools.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way<'s> {
    /// It starts the server.
    Stdio,
    /// It starts what forwards to the server that runs.
    Attach,
    /// It sends its calls to the server that runs.
    Http(&'s HttpServer),
}

/// A server that runs for the home of a stage, until it is dropped.
#[derive(Debug)]
pub(crate) struct HttpServer {
    child: Child,
    url: String,
    token: String,
}

/// A program that calls, and its model.
pub(crate) struct Calling {
    pub(crate) child: Child,
    pub(crate) model: Sim,
    said: PathBuf,
}

/// What the help says of one program.
struct Lines {
    add: String,
    call: Option<String>,
    settings: Vec<String>,
}

impl Caller {
    /// The heading of its lines.
    const fn heading(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code:",
            Self::Codex => "Codex:",
            Self::Grok => "Grok:",
        }
    }

    fn lines(self, stage: &Stage, served: Served, way: Way<'_>) -> Lines {
        let help = String::from_utf8(stage.nexus(&["mcp", "spawn", "--help"]).stdout).unwrap();
        let help = match served {
            Served::Tasks => help,
            Served::Debates => {
                let own = String::from_utf8(stage.nexus(&["mcp", "debate", "--help"]).stdout).unwrap();
                // It says to do the same with these in their place.
                assert!([served.name(), served.command()].iter().all(|words| own.contains(words)), "{own}");
                help.replace(Served::Tasks.command(), served.command())
                    .replace(Served::Tasks.name(), served.name())
            }
        };
        let over_http: Vec<_> =
            help.lines().skip_while(|line| !line.starts_with("Over HTTP")).map(str::trim).collect();
        let section: Vec<_> = help
            .lines()
            .skip_while(|line| *line != self.heading())
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.strip_prefix("    "))
            .map(str::to_owned)
            .collect();
        let (commands, settings): (Vec<_>, Vec<_>) = section
            .into_iter()
            .partition(|line| ["claude ", "codex ", "grok "].iter().any(|name| line.starts_with(name)));
        let (mut add, mut call): (Vec<_>, Vec<_>) =
            commands.into_iter().partition(|line| line.contains(" mcp add "));
        assert_eq!(add.len(), 1, "{self:?}: {help}");
        let add = match way {
            Way::Stdio => add.remove(0),
            Way::Attach => {
                assert!(over_http.iter().any(|line| line.starts_with("nexus mcp spawn --attach ")), "{help}");
                add.remove(0).replace("nexus mcp spawn", "nexus mcp spawn --attach")
            }
            Way::Http(server) => {
                let line = over_http.iter().find(|line| line.contains(" -t http "));
                let line = line.unwrap_or_else(|| panic!("{help}"));
                line.replace("URL", &server.url).replace("TOKEN", &server.token)
            }
        };
        Lines { add, call: call.pop(), settings }
    }

    /// Registers the server and starts the program with a prompt, before a model that walks.
    pub(crate) fn start(self, stage: &Stage) -> Calling {
        self.start_by(stage, Way::Stdio, None)
    }

    /// As [`Caller::start`], by another way; `wait_s` is what its model says in its calls.
    pub(crate) fn start_by(self, stage: &Stage, way: Way<'_>, wait_s: Option<u64>) -> Calling {
        let project = stage.project().to_string_lossy().into_owned();
        let walks = move |conversation: &Conversation| Some(models::caller(conversation, &project, wait_s));
        self.start_with(stage, Served::Tasks, way, walks)
    }

    /// Registers a server and starts the program with a prompt, before a model that answers so.
    pub(crate) fn start_with(
        self,
        stage: &Stage,
        served: Served,
        way: Way<'_>,
        walks: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static,
    ) -> Calling {
        let dialect = match self {
            Self::Claude => Dialect::Anthropic,
            Self::Codex => Dialect::Responses,
            Self::Grok => Dialect::Xai,
        };
        let model = Sim::builder(dialect, Scenario::text("")).answered_by(walks).start().unwrap();
        let lines = self.lines(stage, served, way);
        if self == Self::Codex {
            let folder = stage.home().join(".codex");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("config.toml"), codex_provider(&model.base_url())).unwrap();
        }
        let added = self.command(stage, &model, &lines.add, &[]).output().unwrap();
        assert!(added.status.success(), "{}: {}", lines.add, String::from_utf8_lossy(&added.stderr));
        if self == Self::Codex {
            let file = stage.home().join(".codex/config.toml");
            let heading = format!("[mcp_servers.{}]\n", served.name());
            let config = fs::read_to_string(&file).unwrap();
            assert!(config.contains(&heading), "{config}");
            let settings = lines.settings.join("\n");
            fs::write(&file, config.replace(&heading, &format!("{heading}{settings}\n"))).unwrap();
        }
        let prompt = "Walk it to its end.";
        let (call, arguments): (String, Vec<&str>) = match (self, lines.call) {
            (Self::Claude, Some(line)) => (
                line,
                vec![
                    "-p",
                    prompt,
                    "--model",
                    "claude-sonnet-5",
                    "--output-format",
                    "stream-json",
                    "--verbose",
                ],
            ),
            (Self::Grok, Some(line)) => (line, vec!["--single", prompt, "--output-format", "streaming-json"]),
            (Self::Codex, None) => ("codex".to_owned(), vec!["exec", "--json", prompt]),
            (_, call) => panic!("{self:?} is called otherwise: {call:?}"),
        };
        let said = stage.path().join("said");
        let child = self
            .command(stage, &model, &call, &arguments)
            .stdout(File::create(&said).unwrap())
            .stderr(File::create(stage.path().join("complained")).unwrap())
            .spawn()
            .unwrap();
        Calling { child, model, said }
    }

    /// A line for the shell, with further arguments, where this program finds its model.
    fn command(self, stage: &Stage, model: &Sim, line: &str, arguments: &[&str]) -> Command {
        let mut command = stage.command("/bin/sh");
        command.args(["-c", &format!("exec {line} \"$@\""), "sh"]).args(arguments);
        match self {
            Self::Claude => command
                .env("ANTHROPIC_BASE_URL", model.base_url())
                .env("ANTHROPIC_API_KEY", CALLER_TOKEN)
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            Self::Codex => command.env("CALLER_TOKEN", CALLER_TOKEN),
            Self::Grok => command
                .env("XAI_API_KEY", CALLER_TOKEN)
                .env("GROK_XAI_API_BASE_URL", model.base_url())
                .env("GROK_CLI_CHAT_PROXY_BASE_URL", model.base_url())
                .env("GROK_DISABLE_AUTOUPDATER", "1")
                .env("GROK_TELEMETRY_ENABLED", "0"),
        };
        command
    }
}

/// What points Codex at a model of this machine.
fn codex_provider(base_url: &str) -> String {
    format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"simulated\"\n\n[features]\napps = false\nplugins = false\n\n\
         [analytics]\nenabled = false\n\n[model_providers.simulated]\nname = \"simulated\"\nbase_url = \"{base_url}\"\n\
         wire_api = \"responses\"\nenv_key = \"CALLER_TOKEN\"\nsupports_websockets = false\n"
    )
}

impl HttpServer {
    /// What `nexus mcp spawn --http` serves at a port that is free.
    pub(crate) fn start(stage: &Stage) -> Self {
        let said = stage.path().join("served");
        let mut command = stage.command(env!("CARGO_BIN_EXE_nexus"));
        let child = command
            .args(["mcp", "spawn", "--http", "0"])
            .stdout(File::create(&said).unwrap())
            .stderr(File::create(stage.path().join("server-complained")).unwrap())
            .spawn()
            .unwrap();
        let began = Instant::now();
        let line = loop {
            let text = fs::read_to_string(&said).unwrap();
            if text.ends_with('\n') {
                break text;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "the server says nothing");
            thread::sleep(Duration::from_millis(20));
        };
        let (url, rest) = line.split_once(" (the token is in ").unwrap_or_else(|| panic!("{line}"));
        let token = fs::read_to_string(rest.trim_end().trim_end_matches(')')).unwrap();
        Self { child, url: url.to_owned(), token: token.trim().to_owned() }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

impl Calling {
    /// Waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            if began.elapsed() > PATIENCE {
                let _ = self.child.kill();
                panic!("the caller does not end; it said: {}", self.said());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// All that it printed.
    pub(crate) fn said(&self) -> String {
        let complaints = self.said.with_file_name("complained");
        [&self.said, &complaints].map(|file| fs::read_to_string(file).unwrap_or_default()).concat()
    }
}

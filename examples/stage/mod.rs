//! Environment of an example: fake CLIs, a simulated model server, or the user's own subscriptions.
//!
//! The code of an example is the same in each. For fake CLIs, `PATH` begins with a folder that contains `claude`, `codex`
//! and `grok`. Each is a link to this program, which then imitates that CLI. Nexus starts and reads them as it does the
//! real programs.

#![allow(dead_code, reason = "each example uses its part of the stage")]

mod show;

use std::{collections::BTreeMap, error::Error, path::PathBuf, process::exit};

use nexus::{BuildContext, Router, TurnError, TurnHost, TurnRequest, TurnResult};
use nexus_testkit::{
    fake_cli::{FakeCli, FakeScript, Vendor},
    sim::{Dialect, Scenario, Sim},
};
use show::Show;

/// First line of the output if the user names no configuration.
const NO_LOGIN: &str = "No login needed: running on the embedded simulator.";

/// Error of an example's `main`.
pub(crate) type AnyError = Box<dyn Error + Send + Sync>;

/// Scripts of the fake CLIs.
pub(crate) struct Cast {
    /// Script of the fake Claude Code.
    pub(crate) claude: Scenario,
    /// Script of the fake Codex.
    pub(crate) codex: Scenario,
    /// Script of the fake Grok.
    pub(crate) grok: Scenario,
}

impl Cast {
    /// Gives all three CLIs the same script.
    pub(crate) fn all(scenario: Scenario) -> Self {
        Self { claude: scenario.clone(), codex: scenario.clone(), grok: scenario }
    }
}

/// Environment of an example.
pub(crate) struct Stage {
    context: BuildContext,
    config: Option<PathBuf>,
    /// Fake CLIs. Each removes its folder when it is dropped.
    _fakes: Vec<FakeCli>,
    model: Option<Sim>,
    scratch: tempfile::TempDir,
}

impl Stage {
    /// Reads the command line, and prepares the environment. An example must call this first, because this program may
    /// have been started as one of the fake CLIs.
    pub(crate) fn open(about: &str, cast: Cast) -> Result<Self, AnyError> {
        nexus_testkit::fake_cli::run_if_invoked();
        let (is_real, config) = arguments(about);
        let scratch = tempfile::tempdir()?;
        let context = BuildContext::from_process();
        if is_real {
            println!("Running for real, on your own subscriptions.\n");
            return Ok(Self { context, config, _fakes: Vec::new(), model: None, scratch });
        }
        println!("{NO_LOGIN} `-- --real` uses your own subscriptions.\n");
        let fakes = [(Vendor::Claude, cast.claude), (Vendor::Codex, cast.codex), (Vendor::Grok, cast.grok)];
        let fakes = fakes.map(|(vendor, scenario)| FakeCli::install(vendor, &FakeScript::imitate(scenario)));
        let fakes = fakes.into_iter().collect::<Result<Vec<_>, _>>()?;
        let context = simulated(&context, &fakes, &scratch)?;
        Ok(Self { context, config, _fakes: fakes, model: None, scratch })
    }

    /// As [`Stage::open`], with a simulated model server instead of CLIs.
    pub(crate) fn open_native(about: &str, dialect: Dialect, scenario: Scenario) -> Result<Self, AnyError> {
        let (is_real, config) = arguments(about);
        let scratch = tempfile::tempdir()?;
        if is_real && config.is_none() {
            return Err("name the servers in a file: `-- --config nexus.yaml`".into());
        }
        let model = Sim::start(dialect, scenario)?;
        let context = match &config {
            Some(_) => BuildContext::from_process(),
            None => {
                println!("{NO_LOGIN} `-- --config nexus.yaml` asks a server of your own.\n");
                BuildContext::in_home(scratch.path().join("nexus"))
            }
        };
        Ok(Self { context, config, _fakes: Vec::new(), model: Some(model), scratch })
    }

    /// Returns the address of the simulated model server.
    pub(crate) fn model_url(&self) -> String {
        self.model.as_ref().map(Sim::base_url).unwrap_or_default()
    }

    /// Returns the context in which backends are built.
    pub(crate) fn context(&self) -> &BuildContext {
        &self.context
    }

    /// Builds the router of the file that the command line names, or else of `yaml`.
    pub(crate) fn router(&self, yaml: &str) -> Result<Router, AnyError> {
        self.builder(yaml, |builder| builder)
    }

    /// As [`Stage::router`], with further backends that `add` registers.
    pub(crate) fn builder(
        &self,
        yaml: &str,
        add: impl FnOnce(nexus::RouterBuilder) -> nexus::RouterBuilder,
    ) -> Result<Router, AnyError> {
        let builder = add(Router::builder(nexus::registry(), self.context.clone()));
        Ok(match &self.config {
            Some(path) => builder.from_file(path)?,
            None => builder.from_str(yaml)?,
        })
    }

    /// Creates an empty working folder, which is removed when the example ends.
    pub(crate) fn workspace(&self, name: &str) -> Result<PathBuf, AnyError> {
        let path = self.scratch.path().join(name);
        std::fs::create_dir(&path)?;
        Ok(path)
    }
}

/// Runs one turn and shows it as it happens.
pub(crate) async fn show_turn(
    router: &Router,
    kind: &str,
    request: TurnRequest,
) -> Result<TurnResult, TurnError> {
    show_turn_with(router, kind, request, TurnHost::new()).await
}

/// As [`show_turn`], with a host, which can have tools.
pub(crate) async fn show_turn_with(
    router: &Router,
    kind: &str,
    request: TurnRequest,
    host: TurnHost,
) -> Result<TurnResult, TurnError> {
    let mut show = Show::default();
    let outcome = router.run_turn(kind, request, host, &mut show).await;
    show.outcome(&outcome);
    outcome
}

/// Parses the options `--real` and `--config FILE`.
fn arguments(about: &str) -> (bool, Option<PathBuf>) {
    let usage = format!(
        "{about}\n\nOptions, after `--`:\n  --real         use the CLIs and logins of this machine\n  \
         --config FILE  route by this nexus.yaml, for real\n  --help         print this"
    );
    let mut is_real = false;
    let mut config = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--real" => is_real = true,
            "--config" => match arguments.next() {
                Some(path) => config = Some(PathBuf::from(path)),
                None => fail("--config needs a file", &usage),
            },
            "--help" | "-h" => {
                println!("{usage}");
                exit(0);
            }
            other => fail(&format!("unknown option {other}"), &usage),
        }
    }
    (is_real || config.is_some(), config)
}

fn fail(problem: &str, usage: &str) -> ! {
    eprintln!("{problem}\n\n{usage}");
    exit(2);
}

/// Returns a context with the fakes first on `PATH`, invented tokens, and a home that is removed when the example ends.
fn simulated(
    real: &BuildContext,
    fakes: &[FakeCli],
    scratch: &tempfile::TempDir,
) -> Result<BuildContext, AnyError> {
    let path = real.environment.get("PATH").map(String::as_str).unwrap_or_default();
    let folders = fakes.iter().map(|fake| fake.folder().to_owned()).chain(std::env::split_paths(path));
    let path = std::env::join_paths(folders)?.into_string().map_err(|_| "the search path is not Unicode")?;
    let home = scratch.path().join("home");
    // The fake Claude Code counts as logged in if this file exists. No program reads its content.
    std::fs::create_dir_all(home.join(".claude"))?;
    std::fs::write(home.join(".claude/.credentials.json"), "{}")?;
    let environment = BTreeMap::from([
        ("PATH".to_owned(), path),
        ("HOME".to_owned(), home.display().to_string()),
        ("OPENAI_TOKEN".to_owned(), "simulated".to_owned()),
        ("XAI_TOKEN".to_owned(), "simulated".to_owned()),
    ]);
    Ok(BuildContext::in_home(scratch.path().join("nexus")).with_environment(environment))
}

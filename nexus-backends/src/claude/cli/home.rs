//! Environment of a `claude` process: its folders, its variables, and the subfolder of its conversation.
//!
//! With a credential in the configuration, the CLI's own folder (`CLAUDE_CONFIG_DIR`) is private. It is below
//! `$NEXUS_HOME/sessions` if the conversation is stored. Otherwise it is in the run's home, which is removed with the
//! run.
//!
//! Without a credential the CLI runs with the user's login, and so in the user's own folder. There it rewrites
//! `.claude.json`, adds to `.claude/backups` and `.claude/plugins/store`, and adds a stored conversation to
//! `.claude/projects`. A note of the conversation is then below `$NEXUS_HOME/sessions`.
//!
//! At the levels with a shell, the CLI uses the user's cache folder. A turn with caller tools leaves a log of the
//! connection there (`claude-cli-nodejs/…/mcp-logs-nexus`), without the token. The CLI removes the log after some
//! weeks. No code here opens a credential of the CLI.

use std::{io, path::PathBuf};

use nexus_core::{
    BuildContext, ConversationMode, Credential, ErrorKind, OnLost, ToolAccess, harness::Failure,
};

use super::conversation::{ConversationState, KeptFolder, RetainedSession};
use super::service::ServiceSettings;
use crate::cli::refusal;
use crate::cli::settings::{Billing, Settings};
use crate::cli::{Attempt, TurnPlan};
use nexus_process::environment::EnvironmentBuilder;
use nexus_process::private_home::PrivateHome;

/// Number of retries of a failed model call within the CLI. Its own default of 10 takes three minutes.
const MAX_RETRIES: &str = "3";

/// Variables of every process.
///
/// Source: the vendor's list of variables; each was observed with claude 2.1.197 and 2.1.329.
pub(in crate::claude) const SWITCHES: [(&str, &str); 13] = [
    // Otherwise the CLI reads `@path` in a prompt from the disk, at any access level.
    ("CLAUDE_CODE_DISABLE_ATTACHMENTS", "1"),
    ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
    ("CLAUDE_CODE_MAX_RETRIES", MAX_RETRIES),
    // Disable the CLI's own limit, because the server decides which prompt is too long. Version 2.1.197 would reject a
    // prompt of 1 MiB by its own count.
    ("CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE", "1000000000"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    // Exclude the servers that a subscriber has connected to the account. They do not belong to the caller.
    ("ENABLE_CLAUDEAI_MCP_SERVERS", "false"),
    // Offer every tool to the model at once.
    ("ENABLE_TOOL_SEARCH", "false"),
    // A call of a caller's tool may take as long as the turn allows. Otherwise the CLI would abandon it after five
    // minutes of silence, or answer it with the name of a background task.
    ("CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT", "0"),
    ("CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS", "0"),
    // Pass the descriptions of the caller's tools in full. Effective from 2.1.329 on.
    ("CLAUDE_CODE_MAX_MCP_DESCRIPTION_LENGTH", "1000000"),
];

/// Prepared home, folders and conversation of one process.
#[derive(Debug)]
pub(super) struct PreparedHome {
    pub(super) home: PrivateHome,
    pub(super) folders: VariableFolders,
    pub(super) working_directory: PathBuf,
    pub(super) session: ConversationState,
    /// Conversation to resume, by the CLI's own id.
    pub(super) resume: Option<String>,
}

/// Folders that the variables of a process name.
#[derive(Debug)]
pub(super) struct VariableFolders {
    temporary: PathBuf,
    /// The CLI's own folder. `None` for the user's.
    pub(super) config: Option<PathBuf>,
    /// Value of `HOME`. `None` for the user's.
    home: Option<PathBuf>,
    /// Folder for caches. `None` for the user's.
    cache: Option<PathBuf>,
}

/// Prepares the home of one process.
///
/// # Errors
///
/// [`ErrorKind::ConversationLost`] if the stored conversation does not exist, [`ErrorKind::InvalidRequest`] for a
/// request that cannot run here.
pub(super) fn settle(
    plan: &TurnPlan,
    attempt: &Attempt,
    service: &ServiceSettings,
    context: &BuildContext,
    is_lent: bool,
) -> Result<PreparedHome, Failure> {
    refuse_steering(&plan.request.environment, service)?;
    let home = plan.home()?;
    let location = locate(plan, attempt)?;
    let config = match (is_lent, &location.folder) {
        (false, _) => None,
        (true, Some(folder)) => Some(folder.config()),
        (true, None) => Some(home.folder("config").map_err(unwritable)?),
    };
    let access = plan.request.tool_access;
    let private = |name: &str, is_private: bool| is_private.then(|| home.folder(name)).transpose();
    let folders = VariableFolders {
        temporary: home.folder("tmp").map_err(unwritable)?,
        // Programs in the agent's shell, such as git, cargo and ssh, need the user's own `HOME`.
        home: private("home", is_lent && access == ToolAccess::ScopedOnly).map_err(unwritable)?,
        cache: private("cache", matches!(access, ToolAccess::ScopedOnly | ToolAccess::ReadOnly))
            .map_err(unwritable)?,
        config,
    };
    let Location { working_directory, folder, before } = location;
    let backend = plan.backend.clone();
    let resume = before.as_ref().map(|kept| kept.session.clone());
    let users = folders.config.is_none().then(|| users_folder(context)).flatten();
    let session = match folder {
        Some(folder) => ConversationState::kept(backend, &working_directory, folder, users, before),
        None => ConversationState::forgotten(backend),
    };
    Ok(PreparedHome { home, folders, working_directory, session, resume })
}

/// Working directory of the process, and folder of its conversation.
struct Location {
    working_directory: PathBuf,
    /// Subfolder of the conversation, if it is stored.
    folder: Option<KeptFolder>,
    before: Option<RetainedSession>,
}

/// Returns the CLI's own folder for runs with the user's login.
pub(super) fn users_folder(context: &BuildContext) -> Option<PathBuf> {
    let variable = |name: &str| context.environment.get(name).filter(|value| !value.is_empty());
    let named = variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".claude")))
}

fn locate(plan: &TurnPlan, attempt: &Attempt) -> Result<Location, Failure> {
    let unkept = Location { working_directory: plan.working_directory.clone(), folder: None, before: None };
    match (&plan.request.conversation, attempt) {
        (ConversationMode::Ephemeral, _) => Ok(unkept),
        (ConversationMode::Resume { handle, .. }, Attempt::First) => resume(plan, handle.state()),
        (ConversationMode::Keep | ConversationMode::Resume { on_lost: OnLost::Fresh, .. }, _) => keep(plan),
        _ => Err(Failure::new(ErrorKind::Unsupported, "the format of the stored conversation is unknown")),
    }
}

/// Prepares a new conversation that is stored beyond the turn.
fn keep(plan: &TurnPlan) -> Result<Location, Failure> {
    let folder = KeptFolder::of(&plan.nexus_home, plan.run.run().as_str());
    folder.make().map_err(unwritable)?;
    let working_directory = match plan.is_private_directory {
        true => folder.make_work().map_err(unwritable)?,
        false => plan.working_directory.clone(),
    };
    Ok(Location { working_directory, folder: Some(folder), before: None })
}

/// Prepares the continuation of a conversation that an earlier turn stored.
fn resume(plan: &TurnPlan, state: &serde_json::Value) -> Result<Location, Failure> {
    let kept = RetainedSession::read(state).ok_or_else(|| {
        Failure::new(ErrorKind::InvalidRequest, "the handle to resume belongs to another backend")
    })?;
    let folder = KeptFolder::of(&plan.nexus_home, &kept.folder);
    let is_private = folder.work() == kept.directory;
    if plan.is_private_directory != is_private || (!is_private && plan.working_directory != kept.directory) {
        let reason = match is_private {
            true => "the conversation has no working directory: resume it without one".to_owned(),
            false => format!("the conversation belongs to {}: resume it there", kept.directory.display()),
        };
        return Err(Failure::new(ErrorKind::InvalidRequest, reason));
    }
    // Without a credential the CLI stores the conversation in the user's folder, and itself reports if it no longer
    // exists there.
    if !kept.directory.is_dir() || !folder.config().is_dir() {
        return Err(Failure::new(ErrorKind::ConversationLost, "the stored conversation no longer exists"));
    }
    Ok(Location { working_directory: kept.directory.clone(), folder: Some(folder), before: Some(kept) })
}

/// Rejects a variable of the request that would configure the CLI.
fn refuse_steering(names: &[String], service: &ServiceSettings) -> Result<(), Failure> {
    let steers = |name: &str| {
        steers_the_cli(name) || service.service.is_some_and(|service| service.is_steered_by(name))
    };
    let Some(name) = names.iter().find(|name| steers(name)) else { return Ok(()) };
    let reason =
        format!("the variable {name} would configure the CLI itself, so the agent's tools cannot have it");
    Err(Failure::new(ErrorKind::InvalidRequest, reason))
}

/// Returns the variables with the lent credential and the server that gets it.
///
/// # Errors
///
/// [`ErrorKind::Unauthenticated`] for a credential of another service.
pub(super) fn lent_variables(
    settings: &Settings,
    service: &ServiceSettings,
    credential: &Credential,
) -> Result<Vec<(&'static str, String)>, Failure> {
    let base_url = settings.base_url.as_deref();
    if let Some(variables) = service.variables(base_url, credential)? {
        return Ok(variables);
    }
    let name = match settings.billing {
        Some(Billing::Plan) => "CLAUDE_CODE_OAUTH_TOKEN",
        _ => "ANTHROPIC_API_KEY",
    };
    let server = base_url.map(|url| ("ANTHROPIC_BASE_URL", url.to_owned()));
    Ok(server.into_iter().chain([(name, credential.token.expose().to_owned())]).collect())
}

/// Adds the variables that the request names, and those that the CLI needs. `lent` has those of a lent credential.
pub(super) fn with_variables(
    builder: EnvironmentBuilder,
    plan: &TurnPlan,
    settings: &Settings,
    folders: &VariableFolders,
    lent: &[(&'static str, String)],
) -> EnvironmentBuilder {
    let mut builder = plan.complete(builder);
    if let Some(file) = &settings.network.ca_file {
        builder = builder.with("NODE_EXTRA_CA_CERTS", file);
    }
    for (name, value) in SWITCHES {
        builder = builder.with(name, value);
    }
    builder = builder.with("CLAUDE_CODE_TMPDIR", &folders.temporary).pass(["HOME"]);
    builder = match &folders.config {
        Some(config) => builder.with("CLAUDE_CONFIG_DIR", config),
        // The user's environment determines the location of the login. A keychain stores it under the name in `USER`.
        None => builder.pass(["CLAUDE_CONFIG_DIR", "USER"]),
    };
    let folders = [("HOME", &folders.home), ("XDG_CACHE_HOME", &folders.cache)];
    for (name, folder) in folders.into_iter().filter_map(|(name, folder)| Some((name, folder.as_ref()?))) {
        builder = builder.with(name, folder);
    }
    lent.iter().fold(builder, |builder, (name, value)| builder.with(name, value))
}

/// Returns true if the variable configures the CLI itself.
fn steers_the_cli(name: &str) -> bool {
    ["ANTHROPIC_", "CLAUDE", "NODE_", "BUN_", "MCP_"].iter().any(|prefix| name.starts_with(prefix))
        || ["HOME", "PATH"].contains(&name)
        || SWITCHES.iter().any(|(switch, _)| *switch == name)
}

fn unwritable(error: io::Error) -> Failure {
    refusal::unwritable("the run's home", error)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, sync::Arc};

    use nexus_core::{ResumeHandle, Secret, TurnRequest};
    use serde_json::json;

    use super::*;
    use crate::claude::cli::tests::callers;
    use crate::cli::program_start::environment_outside;
    use nexus_process::environment::Environment;
    use nexus_process::run_registry::RunEntry;

    struct Bench {
        folder: tempfile::TempDir,
        context: BuildContext,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let host = [
                ("PATH", "/bin"),
                ("HOME", "/home/user"),
                ("ANTHROPIC_API_KEY", "stray"),
                ("CLAUDE_CODE_USE_BEDROCK", "1"),
                ("CLAUDECODE", "1"),
                ("HTTPS_PROXY", "http://proxy"),
                ("RUSTFLAGS", "-O"),
            ];
            let environment = host.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            let context = BuildContext::in_home(folder.path())
                .with_base_directory(folder.path())
                .with_environment(environment);
            Self { folder, context }
        }

        fn plan(&self, request: TurnRequest) -> TurnPlan {
            let run = RunEntry::begin(self.folder.path()).unwrap();
            let (working_directory, is_private_directory) = match &request.working_directory {
                Some(directory) => (directory.clone(), false),
                None => (run.home().unwrap().path().to_owned(), true),
            };
            TurnPlan {
                takes_questions: false,
                has_approver: false,
                is_steered: false,
                backend: "claude-cli".into(),
                run,
                request: Arc::new(request),
                effort: None,
                tools: None,
                working_directory,
                is_private_directory,
                nexus_home: self.folder.path().to_owned(),
                trace_parent: None,
                renewed: None,
                redactor: nexus_core::redact::Redactor::default(),
            }
        }

        fn settle(
            &self,
            request: TurnRequest,
            settings: &Settings,
            token: Option<&str>,
        ) -> Result<Settled, Failure> {
            let token = token.map(|token| Credential::new(Secret::new(token)));
            self.settle_plan(&self.plan(request), settings, &ServiceSettings::default(), token.as_ref())
        }

        fn settle_plan(
            &self,
            plan: &TurnPlan,
            settings: &Settings,
            service: &ServiceSettings,
            token: Option<&Credential>,
        ) -> Result<Settled, Failure> {
            let place = settle(plan, &Attempt::First, service, &self.context, token.is_some())?;
            let lent = token.map(|token| lent_variables(settings, service, token)).transpose()?;
            let host = self.context.environment.iter().map(|(name, value)| (name.into(), value.into()));
            let environment = environment_outside(plan, settings, host, |builder| {
                with_variables(builder, plan, settings, &place.folders, &lent.unwrap_or_default())
            })?;
            Ok(Settled { place, environment })
        }
    }

    /// A prepared home, and the environment of a process there.
    #[derive(Debug)]
    struct Settled {
        place: PreparedHome,
        environment: Environment,
    }

    impl std::ops::Deref for Settled {
        type Target = PreparedHome;

        fn deref(&self) -> &PreparedHome {
            &self.place
        }
    }

    fn billed(billing: Billing) -> Settings {
        Settings { billing: Some(billing), ..Settings::default() }
    }

    fn value(place: &Settled, name: &str) -> Option<String> {
        Some(place.environment.value(name)?.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_credential_has_the_name_that_decides_who_pays() {
        let bench = Bench::new();
        for (billing, name, other) in [
            (Billing::Plan, "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"),
            (Billing::Metered, "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"),
        ] {
            let place = bench.settle(TurnRequest::new("x"), &billed(billing), Some("canary")).unwrap();
            assert_eq!(value(&place, name).as_deref(), Some("canary"));
            assert_eq!(value(&place, other), None);
        }
    }

    #[test]
    fn nothing_of_the_hosts_reaches_the_cli_but_by_a_rule() {
        let bench = Bench::new();
        let place = bench.settle(TurnRequest::new("x"), &Settings::default(), None).unwrap();
        for name in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDECODE", "HTTPS_PROXY", "RUSTFLAGS"]
        {
            assert_eq!(value(&place, name), None, "{name}");
        }
        assert_eq!(value(&place, "HOME").as_deref(), Some("/home/user"), "the user's login is there");
        let named =
            bench.settle(TurnRequest::new("x").with_variable("RUSTFLAGS"), &Settings::default(), None);
        assert_eq!(value(&named.unwrap(), "RUSTFLAGS").as_deref(), Some("-O"));
    }

    #[test]
    fn the_token_of_the_callers_tools_is_in_no_variable_and_reaches_no_proxy() {
        let bench = Bench::new();
        let mut settings = billed(Billing::Metered);
        settings.network.inherit_proxy = true;
        let mut plan = bench.plan(TurnRequest::new("x"));
        let settle = |plan: &TurnPlan| {
            let token = Credential::new(Secret::new("canary"));
            bench.settle_plan(plan, &settings, &ServiceSettings::default(), Some(&token)).unwrap()
        };
        let place = settle(&plan);
        assert_eq!(value(&place, "HTTPS_PROXY").as_deref(), Some("http://proxy"));
        assert_eq!(value(&place, "no_proxy"), None);
        let tools = callers(&["add"]);
        plan.tools = Some(tools.clone());
        let place = settle(&plan);
        for name in ["no_proxy", "NO_PROXY"] {
            assert_eq!(value(&place, name).as_deref(), Some("127.0.0.1"));
        }
        let names: Vec<_> = place.environment.names().filter_map(|name| name.to_str()).collect();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            assert!(!value(&place, name).unwrap().contains(tools.token().expose()), "{name}");
        }
    }

    #[test]
    fn a_process_of_a_cloud_has_its_variables_and_a_folder_of_its_own() {
        let bench = Bench::new();
        let value = json!({ "service": "bedrock", "region": "us-east-1", "credential": { "env": "K" } });
        let (service, shared) = ServiceSettings::part(value.as_object().unwrap()).unwrap();
        let mut settings = Settings::read(&shared, &bench.context).unwrap();
        service.credential_source(&mut settings, &bench.context).unwrap();
        let token = Credential::new(Secret::new("canary"));
        let settled = |request| bench.settle_plan(&bench.plan(request), &settings, &service, Some(&token));
        let place = settled(TurnRequest::new("x")).unwrap();
        let variable = |name: &str| self::value(&place, name);
        assert_eq!(variable("AWS_BEARER_TOKEN_BEDROCK").as_deref(), Some("canary"));
        assert_eq!(variable("CLAUDE_CODE_USE_BEDROCK").as_deref(), Some("1"));
        for name in
            ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_USE_VERTEX"]
        {
            assert_eq!(variable(name), None, "{name}");
        }
        assert!(variable("CLAUDE_CONFIG_DIR").unwrap().starts_with(place.home.path().to_str().unwrap()));
        let failure = settled(TurnRequest::new("x").with_variable("AWS_PROFILE")).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::InvalidRequest);
    }

    #[test]
    fn no_request_steers_the_cli_by_a_variable() {
        let bench = Bench::new();
        for name in [
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDECODE",
            "NODE_OPTIONS",
            "MCP_TIMEOUT",
            "DISABLE_TELEMETRY",
        ] {
            let failure = bench.settle(TurnRequest::new("x").with_variable(name), &Settings::default(), None);
            assert_eq!(failure.unwrap_err().kind, ErrorKind::InvalidRequest, "{name}");
        }
    }

    #[test]
    fn with_a_credential_the_folders_are_private() {
        let bench = Bench::new();
        let settings = billed(Billing::Metered);
        let scoped = bench.settle(TurnRequest::new("x"), &settings, Some("canary")).unwrap();
        let home = scoped.home.path().to_str().unwrap().to_owned();
        for name in ["HOME", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_TMPDIR", "XDG_CACHE_HOME"] {
            let folder = value(&scoped, name).unwrap();
            assert!(folder.starts_with(&home), "{name}={folder}");
            assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700, "{name}");
        }
        let reading = TurnRequest::new("x").with_tool_access(ToolAccess::ReadOnly);
        let reading = bench.settle(reading, &Settings::default(), None).unwrap();
        assert!(
            value(&reading, "XDG_CACHE_HOME").unwrap().starts_with(reading.home.path().to_str().unwrap())
        );
        let working = TurnRequest::new("x").with_tool_access(ToolAccess::WorkspaceWrite);
        let working = bench.settle(working, &settings, Some("canary")).unwrap();
        assert_eq!(value(&working, "XDG_CACHE_HOME"), None, "the shell's cache is the user's");
        assert_eq!(value(&working, "HOME").as_deref(), Some("/home/user"));
        assert!(
            value(&working, "CLAUDE_CONFIG_DIR").unwrap().starts_with(working.home.path().to_str().unwrap())
        );
    }

    #[test]
    fn a_kept_conversation_is_found_again_and_nowhere_else() {
        let bench = Bench::new();
        let settings = billed(Billing::Metered);
        let keep = TurnRequest::new("x").with_conversation(ConversationMode::Keep);
        let mut place = bench.settle(keep, &settings, Some("canary")).unwrap();
        place.place.session.is_at("a-1".to_owned());
        let handle = place.session.handle().unwrap();
        let resume =
            |handle: ResumeHandle| TurnRequest::new("x").with_conversation(ConversationMode::resume(handle));
        let again = bench.settle(resume(handle.clone()), &settings, Some("canary")).unwrap();
        assert_eq!(again.resume.as_deref(), Some("a-1"));
        assert_eq!(again.working_directory, place.working_directory);
        assert_eq!(value(&again, "CLAUDE_CONFIG_DIR"), value(&place, "CLAUDE_CONFIG_DIR"));

        let elsewhere = resume(handle.clone()).in_directory(bench.folder.path());
        let failure = bench.settle(elsewhere, &settings, Some("canary")).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::InvalidRequest);
        let strange = ResumeHandle::new("claude-cli".into(), json!({ "session": "../x" }));
        let failure = bench.settle(resume(strange), &settings, Some("canary")).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::InvalidRequest);
        std::fs::remove_dir_all(&place.working_directory).unwrap();
        let failure = bench.settle(resume(handle), &settings, Some("canary")).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::ConversationLost);
    }

    #[test]
    fn of_the_users_own_conversations_only_the_one_that_was_made_here_is_deleted() {
        let bench = Bench::new();
        let users = bench.folder.path().join("user");
        let mut environment = bench.context.environment.clone();
        environment.insert("HOME".to_owned(), users.to_string_lossy().into_owned());
        let context = bench.context.clone().with_environment(environment);
        let keep = TurnRequest::new("x").with_conversation(ConversationMode::Keep);
        let keep = keep.in_directory(bench.folder.path());
        let mut place =
            settle(&bench.plan(keep), &Attempt::First, &ServiceSettings::default(), &context, false).unwrap();
        place.session.is_at("a-1".to_owned());
        place.session.write_note().unwrap();
        let handle = place.session.handle().unwrap();

        let project = users.join(".claude/projects/-work");
        for file in ["a-1.jsonl", "a-1/tool-results/x.txt", "b-2.jsonl", "b-2/tool-results/x.txt"] {
            let path = project.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "said").unwrap();
        }
        std::fs::create_dir_all(users.join(".claude/session-env/a-1")).unwrap();
        let forget = |state: &serde_json::Value| {
            let kept = RetainedSession::read(state)?.place(bench.folder.path())?;
            Some(kept.forget(bench.folder.path(), &"claude-cli".into()))
        };
        // Nobody's conversation but that of the note, by whatever else a handle says.
        let mut forged = handle.state().clone();
        forged["session"] = json!("b-2");
        assert!(forget(&forged).is_none());
        let mut elsewhere = handle.state().clone();
        elsewhere["directory"] = json!("/");
        assert!(forget(&elsewhere).is_none());
        let mut unknown = forged;
        unknown["folder"] = json!("no-such-run");
        assert!(matches!(forget(&unknown), Some(Ok(nexus_core::Forgotten::WasGone))));
        assert!(project.join("b-2.jsonl").exists() && project.join("a-1.jsonl").exists());

        let deleted = forget(handle.state());
        assert!(
            matches!(deleted, Some(Ok(nexus_core::Forgotten::Deleted { files: 3, .. }))),
            "the two and the note: {deleted:?}"
        );
        assert!(!project.join("a-1.jsonl").exists() && !project.join("a-1").exists());
        assert!(!users.join(".claude/session-env/a-1").exists());
        assert!(project.join("b-2.jsonl").exists() && project.join("b-2/tool-results/x.txt").exists());
        assert!(matches!(forget(handle.state()), Some(Ok(nexus_core::Forgotten::WasGone))));
        let resume = TurnRequest::new("x").in_directory(bench.folder.path());
        let resume = resume.with_conversation(ConversationMode::resume(handle));
        let failure = bench.settle(resume, &Settings::default(), None).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::ConversationLost);
    }
}

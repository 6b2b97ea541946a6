//! Prepares one process of a turn, before it costs anything.

use std::{io, path::PathBuf, sync::atomic::Ordering};

use nexus_core::{ConversationMode, ErrorKind, PromptBlock, ToolAccess, TurnRequest, harness::Failure};

use super::args::{Arguments, ConversationId};
use super::conversation::StoredConversation;
use super::sandbox::SandboxPaths;
use super::session_log::RetryWatch;
use super::translate::GrokTranslator;
use super::{
    Grok, INSTALL, MANAGED, capabilities, conversation, home, mcp_config, sandbox, session_log, version,
};
use crate::auth::Lease;
use crate::cli::StartupWait;
use crate::cli::program_start::{ProgramStart, ReadyProcess, SandboxNeeds};
use crate::cli::refusal;
use crate::cli::sandboxed_program::{SandboxFiles, SandboxHome};
use crate::cli::settings::Billing;
use crate::cli::versions::AdmittedVersion;
use crate::cli::{Attempt, Prepared, TurnPlan};
use crate::grok::small_pictures;
use nexus_process::environment::EnvironmentBuilder;
use nexus_process::executable::Executable;
use nexus_process::private_home::PrivateHome;
use nexus_process::spawn::StdinMode;

/// Prefix of the vendor's API keys.
const KEY_PREFIX: &str = "xai-";
/// Prefix of an access token, which is a JWT.
const TOKEN_PREFIX: &str = "eyJ";
/// Prefixes of the vendor's variables, which a request must not set.
const RESERVED: [&str; 2] = ["GROK_", "XAI_"];
/// Variables that the user's tools need in addition to `HOME`.
const USER_VARIABLES: [&str; 3] = ["USER", "LOGNAME", "SHELL"];

impl Grok {
    pub(super) async fn prepare_process(
        &self,
        plan: &TurnPlan,
        attempt: Attempt,
    ) -> Result<Prepared<GrokTranslator>, Failure> {
        let request = &*plan.request;
        // These checks need neither a process nor a credential, so a rejected request costs nothing.
        refuse_reserved(request)?;
        refuse_nameless(plan)?;
        let executable = self.executable().map_err(|error| {
            Failure::new(ErrorKind::NotInstalled, format!("{error}: {INSTALL}")).with_source(error)
        })?;
        let mut lease = self.borrow(plan).await?;
        let (home, start) = self.home(plan, attempt)?;
        let mut warnings = Vec::new();

        let AdmittedVersion { version: known, note } =
            self.version(&executable, &home::user_home(&home)).await?;
        version::VERSIONS.admit_output(&known, request, self.settings.versions)?;
        warnings.extend(note);
        warnings.extend(version::launcher_warning(&executable));

        let effort = plan.effort.map(|effort| effort.applied);
        let taken = effort.map(|effort| capabilities::effort_for(request.model.as_ref(), effort));
        if let (Some(effort), Some(taken)) = (effort, taken)
            && effort != taken
        {
            warnings.push(format!("the model does not support the effort {effort}; {taken} is used"));
        }

        let question = blocks(request, start.question.as_deref());
        warnings.extend(small_pictures::warnings(&question));
        let prompt_file = home::write_prompt(&home, &question).map_err(unwritable)?;
        let agent_file = match &request.system {
            Some(system) if start.writes_system => {
                Some(home::write_system(&home, system).map_err(unwritable)?)
            }
            // A repair reuses the file that the first attempt wrote.
            Some(_) => Some(home.path().join("agent.md")),
            None => None,
        };
        home::lend(&mut lease, &home::credential_file(&home), self.billing).map_err(unwritable)?;

        let grok_home = home::grok_folder(&home);
        let session_id = start.session.id().to_owned();
        let old_session = session_log::session_folder(&grok_home, &session_id);
        // The CLI appends to the files of a resumed session, so this turn's part begins at their present length.
        let length = |file| home::length_in(old_session.as_deref(), file);
        let watch = RetryWatch::new(&grok_home, &session_id, length("updates.jsonl"));
        let setup = home::ProcessParameters {
            billing: self.billing,
            tools: plan.tools.as_ref(),
            deadline: request.limits.deadline,
            session: &session_id,
            known_event_bytes: length("events.jsonl"),
        };
        home::furnish(&home, &setup).map_err(unwritable)?;
        let stored = match request.conversation {
            ConversationMode::Ephemeral => StoredConversation::for_this_turn(session_id),
            _ => StoredConversation::below(&plan.nexus_home, session_id),
        };
        let closed = plan.login_folders();
        for folder in &closed {
            if let Err(error) = home::hide_from_searches(folder) {
                tracing::warn!(folder = %folder.display(), %error, "a search from a parent folder may find \
                    files in it");
            }
        }
        let arguments = Arguments {
            prompt_file,
            directory: self.settings.working_directory(plan),
            access: request.tool_access,
            has_callers: plan.tools.is_some(),
            session: start.session,
            model: request.model.as_ref().map(|model| model.as_str().to_owned()),
            effort: taken,
            model_calls: request.limits.model_calls,
            agent_file,
            grok_home,
            closed,
            has_sandbox: self.settings.has_sandbox(request.tool_access),
        };
        let start = self.start(plan, executable, &arguments, &home)?;
        let ready = start.prepare(|builder| self.with_variables(builder, request, &home));
        let ReadyProcess { invocation, sandbox, .. } = ready.await?;
        // Message ids contain this number. A repair is a second process of the turn, and its ids must differ.
        let process = self.processes.fetch_add(1, Ordering::Relaxed);
        let translator = GrokTranslator::new(plan.backend.clone(), request.tool_access, process)
            .with_session(stored, watch)
            .with_callers(plan.tools.clone());
        Ok(Prepared {
            invocation,
            translator,
            home: Some(home),
            lease: Some(lease),
            sandbox,
            startup: StartupWait::none(),
            version: Some(known.to_string()),
            warnings,
        })
    }

    /// Borrows the credential, and compares it with the configured billing.
    async fn borrow(&self, plan: &TurnPlan) -> Result<Lease, Failure> {
        let lease = self.credentials.lend(plan).await?;
        let token = lease.credential().token.expose();
        let mismatch = match self.billing {
            Billing::Plan => token.starts_with(KEY_PREFIX).then_some("an API key"),
            Billing::Metered => {
                token.starts_with(TOKEN_PREFIX).then_some("an access token of a subscription")
            }
        };
        match mismatch {
            Some(what) => {
                let place = lease.place();
                let billing = self.billing.as_str();
                let reason = format!("billing is {billing}, but {place} contains {what}");
                Err(Failure::new(ErrorKind::BillingMismatch, reason))
            }
            None => Ok(lease),
        }
    }

    /// Prepares the home of the process, with its files and the conversation that it resumes.
    fn home(&self, plan: &TurnPlan, attempt: Attempt) -> Result<(PrivateHome, SessionStart), Failure> {
        let handle = match (&attempt, &plan.request.conversation) {
            (Attempt::Repair { resume, .. }, _) => Some(resume),
            (Attempt::First, ConversationMode::Resume { handle, .. }) => Some(handle),
            _ => None,
        };
        let resumed = match handle {
            Some(handle) => Some(conversation::id_in(handle.state()).ok_or_else(|| {
                Failure::new(ErrorKind::InvalidRequest, "the resume handle belongs to another backend")
            })?),
            None => None,
        };
        let (instruction, home) = match attempt {
            Attempt::Repair { instruction, home, .. } => (Some(instruction), home),
            Attempt::First | Attempt::Fresh => (None, None),
        };
        let is_new_home = home.is_none();
        let home = match home {
            Some(home) => home,
            None => {
                let home = plan.home()?;
                home::make_folders(&home).map_err(unwritable)?;
                home
            }
        };
        let session = match resumed {
            Some(id) => {
                // The home of a repaired attempt already contains the session; any other home needs a copy of the
                // stored one.
                let is_there = session_log::session_folder(&home::grok_folder(&home), &id).is_some()
                    || conversation::restore(&home, &plan.nexus_home, &id, &plan.working_directory)
                        .map_err(unwritable)?;
                // Resuming an unknown id would cause the CLI to contact `auth.x.ai` for a remote copy.
                if !is_there {
                    let reason = format!("the conversation {id} is not stored here");
                    return Err(Failure::new(ErrorKind::ConversationLost, reason));
                }
                ConversationId::Resume(id)
            }
            // The CLI writes an id of its own only at the end, which an interrupted turn never reaches.
            None => ConversationId::New(conversation::new_id()),
        };
        let start = SessionStart { session, question: instruction, writes_system: is_new_home };
        Ok((home, start))
    }

    /// Adds the variables that the program needs.
    fn with_variables(
        &self,
        mut builder: EnvironmentBuilder,
        request: &TurnRequest,
        home: &PrivateHome,
    ) -> EnvironmentBuilder {
        // Moving `GROK_HOME` is not enough: the CLI also starts servers and hooks from `.claude` and `.cursor` in
        // `HOME`.
        builder = builder.with("HOME", home::user_home(home));
        if request.tool_access != ToolAccess::ScopedOnly {
            // The user's tools need the real home. The switches below disable the servers and hooks that the CLI would
            // load from it.
            builder = builder.pass(["HOME"]).pass(USER_VARIABLES).pass(&request.environment);
        }
        builder = builder.with("GROK_HOME", home::grok_folder(home));
        for (name, value) in home::SWITCHES {
            builder = builder.with(name, value);
        }
        if let Some(url) = &self.settings.base_url {
            // The CLI uses the first address with an API key, and the second with a subscription.
            builder = builder.with("GROK_XAI_API_BASE_URL", url).with("GROK_CLI_CHAT_PROXY_BASE_URL", url);
        }
        match &self.settings.network.ca_file {
            Some(file) => builder.with("GROK_EXTRA_CA_BUNDLE", file),
            None => builder,
        }
    }

    /// Returns the start of the process, with the sandbox that the level needs.
    fn start<'a>(
        &'a self,
        plan: &'a TurnPlan,
        executable: Executable,
        arguments: &Arguments,
        home: &PrivateHome,
    ) -> Result<ProgramStart<'a>, Failure> {
        let request = &*plan.request;
        let needs = arguments.has_sandbox.then(|| SandboxNeeds {
            files: SandboxFiles {
                home: SandboxHome::Empty,
                writable: vec![home.path().to_owned()],
                login_folders: Vec::new(),
                read_only: Vec::new(),
                settings: vec![MANAGED.into()],
            },
            hosts: vec![home::host(self.billing).to_owned()],
        });
        let (executable, arguments) = match (request.tool_access, &self.bubblewrap, &needs) {
            (ToolAccess::WorkspaceWrite, None, None) => {
                let reason = "writing in the workspace needs bubblewrap (`bwrap`) on the PATH";
                return Err(Failure::new(ErrorKind::Unsupported, reason));
            }
            (ToolAccess::WorkspaceWrite, Some(bubblewrap), None) => {
                let roots = request.extra_roots.iter().map(|root| root.as_path());
                let users = self.context.environment.get("HOME").map(PathBuf::from);
                let readable = self.settings.network.ca_file.iter().cloned().chain(users);
                let paths = SandboxPaths {
                    roots: [plan.working_directory.as_path()].into_iter().chain(roots).collect(),
                    home: home.path(),
                    readable: readable.filter(|path| path.exists()).collect(),
                    closed: plan.login_folders().iter().filter_map(|path| path.canonicalize().ok()).collect(),
                };
                (bubblewrap.clone(), sandbox::wrap(&paths, executable.path(), arguments.build()))
            }
            _ => (executable, arguments.build()),
        };
        Ok(ProgramStart {
            plan,
            settings: &self.settings,
            host: &self.context.environment,
            executable,
            arguments,
            working_directory: plan.working_directory.clone(),
            // The CLI never reads standard input in this mode, because the prompt is in a file.
            stdin: StdinMode::Empty,
            sandbox: needs,
        })
    }
}

/// Rejects a request whose variables for the agent's tools would configure the CLI itself.
fn refuse_reserved(request: &TurnRequest) -> Result<(), Failure> {
    let is_reserved = |name: &&String| RESERVED.iter().any(|prefix| name.starts_with(prefix));
    match request.environment.iter().find(is_reserved) {
        Some(name) => {
            let reason = format!(
                "the variable {name} configures the vendor's program, so the agent's tools cannot \
                    have it"
            );
            Err(Failure::new(ErrorKind::InvalidRequest, reason))
        }
        None => Ok(()),
    }
}

/// Rejects tools of the caller that the CLI would silently leave out.
fn refuse_nameless(plan: &TurnPlan) -> Result<(), Failure> {
    let nameless =
        plan.tools.as_ref().map(|tools| mcp_config::nameless(tools.definitions())).unwrap_or_default();
    if nameless.is_empty() {
        return Ok(());
    }
    let reason = format!(
        "the vendor's program cannot offer the tools {}: after the first letter it accepts letters, digits, \
        - and single _",
        nameless.join(", ")
    );
    Err(Failure::new(ErrorKind::Unsupported, reason))
}

/// Start of a session in a process.
struct SessionStart {
    session: ConversationId,
    /// Question of a repair, which replaces the prompt.
    question: Option<String>,
    /// True if the system text must be written.
    writes_system: bool,
}

/// Returns the blocks for the model: the prompt, or the question of a repair.
fn blocks(request: &TurnRequest, question: Option<&str>) -> Vec<PromptBlock> {
    if let Some(question) = question {
        return vec![PromptBlock::text(question)];
    }
    // The CLI joins blocks with a space, which would change the text.
    let mut blocks = match request.prompt.iter().all(|block| matches!(block, PromptBlock::Text { .. })) {
        true => vec![PromptBlock::text(request.prompt_text())],
        false => request.prompt.clone(),
    };
    let instruction = request.output.as_ref().map(|output| format!("\n\n{}", output.instruction()));
    blocks.extend(instruction.map(PromptBlock::text));
    blocks
}

fn unwritable(error: io::Error) -> Failure {
    refusal::unwritable("the run's home", error)
}

//! An agent that a backend can name, in lists and in full.

use nexus::{AccessTable, AgentFactsEvidence, AgentJudgement, JudgedLevel, KnownAgentSummary};
use nexus_files::shell_word;
use schemars::JsonSchema;
use serde::Serialize;

use super::entry::yaml_name;
use crate::output::printable;

/// An agent that a backend can name.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedAgent {
    /// Name, for `agent:` of a backend.
    agent: String,
    /// Name of the product.
    title: String,
    /// The vendor, as the spread of a panel counts it.
    vendor: String,
    /// Program and arguments that start it.
    command: Vec<String>,
    /// Advice on how to install it.
    install: String,
    /// Enforcer of each access level.
    access: LevelEnforcers,
    /// API that a server at `base_url` must speak.
    #[serde(skip_serializing_if = "Option::is_none")]
    wire: Option<String>,
    /// True if it takes a `credential`.
    takes_credential: bool,
    /// Hosts that it reaches from the sandbox without `base_url`.
    hosts: Vec<String>,
    /// Folders below the user's home with its own login.
    login_folders: Vec<String>,
    /// Evidence for these facts.
    #[schemars(with = "String")]
    evidence: AgentFactsEvidence,
    /// Version of the program that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Page that describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// True if its row is in the home of Nexus.
    is_yours: bool,
    /// Last recorded judgement.
    #[serde(skip_serializing_if = "Option::is_none")]
    judged: Option<AgentJudgement>,
}

/// Enforcer of each access level: program, sandbox, none where nothing has to be enforced, or no: such a turn is rejected.
#[derive(Debug, Serialize, JsonSchema)]
struct LevelEnforcers {
    scoped_only: &'static str,
    read_only: &'static str,
    workspace_write: &'static str,
    unrestricted: &'static str,
}

/// Widths of the columns of the list.
#[derive(Clone, Copy, Default)]
pub(super) struct Columns {
    name: usize,
    title: usize,
}

impl Columns {
    pub(super) fn of(agents: &[ListedAgent]) -> Self {
        let width = |text: fn(&ListedAgent) -> &String| agents.iter().map(|agent| text(agent).len()).max();
        Self {
            name: width(|agent| &agent.agent).unwrap_or_default(),
            title: width(|agent| &agent.title).unwrap_or_default(),
        }
    }
}

impl ListedAgent {
    pub(super) fn of(agent: KnownAgentSummary) -> Self {
        // The row of a user may claim any evidence. Only a judgement of this machine counts.
        let (evidence, version) = match (agent.is_yours, &agent.judged) {
            (false, _) => (agent.evidence, agent.version),
            (true, Some(judged)) => (AgentFactsEvidence::RealProgram, judged.version.clone()),
            (true, None) => (AgentFactsEvidence::Documentation, None),
        };
        Self {
            agent: agent.name,
            title: agent.title,
            vendor: agent.vendor,
            command: agent.command,
            install: agent.install,
            access: LevelEnforcers::of(&agent.access),
            wire: agent.wire,
            takes_credential: agent.takes_credential,
            hosts: agent.hosts,
            login_folders: agent.login_folders,
            evidence,
            version,
            source: agent.source,
            is_yours: agent.is_yours,
            judged: agent.judged,
        }
    }

    pub(super) fn in_list(&self, Columns { name, title }: Columns) -> String {
        let LevelEnforcers { scoped_only, read_only, workspace_write, .. } = &self.access;
        format!(
            "{:name$}  {:title$}  scoped-only {scoped_only:7}  read-only {read_only:7}  workspace-write {workspace_write:7}  {}",
            self.agent,
            self.title,
            self.standing()
        )
    }

    /// Returns the origin of the row or the evidence for it, and the judgement.
    fn standing(&self) -> String {
        let origin = if self.is_yours { "yours" } else { self.evidence.as_str() };
        match &self.judged {
            None => origin.to_owned(),
            Some(judged) => {
                let (passed, run) = judged.score();
                format!("{origin}, judged {}: {passed} of {run}{}", judged.date, enclosure(judged))
            }
        }
    }

    pub(super) fn in_full(&self) -> String {
        let LevelEnforcers { scoped_only, read_only, workspace_write, unrestricted } = &self.access;
        let list = |words: &[String]| match words {
            [] => "none".to_owned(),
            words => words.join(", "),
        };
        let folders: Vec<String> = self.login_folders.iter().map(|folder| format!("~/{folder}")).collect();
        let mut lines = vec![
            format!("{} ({})", self.title, self.agent),
            format!("  command      {}", command_line(&self.command)),
            format!("  install      {}", self.install),
            format!("  vendor       {}", self.vendor),
            format!(
                "  enforced by  scoped-only: {scoped_only} · read-only: {read_only} · workspace-write: {workspace_write} · \
                 unrestricted: {unrestricted}"
            ),
            format!("  own login    {}", list(&folders)),
            format!("  own hosts    {}", list(&self.hosts)),
            format!(
                "  base_url     {}",
                self.wire
                    .as_deref()
                    .map_or("not taken".to_owned(), |wire| format!("a server that speaks {wire}"))
            ),
            format!("  tried        {}", self.tried()),
            format!(
                "  row          {}",
                if self.is_yours { "yours, in the home of Nexus" } else { "of Nexus" }
            ),
        ];
        lines.extend(self.judged.as_ref().map(|judged| {
            let (passed, run) = judged.score();
            let version =
                judged.version.as_deref().map(|version| format!("version {version}, ")).unwrap_or_default();
            format!(
                "  judged       {version}{}: {passed} of {run} cases hold{}",
                judged.date,
                enclosure(judged)
            )
        }));
        lines.extend(self.source.iter().map(|source| format!("  source       {source}")));
        // A line break in a text of the row must not begin a line of its own.
        let lines: Vec<_> = lines.iter().map(|line| printable(line)).collect();
        format!("{}\n\nAn entry for nexus.yaml:\n\n{}", lines.join("\n"), self.entry())
    }

    fn tried(&self) -> String {
        match (self.evidence, &self.version) {
            _ if self.is_yours && self.judged.is_some() => "by `nexus agent judge` alone".to_owned(),
            _ if self.is_yours => "not judged".to_owned(),
            (AgentFactsEvidence::Documentation, _) => {
                "not run by Nexus; its documentation says so".to_owned()
            }
            (_, Some(version)) => format!("version {version}, against a simulated model"),
            _ => "see docs/reference/agents.md".to_owned(),
        }
    }

    /// Returns the advice on how to install it.
    pub(super) fn install(&self) -> &str {
        &self.install
    }

    /// Returns the lines of `nexus.yaml` that use it.
    pub(super) fn entry(&self) -> String {
        let credential = match (self.takes_credential, &self.wire) {
            // Clients of these two protocols add the version to the path; those of the others expect it in the
            // address.
            (true, Some(wire)) if matches!(wire.as_str(), "messages" | "gemini") => {
                ", base_url: \"http://127.0.0.1:8080\", credential: { env: MY_KEY }"
            }
            (true, Some(_)) => ", base_url: \"http://127.0.0.1:8080/v1\", credential: { env: MY_KEY }",
            (true, None) => ", credential: { env: MY_KEY }",
            (false, _) => "",
        };
        format!("backends:\n  {0}: {{ kind: acp, agent: {0}{credential} }}", yaml_name(&self.agent))
    }
}

/// Returns the outcome of the attempts to escape, unless all of them were made and failed.
fn enclosure(judged: &AgentJudgement) -> &'static str {
    let escapes = judged.levels.values().any(|level| !level.succeeded.is_empty() || level.fault.is_some());
    match (judged.is_enclosed(), escapes) {
        (true, _) => "",
        (false, true) => ", escapes",
        (false, false) => ", not attacked: the agent ran nothing",
    }
}

/// Writes a command as a shell would read it.
pub(super) fn command_line(words: &[String]) -> String {
    words.iter().map(shell_word).collect::<Vec<_>>().join(" ")
}

impl LevelEnforcers {
    fn of(access: &AccessTable) -> Self {
        let enforcer = JudgedLevel::enforcer_name;
        Self {
            scoped_only: enforcer(access.scoped_only),
            read_only: enforcer(access.read_only),
            workspace_write: enforcer(access.workspace_write),
            unrestricted: enforcer(access.unrestricted),
        }
    }
}

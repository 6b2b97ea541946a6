//! `nexus agent judge`: an installed agent against a simulated model on loopback.

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    process::ExitCode,
    time::SystemTime,
};

use futures::FutureExt as _;
use nexus::{
    AgentFiles, AgentJudgement, BuildContext, JudgedLevel, KnownAgentSummary, ToolAccess,
    process::{executable::Executable, sandbox::Sandbox},
};
use nexus_testkit::judge::{AGENT_PARTS, AgentUnderTest, judge_agent, verdict};
use schemars::JsonSchema;
use serde::Serialize;

use super::{find, unusable};
use crate::{
    EXIT_FAILED,
    args::AgentJudgeArgs,
    command_error::CommandError,
    output::{AnswerWriter, complain, printable, printable_lines},
};

/// Row of an agent in the table agent × capability × level × enforcer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JudgedAgent {
    /// Name of the agent.
    agent: String,
    /// The program that was judged.
    program: PathBuf,
    /// Verdict on each capability: yes, no, or the cases that do not hold.
    capabilities: BTreeMap<String, String>,
    /// The judgement, as it is recorded.
    judged: AgentJudgement,
    /// True if every case holds and no attempt to escape succeeded.
    is_clean: bool,
    /// File of the home with the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<PathBuf>,
}

pub(super) async fn judge(
    out: AnswerWriter,
    context: &BuildContext,
    args: &AgentJudgeArgs,
) -> Result<ExitCode, CommandError> {
    let agent = find(context, &args.name)?;
    let executable = program(&agent, args.program.as_deref())?;
    // The suite provokes attempts to escape, so it never runs without the sandbox.
    Sandbox::new().check().await.map_err(|error| {
        CommandError::failed(format_args!("an agent is judged in the sandbox of Nexus: {error}"))
    })?;
    let tested = AgentUnderTest { agent, executable, home: context.home.clone() };
    // The first ten characters of an RFC 3339 time are the date.
    let day = nexus_files::rfc3339::seconds(SystemTime::now()).chars().take(10).collect();
    // The suite panics if it cannot create its own files or ports.
    let judging = AssertUnwindSafe(judge_agent(&tested, day, |finding| complain(finding))).catch_unwind();
    let judged =
        judging.await.map_err(|_| CommandError::failed("the suite could not set up a case: see above"))?;
    let judged = judged.map_err(CommandError::usage)?;
    let files = AgentFiles::in_home(&context.home);
    let recorded = match args.no_record {
        true => None,
        false => {
            files.record(&args.name, &judged).map_err(|fault| unusable(&fault))?;
            Some(files.path(&args.name))
        }
    };
    let row = JudgedAgent::of(tested, judged, recorded);
    let is_clean = row.is_clean;
    out.line(&row, printable_lines(&row.as_text()));
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

fn program(agent: &KnownAgentSummary, named: Option<&Path>) -> Result<PathBuf, CommandError> {
    let name = match named {
        Some(path) => std::path::absolute(path).map_err(CommandError::failed)?.into_os_string(),
        None => agent.command.first().map(Into::into).unwrap_or_default(),
    };
    let found = Executable::find(&name, std::env::var_os("PATH").as_deref());
    let found = found.map_err(|error| CommandError::failed(error).with_advice(&agent.install))?;
    Ok(found.path().to_owned())
}

impl JudgedAgent {
    fn of(tested: AgentUnderTest, judged: AgentJudgement, recorded: Option<PathBuf>) -> Self {
        let capabilities = AGENT_PARTS.iter().map(|part| (part.name.to_owned(), verdict(part, &judged)));
        Self {
            agent: tested.agent.name,
            program: tested.executable,
            capabilities: capabilities.collect(),
            is_clean: judged.is_clean(),
            judged,
            recorded,
        }
    }

    fn as_text(&self) -> String {
        let (passed, run) = self.judged.score();
        let version = self.judged.version.as_deref().unwrap_or("of an unknown version");
        let mut lines = vec![format!("{} {version}: {passed} of {run} cases hold", self.agent)];
        lines.extend(AGENT_PARTS.iter().map(|part| {
            let verdict = self.capabilities.get(part.name).map(String::as_str).unwrap_or_default();
            format!("  {:15}  {verdict}", part.name)
        }));
        lines.extend(
            self.judged
                .levels
                .iter()
                .map(|(name, level)| format!("  {name:15}  {}", level_text(name, level))),
        );
        lines.extend(self.recorded.iter().map(|file| format!("recorded in {}", file.display())));
        // A line break in a text of the row or of the agent must not begin a line of its own.
        lines.iter().map(|line| printable(line)).collect::<Vec<_>>().join("\n")
    }
}

fn level_text(name: &str, level: &JudgedLevel) -> String {
    let JudgedLevel { enforcer, attempts, succeeded, fault } = level;
    let attacked = match (attempts, fault) {
        (_, Some(fault)) => format!(": {fault}"),
        (0, None) if level_of(name).is_some_and(|level| JudgedLevel::is_attacked(level, enforcer)) => {
            ": not attacked: the agent ran nothing".to_owned()
        }
        (0, None) => String::new(),
        (attempts, None) => format!(": {} of {attempts} attempts to escape succeeded", succeeded.len()),
    };
    format!("enforced by: {enforcer}{attacked}")
}

fn level_of(name: &str) -> Option<ToolAccess> {
    ToolAccess::ALL.into_iter().find(|level| level.as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_ran_nothing_is_not_called_enclosed() {
        let level = |enforcer: &str, attempts| JudgedLevel {
            enforcer: enforcer.to_owned(),
            attempts,
            succeeded: Vec::new(),
            fault: None,
        };
        let not_attacked = "enforced by: program: not attacked: the agent ran nothing";
        assert_eq!(level_text("read-only", &level("program", 0)), not_attacked);
        assert_eq!(level_text("read-only", &level("no", 0)), "enforced by: no");
        assert_eq!(level_text("unrestricted", &level("none", 0)), "enforced by: none");
        let attacked = "enforced by: sandbox: 0 of 40 attempts to escape succeeded";
        assert_eq!(level_text("workspace-write", &level("sandbox", 40)), attacked);
        let judged = |attempts| AgentJudgement {
            levels: ["read-only", "workspace-write"]
                .map(|name| (name.to_owned(), level("sandbox", attempts)))
                .into(),
            ..AgentJudgement::default()
        };
        assert!(judged(40).is_clean());
        assert!(!judged(0).is_enclosed() && !judged(0).is_clean());
    }
}

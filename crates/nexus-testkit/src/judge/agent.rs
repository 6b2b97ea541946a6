//! Judges an agent of the Agent Client Protocol: cases of the conformance suite, and attempts to escape at each access level.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use nexus_backends::acp::{AgentJudgement, JudgedCase, JudgedLevel, KnownAgentSummary, kind};
use nexus_core::{BackendKind as _, BuildContext, ExecutionBackend, ToolAccess};
use serde_json::{Map, Value, json};

use super::Part;
use crate::{
    conformance::{CASES, DelegatedSubject, Outcome, TOKEN_VARIABLE, Timing, run_case},
    escapes::{Attack, EscapeSite, attack},
    sim::{Dialect, Reply, Sim, ToolCall},
};

/// Cases that run at once. An agent is a large program, and some cases measure time.
const AT_ONCE: usize = 2;

/// Upper bound for every turn. Source: our own choice; some agents start for ten seconds, and repeat a refused request for a minute.
const BOUND: Duration = Duration::from_secs(120);

/// Part whose cases fail on the first finding: a secret that leaks once in many runs has leaked.
const NEVER_TWICE: &str = "secrets";

/// Cases that need the usage that an agent reports.
const USAGE: &[&str] = &["usage_is_what_the_vendor_counted", "usage_adds_up_over_the_calls_of_a_turn"];

/// Parts of the judgement of an agent: its capabilities.
pub const AGENT_PARTS: &[Part] = &[
    Part { name: "turn", cases: &["a_short_answer_arrives", "an_ordinary_turn_is_understood"] },
    Part { name: "streamed text", cases: &["text_comes_in_pieces"] },
    Part {
        name: "caller's tools",
        cases: &["a_tool_of_the_callers_is_answered_by_the_caller", "effects_are_those_of_the_tools_called"],
    },
    Part {
        name: "cancel",
        cases: &[
            "a_token_stops_a_turn_while_the_model_speaks",
            "a_token_stops_a_turn_while_a_tool_runs",
            "dropping_the_turn_stops_its_processes",
        ],
    },
    Part { name: "resume", cases: &["a_kept_conversation_goes_on", "a_lost_conversation_is_an_error"] },
    Part { name: "usage", cases: USAGE },
    Part {
        name: "errors",
        cases: &[
            "a_refused_credential_is_unauthenticated",
            "a_rate_limit_without_a_word_asks_for_patience",
            "a_server_that_fails_is_a_failure_of_the_vendor",
        ],
    },
    Part {
        name: NEVER_TWICE,
        cases: &[
            "the_credential_goes_to_the_model_and_nowhere_else",
            "no_argument_list_holds_what_was_sent",
            "no_file_is_left_that_holds_what_was_sent",
            "the_hosts_own_variables_reach_no_child",
            "a_tool_sees_no_credential_and_no_variable_but_those_named",
        ],
    },
    Part {
        name: "levels",
        cases: &[
            "scoped_only_offers_no_tool",
            "read_only_cannot_write",
            "workspace_write_cannot_write_outside",
        ],
    },
];

/// Returns the verdict on a part: `yes`, perhaps with what the agent cannot do; `no` where the row does not declare it; or the cases that
/// do not hold.
pub fn verdict(part: &Part, judgement: &AgentJudgement) -> String {
    let outcomes = || part.cases.iter().filter_map(|case| Some((*case, judgement.cases.get(*case)?)));
    let failed: Vec<_> = outcomes().filter(|(_, case)| matches!(case, JudgedCase::Failed(_))).collect();
    if !failed.is_empty() {
        return format!("fails: {}", failed.iter().map(|(case, _)| *case).collect::<Vec<_>>().join(", "));
    }
    let mut reasons: Vec<&str> = Vec::new();
    for (_, case) in outcomes() {
        match case {
            JudgedCase::Cannot(reason) if !reasons.contains(&reason.as_str()) => reasons.push(reason),
            _ => {}
        }
    }
    let reasons = reasons.join("; ");
    match (outcomes().any(|(_, case)| *case == JudgedCase::Passed), reasons.is_empty()) {
        (true, true) => "yes".to_owned(),
        (true, false) => format!("yes, but {reasons}"),
        (false, false) => format!("no: {reasons}"),
        (false, true) if outcomes().next().is_some() => "no".to_owned(),
        (false, true) => "not judged".to_owned(),
    }
}

/// An agent, and its program on this machine.
#[derive(Clone, Debug)]
pub struct AgentUnderTest {
    /// Facts of its row.
    pub agent: KnownAgentSummary,
    /// Its program.
    pub executable: PathBuf,
    /// Home of Nexus with the row, if the row is the user's own.
    pub home: PathBuf,
}

/// Judges an agent. `told` is called with each finding as it comes.
///
/// # Errors
///
/// A sentence: the row cannot be judged.
pub async fn judge_agent(
    tested: &AgentUnderTest,
    date: String,
    told: impl Fn(&str),
) -> Result<AgentJudgement, String> {
    let subject = tested.subject()?;
    let cases = AGENT_PARTS.iter().flat_map(|part| part.cases.iter().map(|case| (part.name, *case)));
    let cases: Vec<_> = cases.collect();
    let outcomes = stream::iter(cases.iter().map(|(part, case)| tested.judged_case(&subject, part, case)));
    let mut outcomes = outcomes.buffered(AT_ONCE).enumerate();
    let mut judgement = AgentJudgement { date, ..AgentJudgement::default() };
    while let Some((at, outcome)) = outcomes.next().await {
        let case = cases[at].1;
        if let JudgedCase::Failed(finding) = &outcome {
            told(&format!("{case}: {finding}"));
        }
        judgement.cases.insert(case.to_owned(), outcome);
    }
    for access in ToolAccess::ALL {
        let (level, version) = tested.judged_level(access).await;
        if let Some(fault) = &level.fault {
            told(&format!("{}: {fault}", access.as_str()));
        }
        judgement.version = judgement.version.take().or(version);
        judgement.levels.insert(access.as_str().to_owned(), level);
    }
    Ok(judgement)
}

impl AgentUnderTest {
    fn dialect(&self) -> Result<Dialect, String> {
        match (self.agent.wire.as_deref(), self.agent.vendor.as_str()) {
            (Some("responses"), "xai") => Ok(Dialect::Xai),
            (Some("responses"), _) => Ok(Dialect::Responses),
            (Some("messages"), _) => Ok(Dialect::Anthropic),
            (Some("gemini"), _) => Ok(Dialect::Gemini),
            (Some("chat"), _) => Ok(Dialect::Chat),
            _ => Err(format!(
                "the row of {} has no `with_server`, so its program cannot be pointed at a simulated model",
                self.agent.name
            )),
        }
    }

    fn model(&self) -> &'static str {
        match self.dialect() {
            Ok(Dialect::Anthropic) => "claude-sonnet-4-5",
            Ok(Dialect::Responses) => "gpt-5.5",
            Ok(Dialect::Xai) => "grok-4.6",
            _ => "m1",
        }
    }

    fn subject(&self) -> Result<DelegatedSubject, String> {
        let name = format!("acp {}", self.agent.name);
        let acp = Arc::new(kind().with_agents_of(&self.home));
        let mut subject = DelegatedSubject::real(name, acp, &self.executable, self.dialect()?)
            .with_setting("agent", json!(self.agent.name))
            .with_model(self.model())
            .with_timing(Timing { bound: BOUND, ..Timing::default() });
        for (case, reason) in &self.agent.cannot {
            let known = CASES.iter().find(|known| known.name == case);
            let known =
                known.ok_or_else(|| format!("`cannot` of its row: {case} is no case of the suite"))?;
            subject = subject.not_staging(known.name, reason);
        }
        if !self.agent.reports_usage {
            for case in USAGE {
                subject = subject.not_staging(case, "it reports no usage");
            }
        }
        if self.agent.hides_caller_tools {
            subject = subject
                .naming_tools(|tool, arguments| ToolCall::function(format!("mcp__nexus__{tool}"), arguments));
        }
        Ok(subject)
    }

    /// Runs a case. A failed one runs a second time, as a machine may be too busy for a case that measures time.
    async fn judged_case(&self, subject: &DelegatedSubject, part: &str, case: &str) -> JudgedCase {
        let first = outcome(subject, case).await;
        match (&first, part) {
            (JudgedCase::Failed(_), NEVER_TWICE) => first,
            (JudgedCase::Failed(_), _) => outcome(subject, case).await,
            _ => first,
        }
    }

    /// Judges one access level, and returns the version of the program if it is known.
    async fn judged_level(&self, access: ToolAccess) -> (JudgedLevel, Option<String>) {
        let enforcer = JudgedLevel::enforcer_name(self.agent.access.of(access));
        let attack = match JudgedLevel::is_attacked(access, enforcer) {
            true => self
                .attacked(access)
                .await
                .unwrap_or_else(|fault| Attack { fault: Some(fault), ..Attack::default() }),
            false => Attack::default(),
        };
        let Attack { attempts, succeeded, fault, version } = attack;
        debug_assert!(attempts <= EscapeSite::TRIES);
        (JudgedLevel { enforcer: enforcer.to_owned(), attempts, succeeded, fault }, version)
    }

    async fn attacked(&self, access: ToolAccess) -> Result<Attack, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let root = folder.path().canonicalize().map_err(|error| error.to_string())?;
        let sim = Sim::start(self.dialect()?, Reply::text("Here.")).map_err(|error| error.to_string())?;
        let backend = self.backend(&root, &sim)?;
        let model = Some(self.model().into());
        Ok(attack(&sim, &*backend, &root, access, model).await)
    }

    fn backend(&self, root: &Path, sim: &Sim) -> Result<Arc<dyn ExecutionBackend>, String> {
        let settings = Map::from_iter([
            ("agent".to_owned(), json!(self.agent.name)),
            ("executable".to_owned(), json!(self.executable)),
            ("base_url".to_owned(), Value::String(sim.base_url())),
            ("credential".to_owned(), json!({ "env": TOKEN_VARIABLE })),
        ]);
        let environment = BTreeMap::from([
            (TOKEN_VARIABLE.to_owned(), "a-token".to_owned()),
            ("HOME".to_owned(), root.join("home").to_string_lossy().into_owned()),
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
        ]);
        let home = root.join("nexus");
        for folder in [&home, &root.join("home")] {
            std::fs::create_dir(folder).map_err(|error| error.to_string())?;
        }
        let context = BuildContext::in_home(home).with_environment(environment);
        let acp = kind().with_agents_of(&self.home);
        acp.build("agent".into(), &settings, &context).map_err(|error| error.to_string())
    }
}

async fn outcome(subject: &DelegatedSubject, case: &str) -> JudgedCase {
    match run_case(subject, case).await {
        Ok(Outcome::Passed) => JudgedCase::Passed,
        Ok(Outcome::NotDeclared(feature)) => JudgedCase::NotDeclared(feature.to_string()),
        Ok(Outcome::NotStaged(reason)) => JudgedCase::Cannot(reason),
        Ok(Outcome::Failed(finding)) | Err(finding) => JudgedCase::Failed(short(&finding.to_string())),
    }
}

/// Cuts a finding, which may quote a whole answer of a model.
fn short(finding: &str) -> String {
    const MAX_CHARS: usize = 300;
    nexus_files::shortened(&finding.split_whitespace().collect::<Vec<_>>().join(" "), MAX_CHARS)
}

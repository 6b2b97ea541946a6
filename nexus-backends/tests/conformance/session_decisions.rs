//! One list of calls, made by a scripted model on every backend: through our own loop, and through the MCP server that a
//! vendor's program uses; beside its caller, and elsewhere. The session's decisions are the same, down to the last word.
//!
//! A program may refuse a call by itself, such as one of a tool that it does not have. Such a call does not reach the
//! session; the table in [`crate::parties`] has what the model is told then. On no backend is a tool out of scope asked.

mod scenarios;
mod tools;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use libtest_mimic::{Failed, Trial};
use nexus_core::{
    Brief, Decision, EventEnvelope, FinishReason, Limits, ParticipantScope, Session, ToolAccess,
    ToolCallStatus, TurnHost, TurnRequest,
};
use nexus_testkit::{
    conformance::{RemoteSubject, Setting, TOKEN_VARIABLE, Witness},
    effort,
    sim::{Reply, Scenario},
};

use self::{
    scenarios::Told,
    tools::{HIDDEN, Recorder},
};
use crate::parties::{self, Party};

/// The model's last words.
const ANSWER: &str = "That is all.";

pub(crate) fn trials(programs: &Path) -> Vec<Trial> {
    let here = parties::all(programs);
    let is_sent = |party: &&Party| effort::is_deep() || ["claude_fake", "responses"].contains(&&*party.name);
    let elsewhere: Vec<Party> = here.iter().filter(is_sent).map(elsewhere).collect();
    let trials = here.into_iter().chain(elsewhere).flat_map(|party| {
        let party = Arc::new(party);
        scenarios::all().into_iter().map(move |told| {
            let party = Arc::clone(&party);
            Trial::test(format!("session_decisions::{}::{}", party.name, told.name), move || {
                let runtime =
                    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
                runtime.block_on(hold(&party, &told)).map_err(Failed::from)
            })
        })
    });
    trials.collect()
}

/// The same, where its turns run elsewhere than their caller.
fn elsewhere(party: &Party) -> Party {
    Party {
        name: format!("{}_elsewhere", party.name),
        subject: Arc::new(RemoteSubject::new(Arc::clone(&party.subject))),
        refusal_of_unknown: party.refusal_of_unknown,
    }
}

/// Runs the calls on a backend, and holds what was decided against what a session decides on its own.
async fn hold(party: &Party, told: &Told) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    for name in ["work/inside", "user", "nexus"] {
        std::fs::create_dir_all(folder.path().join(name)).map_err(|error| error.to_string())?;
    }
    let work = folder.path().join("work");
    let recorder = Arc::new(Recorder::default());
    let session = Session::mint("clerk", scope(&work)?, Arc::clone(&recorder) as _);

    let call =
        |(name, arguments): &(&str, _)| party.subject.caller_tool(name, serde_json::Value::clone(arguments));
    let replies = told.replies.iter().map(|calls| Reply::calls(calls.iter().map(call)));
    let script = Scenario::new(replies.chain([Reply::text(ANSWER)]));
    let setting = Setting::new(script, folder.path().join("nexus"), environment(folder.path()));
    let stage = party.subject.stage(setting).await.map_err(|error| error.to_string())?;
    let mut request = TurnRequest::new("Do it.").with_tool_access(ToolAccess::ScopedOnly).in_directory(&work);
    if let Some(model) = party.subject.model() {
        request = request.with_model(model);
    }
    if let Some(most) = told.most_calls {
        request = request.with_limits(Limits::new().with_tool_calls(most));
    }
    let mut nobody = |_event: EventEnvelope| {};
    let host = TurnHost::new().with_session(Arc::clone(&session));
    let result =
        stage.backend.run_turn(request, host, &mut nobody).await.map_err(|error| format!("{error:?}"))?;
    if result.finish != FinishReason::Submitted {
        same("the answer", &result.text, &ANSWER.to_owned())?;
    }

    let is_refused = |name: &str| party.refusal_of_unknown.is_some() && told.is_unknown(name);
    let twin = Session::mint_with_budget("clerk", scope(&work)?, Arc::clone(&recorder) as _, told.most_calls);
    for (name, arguments) in told.replies.iter().flatten().filter(|(name, _)| !is_refused(name)) {
        // Only the decision counts here.
        let _ = twin.authorize(twin.token(), name, arguments);
    }
    same("the decisions", &sorted(&session.decisions()), &sorted(&twin.decisions()))?;
    let mut asked = recorder.asked();
    if asked.iter().any(|name| *name == HIDDEN) {
        return Err(format!("a tool out of scope was asked: {asked:?}"));
    }
    let allowed = twin.decisions().into_iter().filter(is_allowed);
    let mut expected: Vec<String> = allowed.map(|decision| decision.tool).collect();
    expected.sort();
    asked.sort();
    same("what was asked", &asked, &expected)?;

    let succeeded = result.tool_calls.iter().filter(|call| call.status == ToolCallStatus::Succeeded);
    let mut succeeded: Vec<_> =
        succeeded.filter(|call| told.names(&call.name)).map(|call| call.name.clone()).collect();
    succeeded.sort();
    same("calls that succeeded", &succeeded, &expected)?;
    tells_why(party, told, &*stage.witness)
}

/// Of a call that the program refuses by itself, the model is told what the table says.
fn tells_why(party: &Party, told: &Told, witness: &dyn Witness) -> Result<(), String> {
    let results = witness.model_calls().pop().map(|call| call.tool_results).unwrap_or_default();
    for (name, _) in told.replies.iter().flatten().filter(|(name, _)| told.is_unknown(name)) {
        let words = match party.refusal_of_unknown {
            Some(words) => words.replace("NAME", name),
            None => format!("there is no tool named {name:?}"),
        };
        if !results.iter().any(|text| text.contains(&words)) {
            return Err(format!("the model is not told {words:?}, but {results:?}"));
        }
    }
    Ok(())
}

/// All tools but one, and what lies in `inside`.
fn scope(work: &Path) -> Result<ParticipantScope, String> {
    let mut brief = Brief::new(work).reading("inside");
    for pattern in ["look*", "open", "submit"] {
        brief = brief.tool(pattern.parse().map_err(|error| format!("{error:?}"))?);
    }
    ParticipantScope::assemble(&brief, None, None).map_err(|error| error.to_string())
}

fn environment(folder: &Path) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::from([
        (TOKEN_VARIABLE.to_owned(), "a-credential-of-nobody".to_owned()),
        ("HOME".to_owned(), folder.join("user").to_string_lossy().into_owned()),
    ]);
    environment.extend(std::env::var("PATH").map(|path| ("PATH".to_owned(), path)));
    environment
}

/// Calls of one reply may come to the session in any order.
fn sorted(decisions: &[Decision]) -> Vec<String> {
    let mut written: Vec<_> = decisions.iter().map(|decision| format!("{decision:?}")).collect();
    written.sort();
    written
}

fn is_allowed(decision: &Decision) -> bool {
    matches!(decision.outcome, nexus_core::DecisionOutcome::Allowed)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, saw: &T, wanted: &T) -> Result<(), String> {
    if saw == wanted { Ok(()) } else { Err(format!("{what}: wanted {wanted:?}, saw {saw:?}")) }
}

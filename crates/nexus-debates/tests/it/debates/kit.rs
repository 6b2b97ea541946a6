//! A home, and agents that do what a test says.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use nexus_core::{BuildContext, ErrorKind, FinishReason, OutputSupport, Registry, harness::Failure};
use nexus_debates::{
    DebateAdvanceRequest, DebateCreateRequest, DebateError, DebateView, Debates, DebatesOptions, SourceDraft,
};
use nexus_router::Router;
use nexus_tasks::{Tasks, TasksOptions};
use nexus_testkit::scripted::{ScriptedBackend, ScriptedEnd, ScriptedTurn, failure, text_of};
use serde_json::{Value, json};

/// What an agent was asked, offered and answered in one turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The backend that ran it.
    pub(crate) backend: String,
    /// The tool by which it hands in, or `framer`.
    pub(crate) part: String,
    pub(crate) request: String,
    pub(crate) tools: Vec<String>,
    /// What each tool that takes no argument answered, and each file that it could list.
    pub(crate) answers: String,
}

impl Seen {
    /// The name of the panelist, as its brief has it.
    pub(crate) fn panelist(&self) -> &str {
        let named =
            self.request.split_once("[your role as a panelist: ").and_then(|(_, rest)| rest.split_once(']'));
        named.map_or("arbiter", |(name, _)| name)
    }

    /// All that it got to know.
    pub(crate) fn all(&self) -> String {
        format!("{}\n{}", self.request, self.answers)
    }
}

/// What an agent does once it has read all that it can.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Hands this in, or answers it.
    Submit(Value),
    /// Calls a tool; what it answers is taken down.
    Call(&'static str, Value),
    Fail(ErrorKind),
    /// Waits until it is stopped.
    Hang,
}

type Script = dyn Fn(&Seen) -> Vec<Act> + Send + Sync;

/// What all agents have in common.
pub(crate) struct Agents {
    script: Box<Script>,
    pub(crate) seen: Mutex<Vec<Seen>>,
}

impl Agents {
    async fn play(&self, turn: &mut ScriptedTurn<'_>) -> ScriptedEnd {
        // A reminder goes to an agent that begins anew, and knows who it is.
        turn.log.resume = None;
        let tools: Vec<String> = turn.session.definitions().iter().map(|tool| tool.name.clone()).collect();
        let submit = tools.iter().find(|tool| tool.starts_with("submit_")).cloned();
        let system = turn.request.system.clone().unwrap_or_default();
        let mut seen = Seen {
            backend: turn.log.provenance.backend.to_string(),
            part: submit.clone().unwrap_or_else(|| "framer".to_owned()),
            request: format!("{system}\n{}", turn.request.prompt_text()),
            tools: tools.clone(),
            answers: String::new(),
        };
        let mut call = async |tool: &str, arguments: Value| {
            Ok::<_, Failure>(text_of(&turn.call(tool, arguments).await?))
        };
        for tool in tools.iter().filter(|tool| tool.starts_with("read_") && *tool != "read_file") {
            let mut offset = 0;
            loop {
                let page = call(tool, json!({ "offset": offset })).await?;
                seen.answers.push_str(&page);
                let next = page
                    .rsplit_once("continue with offset ")
                    .and_then(|(_, next)| next.trim_end().strip_suffix(']'));
                match next.and_then(|next| next.parse::<usize>().ok()) {
                    Some(next) => offset = next,
                    None => break,
                }
            }
        }
        if tools.iter().any(|tool| tool == "list_files") {
            seen.answers.push_str(&call("list_files", json!({})).await?);
            seen.answers.push_str(&call("search_files", json!({ "pattern": "." })).await?);
        }
        let mut output = None;
        for act in (self.script)(&seen) {
            match (act, &submit) {
                (Act::Submit(value), None) => {
                    turn.say(value.to_string());
                    output = Some(value);
                }
                (Act::Submit(value), Some(tool)) => {
                    let answer = turn.call(tool, value).await?;
                    seen.answers.push_str(&text_of(&answer));
                }
                (Act::Call(tool, arguments), _) => {
                    let answer = turn.call(tool, arguments).await?;
                    seen.answers.push_str(&text_of(&answer));
                }
                (Act::Fail(kind), _) => {
                    self.seen.lock().unwrap().push(seen);
                    return Err(failure(kind));
                }
                (Act::Hang, _) => return Err(turn.hang().await),
            }
        }
        self.seen.lock().unwrap().push(seen);
        Ok((FinishReason::Stop, output))
    }
}

/// The backend `id`, whose turns go by what all agents have in common.
fn puppet(id: &str, agents: &Arc<Agents>) -> Arc<ScriptedBackend> {
    let agents = Arc::clone(agents);
    let backend = ScriptedBackend::new(id, move |turn| {
        let agents = Arc::clone(&agents);
        Box::pin(async move { agents.play(turn).await })
    });
    Arc::new(backend.capable(|capabilities| capabilities.output = OutputSupport::Native))
}

pub(crate) fn agents(script: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Arc<Agents> {
    Arc::new(Agents { script: Box::new(script), seen: Mutex::default() })
}

/// Three seats of three vendors, and who frames and judges.
pub(crate) fn router(agents: &Arc<Agents>) -> Router {
    router_of(agents, json!({}))
}

/// The same, and who takes part in tasks.
pub(crate) fn router_with_tasks(agents: &Arc<Agents>) -> Router {
    let of = |tier: &str, phase: &str| json!({ "tier": tier, "phase": phase, "group": "alpha", "model": { "exact": "any" } });
    router_of(
        agents,
        json!({
            "orchestrator": of("operations", "orchestrate"),
            "executor": of("execution", "implement"),
            "reviewer": of("operations", "review"),
        }),
    )
}

fn router_of(agents: &Arc<Agents>, further: Value) -> Router {
    let ids = ["alpha", "beta", "gamma"];
    let builder = Router::builder(Registry::new(), BuildContext::in_home("home"));
    let builder = ids.iter().fold(builder, |builder, id| {
        builder.backend_of(format!("{id}-corp").as_str().into(), puppet(id, agents))
    });
    let seat = |id: &&str| json!({ "group": id, "model": { "exact": "any" } });
    let first = json!({ "group": "alpha", "model": { "exact": "any" } });
    let mut types = json!({ "framer": first, "arbiter": first, "panelist": { "panel": "roster" } });
    if let (Value::Object(types), Value::Object(further)) = (&mut types, further) {
        types.extend(further);
    }
    builder
        .from_value(json!({
            "groups": { "alpha": ["alpha"], "beta": ["beta"], "gamma": ["gamma"] },
            "types": types,
            "panels": { "roster": { "seats": ids.iter().map(seat).collect::<Vec<_>>() } },
        }))
        .unwrap()
}

/// The debates of a home below `root`.
pub(crate) fn debates(root: &Path, agents: &Arc<Agents>) -> Debates {
    debates_with(root, agents, |options| options)
}

pub(crate) fn debates_with(
    root: &Path,
    agents: &Arc<Agents>,
    change: impl FnOnce(DebatesOptions) -> DebatesOptions,
) -> Debates {
    let home = root.join("home");
    let router = router(agents);
    let tasks = Tasks::new(router.clone(), TasksOptions::in_home(&home));
    let mut options = DebatesOptions::in_home(&home);
    options.roots = vec![root.join("papers")];
    Debates::new(router, tasks, change(options))
}

/// A debate on caches with three sources.
pub(crate) fn question() -> DebateCreateRequest {
    let source = |name: &str| SourceDraft {
        name: name.to_owned(),
        text: Some(format!("What only {name} says.\n")),
        path: None,
    };
    DebateCreateRequest {
        question: "Shall the cache be written through?".to_owned(),
        sources: ["costs", "incidents", "traces"].map(source).into(),
        ..DebateCreateRequest::default()
    }
}

/// The frame that an honest framer makes of it.
pub(crate) fn frame() -> Value {
    json!({
        "claims": [{ "id": "safe", "text": "It loses nothing." }, { "id": "fast", "text": "It is fast enough." }],
        "panelists": [
            { "name": "ann", "role": "Counts costs.", "registered": null, "sources": ["costs"] },
            { "name": "bob", "role": "Was on call.", "registered": null, "sources": ["incidents"] },
            { "name": "cyd", "role": "Reads traces.", "registered": null, "sources": ["traces"] },
        ],
        "relevance": [],
    })
}

fn stands(safe: &str, fast: &str) -> Value {
    json!([{ "claim": "safe", "stance": safe }, { "claim": "fast", "stance": fast }])
}

/// A word that stands in the raw rebuttal of one panelist and nowhere else.
pub(crate) fn canary(panelist: &str) -> String {
    format!("canary-of-{panelist}-9f31")
}

/// What honest agents do: `ann` supports what `bob` opposes, `cyd` abstains, and `bob` is convinced in the second round.
pub(crate) fn honest(seen: &Seen) -> Vec<Act> {
    let name = seen.panelist().to_owned();
    let (safe, fast) = match name.as_str() {
        "ann" => ("support", "support"),
        "bob" => ("oppose", "support"),
        _ => ("abstain", "support"),
    };
    let findings = || {
        json!([{
            "id": "loss", "claim": "safe",
            "sides": [
                { "panelists": ["ann"], "steelman": "A write that returned is on the disk." },
                { "panelists": ["bob"], "steelman": "A crash between two writes leaves one of them." },
            ],
        }])
    };
    let second = seen.request.contains("your answers of the earlier rounds");
    let submitted = match seen.part.as_str() {
        "framer" => frame(),
        "submit_opening" => json!({
            "positions": stands(safe, fast),
            "arguments": [{ "claim": "safe", "text": format!("{name} thinks so.") }],
            "summary": format!("{name} has a view."),
        }),
        "submit_analysis" => json!({ "findings": findings() }),
        "submit_rebuttal" => json!({
            "answers": [{ "finding": "loss", "text": format!("{} says otherwise.", canary(&name)) }],
            "positions": if second && name == "bob" { stands("support", fast) } else { stands(safe, fast) },
        }),
        "submit_judgement" => {
            json!({ "close": seen.answers.contains("the answers of bob in round 2"), "why": "bob may yet move", "findings": findings() })
        }
        "submit_statement" => json!({
            "positions": if name == "bob" { stands("support", fast) } else { stands(safe, fast) },
            "statement": format!("{name} ends here."),
        }),
        "submit_interpretation" => json!({ "text": "They agree in the end." }),
        other => panic!("{other}"),
    };
    vec![Act::Submit(submitted)]
}

pub(crate) async fn advance(debates: &Debates, id: &str) -> Result<DebateView, DebateError> {
    loop {
        let view =
            debates.advance(DebateAdvanceRequest { debate_id: id.to_owned(), wait_s: Some(50) }).await?;
        if !view.running {
            return Ok(view);
        }
    }
}

/// Walks a debate to its end, and says by which stages.
pub(crate) async fn walk(debates: &Debates, id: &str) -> Vec<String> {
    let mut stages = Vec::new();
    loop {
        let view = advance(debates, id).await.unwrap();
        assert!(serde_json::to_vec(&view).unwrap().len() <= 9_900);
        stages.push(view.status.to_string());
        if view.status == "done" {
            return stages;
        }
    }
}

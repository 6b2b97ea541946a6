//! Many delegated turns at once, each with an MCP server of its own: every answer and every decision is of its own turn, and
//! afterwards no port, no task and no process is left.
//!
//! All of them are in flight at the same time: the tool of each turn answers only when the tools of all were asked.
//! With fakes everywhere; with the real programs if the environment names all three.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use libtest_mimic::{Failed, Trial};
use nexus_core::{
    DecisionOutcome, Effects, EventEnvelope, ParticipantScope, Session, ToolAccess, ToolCall, ToolDefinition,
    ToolResult, ToolRouter, TurnHost, TurnRequest,
};
use nexus_testkit::{
    child_test,
    conformance::{Setting, TOKEN_VARIABLE},
    sim::Scenario,
};
use serde_json::json;
use tokio::sync::Barrier;

use crate::parties::{self, Party};

/// Turns of fakes at once.
const FAKES: usize = 64;

/// Turns of real programs at once.
const REAL: usize = 8;

/// How long all turns may take to get as far as their tool.
const PATIENCE: Duration = Duration::from_secs(240);

/// How long tasks and processes may take to be gone after the last turn.
const AFTERWARDS: Duration = Duration::from_secs(60);

/// Names the trial that a process was started to run alone.
const ALONE: &str = "NEXUS_TEST_ALONE_TRIAL";

pub(crate) fn trials(programs: &Path) -> Vec<Trial> {
    let delegated = parties::all(programs).into_iter().filter(|one| one.refusal_of_unknown.is_some());
    let (fakes, real): (Vec<Party>, Vec<Party>) = delegated.partition(|one| one.name.ends_with("_fake"));
    let mut trials = vec![trial("concurrent_turns::sixty_four_fakes_are_kept_apart", fakes, FAKES)];
    if real.len() >= 3 {
        trials.push(trial("concurrent_turns::eight_real_programs_are_kept_apart", real, REAL));
    }
    trials
}

/// A trial that runs in a process of its own, since it counts what its process has open.
fn trial(name: &'static str, parties: Vec<Party>, count: usize) -> Trial {
    Trial::test(name, move || {
        if std::env::var_os(ALONE).is_none_or(|alone| alone != name) {
            let program = std::env::current_exe()?;
            let output = Command::new(program).args([name, "--exact"]).env(ALONE, name).output()?;
            child_test::assert_passed(name, &output);
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(are_kept_apart(&parties, count)).map_err(Failed::from)
    })
}

async fn are_kept_apart(parties: &[Party], count: usize) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    // What the first turn of all sets up is there before anything is counted.
    let alone = Arc::new(Meeting::of(1));
    for (number, party) in parties.iter().enumerate() {
        run(party, 1000 + number, &alone, folder.path()).await?;
    }
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();

    let meeting = Arc::new(Meeting::of(count));
    let turns = (0..count).zip(parties.iter().cycle());
    let turns = turns.map(|(number, party)| run(party, number, &meeting, folder.path()));
    join_all(turns).await.into_iter().collect::<Result<Vec<()>, String>>()?;

    let ports = meeting.ports.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if ports.len() < count {
        return Err(format!("{} ports were open while {count} turns were in flight", ports.len()));
    }
    let left = listening().map_err(|error| error.to_string())?;
    let leaked: Vec<_> = meeting.servers(&left).collect();
    if !leaked.is_empty() {
        return Err(format!("still open: {leaked:?}"));
    }
    is_gone("tasks", || {
        let now = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        (now > tasks).then(|| format!("{now}, and {tasks} before"))
    })
    .await?;
    is_gone("processes", || {
        let left = processes_below(folder.path());
        (!left.is_empty()).then(|| left.join(", "))
    })
    .await
}

/// Runs one turn, and looks whether all of it is its own.
async fn run(party: &Party, number: usize, meeting: &Arc<Meeting>, folder: &Path) -> Result<(), String> {
    let fail = |what: String| format!("turn {number} of {}: {what}", party.name);
    let place = folder.join(number.to_string());
    for name in ["work", "user", "nexus"] {
        fs::create_dir_all(place.join(name)).map_err(|error| fail(error.to_string()))?;
    }
    let clerk = format!("clerk-{number}");
    let tool = Arc::new(Bell { number, meeting: Arc::clone(meeting) });
    let session = Session::mint(clerk.as_str(), ParticipantScope::unrestricted(), tool);
    let arguments = json!({ "word": format!("word-{number}") });
    let call = party.subject.caller_tool("ring", arguments.clone());
    let script = Scenario::tool_then_text(call, format!("Turn {number} is done."));
    let setting = Setting::new(script, place.join("nexus"), environment(&place));
    let stage = party.subject.stage(setting).await.map_err(|error| fail(error.to_string()))?;
    let request = TurnRequest::new(format!("This is turn {number}."))
        .with_tool_access(ToolAccess::ScopedOnly)
        .in_directory(place.join("work"));
    let request = match party.subject.model() {
        Some(model) => request.with_model(model),
        None => request,
    };
    let mut nobody = |_event: EventEnvelope| {};
    let host = TurnHost::new().with_session(Arc::clone(&session));
    let turn = stage.backend.run_turn(request, host, &mut nobody);
    let result = turn.await.map_err(|error| fail(format!("{error:?}")))?;

    let text = &result.text;
    if *text != format!("Turn {number} is done.") {
        return Err(fail(format!("it answered {text:?}")));
    }
    let [ring] = result.tool_calls.as_slice() else {
        return Err(fail(format!("its calls are {:?}", result.tool_calls)));
    };
    let own = Bell::answer(number);
    let is_own = format!("{:?}", ring.output).contains(&own);
    let told = stage.witness.model_calls().pop().map(|call| call.tool_results).unwrap_or_default();
    if !is_own || told.len() != 1 || !told.iter().all(|text| text.contains(&own)) {
        return Err(fail(format!("its tool answered {:?}, and its model was told {told:?}", ring.output)));
    }
    let decisions = session.decisions();
    let [decision] = decisions.as_slice() else { return Err(fail(format!("decided: {decisions:?}"))) };
    let is_own = decision.participant.as_str() == clerk && decision.arguments == arguments;
    if !is_own || decision.tool != "ring" || decision.outcome != DecisionOutcome::Allowed {
        return Err(fail(format!("decided: {decision:?}")));
    }
    Ok(())
}

/// Where the tools of all turns wait for each other.
#[derive(Debug)]
struct Meeting {
    barrier: Barrier,
    /// Ports that were open before.
    before: BTreeSet<u16>,
    /// Ports that were open when all were there.
    ports: Mutex<BTreeSet<u16>>,
}

impl Meeting {
    fn of(count: usize) -> Self {
        let before = listening().unwrap_or_default();
        Self { barrier: Barrier::new(count), before, ports: Mutex::default() }
    }

    /// Those of `open` that the turns opened.
    fn servers<'a>(&'a self, open: &'a BTreeSet<u16>) -> impl Iterator<Item = u16> + 'a {
        open.difference(&self.before).copied()
    }
}

/// The tool of one turn.
#[derive(Debug)]
struct Bell {
    number: usize,
    meeting: Arc<Meeting>,
}

impl Bell {
    fn answer(number: usize) -> String {
        format!("the bell of turn {number} rang.")
    }
}

#[async_trait]
impl ToolRouter for Bell {
    fn definitions(&self) -> Vec<ToolDefinition> {
        let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
        vec![ToolDefinition::new("ring", "Rings a bell.", schema).with_effects(Effects::Read)]
    }

    fn check_arguments(&self, _tool: &str, _arguments: &serde_json::Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, _call: ToolCall) -> ToolResult {
        let Ok(met) = tokio::time::timeout(PATIENCE, self.meeting.barrier.wait()).await else {
            return ToolResult::error("the others did not come");
        };
        if met.is_leader() {
            let open = listening().unwrap_or_default();
            let servers = self.meeting.servers(&open).collect();
            *self.meeting.ports.lock().unwrap_or_else(PoisonError::into_inner) = servers;
        }
        // Nobody leaves before the ports are counted.
        self.meeting.barrier.wait().await;
        ToolResult::text(Self::answer(self.number))
    }
}

fn environment(place: &Path) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::from([
        (TOKEN_VARIABLE.to_owned(), "a-credential-of-nobody".to_owned()),
        ("HOME".to_owned(), place.join("user").to_string_lossy().into_owned()),
    ]);
    environment.extend(std::env::var("PATH").map(|path| ("PATH".to_owned(), path)));
    environment
}

/// The ports of 127.0.0.1 on which this process listens.
fn listening() -> io::Result<BTreeSet<u16>> {
    let mut own = BTreeSet::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        // A descriptor may be closed meanwhile.
        let Ok(target) = fs::read_link(entry?.path()) else { continue };
        let target = target.to_string_lossy();
        if let Some(inode) = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
            own.insert(inode.to_owned());
        }
    }
    let table = fs::read_to_string("/proc/self/net/tcp")?;
    let port = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, ..] = fields.as_slice() else { return None };
        let is_own = *state == "0A" && fields.get(9).is_some_and(|inode| own.contains(*inode));
        let (_, port) = local.split_once(':').filter(|_| is_own)?;
        u16::from_str_radix(port, 16).ok()
    };
    Ok(table.lines().filter_map(port).collect())
}

/// Processes, other than this one, in whose environment or directory is `folder`, and zombies of this one.
fn processes_below(folder: &Path) -> Vec<String> {
    let (folder, own) = (folder.to_string_lossy().into_owned(), std::process::id().to_string());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_left = |pid: &String| {
        let read = |name: &str| {
            let bytes = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let status = read("status");
        let is_zombie = status.contains(&format!("PPid:\t{own}\n")) && status.contains("State:\tZ");
        *pid != own && (is_zombie || read("environ").contains(&folder))
    };
    let pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(is_left).collect()
}

/// Waits until `left` finds nothing any more.
async fn is_gone(what: &str, left: impl Fn() -> Option<String>) -> Result<(), String> {
    let until = tokio::time::Instant::now() + AFTERWARDS;
    while let Some(still) = left() {
        if tokio::time::Instant::now() > until {
            return Err(format!("{what} left after {AFTERWARDS:?}: {still}"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

//! Turns over the fleet, and what came of them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    fs,
    io::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use nexus_core::{
    Effects, EventEnvelope, ExecutionBackend as _, Limits, Tool, Toolbox, TurnError, TurnEvent, TurnHost,
    TurnRequest, TurnResult,
};
use nexus_fleet::{Fleet, FleetBackend};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    process::Role,
    work::{EFFECTS, Job, OVER, working},
};

/// What a turn may take beyond its deadline.
pub(crate) const BEYOND: Duration = Duration::from_secs(20);

/// One turn, and what its caller saw.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) name: String,
    job: Job,
    /// `None`: it did not end in time.
    pub(crate) outcome: Option<Result<TurnResult, TurnError>>,
    pub(crate) took: Duration,
    events: Vec<EventEnvelope>,
    calls: u32,
}

/// Runs turns on one backend.
#[derive(Clone)]
pub(crate) struct Caller {
    backend: Arc<FleetBackend>,
    job: Job,
    deadline: Duration,
}

impl Caller {
    pub(crate) fn new(role: &Role, job: Job, deadline: Duration) -> Self {
        let fleet = Fleet::new(role.settings()).expect("a thread");
        let local = Arc::new(working("none", &role.folder));
        Self { backend: Arc::new(FleetBackend::new(local, &role.pool, fleet)), job, deadline }
    }

    pub(crate) async fn turn(self, name: String) -> Ran {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let schema = json!({ "type": "object", "properties": { "call": { "type": "integer" } } });
        let count = Tool::with_schema("count", "Counts.", schema, move |_: Value| {
            let calls = Arc::clone(&counted);
            async move { calls.fetch_add(1, Ordering::Relaxed).to_string() }
        });
        let mut host = TurnHost::new();
        if self.job.calls > 0 {
            host = host.with_tools(Arc::new(Toolbox::new().with(count.with_effects(Effects::Read))));
        }
        let request = self.job.label(TurnRequest::new("Work."), &name);
        let request = request.with_limits(Limits::default().with_deadline(self.deadline));
        let mut events = Vec::new();
        let mut sink = |event| events.push(event);
        let began = Instant::now();
        let running = self.backend.run_turn(request, host, &mut sink);
        let outcome = tokio::time::timeout(self.deadline + BEYOND, running).await.ok();
        // What blocks the thread counts as well.
        let took = began.elapsed();
        let outcome = outcome.filter(|_| took <= self.deadline + BEYOND);
        Ran { name, job: self.job, outcome, took, events, calls: calls.load(Ordering::Relaxed) }
    }

    /// Starts `count` turns at once.
    pub(crate) fn turns(&self, count: usize) -> JoinSet<Ran> {
        (0..count).map(|index| self.clone().turn(format!("t{index}"))).collect()
    }
}

/// What a caller does that is killed.
pub(crate) async fn call(role: &Role) {
    let second = Duration::from_secs(1);
    let job = Job { events: 240, every: second, wait: Duration::ZERO, calls: 0 };
    Caller::new(role, job, 300 * second).turns(role.turns).join_all().await;
}

/// Which turns have a line in a file, and how many.
pub(crate) fn lines(folder: &Path, file: &str) -> HashMap<String, u32> {
    let mut lines = HashMap::new();
    for line in fs::read_to_string(folder.join(file)).unwrap_or_default().lines() {
        let name = line.split(' ').next().unwrap_or_default();
        *lines.entry(name.to_owned()).or_default() += 1;
    }
    lines
}

/// How many turns began.
pub(crate) fn begun(folder: &Path) -> usize {
    lines(folder, EFFECTS).len()
}

/// How many turns are over at their workers.
pub(crate) fn over(folder: &Path) -> usize {
    lines(folder, OVER).len()
}

/// What came of many turns.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) turns: usize,
    pub(crate) well: usize,
    /// How many ended with each error.
    pub(crate) failed: BTreeMap<String, usize>,
    /// Ended well, and had no effect.
    lost: usize,
    /// Had their effect more than once.
    doubled: usize,
    /// Did not end in time.
    hung: usize,
    /// Said that nothing was written, and something was.
    denied: usize,
    /// Events with a gap, out of order, or doubled; or a text that is not the answer.
    garbled: usize,
    /// The caller's tool was called more often than the model called it.
    called_twice: usize,
    /// Ended well without every event, and said so.
    pub(crate) without_events: usize,
    longest: Duration,
    /// What the failures said, each once.
    messages: BTreeMap<String, usize>,
}

impl Outcomes {
    pub(crate) fn of(ran: &[Ran], folder: &Path) -> Self {
        let effects = lines(folder, EFFECTS);
        let mut outcomes = Self { turns: ran.len(), ..Self::default() };
        for ran in ran {
            let effects = effects.get(&ran.name).copied().unwrap_or_default();
            outcomes.longest = outcomes.longest.max(ran.took);
            outcomes.doubled += usize::from(effects > 1);
            outcomes.called_twice += usize::from(ran.calls > ran.job.calls);
            let is_whole = ran.deltas();
            outcomes.garbled += usize::from(is_whole.is_none());
            match &ran.outcome {
                None => outcomes.hung += 1,
                Some(Ok(result)) => {
                    outcomes.well += 1;
                    outcomes.lost += usize::from(effects == 0);
                    let text: String = (0..ran.job.events).map(|number| format!("{number} ")).collect();
                    let is_warned = ran.is_warned();
                    outcomes.without_events += usize::from(is_warned);
                    let is_short = is_whole.is_some_and(|count| count != ran.job.events) && !is_warned;
                    outcomes.garbled += usize::from(result.text != text || is_short);
                }
                Some(Err(error)) => {
                    *outcomes.failed.entry(format!("{:?}", error.kind())).or_default() += 1;
                    let message = error.message().unwrap_or_default().to_owned();
                    *outcomes
                        .messages
                        .entry(format!("{:?}, {:?}: {message}", error.kind(), error.partial().effects))
                        .or_default() += 1;
                    outcomes.denied +=
                        usize::from(effects > 0 && error.partial().effects.allow_another_try());
                }
            }
        }
        outcomes
    }

    /// Writes the line of the table, past the capture of the harness.
    pub(crate) fn print(&self, what: &str) {
        let mut text = format!(
            "{what}: {} turns, {} well, failed {:?}; lost {}, doubled {}, hung {}, denied {}, garbled {}, called twice {}, \
             without events {}; longest {:.1} s\n",
            self.turns,
            self.well,
            self.failed,
            self.lost,
            self.doubled,
            self.hung,
            self.denied,
            self.garbled,
            self.called_twice,
            self.without_events,
            self.longest.as_secs_f64(),
        );
        for (message, count) in self.messages.iter().take(12) {
            let _ = writeln!(text, "    {count} x {message}");
        }
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// What never may be.
    pub(crate) fn check(&self) {
        let faults = (self.lost, self.doubled, self.hung, self.denied, self.garbled, self.called_twice);
        assert_eq!(
            faults,
            (0, 0, 0, 0, 0, 0),
            "(lost, doubled, hung, denied, garbled, called twice) of {self:#?}"
        );
    }

    /// How many ended with this error.
    pub(crate) fn failed(&self, kind: &str) -> usize {
        self.failed.get(kind).copied().unwrap_or_default()
    }
}

impl Ran {
    /// How many deltas came, if they and the numbers of the events are in order and without a gap.
    fn deltas(&self) -> Option<u32> {
        let is_numbered = self.events.iter().enumerate().all(|(index, event)| event.sequence == index as u64);
        let mut next = 0;
        for event in &self.events {
            if let TurnEvent::TextDelta(delta) = &event.event {
                // Those that come at once are joined, as of a turn that runs here.
                for word in delta.text.split_inclusive(' ') {
                    if word != format!("{next} ") {
                        return None;
                    }
                    next += 1;
                }
            }
        }
        is_numbered.then_some(next)
    }

    /// Whether it was told that events may be missing.
    fn is_warned(&self) -> bool {
        let is_warning = |event: &EventEnvelope| matches!(&event.event, TurnEvent::Warning(warning) if warning.text.contains("missing"));
        self.events.iter().any(is_warning)
    }
}

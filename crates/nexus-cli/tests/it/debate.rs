//! `nexus debate`: a question walked to where a panel stands, from a shell, on a simulated model.

use std::{
    collections::BTreeMap,
    fs,
    ops::Deref,
    time::{Duration, Instant},
};

use nexus_testkit::sim::{Conversation, Reply, ToolCall};
use serde_json::Value;

use crate::{
    debate_model,
    support::{
        debaters, text,
        two_vendors::{NEW_DEBATE, TwoVendors, debate_stage},
    },
};

/// A home with a configuration, two sources, and a simulated model.
struct Stage(TwoVendors);

impl Deref for Stage {
    type Target = TwoVendors;

    fn deref(&self) -> &TwoVendors {
        &self.0
    }
}

impl Stage {
    fn new(reply: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self(debate_stage(reply))
    }

    /// A new debate, by its id.
    fn created(&self) -> String {
        self.said(&NEW_DEBATE).trim().to_owned()
    }

    /// The records of the stages that count.
    fn records(&self, id: &str) -> BTreeMap<String, Value> {
        let folder = self.folder.nexus_home().join("tasks").join(id);
        let status: Value = serde_json::from_slice(&fs::read(folder.join("status.json")).unwrap()).unwrap();
        let stages = status["data"]["settled"]
            .as_array()
            .unwrap()
            .iter()
            .map(|stage| stage.as_str().unwrap().to_owned());
        let read = |stage: String| {
            let bytes = fs::read(folder.join("stages").join(format!("{stage}.json"))).unwrap();
            (stage, serde_json::from_slice(&bytes).unwrap())
        };
        stages.map(read).collect()
    }
}

#[test]
fn a_question_is_walked_to_a_record_and_a_report() {
    let stage = Stage::new(debate_model::reply);
    let id = stage.created();
    assert!(stage.said(&["debate", "list"]).contains(&id));
    let one = stage.nexus(&["debate", "advance", "last"]);
    assert!(one.status.success() && text(&one.stdout).contains("is opening"), "{}", text(&one.stderr));
    let all = stage.nexus(&["debate", "advance", &id[..6], "--all"]);
    let (said, beside) = (text(&all.stdout), text(&all.stderr));
    assert!(all.status.success(), "{said}\n{beside}");
    assert!(said.contains("is done") && said.contains("safe: converged (support)"), "{said}");
    assert!(beside.contains("next: cross examining, round 1"), "{beside}");
    let record = stage.said(&["debate", "show", "last"]);
    for said in [
        "runner has weighed the case against it.",
        "reader looks at it from its own place.",
        "The panel agrees",
    ] {
        assert!(record.contains(said), "{said}: {record}");
    }
    let report = stage.folder.path().join("debate.html");
    stage.said(&["debate", "report", &id, "--output", report.to_str().unwrap()]);
    assert!(fs::read_to_string(report).unwrap().contains("Tension density by round"));
    assert!(stage.said(&["debate", "watch", &id]).contains("stage settled"));
    // What is done is neither run again nor cancelled.
    assert!(stage.said(&["debate", "advance", &id]).contains("is done"));
    assert!(stage.said(&["debate", "advance", &id, "--json"]).contains("\"type\":\"stage\""));
    assert!(stage.said(&["debate", "show", &id, "--json"]).contains("The panel agrees"));
    let cancelled = stage.nexus(&["debate", "cancel", &id]);
    assert!(
        !cancelled.status.success() && text(&cancelled.stderr).contains("is done"),
        "{}",
        text(&cancelled.stderr)
    );
    // Only what has ended is removed.
    let open = stage.created();
    let refused = stage.nexus(&["debate", "remove", &open]);
    assert!(
        !refused.status.success() && text(&refused.stderr).contains("the debate is framing"),
        "{}",
        text(&refused.stderr)
    );
    assert!(stage.said(&["debate", "remove", &id]).contains("is removed"));
    let listed = stage.said(&["debate", "list"]);
    assert!(listed.contains(&open) && !listed.contains(&id), "{listed}");
    // Each panelist's sources reached it and nobody else.
    for captured in stage.model.requests() {
        let body = String::from_utf8_lossy(&captured.body);
        assert!(
            !(body.contains("Of 12 crashes")
                && body.contains("A write takes 0.2 ms")
                && body.contains("your role as a panelist"))
        );
    }
}

#[test]
fn no_request_of_a_panelist_holds_a_raw_word_of_another() {
    let stage = Stage::new(|conversation| {
        debaters::reply(conversation, |tool, arguments| ToolCall::function(tool, arguments))
    });
    let id = stage.created();
    stage.said(&["debate", "advance", &id, "--all"]);
    debaters::has_every_word(&stage.said(&["debate", "show", &id]));
    debaters::nobody_heard_too_much(&stage.model.main_calls());
}

#[test]
fn what_is_wrong_on_the_command_line_is_said_with_the_way_out() {
    let stage = Stage::new(debate_model::reply);
    for (arguments, said) in [
        (&["debate", "new", "q", "--source", "crashes.md"][..], "NAME=PATH"),
        (&["debate", "new", "q", "--source", "../x=crashes.md"], "is not a name of a source"),
        (&["debate", "new", "q", "--panelists", "10"], "`panelists` is not a number from 2 to 9"),
        (&["debate", "new", "q", "--min-rounds", "4", "--max-rounds", "2"], "min_rounds"),
        (&["debate", "new", " "], "`question` is empty"),
        (&["debate", "show", "last"], "nexus debate new"),
        (&["debate", "advance", "nothing-here"], "nexus debate list"),
    ] {
        let output = stage.nexus(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
    assert_eq!(stage.said(&["debate", "list"]), "");
}

#[test]
fn a_command_that_is_killed_in_each_stage_costs_that_stage_alone() {
    let twin = Stage::new(debate_model::reply);
    let expected = {
        let id = twin.created();
        twin.said(&["debate", "advance", &id, "--all"]);
        twin.records(&id)
    };
    let stages =
        ["framing", "opening", "analysing", "round-1", "close-1", "converging", "final", "synthesising"];
    assert_eq!(expected.len(), stages.len(), "{:?}", expected.keys());
    // Slow enough to be killed in the middle of a stage.
    let slow = |conversation: &Conversation| {
        debate_model::reply(conversation).map(|reply| reply.after(Duration::from_millis(400)))
    };
    let stage = Stage::new(slow);
    let id = stage.created();
    let log = stage.folder.nexus_home().join("tasks").join(&id).join("events.jsonl");
    for name in stages {
        let mut command = stage.folder.command(&["debate", "advance", &id]).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let began = format!("\"stage\":\"{name}\"");
        loop {
            // Before the log is read: what ended has written all of it.
            let has_ended = command.try_wait().unwrap().is_some();
            if fs::read_to_string(&log).unwrap_or_default().contains(&began) {
                break;
            }
            assert!(!has_ended && Instant::now() < deadline, "{name} does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        command.kill().unwrap();
        command.wait().unwrap();
        let settled = stage.records(&id);
        // What was settled before is as it was.
        assert!(settled.iter().all(|(name, record)| expected[name] == *record));
        if !settled.contains_key(name) {
            stage.said(&["debate", "advance", &id]);
        }
        assert!(stage.records(&id).contains_key(name), "{name}");
    }
    assert_eq!(stage.records(&id), expected);
}

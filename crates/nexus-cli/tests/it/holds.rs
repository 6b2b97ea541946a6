//! A vendor's refusal counts for every `nexus` of one home.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use nexus_testkit::sim::{Dialect, Fault, Reply, Scenario, Sim, StatusFault};
use serde_json::Value;

use crate::support::{Folder, text};

#[test]
fn what_one_process_was_refused_another_shows_and_does_not_ask_for() {
    // No terminal obeys the vendor's words.
    let refusal = Reply::fault(Fault::Status(StatusFault {
        retry_after: Some(300),
        message: Some("slow\u{202e}ly".into()),
        ..StatusFault::new(429)
    }));
    let scenario = Scenario::new(vec![refusal; 8]).models(["simulated"]);
    let model = Sim::start(Dialect::Responses, scenario).unwrap();
    let folder = Folder::with(&format!(
        "groups: {{ main: [local] }}\nmodels: {{ simulated: {{ main: simulated }} }}\n\
         backends: {{ local: {{ kind: responses, base_url: {:?}, vendor: one }} }}\n\
         types: {{ talker: {{ tier: execution, phase: talk, group: main, model: simulated }} }}\n",
        model.base_url()
    ));
    let before = folder.nexus(&["explain", "talker"]);
    assert!(text(&before.stdout).contains("tried first"), "{before:?}");
    assert!(!folder.nexus_home().join("holds").exists(), "something was made to look");

    let refused = folder.nexus(&["run", "talker", "Hello"]);
    assert!(!refused.status.success(), "{refused:?}");
    let explained = folder.nexus(&["explain", "talker"]);
    assert!(text(&explained.stdout).contains("skipped: on hold for "), "{explained:?}");
    assert!(!text(&explained.stdout).contains('\u{202e}'), "{explained:?}");
    let status = folder.nexus(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let passed_over = &status["kinds"][0]["runs_on"][0]["passed_over"][0];
    assert_eq!(passed_over["backend"], "local", "{status:#}");

    let again = folder.nexus(&["run", "talker", "Hello"]);
    assert!(!again.status.success(), "{again:?}");
    let said = text(&again.stderr);
    assert!(said.contains("not asked, since an earlier turn was refused: on hold for "), "{said}");
    assert!(said.contains("`nexus hold release local`"), "{said}");
    // Whichever command is asked names the end, the vendor's words and the way out.
    for (command, is_failure) in [
        (&["check", "--probe"][..], true),
        (&["status"], true),
        (&["doctor"], true),
        (&["hold", "list"], false),
    ] {
        let found = folder.nexus(command);
        let said = text(&found.stdout);
        assert!(said.contains("on hold for ") && said.contains("429"), "{command:?}: {said}");
        assert!(!said.contains('\u{202e}'), "{command:?}: {said}");
        assert_eq!(found.status.success(), !is_failure, "{command:?}: {said}");
        assert!(!said.contains("ready (") && !said.contains("nothing is wrong"), "{command:?}: {said}");
    }
    let listed = folder.nexus(&["hold", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!((&listed["backend"], &listed["is_standing"]), (&"local".into(), &true.into()), "{listed}");
    let unknown = folder.nexus(&["hold", "release", "lokal"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    let asked = || model.requests().iter().filter(|request| request.is_main_call()).count();
    assert_eq!(asked(), 1);

    let released = folder.nexus(&["hold", "release", "local"]);
    assert_eq!(text(&released.stdout), "local: released\n", "{released:?}");
    assert_eq!(text(&folder.nexus(&["hold", "list"]).stdout), "");
    folder.nexus(&["run", "talker", "Hello"]);
    assert_eq!(asked(), 2);
    assert!(text(&folder.nexus(&["hold", "release", "--all"]).stdout).contains("local: released"));
}

/// A turn that may wait goes on when another command releases the hold.
#[test]
fn a_turn_waits_for_a_reset_if_it_is_told_to() {
    let refusal = Reply::fault(Fault::rate_limited(300));
    let scenario = Scenario::new(vec![refusal, Reply::text("Here I am.")]).models(["simulated"]);
    let model = Sim::start(Dialect::Responses, scenario).unwrap();
    let folder = Folder::with(&format!(
        "groups: {{ main: [local] }}\nmodels: {{ simulated: {{ main: simulated }} }}\n\
         backends: {{ local: {{ kind: responses, base_url: {:?}, vendor: one }} }}\n\
         types: {{ talker: {{ tier: execution, phase: talk, group: main, model: simulated }} }}\n",
        model.base_url()
    ));
    let mut command = folder.command(&["run", "--wait-for-reset", "talker", "Hello"]);
    let mut waiting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("waiting until")).expect("it waits");
    assert!(line.contains("UTC (in 4 minutes)") || line.contains("UTC (in 5 minutes)"), "{line}");

    // A shorter wait than the vendor's does not begin.
    let refused = folder.nexus(&["run", "--wait-for-reset=2s", "talker", "Hello"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("not asked"), "{refused:?}");
    let odd = folder.nexus(&["run", "--wait-for-reset=soon", "talker", "Hello"]);
    assert_eq!(odd.status.code(), Some(2), "{odd:?}");
    assert!(text(&odd.stderr).contains("30s, 10m or 2h"), "{odd:?}");

    assert!(folder.nexus(&["hold", "release", "local"]).status.success());
    let ended = waiting.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(text(&ended.stdout), "Here I am.\n");
    assert_eq!(model.requests().iter().filter(|request| request.is_main_call()).count(), 2);
}

#[test]
fn a_backend_without_the_model_that_it_needs_is_not_ready() {
    let model = Sim::start(Dialect::Responses, Reply::text("Hello")).unwrap();
    let configured = |own: &str, of_type: &str| {
        Folder::with(&format!(
            "groups: {{ main: [local] }}\n\
             backends: {{ local: {{ kind: responses, base_url: {:?}, vendor: one{own} }} }}\n\
             types: {{ talker: {{ tier: execution, phase: talk, group: main{of_type} }} }}\n",
            model.base_url()
        ))
    };
    let folder = configured("", "");
    for command in [&["check", "--probe"][..], &["status"], &["doctor"]] {
        let found = folder.nexus(command);
        let said = text(&found.stdout);
        assert!(said.contains("no model is named"), "{command:?}: {said}");
        assert!(!found.status.success() && !said.contains("ready ("), "{command:?}: {said}");
    }
    for folder in [configured(", model: m", ""), configured("", ", model: { exact: m }")] {
        let found = folder.nexus(&["check", "--probe"]);
        assert!(found.status.success() && text(&found.stdout).contains("ready ("), "{found:?}");
        assert!(folder.nexus(&["run", "talker", "Hello"]).status.success());
    }
}

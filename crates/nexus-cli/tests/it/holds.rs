//! A vendor's refusal counts for every `nexus` of one home.

use nexus_testkit::sim::{Dialect, Fault, Reply, Scenario, Sim};
use serde_json::Value;

use crate::support::{Folder, text};

#[test]
fn what_one_process_was_refused_another_shows_and_does_not_ask_for() {
    let refusal = Reply::fault(Fault::rate_limited(300));
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
    let status = folder.nexus(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let passed_over = &status["kinds"][0]["runs_on"][0]["passed_over"][0];
    assert_eq!(passed_over["backend"], "local", "{status:#}");

    let again = folder.nexus(&["run", "talker", "Hello"]);
    assert!(!again.status.success(), "{again:?}");
    assert_eq!(model.requests().iter().filter(|request| request.is_main_call()).count(), 1);
}

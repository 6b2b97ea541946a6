//! What every finished walk has to show.

use std::collections::{BTreeMap, BTreeSet};

use nexus_testkit::sim::RecordedRequest;

use super::{
    models::{self, DONE, LENSES, canary},
    stage::{ANTHROPIC_TOKEN, BEFORE, CALLER_TOKEN, OPENAI_TOKEN, Stage, XAI_TOKEN},
};

/// The names that nothing of ours may say to an agent.
const VENDORS: [&str; 7] = ["anthropic", "claude", "openai", "codex", "gpt-5", "grok", "xai"];

const TOKENS: [&str; 4] = [ANTHROPIC_TOKEN, OPENAI_TOKEN, XAI_TOKEN, CALLER_TOKEN];

/// Lands the task, and looks at the file, the commit and the report.
pub(crate) fn landed(stage: &Stage) {
    let task = stage.told(&["status", "last"]);
    assert_eq!(task["status"], "complete", "{task}");
    assert_eq!(stage.file(), BEFORE, "nothing is in the project before it is landed");
    let landing = stage.told(&["land", "last"]);
    assert_eq!(
        (&landing["outcome"], &landing["branch"]),
        (&"landed".into(), &"refs/heads/main".into()),
        "{landing}"
    );
    assert_eq!(stage.file(), DONE);
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert_eq!(stage.git(&["rev-list", "--count", "HEAD"]).trim(), "2");
    let trailers = stage.git(&["log", "-1", "--format=%(trailers:only,unfold)"]);
    let id = task["task_id"].as_str().unwrap();
    assert_eq!(
        trailers.trim(),
        format!("Task: {id}\nStep: 0\nAgent-Type: executor\nVerdict: advance"),
        "{trailers}"
    );
    let commit = stage.git(&["log", "-1", "--format=%an %ae %cn %ce %B"]).to_lowercase();
    assert_eq!(named(&commit), Vec::<&str>::new(), "{commit}");
    let report = stage.nexus(&["task", "report", "last"]);
    let page = String::from_utf8(report.stdout).unwrap();
    assert!(page.contains(id) && page.contains("</html>"), "{page}");
    for token in TOKENS {
        assert!(!page.contains(token));
    }
}

/// The vendors that ran the turns of each phase, as the log has them.
pub(crate) fn vendors_of_phases(stage: &Stage) -> BTreeMap<String, BTreeSet<String>> {
    let mut vendors = BTreeMap::<String, BTreeSet<String>>::new();
    for turn in stage.logged("turn_ended").iter().filter(|turn| turn["failure"].is_null()) {
        let text = |key: &str| turn[key].as_str().unwrap_or_default().to_owned();
        vendors.entry(text("phase")).or_default().insert(text("vendor"));
    }
    vendors
}

/// How many calls the models' servers were sent for each phase by each vendor's program, up to the one that handed something in:
/// a program may ask its model once more before it is ended.
pub(crate) fn calls_of_phases(stage: &Stage) -> BTreeMap<(&'static str, &'static str), usize> {
    let mut counts = BTreeMap::new();
    for (vendor, call) in
        stage.calls().into_iter().filter(|(_, call)| !models::has_handed_in(&call.conversation))
    {
        let phase = models::phase(&call.conversation).unwrap_or("none of ours");
        *counts.entry((phase, vendor)).or_default() += 1;
    }
    counts
}

/// Nothing that we sent to an agent names a vendor, nor says what another seat said.
pub(crate) fn nobody_heard_too_much(stage: &Stage) {
    for (vendor, call) in stage.calls() {
        let sent = ours(&call).replace(&*stage.path().to_string_lossy(), "").to_lowercase();
        assert_eq!(named(&sent), Vec::<&str>::new(), "{vendor}: {sent}");
        let own = models::lens(&call.conversation);
        let body = String::from_utf8_lossy(&call.body);
        for lens in LENSES.into_iter().filter(|lens| own != Some(lens)) {
            assert!(!body.contains(&canary(lens)), "{vendor}, {own:?}: {body}");
        }
    }
    // What is looked for was there to be found.
    for lens in LENSES {
        let heard = stage
            .calls()
            .into_iter()
            .filter(|(_, call)| call.conversation.tool_results().concat().contains(&canary(lens)));
        assert!(heard.count() > 0, "{lens}");
    }
}

/// The part of a request that is ours: from the beginning of our prompt on, what the user said, the tools and their answers. What
/// a program says of itself and of where it runs is not.
fn ours(call: &RecordedRequest) -> String {
    let conversation = &call.conversation;
    let phase = models::phase(conversation);
    let beginning = models::PHASES.iter().find(|(name, _)| phase == Some(name)).map(|(_, text)| *text);
    let (_, prompt) =
        conversation.system.split_once(beginning.expect("a prompt of ours")).expect("it is there");
    let tools = conversation.tools.iter().filter(|tool| tool.full_name().contains("nexus"));
    let tools = tools.map(|tool| tool.description.clone()).collect::<Vec<_>>().join("\n");
    let results = conversation.tool_results().join("\n");
    let said = conversation.user_texts();
    let said = said.iter().map(|text| without_reminders(text)).collect::<Vec<_>>().join("\n");
    [prompt, &said, &tools, &results].join("\n")
}

/// A text without what one program puts between these marks in front of it and after it.
fn without_reminders(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, reminder)) = rest.split_once("<system-reminder>") {
        kept += before;
        rest = reminder.split_once("</system-reminder>").map_or("", |(_, after)| after);
    }
    kept + rest
}

fn named(text: &str) -> Vec<&'static str> {
    VENDORS.into_iter().filter(|vendor| text.contains(vendor)).collect()
}

/// A token is where it belongs and nowhere else.
pub(crate) fn tokens_stay_where_they_belong(stage: &Stage, callers: &[RecordedRequest]) {
    for (_, sim, own) in stage.sims() {
        assert_eq!(stage.files_with(own, stage.path()), Vec::<std::path::PathBuf>::new(), "{own}");
        for request in sim.requests() {
            holds_no_other(&request, own);
        }
    }
    assert_eq!(
        stage.files_with(CALLER_TOKEN, &stage.home().join(".nexus")),
        Vec::<std::path::PathBuf>::new()
    );
    for request in callers {
        holds_no_other(request, CALLER_TOKEN);
    }
}

/// No token is in the body of this request, and only its own in a header.
fn holds_no_other(request: &RecordedRequest, own: &str) {
    let body = String::from_utf8_lossy(&request.body);
    for token in TOKENS {
        assert!(!body.contains(token), "{} {body}", request.path);
        let in_header = request.headers.iter().any(|(_, value)| value.contains(token));
        assert!(token == own || !in_header, "{} {:?}", request.path, request.headers);
    }
}

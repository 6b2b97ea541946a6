//! What clients are shown: the tools of the server, and the report.

use std::{fs, path::PathBuf};

use nexus_debates::{
    DebateResultRequest, DebateSpawnTaskRequest, DebateTools, Debates, DebatesOptions, debate_report,
};
use nexus_mcp::{ToolKind, ToolService as _};
use nexus_tasks::{SandboxKind, TaskSettings, Tasks, TasksOptions};
use nexus_testkit::browser::look_at;
use nexus_trees::Git;
use serde_json::json;

use super::kit::{Act, Seen, agents, debates, honest, question, walk};

#[test]
fn seven_tools_are_listed_without_a_configuration_and_fit_every_client() {
    let tools =
        DebateTools::new(|| -> Result<Debates, nexus_debates::DebateError> { panic!("it is opened") });
    let info = tools.info();
    let begin: String = info.instructions.chars().take(250).collect();
    assert!(
        ["debate_create", "debate_advance", "debate_result"].iter().all(|tool| begin.contains(tool)),
        "{begin}"
    );
    let served = tools.tools();
    let names: Vec<&str> = served.iter().map(|tool| tool.name.as_str()).collect();
    let expected = [
        "debate_create",
        "debate_advance",
        "debate_status",
        "debate_result",
        "debate_list",
        "debate_cancel",
        "debate_spawn_task",
    ];
    assert_eq!(names, expected);
    for tool in &served {
        assert!(tool.description.len() <= 2_048, "{}", tool.name);
        for schema in [&tool.input_schema, tool.output_schema.as_ref().unwrap()] {
            assert!(jsonschema::meta::is_valid(schema) && schema["type"] == "object", "{}", tool.name);
        }
        let reads = ["debate_status", "debate_result", "debate_list"].contains(&tool.name.as_str());
        assert_eq!(tool.kind == ToolKind::ReadOnly, reads, "{}", tool.name);
    }
}

const HOSTILE: &str = "</script><img src=http://canary.invalid/x onerror=alert(1)>\"'&amp;\u{202e}\u{1b}[2J";

/// Honest in what has a name, and hostile in every text.
fn hostile(seen: &Seen) -> Vec<Act> {
    let Some(Act::Submit(mut value)) = honest(seen).pop() else { unreachable!() };
    for place in [
        "/claims/0/text",
        "/panelists/0/role",
        "/arguments/0/text",
        "/summary",
        "/answers/0/text",
        "/why",
        "/statement",
        "/text",
    ] {
        if let Some(text) = value.pointer_mut(place) {
            *text = json!(HOSTILE);
        }
    }
    // As long as a rebuttal it would be a copy of it.
    if let Some(text) = value.pointer_mut("/findings/0/sides/0/steelman") {
        *text = json!("</pre><img src=http://canary.invalid/y>");
    }
    vec![Act::Submit(value)]
}

#[tokio::test]
async fn the_report_of_a_hostile_debate_is_a_page_that_does_nothing() {
    let place = tempfile::tempdir().unwrap();
    let agents = agents(hostile);
    let debates = debates(place.path(), &agents);
    let mut request = question();
    request.question = HOSTILE.to_owned();
    request.labels.insert("issue".to_owned(), "</td><script>alert(1)</script>".to_owned());
    let id = debates.create(request).await.unwrap().debate_id;
    walk(&debates, &id).await;
    let debate = debates.store().open(&id).unwrap();
    let page = debate_report(&debate).unwrap();
    assert!(!page.contains("<img") && !page.contains("<script"));
    assert!(
        page.contains("&lt;img src=http://canary.invalid/x onerror=alert(1)&gt;")
            && page.contains("\\u{202e}")
    );
    for said in [
        "converged (support)",
        "support (revised)",
        "Tension density by round",
        "alpha-corp",
        "ann.r1.1",
        "an outsider",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let result = debates.result(DebateResultRequest { debate_id: id, offset: 0 }).await.unwrap();
    assert!(result.record.contains(HOSTILE));
    let Some(looked) = look_at(&page).unwrap() else {
        assert!(std::env::var_os("NEXUS_TEST_BROWSER").is_none(), "a browser is required here");
        return println!("NOT TESTED: there is no browser");
    };
    assert!(!looked.requests.iter().any(|url| url.contains("canary.invalid")), "{:?}", looked.requests);
    assert!(looked.dom.contains("<span class=\"good\">done</span>"));
    if let Some(folder) = std::env::var_os("NEXUS_TEST_PICTURES") {
        fs::write(PathBuf::from(folder).join("debate.png"), &looked.picture).unwrap();
    }
}

#[tokio::test]
async fn a_task_that_follows_from_a_debate_is_linked_both_ways_and_knows_its_record() {
    if Git::find().is_err() {
        assert!(std::env::var_os("NEXUS_TEST_GIT").is_none(), "git is required here");
        return println!("NOT TESTED: there is no git");
    }
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let project = root.join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("cache.rs"), "fn put() {}\n").unwrap();
    // A record that is longer than what a task is given of it.
    let agents = agents(|seen: &Seen| {
        let mut acts = honest(seen);
        if let (Some(Act::Submit(value)), "submit_opening") = (acts.last_mut(), seen.part.as_str()) {
            let long = json!({ "claim": "safe", "text": "word ".repeat(1_600) });
            value["arguments"].as_array_mut().unwrap().extend(vec![long; 4]);
        }
        acts
    });
    let (router, home) = (crate::debates::kit::router_with_tasks(&agents), root.join("home"));
    let mut settings = TaskSettings::default();
    settings.sandbox.kind = SandboxKind::None;
    settings.min_vendors = Some(1);
    let mut options = TasksOptions::in_home(&home);
    (options.roots, options.settings) = (vec![root.clone()], settings);
    let tasks = Tasks::new(router.clone(), options);
    let debates = Debates::new(router, tasks.clone(), DebatesOptions::in_home(&home));
    let id = debates.create(question()).await.unwrap().debate_id;
    walk(&debates, &id).await;
    let request = DebateSpawnTaskRequest {
        debate_id: id.clone(),
        goal: "Write it through.".to_owned(),
        project,
        context: Some("Mind the tests.".to_owned()),
    };
    let spawned = debates.spawn_task(request, &[]).await.unwrap();
    let debate = debates.store().open(&id).unwrap().snapshot().unwrap();
    assert_eq!(debate.links.iter().map(ToString::to_string).collect::<Vec<_>>(), [&*spawned.task_id]);
    let task = tasks.store().open(&spawned.task_id).unwrap().snapshot().unwrap();
    assert_eq!(task.links.iter().map(ToString::to_string).collect::<Vec<_>>(), [id]);
    let context = task.data.context.unwrap();
    assert!(context.starts_with("Mind the tests.") && context.contains("ann thinks so."), "{context}");
    // What it came to is not what is cut off.
    for said in ["They agree in the end.", "- safe: converged (support)", "more bytes)"] {
        assert!(context.contains(said), "{said}: {context}");
    }
    // Each kind of workspace is a stranger to the other's calls.
    assert!(debates.store().open(&spawned.task_id).is_err());
    assert_eq!(tasks.store().list().unwrap().entries.len(), 1);
    assert_eq!(debates.store().list().unwrap().entries.len(), 1);
}

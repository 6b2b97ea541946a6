//! The gate behind the work: a review by itself, the reflector, and work that only reads.
#![cfg(target_os = "linux")]

use std::sync::Arc;

use nexus_core::{Budget, ErrorKind};
use nexus_tasks::{
    AgentPhase, Handoff, HandoffDraft, Reflection, ReviewDecision, ReviewOutcome, StepEnd, StepEvidence,
    StepInterrupted, StepRecord, StepWork,
};
use nexus_testkit::scripted::{Act, ScriptedBackend};
use nexus_work::AgentType;
use serde_json::{Value, json};

use crate::support::{
    agent,
    attempts::{Cast, World, advance, call, hand_in, one_step, refute, verdict, without_sandbox, write},
};

fn handoff(action: &Value) -> Handoff {
    let draft = json!({ "claims": [{ "text": "It is done." }], "action": action });
    Handoff::accept(serde_json::from_value::<HandoffDraft>(draft).unwrap(), &StepEvidence::new()).unwrap()
}

/// Work that nobody here did: files, and a handoff.
fn prepared(world: &World) -> StepWork {
    StepWork {
        commit: world.commit(&[("src/new", "1\n")]),
        handoffs: vec![(0, handoff(&json!("step_done")))],
        evidence: StepEvidence::new(),
        is_complete: false,
    }
}

fn seats<'a>(one: &'a Arc<ScriptedBackend>, two: &'a Arc<ScriptedBackend>) -> Cast<'a> {
    Cast {
        executors: vec![(one, "acme")],
        seats: vec![vec![(one, "acme")], vec![(two, "zenith")]],
        ..Cast::default()
    }
}

#[tokio::test]
async fn a_review_runs_on_work_that_it_was_given() {
    let Some(world) = World::with_settings(&[("src/old", "0\n")], one_step(), without_sandbox()) else {
        return;
    };
    let probe = json!({ "argv": ["sh", "-c", "ls src"] });
    let by_probe = |id: &'static str| {
        vec![
            call("run_probe", probe.clone()),
            Act::then(move |answers| {
                assert!(answers[0].contains("differs: task_base/now"), "{}", answers[0]);
                let id = answers[0].lines().next().unwrap().to_owned();
                assert!(id.starts_with("probe-"), "{id}");
                vec![call("submit_verdict", verdict("advance", &["outcome", "signs"], &id))]
            }),
            Act::Say(id.into()),
        ]
    };
    let (one, two) = (agent("one", vec![by_probe("a")]), agent("two", vec![by_probe("b")]));
    let router = seats(&one, &two).router();
    let work = prepared(&world);
    let review = world.attempt(&router).dispatch_review(&work).await.unwrap();
    let ReviewOutcome::Settled(verdict) = &review.outcome else { panic!("{review:?}") };
    assert_eq!(verdict.decision(), ReviewDecision::Advance);
    // Each cites a run of its own; the union has both, and the lines of the diff.
    let cited: Vec<String> = verdict.criteria()[0].evidence.iter().map(ToString::to_string).collect();
    assert_eq!(cited, ["probe-1", "probe-2"]);
    for id in ["probe-1", "probe-2", "diff:src/new:1"] {
        assert!(review.evidence.contains(&id.parse().unwrap()), "{id}");
    }
    assert_eq!(world.tree.read_ref("head").unwrap(), None);
}

#[tokio::test]
async fn a_review_of_a_kind_that_is_not_bound_or_without_a_plan_for_it_asks_nobody() {
    let Some(mut world) = World::new(&[("src/old", "0\n")], one_step()) else { return };
    let one = agent("one", Vec::new());
    let mut cast = seats(&one, &one);
    cast.without_panel = true;
    let router = cast.router();
    let mut attempt = world.attempt(&router);
    attempt.cursor.entry = 7;
    let review = attempt.dispatch_review(&prepared(&world)).await.unwrap();
    assert!(matches!(review.outcome, ReviewOutcome::Failed { .. }), "{review:?}");
    drop(attempt);
    world.cancel.cancel();
    let router = seats(&one, &one).router();
    assert_eq!(world.attempt(&router).dispatch_review(&prepared(&world)).await, Err(StepInterrupted));
    world.cancel = nexus_core::CancelToken::new();
    assert_eq!(one.turns(), 0);
}

fn work() -> Vec<Act> {
    vec![write("src/new", "1\n"), hand_in(json!("step_done"))]
}

/// An attempt whose work is refuted, with a reflector that does this.
async fn reflected(world: &World, acts: Vec<Vec<Act>>) -> (StepRecord, Arc<ScriptedBackend>) {
    let maker = agent("maker", vec![work()]);
    let (one, two) = (agent("one", vec![vec![refute("Look.")]]), agent("two", vec![vec![advance()]]));
    let thinker = agent("thinker", acts);
    let cast = Cast {
        executors: vec![(&maker, "acme")],
        seats: vec![vec![(&one, "acme")], vec![(&two, "zenith")]],
        reflector: Some((&thinker, "third")),
        ..Cast::default()
    };
    (world.attempt(&cast.router()).run().await.unwrap(), thinker)
}

fn reflect(reflection: Value) -> Act {
    call("submit_reflection", reflection)
}

#[tokio::test]
async fn a_reflector_says_how_a_verdict_that_does_not_advance_goes_on() {
    let again = StepEnd::Retried { max_retries: 2 };
    let clear = json!({ "re_brief": { "amendment": { "clarifications": ["Zero has no sign."] } } });
    let hint = json!({ "re_dispatch": { "hint": "Begin with zero." } });
    let terminal = json!({ "accept_terminal": { "reason": "It cannot be done." } });
    for (answer, end) in [(clear, Some(again.clone())), (hint, Some(again)), (terminal, None)] {
        let Some(world) = World::new(&[("src/old", "0\n")], one_step()) else { return };
        let (record, thinker) =
            reflected(&world, vec![vec![call("read_handoffs", json!({})), reflect(answer.clone())]]).await;
        assert_eq!(
            serde_json::to_value(record.reflection.as_ref().unwrap())
                .unwrap()
                .as_object()
                .unwrap()
                .keys()
                .next(),
            answer.as_object().unwrap().keys().next()
        );
        match end {
            Some(end) => assert_eq!(record.end, end),
            None => assert!(matches!(record.end, StepEnd::Escalated { error: None, .. }), "{:?}", record.end),
        }
        let read = &thinker.answered()[0];
        assert!(read.contains("[the verdict that you reflect on]\n> decision: retry"), "{read}");
        assert_eq!(thinker.asked()[0].tool_names(), AgentPhase::Reflect.tools());
    }
}

#[tokio::test]
async fn a_reflector_adds_to_a_brief_that_holds_and_to_nothing_else() {
    let Some(mut world) = World::new(&[("src/old", "0\n")], one_step()) else { return };
    world.settings.max_refused_submissions = 7;
    let taken = json!({ "re_brief": { "amendment": {
        "clarifications": ["Zero has no sign."], "criteria": [{ "id": "zero", "text": "sum() is 0" }],
    } } });
    let odd = [
        json!({ "re_brief": { "amendment": {} } }),
        json!({ "re_brief": { "amendment": { "criteria": [{ "id": "signs", "text": "It need not." }] } } }),
        json!({ "re_brief": { "amendment": { "clarifications": ["x"], "write": ["."] } } }),
        json!({ "re_dispatch": { "hint": "" } }),
        json!({ "accept_terminal": { "reason": "x".repeat(3_000) } }),
        json!({ "advance": {} }),
    ];
    let count = odd.len();
    let acts: Vec<Act> = odd.into_iter().map(reflect).chain([reflect(taken)]).collect();
    let (record, thinker) = reflected(&world, vec![acts]).await;
    let Some(Reflection::ReBrief { amendment }) = &record.reflection else { panic!("{record:?}") };
    assert!(world.brief.amended(amendment, &world.types, &world.root.join("project")).is_ok());
    let answers = thinker.turns();
    let refused: Vec<bool> = thinker.answers().iter().map(|answer| answer.is_error).collect();
    assert_eq!((answers, refused.iter().filter(|refused| **refused).count()), (1, count));
}

#[tokio::test]
async fn a_reflector_that_fails_changes_nothing_of_where_the_verdict_leads() {
    let Some(world) = World::new(&[("src/old", "0\n")], one_step()) else { return };
    for acts in [
        vec![vec![Act::Fail(ErrorKind::Crashed)]],
        vec![vec![Act::Say("Go on.".into())], vec![Act::Say("Advance.".into())]],
    ] {
        let (record, _) = reflected(&world, acts).await;
        assert_eq!(record.end, StepEnd::Retried { max_retries: 2 });
        assert!(record.reflection.is_none() && record.reflection_error.unwrap().contains("thinker"));
    }
}

#[tokio::test]
async fn a_reflector_runs_probes_that_were_stored_and_no_others() {
    let Some(world) = World::with_settings(&[("src/old", "0\n")], one_step(), without_sandbox()) else {
        return;
    };
    let maker = agent("maker", vec![work()]);
    let probe = call("run_probe", json!({ "argv": ["sh", "-c", "cat src/*"] }));
    let one = agent("one", vec![vec![probe.clone(), refute("Look.")]]);
    let two = agent("two", vec![vec![advance()]]);
    let hint = reflect(json!({ "re_dispatch": { "hint": "Begin with zero." } }));
    let again = |id: &str| call("run_probe", json!({ "again": id }));
    let thinker =
        agent("thinker", vec![vec![probe, again("probe-1"), again("probe-9"), again("test-1"), hint]]);
    let cast = Cast {
        executors: vec![(&maker, "acme")],
        seats: vec![vec![(&one, "acme")], vec![(&two, "zenith")]],
        reflector: Some((&thinker, "third")),
        ..Cast::default()
    };
    let record = world.attempt(&cast.router()).run().await.unwrap();
    let refused: Vec<bool> = thinker.answers().iter().map(|answer| answer.is_error).collect();
    assert_eq!(refused, [true, false, true, true, false], "{:?}", thinker.answered());
    assert!(record.evidence.contains(&"probe-2".parse().unwrap()));
}

#[tokio::test]
async fn a_verdict_that_escalates_ends_the_step_unless_a_reflector_answers_to_it() {
    let Some(world) = World::new(&[("src/old", "0\n")], one_step()) else { return };
    let escalate = || call("submit_verdict", verdict("escalate", &["outcome", "signs"], "diff:src/new:1"));
    for with_reflector in [false, true] {
        let maker = agent("maker", vec![work()]);
        let (one, two) = (agent("one", vec![vec![escalate()]]), agent("two", vec![vec![advance()]]));
        let hint = reflect(json!({ "re_dispatch": { "hint": "Begin with zero." } }));
        let thinker = agent("thinker", vec![vec![hint]]);
        let cast = Cast {
            executors: vec![(&maker, "acme")],
            seats: vec![vec![(&one, "acme")], vec![(&two, "zenith")]],
            reflector: with_reflector.then_some((&thinker, "third")),
            ..Cast::default()
        };
        let record = world.attempt(&cast.router()).run().await.unwrap();
        let is_over = matches!(record.end, StepEnd::Escalated { .. });
        assert_eq!(is_over, !with_reflector, "{:?}", record.end);
    }
}

#[tokio::test]
async fn work_that_only_reads_leaves_a_handoff_and_no_files_and_completes_nothing() {
    let Some(mut world) = World::new(&[("src/old", "0\n")], one_step()) else { return };
    world.types = world.types.clone().with_type(AgentType::new("surveyor", "operations", "survey")).unwrap();
    let mut brief = one_step();
    let survey = json!({
        "tier": "operations", "phase": "survey", "agent_type": "surveyor", "outcome": "It is known.",
    });
    brief["plan"].as_array_mut().unwrap().insert(0, survey);
    let project = world.root.join("project");
    let draft = serde_json::from_value(brief).unwrap();
    world.brief = nexus_tasks::ProblemBrief::accept(draft, &world.types, &project).unwrap();

    let folder = world.root.join("work/unit-1");
    let reader = agent(
        "one",
        vec![vec![
            call("read_file", json!({ "path": "src/old" })),
            write("src/new", "1\n"),
            Act::beside(move || std::fs::write(folder.join("src/new"), "1\n").unwrap()),
            hand_in(json!("complete")),
        ]],
    );
    let router = nexus_router::Router::builder(
        nexus_core::Registry::new(),
        nexus_core::BuildContext::in_home("home"),
    )
    .backend(Arc::clone(&reader) as Arc<dyn nexus_core::ExecutionBackend>)
    .from_value(json!({
        "groups": { "readers": ["one"] },
        "types": { "looking": { "tier": "operations", "phase": "survey", "group": "readers", "model": { "exact": "any" } } },
    }))
    .unwrap();
    let record = world.attempt(&router).run().await.unwrap();
    assert_eq!((record.end, record.work), (StepEnd::Advanced, None), "{:?}", reader.answered());
    assert_eq!(reader.asked()[0].tool_names(), AgentPhase::Survey.tools());
    assert!(reader.answered()[1].contains("write_file"), "{:?}", reader.answered());
}

#[tokio::test]
async fn turns_are_bounded_by_the_deadline_and_by_equal_shares_of_the_budget() {
    let Some(world) = World::new(&[("src/old", "0\n")], one_step()) else { return };
    let maker = agent("maker", vec![work()]);
    let [one, two] = ["one", "two"].map(|id| agent(id, vec![vec![advance()]]));
    let mut cast = seats(&one, &two);
    cast.executors = vec![(&maker, "acme")];
    let router = cast.router();
    let mut attempt = world.attempt(&router);
    attempt.budget = Some(Budget::new().with_output_tokens(1_000));
    assert_eq!(attempt.run().await.unwrap().end, StepEnd::Advanced);
    let tokens = |backend: &ScriptedBackend| backend.asked()[0].request.limits.output_tokens;
    assert_eq!((tokens(&maker), tokens(&one), tokens(&two)), (Some(1_000), Some(500), Some(500)));
    let deadline = maker.asked()[0].request.limits.deadline.unwrap();
    assert!(deadline.as_secs() <= 60, "{deadline:?}");
}

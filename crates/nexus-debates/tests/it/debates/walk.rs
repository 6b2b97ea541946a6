//! A debate from its question to its record, and what can go wrong on the way.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use nexus_core::ErrorKind;
use nexus_debates::{
    ClaimOutcome, DebateAdvanceRequest, DebateCancelRequest, DebateCreateRequest, DebateErrorKind,
    DebateListRequest, DebateResultRequest, DebateStatusRequest, SourceDraft, verbatim_parts,
};

use super::kit::{Act, Seen, advance, agents, canary, debates, frame, honest, question, walk};

#[tokio::test]
async fn a_debate_is_walked_to_its_end_and_its_record_has_every_word() {
    let place = tempfile::tempdir().unwrap();
    let agents = agents(honest);
    let debates = debates(place.path(), &agents);
    let created = debates.create(question()).await.unwrap();
    assert_eq!((created.status.as_str(), created.running), ("framing", false));
    let stages = walk(&debates, &created.debate_id).await;
    let expected = [
        "opening",
        "analysing",
        "cross_examining",
        "checking_close",
        "cross_examining",
        "checking_close",
        "converging",
        "final",
        "synthesising",
        "done",
    ];
    // The arbiter wants a second round; after it, nothing is in tension any more.
    assert_eq!(stages, expected);
    let view = advance(&debates, &created.debate_id).await.unwrap();
    assert_eq!(view.status, "done");
    let outcomes: Vec<_> = view.claims.iter().map(|claim| claim.outcome).collect();
    assert_eq!(outcomes, [Some(ClaimOutcome::ConvergedSupport); 2]);
    assert_eq!(
        view.rounds.iter().map(|round| round.arbiter_closes).collect::<Vec<_>>(),
        [Some(false), Some(true)]
    );
    assert!(view.rounds[1].revision_rate > 0.0 && view.rounds[1].tension_density == 0.0);
    let mut text = String::new();
    let mut offset = Some(0);
    while let Some(at) = offset {
        let request = DebateResultRequest { debate_id: created.debate_id.clone(), offset: at };
        let page = debates.result(request).await.unwrap();
        assert!(serde_json::to_vec(&page).unwrap().len() <= 9_900);
        text.push_str(&page.record);
        offset = page.next_offset;
    }
    let parts = verbatim_parts(&text);
    let of = |id: &str| parts.iter().find(|part| part.id == id).map(|part| part.text.clone());
    assert_eq!(of("ann.o1").unwrap(), "ann thinks so.");
    assert_eq!(of("bob.r2.1").unwrap(), format!("{} says otherwise.", canary("bob")));
    assert_eq!(of("cyd.final").unwrap(), "cyd ends here.");
    assert_eq!(parts.last().unwrap().text, "They agree in the end.");
    // Panelists sat on the three vendors of the roster.
    let seen = agents.seen.lock().unwrap().clone();
    let ran: Vec<_> = seen
        .iter()
        .filter(|seen| seen.part == "submit_opening")
        .map(|seen| (seen.panelist().to_owned(), seen.backend.clone()))
        .collect();
    for pair in [("ann", "alpha"), ("bob", "beta"), ("cyd", "gamma")] {
        assert!(ran.contains(&(pair.0.to_owned(), pair.1.to_owned())), "{ran:?}");
    }
    let listed = debates.list(DebateListRequest::default()).await.unwrap();
    assert_eq!(listed.debates[0].debate_id, created.debate_id);
    debates.shutdown().await;
}

#[tokio::test]
async fn an_arbiter_that_always_closes_is_heeded_from_the_floor_on_and_one_that_never_does_until_the_ceiling()
{
    for (closes, least, most, rounds) in [(true, 2, 4, 2), (false, 1, 3, 3), (true, 1, 4, 1)] {
        let place = tempfile::tempdir().unwrap();
        let agents = agents(move |seen: &Seen| {
            let mut acts = honest(seen);
            if let (Some(Act::Submit(value)), "submit_judgement") = (acts.last_mut(), seen.part.as_str()) {
                value["close"] = closes.into();
            }
            acts
        });
        let debates = debates(place.path(), &agents);
        let request = DebateCreateRequest { min_rounds: Some(least), max_rounds: Some(most), ..question() };
        let id = debates.create(request).await.unwrap().debate_id;
        let stages = walk(&debates, &id).await;
        let held = stages.iter().filter(|stage| *stage == "checking_close").count();
        assert_eq!(held, rounds, "{stages:?}");
    }
}

#[tokio::test]
async fn a_panelist_that_fails_is_absent_and_never_invented() {
    let place = tempfile::tempdir().unwrap();
    let agents = agents(|seen: &Seen| match (seen.part.as_str(), seen.panelist()) {
        ("submit_opening", "cyd") => vec![Act::Fail(ErrorKind::VendorFailure)],
        // They end without handing anything in, twice.
        ("submit_rebuttal", "bob") => vec![],
        ("submit_statement", "ann") => vec![],
        _ => honest(seen),
    });
    let debates = debates(place.path(), &agents);
    let id = debates.create(question()).await.unwrap().debate_id;
    walk(&debates, &id).await;
    let view = debates.status(DebateStatusRequest { debate_id: id.clone(), wait_s: Some(0) }).await.unwrap();
    let absent: Vec<usize> = view.panelists.iter().map(|panelist| panelist.absent.len()).collect();
    // `bob` in each of three rounds: nobody moves, and the arbiter never ratifies.
    assert_eq!(absent, [1, 3, 1], "{:?}", view.panelists);
    let result = debates.result(DebateResultRequest { debate_id: id, offset: 0 }).await.unwrap();
    assert!(result.claims.iter().all(|standing| !standing.in_words().contains("cyd")));
    assert!(
        !result.record.contains("cyd thinks so") && result.record.contains("### absent cyd in opening (")
    );
    // No agent was told who failed on what.
    let seen = agents.seen.lock().unwrap();
    assert!(seen.iter().all(|seen| !seen.all().contains("gamma") && !seen.all().contains("vendor")));
}

#[tokio::test]
async fn a_stage_that_comes_to_nothing_is_told_once_and_run_again() {
    let place = tempfile::tempdir().unwrap();
    let agents = agents(|seen: &Seen| match seen.part.as_str() {
        "framer"
            if seen.request.contains("which was rejected")
                && seen.request.matches("your last frame").count() == 1 =>
        {
            vec![Act::Submit(frame())]
        }
        "framer" => {
            let mut same = frame();
            // Everybody on the same sources.
            for at in 0..3 {
                same["panelists"][at]["sources"] = serde_json::json!(["costs"]);
            }
            vec![Act::Submit(same)]
        }
        "submit_opening" if seen.panelist() != "ann" => vec![Act::Fail(ErrorKind::VendorFailure)],
        _ => honest(seen),
    });
    let debates = debates(place.path(), &agents);
    let id = debates.create(question()).await.unwrap().debate_id;
    assert_eq!(advance(&debates, &id).await.unwrap().status, "opening");
    for _ in 0..2 {
        let error = advance(&debates, &id).await.unwrap_err();
        assert_eq!(error.kind, DebateErrorKind::StageFailed);
        assert!(error.message.contains("1 of 3 panelists"), "{error}");
    }
    let status = debates.status(DebateStatusRequest { debate_id: id.clone(), wait_s: None }).await.unwrap();
    assert_eq!((status.status.as_str(), status.running), ("opening", false));
    let refused = agents.seen.lock().unwrap().iter().filter(|seen| seen.part == "framer").count();
    assert_eq!(refused, 2);
}

#[tokio::test]
async fn a_framer_that_never_mends_its_frame_is_asked_three_times() {
    let place = tempfile::tempdir().unwrap();
    let agents = agents(|_: &Seen| {
        let mut frame = frame();
        frame["panelists"][0]["name"] = "../../../etc/passwd".into();
        vec![Act::Submit(frame)]
    });
    let debates = debates(place.path(), &agents);
    let id = debates.create(question()).await.unwrap().debate_id;
    let error = advance(&debates, &id).await.unwrap_err();
    assert!(error.kind == DebateErrorKind::StageFailed && error.message.contains("is not a name"), "{error}");
    assert_eq!(agents.seen.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_registered_agent_sits_with_its_own_prompt_beside_an_outsider() {
    let place = tempfile::tempdir().unwrap();
    let agents = agents(|seen: &Seen| match seen.part.as_str() {
        "framer" => {
            assert!(seen.request.contains("> security: Knows attacks."), "{}", seen.request);
            let mut frame = frame();
            frame["panelists"][0]["registered"] = "security".into();
            frame["relevance"] =
                serde_json::json!([{ "agent": "security", "relevant": true, "why": "It is asked." }]);
            vec![Act::Submit(frame)]
        }
        _ => honest(seen),
    });
    let debates = debates(place.path(), &agents);
    // A file as `agent_register` writes it.
    let registered = r#"{ "types": { "security": {
        "tier": "operations", "phase": "survey", "description": "Knows attacks.", "prompt": "Think of attackers first."
    } } }"#;
    std::fs::create_dir_all(place.path().join("home")).unwrap();
    std::fs::write(place.path().join("home/agent-types.json"), registered).unwrap();
    let too_many = DebateCreateRequest {
        pins: vec!["security".to_owned(), "ann".to_owned(), "zoe".to_owned(), "yan".to_owned()],
        ..question()
    };
    assert_eq!(debates.create(too_many).await.unwrap_err().kind, DebateErrorKind::InvalidArgument);
    let request = DebateCreateRequest { pins: vec!["security".to_owned()], ..question() };
    let id = debates.create(request).await.unwrap().debate_id;
    walk(&debates, &id).await;
    let seen = agents.seen.lock().unwrap();
    for part in ["submit_opening", "submit_rebuttal", "submit_statement"] {
        let told = |name: &str| {
            seen.iter().any(|seen| {
                seen.part == part && seen.panelist() == name && seen.request.contains("Think of attackers")
            })
        };
        assert!(told("ann") && !told("bob"), "{part}");
    }
}

#[tokio::test]
async fn a_debate_is_cancelled_while_its_agents_work_and_by_another_process() {
    let place = tempfile::tempdir().unwrap();
    let agents = agents(|seen: &Seen| match seen.part.as_str() {
        "submit_opening" => vec![Act::Hang],
        _ => honest(seen),
    });
    let (one, other) = (debates(place.path(), &agents), debates(place.path(), &agents));
    let id = one.create(question()).await.unwrap().debate_id;
    advance(&one, &id).await.unwrap();
    let begun = one.advance(DebateAdvanceRequest { debate_id: id.clone(), wait_s: Some(0) }).await.unwrap();
    assert!(begun.running && begun.status == "opening");
    // The other process joins by waiting, and does no stage of its own.
    let waits = other.advance(DebateAdvanceRequest { debate_id: id.clone(), wait_s: Some(0) }).await.unwrap();
    assert!(waits.running);
    let cancelled = other.cancel(DebateCancelRequest { debate_id: id.clone() }).await.unwrap();
    assert_eq!((cancelled.status.as_str(), cancelled.running), ("cancelled", false));
    let again = other.cancel(DebateCancelRequest { debate_id: id.clone() }).await.unwrap();
    assert_eq!(again.status, "cancelled");
    let error = one.advance(DebateAdvanceRequest { debate_id: id.clone(), wait_s: None }).await.unwrap_err();
    assert!(matches!(error.kind, DebateErrorKind::Interrupted | DebateErrorKind::WrongStatus), "{error}");
    assert_eq!(agents.seen.lock().unwrap().iter().filter(|seen| seen.part == "submit_opening").count(), 0);
}

#[tokio::test]
async fn two_that_advance_at_once_run_one_stage() {
    let place = tempfile::tempdir().unwrap();
    let agents = agents(honest);
    let (one, other) = (debates(place.path(), &agents), debates(place.path(), &agents));
    let id = one.create(question()).await.unwrap().debate_id;
    let (first, second) = tokio::join!(advance(&one, &id), advance(&other, &id));
    let statuses = [first.unwrap().status, second.unwrap().status];
    // Both ran the stage that they found; if one came late, that was the next.
    let framed = agents.seen.lock().unwrap().iter().filter(|seen| seen.part == "framer").count();
    assert_eq!(framed, 1, "{statuses:?}");
}

#[tokio::test]
async fn sources_are_copied_within_bounds_and_no_link_is_followed() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let (papers, outside) = (root.join("papers"), root.join("outside"));
    fs::create_dir_all(papers.join("folder/below")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret"), "the secret").unwrap();
    fs::write(papers.join("folder/below/note.md"), "a note").unwrap();
    symlink(&outside, papers.join("folder/link")).unwrap();
    symlink(outside.join("secret"), papers.join("folder/file-link")).unwrap();
    symlink(papers.join("folder"), papers.join("folder/below/loop")).unwrap();
    symlink(&outside, papers.join("way-out")).unwrap();
    let pipe = papers.join("folder/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let large = papers.join("large");
    fs::File::create(&large).unwrap().set_len(1 << 30).unwrap();
    let debates = debates(&root, &agents(honest));
    let with = |path: PathBuf| DebateCreateRequest {
        sources: vec![SourceDraft { name: "paper".to_owned(), text: None, path: Some(path) }],
        ..question()
    };
    let created = debates.create(with(papers.join("folder"))).await.unwrap();
    let copies = root.join("home/tasks").join(&created.debate_id).join("sources/paper");
    assert_eq!(fs::read_to_string(copies.join("below/note.md")).unwrap(), "a note");
    assert!(
        ["link", "file-link", "pipe", "below/loop"]
            .iter()
            .all(|name| copies.join(name).symlink_metadata().is_err())
    );
    assert!(created.warnings[0].contains("4 entries were left out"), "{:?}", created.warnings);
    for (path, said) in [
        (large, "MiB"),
        (outside.join("secret"), "outside of"),
        (papers.join("way-out/secret"), "outside of"),
        (papers.join("../outside"), "outside of"),
        (pipe, "neither a file nor a folder"),
        (papers.join("gone"), "No such file"),
        (PathBuf::from("papers"), "not an absolute path"),
    ] {
        let error = debates.create(with(path.clone())).await.unwrap_err();
        assert!(error.message.contains(said), "{path:?}: {error}");
    }
    for name in ["../up", "a b", "", "con/../x"] {
        let mut request = question();
        request.sources[0].name = name.to_owned();
        assert_eq!(
            debates.create(request).await.unwrap_err().kind,
            DebateErrorKind::InvalidArgument,
            "{name}"
        );
    }
    let mut twice = question();
    twice.sources[1].name = "COSTS".to_owned();
    assert!(debates.create(twice).await.is_err());
    // What was refused left nothing behind.
    assert_eq!(debates.list(DebateListRequest::default()).await.unwrap().debates.len(), 1);
}

//! What agents can get to know, whatever they and the others do.

use std::{fs, path::Path};

use nexus_debates::DebateResultRequest;
use serde_json::json;

use super::kit::{Act, Seen, agents, canary, debates, honest, question, walk};

/// Reads whatever it can name, and does its part.
fn nosy(seen: &Seen) -> Vec<Act> {
    let mut acts = Vec::new();
    if seen.tools.iter().any(|tool| tool == "read_file") {
        let paths = [
            ".",
            "..",
            "../stages/round-1.json",
            "../turns.jsonl",
            "../events.jsonl",
            "../status.json",
            "costs",
            "incidents",
            "traces",
            "costs/text.md",
            "incidents/text.md",
            "traces/text.md",
            "/etc/passwd",
            "costs/../incidents/text.md",
        ];
        for path in paths {
            acts.push(Act::Call("read_file", json!({ "path": path })));
            acts.push(Act::Call("list_files", json!({ "path": path })));
            acts.push(Act::Call("search_files", json!({ "path": path, "pattern": "canary" })));
        }
    }
    for tool in ["read_rebuttals", "read_record", "read_handoffs", "write_file", "read_standings"] {
        acts.push(Act::Call(tool, json!({})));
    }
    acts.extend(honest(seen));
    acts
}

#[tokio::test]
async fn a_raw_rebuttal_reaches_no_other_panelist_by_any_way() {
    let place = tempfile::tempdir().unwrap();
    let agents = agents(nosy);
    let debates = debates(place.path(), &agents);
    let id = debates.create(question()).await.unwrap().debate_id;
    walk(&debates, &id).await;
    let seen = agents.seen.lock().unwrap().clone();
    let who = ["ann", "bob"];
    for seen in seen.iter().filter(|seen| seen.panelist() != "arbiter") {
        for other in who.iter().filter(|name| **name != seen.panelist()) {
            assert!(
                !seen.all().contains(&canary(other)),
                "{} of {} in {}",
                canary(other),
                seen.panelist(),
                seen.part
            );
        }
        for other in ["ann", "bob", "cyd"].iter().filter(|name| **name != seen.panelist()) {
            assert!(!seen.all().contains(&format!("{other} ends here.")), "{other} for {}", seen.panelist());
        }
        // Files of others' sources are as far away.
        let sources = [("ann", "costs"), ("bob", "incidents"), ("cyd", "traces")];
        for (owner, source) in sources {
            let is_known = seen.all().contains(&format!("What only {source} says."));
            assert_eq!(
                is_known,
                owner == seen.panelist(),
                "{source} for {} in {}",
                seen.panelist(),
                seen.part
            );
        }
    }
    // The canaries were there to be found: the arbiter read them, and so did their owners in the next round.
    let read =
        |who: &str, word: &str| seen.iter().any(|seen| seen.panelist() == who && seen.all().contains(word));
    assert!(who.iter().all(|name| read("arbiter", &canary(name)) && read(name, &canary(name))));
    // No folder that a panelist may read has one.
    let folder = place.path().join("home/tasks").join(&id);
    assert!(!holds(&folder.join("sources"), "canary-of"));
    assert!(holds(&folder.join("stages"), "canary-of"));
}

/// Whether a file below a folder has these words.
fn holds(folder: &Path, words: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => holds(&path, words),
            false => String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(words),
        }
    })
}

#[tokio::test]
async fn openings_are_written_without_a_word_of_another_and_the_framer_has_no_tool() {
    let place = tempfile::tempdir().unwrap();
    let agents = agents(nosy);
    let debates = debates(place.path(), &agents);
    let id = debates.create(question()).await.unwrap().debate_id;
    walk(&debates, &id).await;
    let seen = agents.seen.lock().unwrap().clone();
    let framers: Vec<&Seen> = seen.iter().filter(|seen| seen.part == "framer").collect();
    assert!(!framers.is_empty() && framers.iter().all(|framer| framer.tools.is_empty()));
    // What a source says is not for the framer either.
    assert!(framers.iter().all(|framer| !framer.all().contains("What only")));
    let openings: Vec<&Seen> = seen.iter().filter(|seen| seen.part == "submit_opening").collect();
    assert_eq!(openings.len(), 3);
    for opening in &openings {
        assert_eq!(
            opening.tools,
            ["read_my_brief", "list_files", "read_file", "search_files", "submit_opening"]
        );
        for other in ["ann", "bob", "cyd"].iter().filter(|name| **name != opening.panelist()) {
            assert!(!opening.all().contains(&format!("{other} thinks so")));
            assert!(!opening.all().contains(&format!("{other} has a view")));
        }
    }
    let rebuttal = seen.iter().find(|seen| seen.part == "submit_rebuttal").unwrap();
    assert!(rebuttal.tools.iter().all(|tool| !tool.contains("rebuttals") && !tool.contains("record")));
    // Each answers the case against its own position, and is not told its own again as if it were one.
    for (name, against, own) in [
        ("ann", "A crash between two writes", "A write that returned"),
        ("bob", "A write that returned", "A crash between two writes"),
    ] {
        let rebuttal =
            seen.iter().find(|seen| seen.part == "submit_rebuttal" && seen.panelist() == name).unwrap();
        assert!(rebuttal.answers.contains(against) && !rebuttal.all().contains(own), "{name}");
    }
    for seen in &seen {
        let lower = seen.all().to_lowercase();
        for vendor in ["alpha", "beta", "gamma", "corp"] {
            assert!(!lower.contains(vendor), "{} is told of {vendor}", seen.part);
        }
    }
}

#[tokio::test]
async fn an_arbiter_that_copies_a_rebuttal_into_a_steelman_is_refused_and_may_mend_it() {
    let place = tempfile::tempdir().unwrap();
    let long =
        "the disk acknowledges a write before it is durable and so a returned write may be lost all the same";
    let agents = agents(move |seen: &Seen| match seen.part.as_str() {
        "submit_rebuttal" if seen.panelist() == "bob" => {
            let Some(Act::Submit(mut value)) = honest(seen).pop() else { unreachable!() };
            value["answers"][0]["text"] = long.into();
            vec![Act::Submit(value)]
        }
        "submit_judgement" => {
            let Some(Act::Submit(good)) = honest(seen).pop() else { unreachable!() };
            let mut copy = good.clone();
            copy["findings"][0]["sides"][1]["steelman"] = format!("Bob: {}", long.to_uppercase()).into();
            vec![Act::Submit(copy), Act::Submit(good)]
        }
        _ => honest(seen),
    });
    let debates = debates(place.path(), &agents);
    let id = debates.create(question()).await.unwrap().debate_id;
    walk(&debates, &id).await;
    let seen = agents.seen.lock().unwrap().clone();
    let judgement = seen.iter().find(|seen| seen.part == "submit_judgement").unwrap();
    assert!(judgement.answers.contains("repeats a rebuttal word for word"), "{}", judgement.answers);
    assert!(
        seen.iter()
            .filter(|seen| seen.panelist() == "ann")
            .all(|seen| !seen.all().to_lowercase().contains("acknowledges a write"))
    );
    let result = debates.result(DebateResultRequest { debate_id: id, offset: 0 }).await.unwrap();
    assert!(result.record.contains(long));
}

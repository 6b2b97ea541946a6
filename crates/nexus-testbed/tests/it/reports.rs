//! Reports of experiments, also of ones whose every text is hostile, and as a browser shows them.
#![cfg(target_os = "linux")]

use std::{fs, path::Path, time::SystemTime};

use nexus_tasks::{
    EvidenceId, ReviewBasis, ReviewVerdict, ReviewVote, SilentReviewer, StepEvidence, VerdictDraft,
};
use nexus_testbed::{
    Answer, Ending, ExperimentDescription, ExperimentResults, ExperimentSummary, GroundTruth, Named,
    NamedTrap, RunMode, RunRecord, RunResult, Spent, experiment_html, experiment_markdown,
};
use nexus_testkit::browser::look_at;
use serde_json::json;

const HOSTILE: &str = "</title><script>fetch('http://canary.invalid/run')</script><img src=\"http://canary.invalid/x.png\"> | [x](http://canary.invalid) `\u{202e}\u{1b}[2J\n# Forged";

fn description(arms: &[&str], trap: &str, repeats: u32) -> ExperimentDescription {
    let arm = |name: &&str| Named { name: (*name).to_owned(), sha256: "0".to_owned() };
    ExperimentDescription {
        version: 1,
        mode: RunMode::Review,
        repeats,
        answers: Answer::ALL.to_vec(),
        arms: arms.iter().map(arm).collect(),
        traps: vec![NamedTrap { name: trap.to_owned(), kind: trap.to_owned(), sha256: "1".to_owned() }],
    }
}

fn vote(text: &str, refuses: bool) -> ReviewVote {
    let mut evidence = StepEvidence::new();
    evidence.add_probe(1);
    let basis = ReviewBasis { criteria: ["once".to_owned()].into(), evidence };
    let mut draft = json!({
        "decision": if refuses { "retry" } else { "advance" },
        "criteria": [{ "id": "once", "judgement": "pass", "evidence": ["probe-1"] }],
        "alignment": 0.5,
    });
    if refuses {
        draft["blocking_concerns"] = json!([{ "text": text, "evidence": ["probe-1"] }]);
        draft["retry_hint"] = json!("otherwise");
    }
    let draft: VerdictDraft = serde_json::from_value(draft).unwrap();
    ReviewVote {
        seat: text.to_owned(),
        vendor: text.into(),
        verdict: ReviewVerdict::settle(draft, basis).unwrap(),
    }
}

/// Runs in which the first arm catches everything, and the second nothing; the last is invalid.
fn results(arms: &[&str], trap: &str, repeats: u32, text: &str) -> ExperimentResults {
    let description = description(arms, trap, repeats);
    let keys: Vec<_> = (0..).map_while(|number| description.key(number)).collect();
    let last = keys.len() - 1;
    let run = |(at, key): (usize, nexus_testbed::RunKey)| {
        let refuses = key.arm == arms[0] && key.answer == Answer::Planted;
        let truth = match key.answer {
            Answer::Planted => GroundTruth::Red { observed: text.to_owned() },
            Answer::Right => GroundTruth::Green,
        };
        let ending = if refuses { Ending::Refused } else { Ending::Shipped };
        let result = match at == last {
            true => RunResult::Invalid { reason: text.to_owned() },
            false => RunResult::Ended { ending, truth },
        };
        RunRecord {
            key,
            began: SystemTime::UNIX_EPOCH,
            seconds: 1.5,
            result,
            votes: vec![vote("Zero is lost.", refuses)],
            silent: vec![SilentReviewer { seat: text.to_owned(), reason: text.to_owned() }],
            probes: vec![(EvidenceId::probe(1), text.to_owned())],
            spent: Spent { turns: 2, tool_calls: 8, usd: 0.25, turns_without_cost: 1 },
        }
    };
    let runs = keys.into_iter().enumerate().map(run).collect();
    ExperimentResults { description, runs }
}

#[test]
fn the_summary_counts_what_was_seen() {
    let summary = ExperimentSummary::of(&results(&["first", "second"], "t", 8, "x"));
    let counts =
        |arm: usize| (summary.arms[arm].caught, summary.arms[arm].refused, summary.arms[arm].invalid);
    let count = |seen, trials| nexus_testbed::statistics::Count::new(seen, trials).unwrap();
    assert_eq!(counts(0), (count(8, 8), count(0, 8), 0));
    assert_eq!(counts(1), (count(0, 8), count(0, 7), 1));
    let pair = &summary.comparisons[0];
    assert!((pair.fisher.first_higher - 7.770_007_770_007_77e-5).abs() < 1e-9);
    assert!((pair.interval.low - 0.541_218_422).abs() < 1e-6 && pair.difference == Some(1.0));
    let page = experiment_markdown(&results(&["first", "second"], "t", 8, "x"));
    for line in [
        "32 of 32 runs are finished.",
        "| first | 8 of 8 | 1.00 (0.63 to 1.00) | 0 of 8 | 0.00 (0.00 to 0.37) | 8 | 0 | 8 | 0 | 0 | 32 | 4.00 USD, 16 turns of unknown cost |",
        "| first less second | 1.00 (0.54 to 1.00) | 7.8e-5 | 1.000 | 1.6e-4 |",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[test]
fn an_experiment_without_runs_has_a_report() {
    let empty = ExperimentResults { description: description(&["one"], "t", 1), runs: Vec::new() };
    assert!(experiment_html(&empty).contains("0 of 2 runs are finished"));
    assert!(experiment_markdown(&empty).contains("| one | 0 of 0 | nothing seen (0.00 to 1.00) |"));
}

#[test]
fn hostile_text_is_text_in_markdown() {
    let page = experiment_markdown(&results(&[HOSTILE, "b"], HOSTILE, 1, HOSTILE));
    assert!(!page.contains("<script") && !page.contains("](http") && !page.contains("\n# Forged"), "{page}");
    assert!(!page.chars().any(|character| character == '\u{1b}' || character == '\u{202e}'));
    // No cell was added to any row.
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let runs: Vec<usize> = page
        .split("## Runs")
        .nth(1)
        .unwrap()
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(cells)
        .collect();
    assert!(runs.len() == 6 && runs.iter().all(|count| *count == 8), "{runs:?}\n{page}");
}

#[test]
fn a_browser_shows_the_report_and_asks_for_nothing() {
    let hostile = experiment_html(&results(&[HOSTILE, "b"], HOSTILE, 1, HOSTILE));
    let fair = experiment_html(&results(
        &["probing", "anchored", "single"],
        "negatives",
        8,
        "probe-1\ndiffers: task_base/now",
    ));
    for (name, page) in [("hostile", hostile), ("fair", fair)] {
        let Some(seen) = look_at(&page).unwrap() else {
            assert!(std::env::var_os("NEXUS_TEST_BROWSER").is_none(), "a browser is required here");
            println!("NOT TESTED: there is no browser");
            return;
        };
        assert!(!seen.requests.iter().any(|url| url.contains("canary")), "{:?}", seen.requests);
        assert!(!seen.dom.contains("<script") && !seen.dom.contains("<img"), "{name}");
        assert!(seen.picture.starts_with(b"\x89PNG"));
        if let Some(folder) = std::env::var_os("NEXUS_TEST_PICTURES") {
            fs::write(Path::new(&folder).join(format!("testbed-{name}.png")), &seen.picture).unwrap();
        }
        // Every link leads to something.
        for part in page.split("href=\"#").skip(1) {
            let target = part.split('"').next().unwrap();
            assert!(page.contains(&format!("id=\"{target}\"")), "{name}: {target}");
        }
        assert!(page.contains("href=\"#run-0-probe-1\"") && page.contains("href=\"#run-0\""));
    }
}

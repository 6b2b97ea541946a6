//! The report of a task: whatever is written into it, it is text.
#![cfg(target_os = "linux")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    time::SystemTime,
};

use nexus_core::{ErrorKind, NullSink, RecordFile, TurnError, TurnHost, TurnRequest, VendorId};
use nexus_tasks::{
    Amendment, BriefDraft, Claim, Concern, Criterion, CriterionJudgement, Handoff, HandoffAction,
    HandoffDraft, Judgement, PlanEntryDraft, ProblemBrief, Reflection, ReviewBasis, ReviewDecision,
    ReviewVerdict, ReviewVote, SettledStep, SilentReviewer, StepEnd, StepEvidence, StepRecord, Task,
    TaskData, TaskLogEvent, TaskSettings, TaskStatus, TaskStore, UnitRecord, task_report,
};
use nexus_testkit::browser::look_at;
use nexus_trees::{CommitIntent, Git, Project};
use nexus_work::AgentTypes;
use tempfile::TempDir;

const HOSTILE: &str = "</script><img src=http://canary.invalid/x onerror=alert(1)>\"'&amp;";

struct Place {
    _folder: TempDir,
    task: Task,
}

/// A task with an attempt of every kind, in which every text is `text`.
fn place(text: &str) -> Option<Place> {
    if Git::find().is_err() {
        assert!(std::env::var_os("NEXUS_TEST_GIT").is_none(), "git is required here");
        println!("NOT TESTED: there is no git");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    // A name cannot hold a slash.
    let project = root.join(text.replace('/', "_"));
    fs::create_dir_all(project.join("src")).unwrap();
    fs::write(project.join("src/sum.rs"), "old\n").unwrap();

    let mut data = TaskData::new(text, &project, TaskSettings::default());
    data.context = Some(text.to_owned());
    data.answers = vec![(text.to_owned(), text.to_owned())];
    for list in [&mut data.remarks, &mut data.warnings, &mut data.notes, &mut data.hints] {
        list.push(text.to_owned());
    }
    let labels = BTreeMap::from([("issue".to_owned(), text.to_owned())]);
    let store = TaskStore::in_home(&root.join("home"));
    let task = store.create(&data, None, BTreeSet::new(), labels).unwrap();
    let tree = task.make_tree(&Project::folder(&project).unwrap(), false).unwrap();
    let base = tree.base().commit.clone();
    let work = task.work_folder().unwrap().join("0");
    tree.check_out(&base, &work).unwrap();
    fs::write(work.join("src/sum.rs"), format!("{text}\n")).unwrap();
    let snapshot = tree.snapshot(&work).unwrap();
    let commit = tree.commit(&CommitIntent::new(snapshot, base.clone(), SystemTime::now(), text)).unwrap();

    let records = [
        (1, StepEnd::Retried { max_retries: 2 }),
        (2, StepEnd::Blocked { reasons: vec![text.to_owned()] }),
        (3, StepEnd::Escalated { reason: text.to_owned(), error: Some(text.to_owned()) }),
        (4, StepEnd::Advanced),
    ];
    for (attempt, end) in records {
        let record = record(text, attempt, end, &base, &commit);
        task.write_step_record(&record).unwrap();
    }
    let accepted = ProblemBrief::accept(brief(text), &AgentTypes::built_in(), &work).unwrap();
    let accepted = serde_json::from_value(serde_json::to_value(&accepted).unwrap()).unwrap();
    task.update(|state, data| {
        data.brief = Some(accepted);
        data.head = Some(commit.clone());
        data.commits = vec![SettledStep { entry: 0, attempt: 4, commit: commit.clone() }];
        state.status =
            TaskStatus::Escalated { entry: Some(0), reason: text.to_owned(), error: Some(text.to_owned()) };
        state.attempts = 4;
        Ok(())
    })
    .unwrap();
    task.log(&TaskLogEvent::WentWrong { what: text.to_owned() }).unwrap();
    turn(&task.turns().unwrap(), text);
    Some(Place { _folder: folder, task })
}

fn brief(text: &str) -> BriefDraft {
    BriefDraft {
        problem: text.to_owned(),
        clarifications: vec![text.to_owned()],
        criteria: vec![Criterion { id: "holds".to_owned(), text: text.to_owned() }],
        out_of_scope: vec![text.to_owned()],
        read: vec![".".to_owned()],
        write: vec!["src".to_owned()],
        plan: vec![PlanEntryDraft {
            tier: "execution".to_owned(),
            phase: "implement".to_owned(),
            agent_type: "executor".to_owned(),
            outcome: text.to_owned(),
            ..PlanEntryDraft::default()
        }],
        ..BriefDraft::default()
    }
}

fn record(
    text: &str,
    attempt: u32,
    end: StepEnd,
    base: &nexus_trees::CommitId,
    work: &nexus_trees::CommitId,
) -> StepRecord {
    let mut evidence = StepEvidence::new();
    let shown = vec![evidence.add_test()];
    let action = match attempt {
        2 => HandoffAction::Blocked { reason: text.to_owned() },
        _ => HandoffAction::StepDone,
    };
    let claims = vec![Claim { text: text.to_owned(), evidence: shown.clone() }];
    let handoff = Handoff::accept(HandoffDraft { claims, files: Vec::new(), action }, &evidence).unwrap();
    let draft = nexus_tasks::VerdictDraft {
        decision: ReviewDecision::Retry,
        criteria: vec![CriterionJudgement {
            id: "holds".to_owned(),
            judgement: Judgement::Fail,
            evidence: shown.clone(),
        }],
        blocking_concerns: vec![Concern { text: text.to_owned(), evidence: shown }],
        alignment: 0.5,
        retry_hint: Some(text.to_owned()),
    };
    let criteria = BTreeSet::from(["holds".to_owned()]);
    let verdict = ReviewVerdict::settle(draft, ReviewBasis { criteria, evidence: evidence.clone() }).unwrap();
    let reflection = match attempt {
        1 => Reflection::ReBrief {
            amendment: Amendment {
                clarifications: vec![text.to_owned()],
                criteria: vec![Criterion { id: "more".to_owned(), text: text.to_owned() }],
                out_of_scope: vec![text.to_owned()],
            },
        },
        2 => Reflection::ReDispatch { hint: text.to_owned() },
        _ => Reflection::AcceptTerminal { reason: text.to_owned() },
    };
    let unit = |outcome| UnitRecord {
        entry: 0,
        agent_type: text.to_owned(),
        outcome,
        vendor: Some(VendorId::new(text)),
    };
    let now = SystemTime::now();
    StepRecord {
        entry: 0,
        attempt,
        began: now,
        ended: now,
        step_base: base.clone(),
        from: base.clone(),
        work: (attempt != 3).then(|| work.clone()),
        changes_nothing: false,
        units: vec![unit(Ok(handoff)), unit(Err(text.to_owned()))],
        evidence,
        votes: vec![ReviewVote {
            seat: text.to_owned(),
            vendor: VendorId::new(text),
            verdict: verdict.clone(),
        }],
        silent: vec![SilentReviewer { seat: text.to_owned(), reason: text.to_owned() }],
        verdict: Some(verdict),
        reflection: Some(reflection),
        reflection_error: Some(text.to_owned()),
        end,
    }
}

fn turn(file: &RecordFile, text: &str) {
    let mut recording = file.begin(text, &TurnRequest::new(text), &TurnHost::new()).unwrap();
    let mut events = NullSink;
    let _ = recording.beside(&mut events);
    recording.end(&Err(TurnError::new(ErrorKind::Overloaded, text.into()))).unwrap();
}

/// The tags of a page, attributes included.
fn tags(page: &str) -> usize {
    page.matches('<').count()
}

#[test]
fn no_field_of_a_task_makes_a_tag_of_its_report() {
    let (Some(hostile), Some(plain)) = (place(HOSTILE), place("plain")) else { return };
    let (page, twin) = (task_report(&hostile.task).unwrap(), task_report(&plain.task).unwrap());
    assert_eq!(tags(&page), tags(&twin));
    assert!(!page.contains("<img") && !page.contains("<script"));
    // It is there, in every part of the page.
    assert!(page.matches("canary.invalid").count() > 60, "{}", page.matches("canary.invalid").count());
}

#[test]
fn a_browser_asks_for_nothing_when_it_shows_a_report() {
    let Some(place) = place(HOSTILE) else { return };
    let Some(seen) = look_at(&task_report(&place.task).unwrap()).unwrap() else {
        assert!(std::env::var_os("NEXUS_TEST_BROWSER").is_none(), "a browser is required here");
        return println!("NOT TESTED: there is no browser");
    };
    assert!(!seen.requests.iter().any(|url| url.contains("canary.invalid")), "{:?}", seen.requests);
    assert!(seen.dom.contains("<span class=\"bad\">escalated</span>"));
    if let Some(folder) = std::env::var_os("NEXUS_KEEP_PICTURES") {
        fs::write(PathBuf::from(folder).join("report.png"), &seen.picture).unwrap();
    }
}

#[test]
fn every_link_of_a_report_leads_to_a_part_of_it() {
    let (Some(hostile), Some(plain)) = (place(HOSTILE), place("plain")) else { return };
    for place in [hostile, plain] {
        let page = task_report(&place.task).unwrap();
        let links: BTreeSet<&str> =
            page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        for link in &links {
            let anchor = link.strip_prefix('#').expect("a link within the page");
            assert_eq!(page.matches(&format!("id=\"{anchor}\"")).count(), 1, "{link}");
        }
        // Claims, verdicts and criteria cite the test of their attempt.
        assert!(links.contains("#a1-test-1") && links.contains("#a4-test-1"), "{links:?}");
    }
}

#[test]
fn a_summary_comes_before_everything_else() {
    let Some(place) = place("plain") else { return };
    let page = task_report(&place.task).unwrap();
    let head = page.split("<main>").next().unwrap();
    for row in ["reviewed by", "commit", "change", "landed", "cost", "time", "vendors"] {
        assert!(head.contains(&format!("<th>{row}</th>")), "{row}: {head}");
    }
    assert!(head.contains("+1</span> <span class=\"bad\">\u{2212}1</span> in 1 file"), "{head}");
    assert!(head.contains(&format!("nexus task land {}", place.task.id())), "{head}");
    place
        .task
        .log(&TaskLogEvent::Landed { outcome: "landed".to_owned(), obstacle: None, commit: None })
        .unwrap();
    let page = task_report(&place.task).unwrap();
    assert!(page.contains("<th>landed</th><td class=\"long\"><span class=\"good\">yes</span>"), "{page}");
}

#[test]
fn what_cannot_be_shown_is_said_in_its_place() {
    let Some(place) = place("plain") else { return };
    let whole = task_report(&place.task).unwrap();
    assert!(whole.contains("+plain") && !whole.contains("cannot be shown"));
    fs::remove_dir_all(place.task.tree().unwrap().path()).unwrap();
    // The files that the brief is checked on are there, the repository is not.
    let page = task_report(&place.task).unwrap();
    assert_eq!(page.matches("The diff cannot be shown").count(), 3);
}

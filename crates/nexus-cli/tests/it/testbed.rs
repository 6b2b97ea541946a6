//! `nexus testbed`: traps and experiments from a shell.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Folder, PATIENCE, answers::checked, text};

/// Whether this machine can run a trap's programs.
fn can_run() -> bool {
    ["git", "python3", "bwrap"].into_iter().all(|program| {
        let runs =
            Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
        assert!(runs || std::env::var_os("NEXUS_TEST_SANDBOX").is_none(), "{program} is required here");
        if !runs {
            println!("NOT TESTED: there is no {program}");
        }
        runs
    })
}

/// What a command prints that has to succeed.
fn said(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.command(arguments).env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    if arguments.contains(&"--json") {
        checked(arguments, text(&output.stdout));
    }
    text(&output.stdout).to_owned()
}

/// How a command fails, and what it says.
fn failed(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String) {
    let output = folder.nexus(arguments);
    (output.status.code(), text(&output.stderr).to_owned())
}

const RUN: [&str; 7] = ["testbed", "run", "e", "--trap", "bounds", "--runs", "2"];

fn lines(folder: &Folder) -> usize {
    fs::read_to_string(folder.path().join("e/runs.jsonl")).unwrap_or_default().lines().count()
}

/// Starts the experiment, and waits until a run of it is finished.
fn started(folder: &Folder) -> Child {
    let mut command = folder.command(&RUN);
    command.env("PATH", std::env::var_os("PATH").unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(told.any(|line| line.unwrap().contains("1/8 anchored on bounds, planted: confident-wrong")));
    // Read to the end, so that it is no closed pipe that ends it.
    std::thread::spawn(move || told.for_each(drop));
    child
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
}

/// Goes on with the experiment, and ends it by a signal once a further run is made. `false` if the signal came too late.
fn is_cut_off(folder: &Folder, signal: Signal) -> bool {
    let before = lines(folder);
    let mut child = match before {
        0 => started(folder),
        _ => {
            let mut command = folder.command(&RUN);
            command.env("PATH", std::env::var_os("PATH").unwrap()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
            let first = told.next().unwrap().unwrap();
            assert!(first.contains(&format!("8 runs, of which {before} are finished")), "{first}");
            // Once a run is told of, signals are listened to.
            assert!(told.any(|line| line.unwrap().contains(&format!("{}/8 ", before + 1))));
            std::thread::spawn(move || told.for_each(drop));
            child
        }
    };
    send(&child, signal);
    let status = child.wait().unwrap();
    if lines(folder) == 8 {
        return false;
    }
    assert!(signal == Signal::KILL || status.code() == Some(130), "{status}");
    assert!((before.max(1)..8).contains(&lines(folder)));
    true
}

#[test]
fn an_experiment_that_is_killed_goes_on_where_it_was_and_is_reported() {
    if !can_run() {
        return;
    }
    let until = Instant::now() + PATIENCE;
    let folder = loop {
        let folder = Folder::empty();
        if is_cut_off(&folder, Signal::KILL) && is_cut_off(&folder, Signal::INT) {
            break folder;
        }
        assert!(Instant::now() < until, "no signal came before the last run was made");
    };
    let kept = fs::read_to_string(folder.path().join("e/runs.jsonl")).unwrap();
    let told = said(&folder, &RUN);
    let events = said(&folder, &[&RUN[..], &["--json"]].concat());
    assert!(events.starts_with("{\"type\":\"started\",\"runs\":8,\"finished\":8,"), "{events}");
    said(&folder, &["testbed", "report", "e", "--json"]);
    for line in [
        "anchored: caught 0 of 2 wrong answers (95 %: 0.00 to 0.84), refused 0 of 2 right ones; 0 invalid runs",
        "probing: caught 2 of 2 wrong answers (95 %: 0.16 to 1.00), refused 0 of 2 right ones; 0 invalid runs",
        "anchored less probing: -1.00 ",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    let all = fs::read_to_string(folder.path().join("e/runs.jsonl")).unwrap();
    let whole: String = kept.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
    assert!(all.starts_with(&whole) && lines(&folder) == 8);
    // It is finished, and is told again without a run.
    assert_eq!(said(&folder, &RUN), told);
    let page = said(&folder, &["testbed", "report", "e"]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("8 of 8 runs are finished"));
    said(&folder, &["testbed", "report", "e", "--markdown", "-o", "report.md"]);
    let page = fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(page.contains("| probing | 2 of 2 |"), "{page}");
    let (code, complaint) = failed(&folder, &["testbed", "run", "e", "--trap", "bounds"]);
    assert!(code == Some(2) && complaint.contains("2 runs of each there, 1 here"), "{complaint}");
}

#[test]
fn a_strangers_trap_is_proved_and_one_that_is_none_is_told() {
    if !can_run() {
        return;
    }
    let folder = Folder::empty();
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/traps.md"))
            .unwrap();
    for part in page.split("\n### `").skip(1) {
        let (path, rest) = part.split_once('`').unwrap();
        let block = rest.split_once("```").unwrap().1.split_once('\n').unwrap().1;
        let file = folder.path().join("traps/mine").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, block.split_once("```").unwrap().0).unwrap();
    }
    said(&folder, &["testbed", "prove", "--traps", "traps", "--json"]);
    assert_eq!(
        said(&folder, &["testbed", "prove", "--traps", "traps"]),
        "capped-sum is a trap: 9 of 9 hold\n"
    );
    assert!(said(&folder, &["testbed", "list", "--traps", "traps"]).starts_with("capped-sum  lost_sign\n"));
    assert!(!folder.nexus_home().join("testbed").read_dir().unwrap().any(|_| true), "nothing is left of it");
    fs::copy(
        folder.path().join("traps/mine/right/src/sum.sh"),
        folder.path().join("traps/mine/planted/src/sum.sh"),
    )
    .unwrap();
    let (code, complaint) = failed(&folder, &["testbed", "prove", "--traps", "traps"]);
    assert_eq!(
        (code, complaint.as_str()),
        (Some(2), "nexus: traps/mine/right: creates the same files as planted/\n")
    );
    fs::write(folder.path().join("traps/mine/planted/src/sum.sh"), "sum() { sh ../nowhere; }\n").unwrap();
    let output = folder
        .command(&["testbed", "prove", "--traps", "traps"])
        .env("PATH", std::env::var_os("PATH").unwrap())
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("not so: the tests pass on planted: "), "{}", text(&output.stdout));
}

#[test]
fn the_eight_traps_are_listed_and_a_wrong_name_is_told() {
    let folder = Folder::empty();
    let listed = said(&folder, &["testbed", "list", "--json"]);
    assert_eq!(listed.lines().count(), 8);
    let (code, complaint) = failed(&folder, &["testbed", "list", "--trap", "bound\u{1b}[2J"]);
    assert!(
        code == Some(2)
            && complaint.contains("write one of bounds, checks, clocks")
            && !complaint.contains('\u{1b}'),
        "{complaint}"
    );
    let (code, complaint) = failed(&folder, &["testbed", "list", "--traps", "nowhere"]);
    assert!(code == Some(2) && complaint.contains("nowhere: cannot be read"), "{complaint}");
    let (code, complaint) = failed(&folder, &["testbed", "report", "."]);
    assert!(code == Some(2) && complaint.contains("contains no experiment"), "{complaint}");
}

#[test]
fn an_arm_of_a_vendor_runs_only_where_that_is_said_and_its_turns_are_told_before() {
    let folder = Folder::with(
        "groups: { only: [model] }\nbackends: { model: { kind: responses, vendor: one, base_url: 'http://127.0.0.1:9', model: m } }\n\
         types: { reviewer: { tier: operations, phase: review, group: only } }\n",
    );
    let real = ["testbed", "run", "e", "--arm", "single=nexus.yaml", "--runs", "3"];
    let (code, complaint) = failed(&folder, &real);
    let bounds = "48 runs, of which 0 are finished; the rest takes 48 to 288 turns of agents";
    assert!(
        code == Some(2) && complaint.contains(bounds) && complaint.contains("give --real"),
        "{complaint}"
    );
    let (code, complaint) = failed(&folder, &[&real[..], &["--real"]].concat());
    assert!(code == Some(2) && complaint.contains(bounds) && complaint.contains("give --yes"), "{complaint}");
    assert_eq!(lines(&folder), 0);
    // An arm that cannot be used begins no experiment, which would have it for good.
    let (code, complaint) = failed(&folder, &["testbed", "run", "f", "--arm", "a=/dev/null"]);
    assert!(code == Some(2) && complaint.contains("the arm \"a\": /dev/null: "), "{complaint}");
    for (arm, said) in [("=x", "a name has 1 to 64 bytes"), ("a=/nope", "the arm \"a\": /nope: ")] {
        let (code, complaint) = failed(&folder, &["testbed", "run", "f", "--arm", arm]);
        assert!(code == Some(2) && complaint.contains(said), "{complaint}");
    }
    assert!(!folder.path().join("f").exists());
    let (code, complaint) = failed(&folder, &["testbed", "run", "f", "--arm", "nobody"]);
    assert!(code == Some(2) && complaint.contains("\"nobody\" is not an arm"), "{complaint}");
}

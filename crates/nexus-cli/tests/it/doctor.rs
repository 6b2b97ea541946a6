//! `nexus doctor`, completions and the manual page.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    process::{Command, Stdio},
    time::Duration,
};

use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim};
use serde_json::Value;

use crate::support::{DEAD, Folder, text};

/// A folder whose configuration names one server.
fn folder_with_server(base_url: &str) -> Folder {
    Folder::with(&format!(
        "groups: {{ main: [local] }}\nbackends: {{ local: {{ kind: responses, base_url: {base_url:?}, model: simulated }} }}\n\
         types: {{ talker: {{ tier: execution, phase: talk, group: main }} }}\n"
    ))
}

fn model() -> Sim {
    Sim::start(Dialect::Responses, Scenario::new([Reply::text("Here.")]).models(["simulated"])).unwrap()
}

#[test]
fn a_machine_on_which_all_is_well_is_told_so() {
    let model = model();
    let folder = folder_with_server(&model.base_url());
    let output = folder.nexus(&["doctor"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for line in [
        "ok    clock: ",
        "ok    leftovers: none",
        "ok    configuration: nexus.yaml",
        "ok    backend local: ready",
    ] {
        assert!(said.contains(line), "{line} is not in {said}");
    }
    assert!(model.main_calls().is_empty(), "a model was asked");
}

#[test]
fn a_server_at_which_nothing_listens_is_a_problem_with_its_address() {
    let url = format!("{DEAD}/v1");
    let folder = folder_with_server(&url);
    let output = folder.nexus(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!(said["well"], false);
    let findings = said["findings"].as_array().unwrap();
    let backend = findings.iter().find(|finding| finding["subject"] == "backend local").unwrap();
    assert_eq!(backend["severity"], "problem");
    assert_eq!(backend["outcome"], "failed");
    assert!(backend["detail"].as_str().unwrap().contains(&url) && backend["fix"].is_string(), "{backend}");
    // What would run is told the same by the other two.
    for arguments in [&["check", "--probe"][..], &["status"]] {
        let output = folder.nexus(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stdout).contains("cannot be used"), "{arguments:?}: {}", text(&output.stdout));
    }
}

/// Two backends at one server that are called two vendors, in one panel.
fn two_vendors_at_one_server(rule: &str) -> String {
    format!(
        "backends:\n  left: {{ kind: responses, base_url: \"http://127.0.0.1:1/v1\", vendor: north, model: m }}\n  \
         right: {{ kind: responses, base_url: \"http://LOCALHOST:1/v1\", vendor: south, model: m }}\n\
         groups: {{ one: [left], two: [right] }}\ntypes: {{ review: {{ panel: jury }} }}\n\
         panels: {{ jury: {{ {rule} seats: [{{ group: one }}, {{ group: two }}] }} }}\n"
    )
}

#[test]
fn two_vendors_at_one_address_are_told_or_refused() {
    let folder = folder_with_server("http://127.0.0.1:1/v1");
    let words = "north (left) and south (right) share the address 127.0.0.1:1";
    for (rule, is_refused, is_told) in
        [("", false, true), ("distinct: address,", true, true), ("distinct: vendor,", false, false)]
    {
        fs::write(folder.path().join("nexus.yaml"), two_vendors_at_one_server(rule)).unwrap();
        let output = folder.nexus(&["doctor"]);
        let said = text(&output.stdout);
        assert_eq!(said.contains(words), is_told, "{rule}: {said} {}", text(&output.stderr));
        assert_eq!(said.contains("FAIL  panel jury"), is_refused, "{rule}: {said}");
        let output = folder.nexus(&["check", "--probe"]);
        let said = text(&output.stdout);
        assert_eq!(said.contains(words), is_told, "{rule}: {said} {}", text(&output.stderr));
        // Without a probe nothing is looked up.
        let output = folder.nexus(&["check"]);
        assert!(!text(&output.stdout).contains(words), "{}", text(&output.stdout));
    }
}

#[test]
fn a_key_in_place_of_a_variable_s_name_is_refused_and_never_shown() {
    let folder = folder_with_server("http://127.0.0.1:1/v1");
    let server = "kind: responses, base_url: \"http://127.0.0.1:1/v1\"";
    let groups = "\ngroups: { main: [local] }\ntypes: { work: { group: main } }\n";
    for (credential, secret) in [
        ("env: sk-canary0123456789abcdef", "canary"),
        ("env: \"two canaries\"", "canaries"),
        ("env: canary-short", "canary"),
        ("env: AIzaSyCANARY0123456789abcdefghijkl", "CANARY"),
        ("env: AKIACANARY0123456789", "CANARY"),
        ("file: sk-canary0123456789abcdef", "canary"),
        ("source: sk-canary0123456789abcdef", "canary"),
        ("keyring: sk-canary0123456789abcdef", "canary"),
    ] {
        let yaml = format!("backends:\n  local: {{ {server}, credential: {{ {credential} }} }}{groups}");
        fs::write(folder.path().join("nexus.yaml"), yaml).unwrap();
        for arguments in
            [&["check", "--probe"][..], &["check", "--json"], &["doctor"], &["explain"], &["status"]]
        {
            let output = folder.nexus(arguments);
            let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert!(!all.contains(secret), "{credential} {arguments:?}: {all}");
            assert!(all.contains("credential"), "{credential} {arguments:?}: {all}");
        }
        assert_ne!(folder.nexus(&["check"]).status.code(), Some(0), "{credential}");
    }
}

#[test]
fn a_configuration_that_is_missing_or_wrong_is_a_problem_with_its_mend() {
    let folder = folder_with_server("http://127.0.0.1:1/v1");
    fs::write(folder.path().join("nexus.yaml"), "groups: { main: [lcal] }\n").unwrap();
    let output = folder.nexus(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("FAIL  configuration: "), "{}", text(&output.stdout));
    fs::remove_file(folder.path().join("nexus.yaml")).unwrap();
    let output = folder.nexus(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("create one with `nexus setup`, or with `mkdir -p "),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn explain_goes_on_when_the_file_changes_and_keeps_the_last_good_one() {
    let model = model();
    let folder = folder_with_server(&model.base_url());
    let path = folder.path().join("nexus.yaml");
    let mut child = folder
        .command(&["explain", "--watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("talker")));
    let good = fs::read_to_string(&path).unwrap();
    fs::write(&path, good.replace("group: main", "group: mian")).unwrap();
    assert!(errors.any(|line| line.contains("did you mean \"main\"")));
    assert!(errors.any(|line| line.contains("remains in use")));
    fs::write(&path, good.replace("talker", "writer_of_letters")).unwrap();
    assert!(lines.any(|line| line.contains("writer_of_letters")));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn completions_are_what_their_shells_can_read() {
    let folder = folder_with_server("http://127.0.0.1:1/v1");
    for shell in ["bash", "zsh", "fish"] {
        let output = folder.nexus(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        let script = text(&output.stdout);
        assert!(script.contains("NEXUS_COMPLETE") && script.contains("nexus"), "{shell}: {script}");
    }
    let script = folder.path().join("completions.bash");
    fs::write(&script, folder.nexus(&["completions", "bash"]).stdout).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_nexus")).parent().unwrap();
    for (word, offered) in [("doc", "doctor"), ("sta", "status")] {
        let ask = format!(
            "PATH={}:$PATH; . {}; COMP_WORDS=(nexus {word}); COMP_CWORD=1; _clap_complete_nexus nexus {word} nexus; \
             echo \"${{COMPREPLY[@]}}\"",
            program.display(),
            script.display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &ask]).output().unwrap();
        assert_eq!(text(&output.stdout).trim(), offered, "{}", text(&output.stderr));
    }
}

#[test]
fn the_manual_page_has_every_subcommand() {
    let folder = folder_with_server("http://127.0.0.1:1/v1");
    let output = folder.nexus(&["manual"]);
    assert_eq!(output.status.code(), Some(0));
    let page = text(&output.stdout);
    for heading in [".TH nexus 1", ".SH NEXUS RUN", ".SH NEXUS DOCTOR", ".SH NEXUS EXPLAIN"] {
        assert!(page.contains(heading), "{heading} is not in {page}");
    }
}

#[test]
fn a_probe_that_hangs_ends() {
    // It takes connections, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let folder = folder_with_server(&url);
    let began = std::time::Instant::now();
    let output = folder.nexus(&["check", "--probe"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(60));
}

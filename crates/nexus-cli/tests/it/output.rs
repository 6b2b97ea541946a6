//! Answers of turns and panels on output that is not taken, and errors as JSON.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::Stdio,
    time::Duration,
};

use nexus_testkit::sim::Reply;
use serde_json::Value;

use crate::support::{
    PATIENCE,
    stage::{CLOSED_PIPE, Stage, full},
    text,
};

#[test]
fn an_answer_that_standard_output_does_not_take_is_not_lost() {
    let folder = Stage::new(Reply::text("Here."));
    for arguments in [&["run", "talker", "hello"][..], &["run", "talker", "hello", "--quiet"]] {
        let output = folder.command(arguments).stdout(full()).output().unwrap();
        assert!(text(&output.stderr).contains("Here."), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_reader_that_goes_away_in_mid_turn_stops_the_turn() {
    // It takes ten minutes.
    let answer = "a long answer, said slowly ".repeat(24);
    let folder = Stage::new(Reply::text(&answer).paced(1, Duration::from_secs(1)));
    for arguments in
        [&["run", "talker", "hello"][..], &["run", "talker", "hello", "--json"], &["run", "judges", "hello"]]
    {
        let before = folder.model.requests().len();
        let mut child =
            folder.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let asked = folder.model.wait_until_blocking(PATIENCE, |model| model.requests().len() > before);
        assert!(asked, "{arguments:?}");
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(CLOSED_PIPE), "{arguments:?}: {}", text(&output.stderr));
        assert!(folder.model.wait_until_blocking(PATIENCE, |model| model.open_connections() == 0));
    }
}

#[test]
fn lines_of_a_panel_that_is_read_only_in_part_end_quietly() {
    let folder = Stage::new(Reply::text("Here."));
    let mut child = folder
        .command(&["run", "judges", "hello", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(serde_json::from_str::<Value>(&first).is_ok(), "{first}");
    let output = child.wait_with_output().unwrap();
    // Whether the panel was over by then is a race; that it says nothing is none.
    assert!(matches!(output.status.code(), Some(0 | CLOSED_PIPE)), "{:?}", output.status);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_configuration_with_faults_is_told_with_its_place_as_json_where_json_is_wanted() {
    let folder = Stage::new(Reply::text("Here."));
    fs::write(
        folder.path().join("nexus.yaml"),
        "groups: { main: [lcal] }\ntypes: { talker: { group: man } }\n",
    )
    .unwrap();
    for arguments in
        [&["run", "talker", "hello"][..], &["explain"], &["check"], &["check", "--probe"], &["status"]]
    {
        let output = folder.nexus(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("nexus.yaml:2:") && said.contains("did you mean \"main\""),
            "{arguments:?}: {said}"
        );
        assert_eq!(text(&output.stdout), "", "{arguments:?}");

        let output = folder.nexus(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said: Value = serde_json::from_str(text(&output.stdout)).unwrap();
        assert_eq!(said["error"]["kind"], "configuration", "{arguments:?}: {said}");
        let problems = said["error"]["problems"].as_array().unwrap();
        assert!(
            problems.iter().any(|problem| problem["line"] == 2 && problem["suggestion"] == "main"),
            "{said}"
        );
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn no_configuration_and_an_unknown_kind_are_told_as_json_too() {
    let folder = Stage::new(Reply::text("Here."));
    let output = folder.nexus(&["run", "talkr", "hello", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let said: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!(said["error"]["kind"], "usage", "{said}");

    let output = folder.nexus(&["explain", "--json", "--config", "absent.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let said: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!(said["error"]["kind"], "configuration", "{said}");
    fs::remove_file(folder.path().join("nexus.yaml")).unwrap();
    let output = folder.nexus(&["check", "--json"]);
    let said: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!(said["error"]["kind"], "configuration", "{said}");
}

#[test]
fn a_panel_shows_its_seats_while_they_work() {
    let folder = Stage::new(Reply::text("Here."));
    let output = folder.nexus(&["run", "judges", "hello"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("seat 0 · main (edges) · local · started"), "{said}");
    assert!(said.contains("seat 1 · other · second · answered after"), "{said}");
    assert!(said.contains("= 2 of 2 seats answered, from 2 vendors (2 required)"), "{said}");
    assert!(text(&output.stdout).contains("## main (edges) · local\n\nHere.\n"), "{}", text(&output.stdout));
}

#[test]
fn a_panel_of_fewer_vendors_than_it_asks_for_does_not_count() {
    let folder = Stage::new(Reply::text("Here."));
    let file = folder.path().join("nexus.yaml");
    let one_vendor = fs::read_to_string(&file).unwrap().replace("vendor: two", "vendor: one");
    fs::write(&file, &one_vendor).unwrap();
    let warning = "the panel \"jury\" needs answers of 2 vendors, but its seats would be filled by one";
    let check = folder.nexus(&["check"]);
    assert_eq!(check.status.code(), Some(0), "{}", text(&check.stderr));
    assert!(
        text(&check.stdout).contains(&format!("warning     line 6, column 11: {warning}")),
        "{}",
        text(&check.stdout)
    );
    let check: Value = serde_json::from_str(text(&folder.nexus(&["check", "--json"]).stdout)).unwrap();
    assert!(check["warnings"][0]["message"].as_str().unwrap().starts_with(warning), "{check}");

    let output = folder.nexus(&["run", "judges", "hello"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("= 2 of 2 seats answered, from 1 vendor (2 required)"), "{said}");
    assert!(
        said.contains("nexus: the panel is not valid: only one answered, but the panel needs 2 vendors"),
        "{said}"
    );
    let output = folder.nexus(&["run", "judges", "hello", "--json"]);
    let lines = text(&output.stdout);
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{last}");
    assert_eq!(last["vendors"], serde_json::json!(["one"]));
    assert_eq!(last["shortfall"]["min_vendors"], 2);
    let usage = &last["usage"];
    assert_eq!(
        (&usage["input_tokens"], &usage["output_tokens"]),
        (&200.into(), &46.into()),
        "of both seats: {last}"
    );
    assert!(last["cost_usd"].is_null(), "neither says what it costs: {last}");

    let meant = one_vendor
        .replace("jury: [", "jury: { min_vendors: 1, seats: [")
        .replace("simulated }] }", "simulated }] } }");
    fs::write(&file, meant).unwrap();
    let output = folder.nexus(&["run", "judges", "hello", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    assert!(!text(&folder.nexus(&["check"]).stdout).contains("warning"));
}

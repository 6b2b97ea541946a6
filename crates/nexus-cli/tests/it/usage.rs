//! `nexus usage`, and budgets of `nexus.yaml` over all processes of a home.

use std::{collections::BTreeSet, fs};

use nexus_testkit::sim::Reply;
use serde_json::Value;

use crate::support::{answers::checked, stage::Stage, text};

/// A time zone that is always on another day than [`WEST`].
const EAST: &str = "AAA-14";
const WEST: &str = "BBB+12";

fn rows(stage: &Stage, arguments: &[&str], zone: &str) -> Vec<Value> {
    let arguments = [&["usage", "--json"], arguments].concat();
    let output = stage.command(&arguments).env("TZ", zone).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    checked(&arguments, text(&output.stdout))
}

fn with_budgets(budgets: &str) -> Stage {
    let stage = Stage::new(Reply::text("Here."));
    let path = stage.path().join("nexus.yaml");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(path, format!("{config}{budgets}")).unwrap();
    stage
}

#[test]
fn turns_of_every_command_are_summed_by_their_day_in_the_users_zone() {
    let stage = Stage::new(Reply::text("Here."));
    let empty = stage.nexus(&["usage"]);
    assert_eq!((empty.status.code(), text(&empty.stdout)), (Some(0), ""));
    assert!(text(&empty.stderr).contains("no turn of this home has ended since then"), "{empty:?}");
    assert_eq!(rows(&stage, &[], "UTC"), Vec::<Value>::new());
    assert!(!stage.folder.nexus_home().exists(), "something was made to look");

    assert!(stage.nexus(&["run", "talker", "hello", "--conversation", "talk"]).status.success());
    assert!(stage.nexus(&["run", "judges", "hello"]).status.success());
    let by_type = rows(&stage, &["--by", "type,vendor,conversation"], "UTC");
    let shown: BTreeSet<_> = by_type
        .iter()
        .map(|row| {
            (
                row["type"].as_str().unwrap(),
                row["vendor"].as_str().unwrap(),
                row["conversation"].as_str(),
                row["turns"].as_u64(),
            )
        })
        .collect();
    let one = Some(1);
    let expected =
        [("judges", "one", None, one), ("judges", "two", None, one), ("talker", "one", Some("talk"), one)];
    assert_eq!(shown, BTreeSet::from(expected));
    // The simulated server reports tokens and no cost.
    assert!(by_type.iter().all(|row| row["usd"].is_null() && row["turns_without_cost"] == 1), "{by_type:?}");

    let days = [EAST, WEST].map(|zone| rows(&stage, &[], zone));
    assert!(days.iter().all(|rows| rows.len() == 1 && rows[0]["turns"] == 3), "{days:?}");
    assert_ne!(days[0][0]["day"], days[1][0]["day"]);

    let table = stage.nexus(&["usage", "--by", "vendor,type,model"]);
    let table = text(&table.stdout);
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(table.lines().next().unwrap().starts_with("vendor"), "{table}");
    assert!(table.lines().last().unwrap().starts_with("total") && table.contains("unknown"), "{table}");
    let log = fs::read_to_string(stage.folder.nexus_home().join("spending/log.jsonl")).unwrap();
    assert!(!log.contains("hello") && !log.contains("Here."), "{log}");
}

#[test]
fn a_wrong_time_and_a_wrong_column_are_named() {
    let stage = Stage::new(Reply::text("Here."));
    for (arguments, words) in [
        (["usage", "--since", "yesterday"], "a day such as 2026-11-30"),
        (["usage", "--since", "2026-13-01"], "a day such as 2026-11-30"),
        (["usage", "--by", "colour"], "valid: day, vendor, backend, model"),
    ] {
        let output = stage.nexus(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(words), "{output:?}");
    }
}

#[test]
fn a_used_up_budget_stops_the_next_process_before_its_turn() {
    let stage = with_budgets("budgets:\n  few: { per: month, turns: 1 }\n");
    assert!(stage.nexus(&["run", "talker", "hello"]).status.success());
    let asked = stage.model.requests().len();
    let refused = stage.nexus(&["run", "talker", "hello"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let words = text(&refused.stderr);
    for part in
        ["budgets.few (line ", "allows 1 turn in a month: 1 ended", "it begins again at", "raise the budget"]
    {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(stage.model.requests().len(), asked);
    let error = stage.nexus(&["run", "talker", "hello", "--json"]);
    let last: Value = serde_json::from_str(text(&error.stdout).lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["kind"], "limit_reached", "{last}");
}

#[test]
fn a_wrong_budget_is_named_with_its_line() {
    let stage = with_budgets(
        "budgets:\n  one: { per: year, usd: 1 }\n  two: { per: day, usd: -1 }\n  three: { per: day, backend: lokal, usd: 1 }\n",
    );
    let output = stage.nexus(&["check"]);
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    for part in
        ["unknown period of a budget", "`usd` must be a number greater than 0", "did you mean \"local\""]
    {
        assert!(words.contains(part), "{words}");
    }
}

//! What `nexus status` tells of a machine.

use std::{fs, time::Duration};

use nexus_testkit::{
    issuer::RequestKind,
    sim::{Dialect, Reply, Scenario, Sim},
};
use serde_json::Value;

use super::home::{Home, builder, issuer};

const ROUTES: &str = "\
groups: { openai: [codex-cli, codex-sub-token] }
types: { executor: { tier: execution, phase: implement, group: openai, effort: high } }
";

fn login<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["logins"].as_array().unwrap().iter().find(|login| login["login"] == name).unwrap()
}

#[test]
fn a_machine_with_nothing_is_told_what_to_do_next() {
    let home = Home::new();
    let finished = home.nexus(&["status"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for words in [
        "codex: not logged in",
        "grok: not logged in",
        "nexus login codex",
        "claude: the program's own login, which Nexus does not read: run `claude auth status`",
        "configuration: none",
        "nexus check --example > ",
    ] {
        assert!(finished.stdout.contains(words), "{words:?} is not in {}", finished.stdout);
    }
    assert!(finished.stderr.is_empty(), "{finished:?}");
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().collect();
    assert!(left.is_empty(), "looking wrote something: {left:?}");
}

#[test]
fn a_script_asks_by_the_exit_code() {
    let (home, issuer) = (Home::new(), issuer());
    assert_eq!(home.nexus(&["status", "codex"]).code, Some(1));
    home.log_in("codex", &issuer);
    assert_eq!(home.nexus(&["status", "codex"]).code, Some(0));
    assert_eq!(home.nexus(&["status", "codex", "grok"]).code, Some(1));
    assert_eq!(home.nexus(&["status"]).code, Some(0));
    home.nexus(&["logout", "codex"]);
    assert_eq!(home.nexus(&["status", "codex"]).code, Some(1));
}

#[test]
fn a_login_is_told_with_its_plan_its_end_and_its_place() {
    let (home, issuer) = (Home::new(), issuer());
    home.log_in("codex", &issuer);
    let asked = issuer.asked().len();
    let finished = home.nexus(&["status", "--json"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let status = finished.json();
    let codex = login(&status, "codex");
    assert_eq!(codex["state"], "logged_in");
    assert_eq!(codex["email"], "somebody@example.test");
    assert_eq!(codex["plan"], "pro");
    assert_eq!(codex["renews_itself"], true);
    assert!(codex["place"].as_str().unwrap().contains("openai-codex.json"));
    assert_eq!(login(&status, "grok")["state"], "logged_out");
    assert_eq!(status["vendor_logins"][0]["login"], "claude");

    let words = home.nexus(&["status"]).stdout;
    for part in
        ["codex: logged in", "somebody@example.test", "pro", "renewed automatically", "nexus logout codex"]
    {
        assert!(words.contains(part), "{part:?} is not in {words}");
    }
    assert_eq!(issuer.asked().len(), asked, "looking asked the issuer");
}

#[test]
fn an_issuer_that_is_not_the_vendor_is_told() {
    let (home, issuer) = (Home::new(), issuer());
    home.log_in("codex", &issuer);
    assert_eq!(login(&home.nexus(&["status", "--json"]).json(), "codex")["issuer"], issuer.url());
    let words = home.nexus(&["status"]).stdout;
    assert!(words.contains(&format!("{}, not the vendor", issuer.url())), "{words}");

    let mut stored = home.stored("openai-codex");
    stored["origin"]["url"] = nexus::login("codex").unwrap().issuer().url.into();
    home.put("openai-codex", &format!("{stored:#}\n"));
    let status = home.nexus(&["status", "--json"]).json();
    assert_eq!(login(&status, "codex")["state"], "logged_in");
    assert_eq!(login(&status, "codex")["issuer"], Value::Null);
    let words = home.nexus(&["status"]).stdout;
    assert!(words.contains("codex: logged in") && !words.contains("issuer"), "{words}");
}

#[test]
fn a_token_that_has_expired_is_told_and_not_renewed_by_looking() {
    let home = Home::new();
    let issuer = builder().access_token_life(Duration::from_secs(1)).start().unwrap();
    home.log_in("codex", &issuer);
    let before = home.stored("openai-codex");
    std::thread::sleep(Duration::from_millis(2100));
    let finished = home.nexus(&["status", "codex"]);
    assert_eq!(finished.code, Some(0), "it renewed automatically, and so is logged in: {finished:?}");
    assert!(finished.stdout.contains("the next turn renews it"), "{finished:?}");
    assert_eq!(issuer.count(RequestKind::Refresh), 0);
    assert_eq!(home.stored("openai-codex"), before);
}

#[test]
fn a_login_that_is_over_is_told_with_the_command_that_mends_it() {
    let (home, issuer) = (Home::new(), issuer());
    home.log_in("codex", &issuer);
    let mut stored = home.stored("openai-codex");
    stored["refused"] = "invalid_grant".into();
    home.put("openai-codex", &format!("{stored:#}\n"));
    let finished = home.nexus(&["status"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stdout.contains("codex: the login is over"), "{finished:?}");
    assert!(finished.stdout.contains("invalid_grant"), "{finished:?}");
    assert!(finished.stdout.contains("nexus login codex"), "{finished:?}");
}

#[test]
fn what_the_issuer_says_moves_no_cursor() {
    let (home, issuer) = (Home::new(), issuer());
    home.log_in("codex", &issuer);
    let mut stored = home.stored("openai-codex");
    stored["identity"]["email"] = "\u{1b}[2Jowned\u{7}@example.test".into();
    home.put("openai-codex", &format!("{stored:#}\n"));
    let finished = home.nexus(&["status"]);
    assert!(finished.stdout.contains("owned@example.test"), "{finished:?}");
    assert!(!finished.stdout.contains(['\u{1b}', '\u{7}']), "{finished:?}");
}

#[test]
fn each_backend_is_told_and_what_would_run() {
    let (home, issuer) = (Home::new(), issuer());
    // Any server that answers will do: no model is asked.
    let model = Sim::start(Dialect::Responses, Scenario::new([Reply::text("unasked")])).unwrap();
    let server = format!("backends: {{ codex-sub-token: {{ base_url: {:?} }} }}\n", model.base_url());
    fs::write(home.path().join("nexus.yaml"), format!("{ROUTES}{server}")).unwrap();
    let finished = home.nexus(&["status", "--json"]);
    assert_eq!(finished.code, Some(1), "nothing could run: {finished:?}");
    let status = finished.json();
    let executor = &status["kinds"][0];
    assert_eq!((&executor["kind"], &executor["runs_on"][0]["backend"]), (&"executor".into(), &Value::Null));

    home.log_in("codex", &issuer);
    let finished = home.nexus(&["status", "--json"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let status = finished.json();
    let executor = &status["kinds"][0];
    assert_eq!(executor["runs_on"][0]["backend"], "codex-sub-token", "{status:#}");
    assert_eq!(executor["runs_on"][0]["passed_over"][0]["reason"], "not installed");
    assert_eq!(status["backends"][0]["id"], "codex-cli");

    let words = home.nexus(&["status"]).stdout;
    assert!(words.contains("executor: codex-sub-token, effort high"), "{words}");
    assert!(words.contains("passed over codex-cli: not installed"), "{words}");
}

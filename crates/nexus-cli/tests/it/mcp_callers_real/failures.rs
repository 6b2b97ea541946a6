//! What goes wrong in the middle of a walk, and how it goes on.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use super::{
    caller::{Caller, HttpServer, Way},
    models,
    stage::{OPENAI_TOKEN, Stage},
    walk,
};

#[test]
#[ignore = "needs the real CLIs"]
fn a_token_that_is_refused_escalates_and_a_new_login_goes_on() {
    let old = "canary-token-that-was-revoked";
    let stage = Stage::new();
    stage.log_in("codex", old);
    stage.trouble.is_refusing.store(true, Ordering::SeqCst);
    let project = stage.project();
    stage.told(&["new", "Keep signs.", "--project", project.to_str().unwrap(), "--test", "sh test.sh"]);
    let ended = stage.told(&["run", "last"]);
    let status = stage.told(&["status", "last"]);
    assert_eq!(status["status"], "escalated", "{ended}");
    let error = status["error"].as_str().expect("the failure of the infrastructure");
    assert!(!error.contains(old), "{error}");
    let refused = stage.openai.main_calls();
    assert!(!refused.is_empty() && refused.iter().all(|call| call.bearer() == Some(old)));
    assert_eq!(walk::calls_of_phases(&stage)[&("orchestrate", "anthropic")], 1);

    stage.log_in("codex", OPENAI_TOKEN);
    stage.trouble.is_refusing.store(false, Ordering::SeqCst);
    let reopened = stage.told(&["reopen", "last", "There is a new login."]);
    assert_eq!(reopened["status"], "active", "{reopened}");
    stage.told(&["run", "last"]);
    walk::landed(&stage);
    let later = stage.openai.main_calls().split_off(refused.len());
    assert!(!later.is_empty() && later.iter().all(|call| call.bearer() == Some(OPENAI_TOKEN)));
    assert_eq!(walk::calls_of_phases(&stage)[&("orchestrate", "anthropic")], 1, "the brief stands");
    assert_eq!(stage.files_with(old, stage.path()), Vec::<std::path::PathBuf>::new());
    walk::tokens_stay_where_they_belong(&stage, &[]);
}

#[test]
#[ignore = "needs the real CLIs"]
fn a_caller_that_is_killed_in_mid_step_leaves_no_agent_and_the_next_server_goes_on() {
    let stage = Stage::new();
    stage.trouble.is_stalling.store(true, Ordering::SeqCst);
    let mut calling = Caller::Claude.start(&stage);
    let at_work = |stage: &Stage| {
        stage.openai.main_calls().iter().any(|call| models::phase(&call.conversation) == Some("implement"))
    };
    wait_until("the executor's model is asked", || {
        at_work(&stage) || calling.child.try_wait().unwrap().is_some()
    });
    assert!(at_work(&stage), "{}", calling.said());
    assert!(stage.running().iter().any(|(_, name)| name.contains("codex")), "{:?}", stage.running());
    calling.child.kill().unwrap();
    calling.child.wait().unwrap();
    wait_until("everything that was started has ended", || stage.running().is_empty());

    let status = stage.told(&["status", "last"]);
    assert_eq!((&status["status"], &status["running"]), (&"active".into(), &false.into()), "{status}");
    assert!(status.to_string().contains("interrupted"), "{status}");
    let interrupted = stage.logged("step_interrupted");
    assert_eq!(interrupted.len(), 1, "{interrupted:?}");
    assert_eq!(interrupted[0]["was_killed"], false, "the server put the step back itself");

    stage.trouble.is_stalling.store(false, Ordering::SeqCst);
    stage.told(&["run", "last"]);
    walk::landed(&stage);
    assert_eq!(stage.running(), []);
}

#[test]
#[ignore = "needs the real CLIs"]
fn a_caller_that_is_killed_in_mid_step_leaves_a_server_that_runs_to_finish_it() {
    let stage = Stage::new();
    let server = HttpServer::start(&stage);
    stage.trouble.is_slow.store(true, Ordering::SeqCst);
    let mut calling = Caller::Claude.start_by(&stage, Way::Attach, None);
    let at_work = |stage: &Stage| {
        stage.openai.main_calls().iter().any(|call| models::phase(&call.conversation) == Some("implement"))
    };
    wait_until("the executor's model is asked", || at_work(&stage));
    calling.child.kill().unwrap();
    calling.child.wait().unwrap();
    wait_until("the step is settled", || stage.told(&["status", "last"])["status"] == "complete");
    assert_eq!(stage.logged("step_interrupted"), Vec::<serde_json::Value>::new());
    walk::landed(&stage);
    drop(server);
    assert_eq!(stage.running(), []);
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: not in a minute");
        thread::sleep(Duration::from_millis(50));
    }
}

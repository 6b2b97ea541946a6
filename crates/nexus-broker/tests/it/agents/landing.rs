//! What several workers of one commit made, on one branch.

use nexus_broker::{AgentStatus, BrokerErrorKind, SendOptions};
use serde_json::json;

use super::{
    kit::{Kit, Scripts, caller, git, manager, until_status},
    message, named,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_work_of_a_second_worker_is_merged_and_what_does_not_fit_is_named() {
    let scripts = Scripts::default()
        .with("manager", |mut puppet| async move {
            if puppet.handles().starts_with("[message from caller") {
                for name in ["poet", "painter", "critic"] {
                    let order = json!({ "name": name, "kind": "worker", "task": name });
                    puppet.done("start_worker", order).await;
                }
            }
            Ok("given away".to_owned())
        })
        .with("worker", |puppet| async move {
            let folder = puppet.folder.clone().unwrap();
            let (file, text) = match puppet.prompt.lines().last().unwrap_or_default() {
                "poet" => ("poem.txt", "one\ntwo\n"),
                "painter" => ("picture.txt", "a heron\n"),
                _ => ("poem.txt", "uno\n"),
            };
            std::fs::write(folder.join(file), text).unwrap();
            Ok("It is done.".to_owned())
        });
    let kit = Kit::new(scripts);
    let project = kit.repository();
    let running = kit.run().await;
    let broker = running.broker.clone();
    let mut record = manager(&project);
    record.scope.max_workers = 3;
    broker.configure(&record).await.unwrap();
    broker
        .send(&caller(), &named("manager"), message("Some work, please."), SendOptions::default())
        .await
        .unwrap();
    for name in ["poet", "painter", "critic"] {
        until_status(&broker, name, AgentStatus::Done).await;
    }
    assert!(broker.land("poet").await.unwrap().starts_with("refs/heads/main is at "));
    let landed = broker.land("painter").await.unwrap();
    assert!(landed.starts_with("refs/heads/main is at "), "{landed}");
    assert_eq!(std::fs::read_to_string(project.join("poem.txt")).unwrap(), "one\ntwo\n");
    assert_eq!(std::fs::read_to_string(project.join("picture.txt")).unwrap(), "a heron\n");
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    let body = git(&project, &["log", "-1", "--format=%B"]);
    assert!(body.contains("Merge the work of painter") && body.contains("Agent: painter"), "{body}");
    // Again: nothing is made anew.
    assert_eq!(broker.land("painter").await.unwrap(), landed);
    let before = git(&project, &["rev-parse", "HEAD"]);
    let refused = broker.land("critic").await.unwrap_err().to_string();
    for part in ["not landed", "\"poem.txt\"", "git merge refs/nexus/agents/critic/1"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(git(&project, &["rev-parse", "HEAD"]), before);
    assert_eq!(broker.clean("critic", false).await.unwrap_err().kind, BrokerErrorKind::Conflict);
    // A person merges it by hand: then it is landed.
    let person = ["-c", "user.name=A", "-c", "user.email=a@b"];
    git(
        &project,
        &[&person[..], &["merge", "-q", "-s", "ours", "-m", "mine", "refs/nexus/agents/critic/1"]].concat(),
    );
    assert!(broker.land("critic").await.unwrap().starts_with("refs/heads/main is at "));
    for name in ["poet", "painter", "critic"] {
        assert_eq!(broker.clean(name, false).await.unwrap(), format!("{name} is removed"));
    }
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_removal_was_cut_off_is_removed_the_next_time() {
    let scripts = Scripts::default()
        .with("manager", |mut puppet| async move {
            if puppet.handles().starts_with("[message from caller") {
                let order = json!({ "name": "poet", "kind": "worker", "task": "Nothing." });
                puppet.done("start_worker", order).await;
            }
            Ok("given away".to_owned())
        })
        .with("worker", |_| async move { Ok("It is done.".to_owned()) });
    let kit = Kit::new(scripts);
    let project = kit.repository();
    let running = kit.run().await;
    let broker = running.broker.clone();
    broker.configure(&manager(&project)).await.unwrap();
    broker.send(&caller(), &named("manager"), message("Go."), SendOptions::default()).await.unwrap();
    until_status(&broker, "poet", AgentStatus::Done).await;
    // As a broker leaves it that is killed in the middle: the files are set aside, the tree is gone.
    let workspace = kit.folder.path().join("broker/workers/poet");
    std::fs::rename(workspace.join("work"), workspace.join("removed")).unwrap();
    std::fs::remove_dir_all(workspace.join(".tree")).unwrap();
    assert_eq!(broker.clean("poet", false).await.unwrap(), "poet is removed");
    assert!(!workspace.exists());
    running.drain().await;
}

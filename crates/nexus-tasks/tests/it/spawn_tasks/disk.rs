//! A disk that is full at each kind of write: it is said, nothing is lost, and when there is room again it goes on.

use std::{env, fs, path::Path, process::Command};

use nexus_tasks::{TaskCreateRequest, TaskErrorKind, TaskResultRequest, TaskRunTurnRequest, Tasks};
use nexus_testkit::child_test;
use serde_json::json;

use super::kit::{
    Act, Agents, agents, brief, has_git, make_project, options, orchestrate, router, run, status, verdict,
    work,
};

const DISK: &str = "NEXUS_TEST_TASKS_DISK";
/// Size of the disk, in bytes.
const SIZE: usize = 24 << 20;

/// Fills the disk but for so many bytes.
fn fill_up(filler: &Path, leave: u64) {
    let mut bytes = SIZE;
    loop {
        let _ = fs::remove_file(filler);
        if fs::write(filler, vec![0; bytes]).is_ok() {
            break;
        }
        bytes -= 4096;
    }
    let file = fs::File::options().write(true).open(filler).unwrap();
    file.set_len((bytes as u64).saturating_sub(leave)).unwrap();
}

/// Agents of a task with one step, which fill the disk at a moment: when the orchestrator, the executor before or after its file,
/// or the last reviewer is at work.
fn filling(filler: &Path, moment: &'static str, leave: u64) -> std::sync::Arc<Agents> {
    let filler = filler.to_owned();
    agents(move |seen| {
        let is_now = moment == seen.phase && (seen.phase != "review" || seen.turn == 1);
        if is_now && filler.with_extension("armed").exists() {
            let _ = fs::remove_file(filler.with_extension("armed"));
            fill_up(&filler, leave);
        }
        match seen.phase {
            "orchestrate" => vec![Act::Call("submit_brief", brief(&[("src/one.txt", None)]))],
            "implement" => work(seen, "step_done"),
            _ => vec![Act::Call("submit_verdict", verdict(seen, "advance"))],
        }
    })
}

#[test]
fn wherever_the_disk_is_full_it_is_said_and_nothing_is_lost() {
    if let Some(disk) = env::var_os(DISK) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(walk_on_a_full_disk(Path::new(&disk)));
        return;
    }
    if !has_git() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The disk is there for the started process alone, and gone with it.
    let script = format!("mount -t tmpfs -o size={SIZE} small \"$1\" || exit 77; shift; exec \"$@\"");
    let mut launcher = Command::new("unshare");
    launcher.args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"]).arg(folder.path());
    let test = wherever_the_disk_is_full_it_is_said_and_nothing_is_lost;
    match child_test::through(launcher, test).env(DISK, folder.path()).output() {
        Ok(output) if matches!(output.status.code(), Some(0 | 101)) => {
            child_test::assert_passed("the walks on a small disk", &output);
        }
        unable => println!("NOT TESTED: no small disk can be mounted ({unable:?})"),
    }
}

async fn walk_on_a_full_disk(disk: &Path) {
    let mut full = 0;
    for moment in ["create", "orchestrate", "implement", "review"] {
        for leave in [0_u64, 16 << 10, 64 << 10] {
            let root = disk.join(format!("{moment}-{leave}"));
            fs::create_dir(&root).unwrap();
            make_project(&root);
            full += u32::from(one_walk(disk, &root, moment, leave).await);
            fs::remove_dir_all(&root).unwrap();
        }
    }
    assert!(full >= 4, "only {full} walks met a full disk");
}

/// Walks a task whose disk is full from a moment on, and then has room again. Says whether a call told so.
async fn one_walk(disk: &Path, root: &Path, moment: &'static str, leave: u64) -> bool {
    let filler = disk.join("filler");
    let armed = filler.with_extension("armed");
    let make_room = || {
        let _ = fs::remove_file(&filler);
        let _ = fs::remove_file(&armed);
    };
    let place = format!("{moment} with {leave} bytes");
    let agents = filling(&filler, moment, leave);
    let tasks = Tasks::new(router(&agents, &json!({})), options(root));
    let request = || TaskCreateRequest {
        goal: "Make a file.".to_owned(),
        project: root.join("project"),
        ..Default::default()
    };
    fs::write(&armed, "").unwrap();
    let told = std::cell::Cell::new(false);
    // Whatever is refused says that it is the disk, or is a status that can be gone on from.
    let is_full = |error: &nexus_tasks::TaskError| {
        assert_eq!(error.kind, TaskErrorKind::NoSpace, "{place}: {error}");
        assert!(
            error.to_string().contains("space") || error.to_string().contains("room"),
            "{place}: {error}"
        );
        told.set(true);
    };
    if moment == "create" {
        fill_up(&filler, leave);
    }
    let id = match tasks.create(request()).await {
        Ok(created) => created.task_id,
        Err(error) => {
            is_full(&error);
            make_room();
            assert!(tasks.list(Default::default()).await.unwrap().tasks.is_empty(), "{place}");
            tasks.create(request()).await.unwrap().task_id
        }
    };
    let ask = || nexus_tasks::TaskOrchestrateRequest { task_id: id.clone(), ..Default::default() };
    match tasks.orchestrate(ask()).await {
        Ok(framed) if framed.task.status == "active" => {}
        Ok(framed) => {
            assert_eq!(framed.task.status, "escalated", "{place}");
            told.set(true);
            make_room();
            reopen(&tasks, &id).await;
        }
        Err(error) => is_full(&error),
    }
    if moment != "implement" && moment != "review" {
        make_room();
    }
    assert_eq!(orchestrate(&tasks, &id).await.status, "active", "{place}");
    let turn = |tasks: Tasks| {
        let request = TaskRunTurnRequest { wait_s: Some(50), ..run(&id) };
        async move { tasks.run_turn(request).await }
    };
    let before = agents.seen.lock().unwrap().len();
    let first = turn(tasks.clone()).await;
    let asked = agents.seen.lock().unwrap().len() - before;
    match &first {
        Ok(report) => {
            if report.status == "escalated" {
                let said = format!("{:?}", report.step);
                assert!(said.contains("space") || said.contains("full"), "{place}: {said}");
                told.set(true);
            }
        }
        Err(error) => is_full(error),
    }
    // It can be asked for although the disk is full, or says why not.
    if let Err(error) =
        tasks.status(nexus_tasks::TaskStatusRequest { task_id: id.clone(), wait_s: Some(0) }).await
    {
        assert_eq!(error.kind, TaskErrorKind::NoSpace, "{place}: {error}");
    }
    make_room();
    let mut rounds = 0;
    loop {
        match status(&tasks, &id).await.status.as_str() {
            "complete" => break,
            "escalated" => reopen(&tasks, &id).await,
            _ => {}
        }
        rounds += 1;
        assert!(rounds <= 2, "{place}: it goes on");
        let before = agents.seen.lock().unwrap().len();
        // What was done and could not be written down is settled now, and comes to the same end.
        turn(tasks.clone()).await.unwrap();
        if asked == 3 && first.is_err() && rounds == 1 {
            assert_eq!(agents.seen.lock().unwrap().len(), before, "{place}: nobody is asked again");
        }
    }
    let result = tasks.result(TaskResultRequest { task_id: id.clone(), offset: 0 }).await.unwrap();
    assert_eq!(
        (result.files.as_slice(), result.commits.len()),
        (["added src/one.txt".to_owned()].as_slice(), 1),
        "{place}"
    );
    // Another server reads the same: nothing was kept in memory alone.
    let other = Tasks::new(router(&agents, &json!({})), options(root));
    assert_eq!(status(&other, &id).await.status, "complete", "{place}");
    tasks.shutdown().await;
    other.shutdown().await;
    told.get()
}

async fn reopen(tasks: &Tasks, id: &str) {
    let note = nexus_tasks::TaskReopenRequest {
        task_id: id.to_owned(),
        note: "There is room again.".to_owned(),
        ..nexus_tasks::TaskReopenRequest::default()
    };
    tasks.reopen(note).await.unwrap();
}

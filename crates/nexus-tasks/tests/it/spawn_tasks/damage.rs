//! Task folders that somebody edited: an error that names the file, and no other task hindered.

use std::fs;

use nexus_tasks::{TaskErrorKind, TaskListRequest, TaskStatusRequest};

use super::kit::{World, honest, run, run_step, status};

const VERSION: &str = "\"version\": 1";

#[tokio::test]
async fn each_damaged_file_is_named_and_hinders_no_other_task() {
    let Some(world) = World::new(honest) else { return };
    let other = world.framed().await;
    let id = world.framed().await;
    run_step(&world.tasks, &id).await;
    let folder = world.task_folder(&id);
    let status_file = folder.join("status.json");
    let good = fs::read_to_string(&status_file).unwrap();
    let edits: [(&str, &str, &str); 6] = [
        ("status.json", "{", ""),
        ("status.json", VERSION, "\"version\": 9"),
        ("status.json", "\"write\": [\n        \"src\"", "\"write\": [\n        \"../src\""),
        ("status.json", "\"attempt\": 2", "\"attempt\": 7"),
        ("status.json", "\"project\": \"/", "\"project\": \""),
        ("steps/1.json", "\"attempt\": 1", "\"attempt\": 3"),
    ];
    for (file, from, to) in edits {
        let path = folder.join(file);
        let before = fs::read_to_string(&path).unwrap();
        assert!(before.contains(from), "{file} has {from}:\n{before}");
        // What stands beside the one version that is meant depends on the order of the keys, so all of them are changed.
        let times = if from == VERSION { usize::MAX } else { 1 };
        let edited = before.replacen(from, to, times);
        fs::write(&path, &edited).unwrap();
        let request = TaskStatusRequest { task_id: id.clone(), wait_s: Some(0) };
        let error = world.tasks.status(request).await.unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::Damaged, "{file}: {error}");
        assert!(error.message.contains(file), "{error}");
        assert!(world.tasks.run_turn(run(&id)).await.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), edited, "nothing is written over it");
        assert_eq!(status(&world.tasks, &other).await.status, "active");
        assert!(!world.tasks.list(TaskListRequest::default()).await.unwrap().tasks.is_empty());
        fs::write(&path, before).unwrap();
    }
    assert_eq!(fs::read_to_string(&status_file).unwrap(), good);
    assert_eq!(run_step(&world.tasks, &id).await.step.unwrap().entry, 2);
}

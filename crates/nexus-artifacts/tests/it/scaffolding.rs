//! New milestones, slices and tasks, and the files of tasks.

use std::fs;

use nexus_artifacts::{Kind, NewMilestone, NewTask, WorkStatus};
use nexus_project::ProjectErrorKind;

use super::support::{empty, files, findings, good};

#[test]
fn what_is_made_passes_the_lint() {
    let (folder, artifacts) = empty();
    let new = NewMilestone {
        name: "Sign-in: \"first\"".into(),
        goal: "People\nsign in.".into(),
        requirements: vec!["AUTH-01".into()],
        success_criteria: vec!["It works".into()],
    };
    let milestone = artifacts.new_milestone(&new).unwrap();
    assert_eq!(milestone.to_string(), "M001");
    let first = artifacts.new_slice(milestone, "Form").unwrap();
    let second = artifacts.new_slice(milestone, "Session").unwrap();
    assert_eq!(findings(folder.path()), Vec::<String>::new());
    let task = NewTask { name: "Write it".into(), tier: "opus".into(), ..NewTask::default() };
    let one = artifacts.new_task(first, &task, &[]).unwrap();
    let two =
        artifacts.new_task(first, &NewTask { action: "Do\n- this".into(), ..task.clone() }, &[]).unwrap();
    assert_eq!(two.to_string(), "M001-S001-T0002");
    let later =
        NewTask { depends_on: vec![one, two], files: vec!["a.rs".into(), "b \"c\".rs".into()], ..task };
    let later = artifacts.new_task(second, &later, &[]).unwrap();
    let made = artifacts.scaffold(first, &[]).unwrap();
    assert_eq!((made.tasks.len(), made.made.len(), made.kept.len()), (2, 4, 0));
    artifacts.scaffold(second, &[]).unwrap();
    assert_eq!(findings(folder.path()), Vec::<String>::new());
    let plan = artifacts.read(&artifacts.task_file(later, Kind::TaskPlan), Kind::TaskPlan).unwrap().unwrap();
    let plan = plan.read::<nexus_artifacts::TaskPlan>().unwrap();
    assert_eq!(plan.depends_on, [one, two]);
    assert_eq!(plan.files_modified, ["a.rs", "b \"c\".rs"]);
    assert_eq!(artifacts.new_milestone(&new).unwrap().to_string(), "M002");
}

#[test]
fn what_is_there_stays_byte_for_byte() {
    let (folder, artifacts) = good();
    let slice = "M001-S001".parse().unwrap();
    let before: Vec<_> =
        files(folder.path()).into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    let made = artifacts.scaffold(slice, &[]).unwrap();
    assert_eq!((made.made.len(), made.kept.len()), (0, 2));
    for (bytes, path) in before {
        assert_eq!(fs::read(&path).unwrap(), bytes, "{path:?}");
    }
}

#[test]
fn a_block_that_lacks_something_stops_everything_and_is_named() {
    for attribute in ["id", "depends_on", "wave", "tier"] {
        let (_folder, artifacts) = good();
        let slice = "M001-S001".parse().unwrap();
        let path = artifacts.slice_file(slice, Kind::SlicePlan);
        let text = fs::read_to_string(&path).unwrap();
        let block = "<task id=\"M001-S001-T0002\" depends_on=\"\" wave=\"1\" tier=\"opus\">\n<name>Two</name>\n</task>\n</tasks>";
        let mut text = text.replace("</tasks>", block);
        let second = text.rfind(&format!("{attribute}=\"")).unwrap();
        let end = second + text[second..].match_indices('"').nth(1).unwrap().0 + 1;
        text.replace_range(second..end, "");
        fs::write(&path, text).unwrap();
        let error = artifacts.scaffold(slice, &[]).unwrap_err().to_string();
        assert!(
            error.contains("task-attribute") && error.contains(&format!("has no {attribute}")),
            "{error}"
        );
        assert!(!artifacts.task_folder(slice.task(2)).exists());
    }
}

#[test]
fn a_task_depends_on_earlier_slices_only() {
    let (_folder, artifacts) = good();
    let slice = "M001-S002".parse().unwrap();
    let path = artifacts.slice_file(slice, Kind::SlicePlan);
    let text = fs::read_to_string(&path).unwrap();
    for (named, said) in [
        ("M001-S002-T0001", "does not belong to a slice before"),
        ("M001-S003-T0001", "does not belong to a slice before"),
        ("M002-S001-T0001", "does not belong to a slice before"),
        ("T0001", "is not the name of a task"),
        ("M001-S001-T0001, M001-S001-T0002", "not in the plan of M001-S001"),
    ] {
        fs::write(&path, text.replace("depends_on=\"M001-S001-T0001\"", &format!("depends_on=\"{named}\"")))
            .unwrap();
        let error = artifacts.scaffold(slice, &[]).unwrap_err().to_string();
        assert!(error.contains("task-dependency") && error.contains(said), "{named}: {error}");
    }
    fs::write(&path, text.replace("depends_on=\"M001-S001-T0001\"", "depends_on=\"[M001-S001-T0001]\""))
        .unwrap();
    artifacts.scaffold(slice, &[]).unwrap();
}

#[test]
fn what_would_break_a_plan_is_refused() {
    let (_folder, artifacts) = good();
    let slice = "M001-S001".parse().unwrap();
    let path = artifacts.slice_file(slice, Kind::SlicePlan);
    let before = fs::read(&path).unwrap();
    let good = NewTask { name: "x".into(), tier: "opus".into(), ..NewTask::default() };
    for bad in [
        NewTask { name: "a\nb".into(), ..good.clone() },
        NewTask { tier: "opus\" x=\"".into(), ..good.clone() },
        NewTask { tier: "unknown".into(), ..good.clone() },
        NewTask { action: "</task>".into(), ..good.clone() },
        NewTask { action: "</action></task><task id=\"1\">".into(), ..good.clone() },
        NewTask { action: "```".into(), ..good.clone() },
        NewTask { action: "</tasks>".into(), ..good.clone() },
        NewTask { depends_on: vec![slice.task(1)], ..good },
    ] {
        assert!(artifacts.new_task(slice, &bad, &[]).is_err(), "{bad:?}");
        assert_eq!(fs::read(&path).unwrap(), before, "{bad:?}");
    }
}

#[cfg(unix)]
#[test]
fn no_link_is_followed() {
    let (folder, artifacts) = good();
    let outside = tempfile::tempdir().unwrap();
    let tasks = artifacts.slice_folder("M001-S001".parse().unwrap()).join("tasks");
    fs::rename(&tasks, outside.path().join("tasks")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("tasks"), &tasks).unwrap();
    let before = files(outside.path()).len();
    let slice = "M001-S001".parse().unwrap();
    assert!(artifacts.scaffold(slice, &[]).unwrap_err().to_string().contains("link"));
    assert!(artifacts.mark_task(slice.task(1), WorkStatus::Parked).unwrap_err().to_string().contains("link"));
    assert_eq!(files(outside.path()).len(), before);
    let (folder_of_link, other) = empty();
    std::os::unix::fs::symlink(
        folder.path().join(".nubos-pilot"),
        folder_of_link.path().join(".nubos-pilot"),
    )
    .unwrap();
    assert!(other.new_milestone(&NewMilestone { name: "x".into(), ..NewMilestone::default() }).is_err());
}

#[cfg(unix)]
#[test]
fn a_file_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, artifacts) = good();
    let task = "M001-S001-T0001".parse().unwrap();
    let path = artifacts.task_file(task, Kind::TaskPlan);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    artifacts.mark_task(task, WorkStatus::Parked).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn what_is_not_to_be_tracked_is_ignored_beside_what_others_ignore() {
    let (folder, artifacts) = empty();
    let ignore = folder.path().join(".nubos-pilot/.gitignore");
    fs::create_dir(artifacts.folder()).unwrap();
    fs::write(&ignore, "mine").unwrap();
    for _ in 0..2 {
        artifacts.new_milestone(&NewMilestone { name: "A name".into(), ..Default::default() }).unwrap();
        assert_eq!(fs::read_to_string(&ignore).unwrap(), "mine\n/.lock\n.*.new\n");
    }
}

#[test]
fn what_would_not_pass_the_lint_is_not_made() {
    let (folder, artifacts) = empty();
    let new = |goal: &str| NewMilestone { name: "A name".into(), goal: goal.into(), ..Default::default() };
    for goal in ["```\nx", "<!-- x", "[object Object]"] {
        let error = artifacts.new_milestone(&new(goal)).unwrap_err();
        assert_eq!(error.kind, ProjectErrorKind::InvalidArgument, "{goal}: {error}");
        assert!(error.message.contains("M001-CONTEXT.md:"), "{error}");
    }
    assert!(artifacts.milestones().unwrap().is_empty());
    let milestone = artifacts.new_milestone(&new("```\nx\n```")).unwrap();
    for name in ["```", "~~~"] {
        let error = artifacts.new_slice(milestone, name).unwrap_err();
        assert!(error.message.contains("S001-PLAN.md:"), "{error}");
    }
    assert!(artifacts.slices(milestone).unwrap().is_empty());
    artifacts.new_slice(milestone, "`a`").unwrap();
    assert_eq!(findings(folder.path()), Vec::<String>::new());
}

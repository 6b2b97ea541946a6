//! Programs that are no git, an old one, or one that does not end.

use std::{
    fs,
    time::{Duration, Instant},
};

use nexus_core::CancelToken;
use nexus_trees::{Git, Project, Tree, TreeErrorKind, TreeOptions};

use super::kit::{Place, kind, listing, needs_git, real_git, script};

#[test]
fn a_git_that_is_missing_or_too_old_is_named_with_what_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("git");
    let error = Git::at(&path).unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::GitMissing);
    assert!(
        error.to_string().contains("2.32") && error.to_string().contains("apt-get install git"),
        "{error}"
    );
    script(&path, "echo git version 2.31.9");
    let error = Git::at(&path).unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::GitTooOld);
    assert!(error.to_string().contains("2.31.9") && error.to_string().contains("2.32"), "{error}");
    script(&path, "echo something else");
    assert_eq!(kind(Git::at(&path)), TreeErrorKind::GitMissing);
    script(&path, "echo git version 2.32.0");
    assert_eq!(Git::at(&path).unwrap().version(), [2, 32, 0]);
    fs::write(&path, "no program").unwrap();
    assert!(Git::at(&path).is_err());
}

#[test]
fn a_git_that_does_not_end_is_killed_with_all_that_it_started() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let wrapper = place.folder.path().join("bin/git");
    let pids = place.folder.path().join("pids");
    // What it starts has its pipes, so that nobody sees an end of file.
    script(
        &wrapper,
        &format!(
            "case \"$*\" in *--version) exec {0} \"$@\" ;; *cat-file*) sleep 300 & echo $! > {1}; wait ;; *) exec {0} \"$@\" ;; esac",
            real_git().display(),
            pids.display()
        ),
    );
    let tree = place.create().unwrap();
    let slow = Git::at(&wrapper).unwrap();
    let is_gone = || {
        // On a slow machine the time may be over before it was started.
        let Ok(pid) = fs::read_to_string(&pids) else { return true };
        let path = format!("/proc/{}/stat", pid.trim());
        let state = || fs::read_to_string(&path).unwrap_or_default();
        // A killed process may take a moment.
        (0..6_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            state().is_empty() || state().contains(") Z ")
        })
    };
    let began = Instant::now();
    let limited = tree.clone().with_git(&slow.clone().with_time_limit(Duration::from_millis(300)));
    assert_eq!(kind(limited.snapshot(place.project())), TreeErrorKind::TimedOut);
    assert!(is_gone());
    let _ = fs::remove_file(&pids);
    let cancel = CancelToken::new();
    let cancelled = tree.with_git(&slow.with_cancel(cancel.clone()));
    let ended = std::thread::scope(|scope| {
        let call = scope.spawn(|| cancelled.snapshot(place.project()));
        // It is written in one piece.
        while fs::read_to_string(&pids).unwrap_or_default().is_empty() && !call.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        cancel.cancel();
        call.join().unwrap()
    });
    assert_eq!(kind(ended), TreeErrorKind::Cancelled);
    assert!(is_gone());
    assert!(began.elapsed() < Duration::from_secs(120));
}

#[test]
fn nothing_of_this_process_s_environment_reaches_git() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let wrapper = place.folder.path().join("bin/git");
    let seen = place.folder.path().join("seen");
    script(&wrapper, &format!("env >> {}; exec {} \"$@\"", seen.display(), real_git().display()));
    let wrapped = Git::at(&wrapper).unwrap();
    let project = Project::find(place.project()).unwrap();
    let tree = Tree::create(&wrapped, place.workspace(), &project, &TreeOptions::new()).unwrap();
    tree.check_out(&tree.base().commit, place.out("now")).unwrap();
    tree.snapshot(place.out("now")).unwrap();
    let seen = fs::read_to_string(seen).unwrap();
    let allowed = ["PATH", "LC_ALL", "TZ", "PWD", "OLDPWD", "SHLVL", "_"];
    let mut names: Vec<_> = seen.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| !allowed.contains(name) && !name.starts_with("GIT_"));
    assert_eq!(names, Vec::<&str>::new());
    assert!(!seen.contains("HOME="));
    assert!(seen.contains("GIT_CONFIG_GLOBAL=/dev/null") && seen.contains("GIT_ALLOW_PROTOCOL=none"));
}

#[test]
fn what_is_cut_off_leaves_no_tree_that_is_half_made() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let wrapper = place.folder.path().join("bin/git");
    script(
        &wrapper,
        &format!(
            "case \"$*\" in *check-attr*|*update-index*) echo 'fatal: No space left on device' >&2; exit 128 ;; *) exec {} \"$@\" ;; esac",
            real_git().display()
        ),
    );
    let full = Git::at(&wrapper).unwrap();
    let project = Project::find(place.project()).unwrap();
    let made = Tree::create(&full, place.workspace(), &project, &TreeOptions::new());
    assert_eq!(kind(made), TreeErrorKind::NoSpace);
    assert_eq!(listing(&place.workspace()).len(), 0);
    assert_eq!(place.pins().len(), 0);
}

#[test]
fn a_git_that_ends_while_it_is_written_to_or_read_from_says_why() {
    let git = needs_git!();
    let place = Place::with(&git, &[("large", &"x".repeat(1 << 20))]);
    let tree = place.create().unwrap();
    let wrapper = place.folder.path().join("bin/git");
    let broken = |command: &str, text: &str| {
        let real = real_git();
        script(
            &wrapper,
            &format!("case \"$*\" in *{command}*) {text} ;; *) exec {0} \"$@\" ;; esac", real.display()),
        );
        Git::at(&wrapper).unwrap()
    };
    let full = "echo 'fatal: write error: No space left on device' >&2; exit 128";
    let out = place.out("now");
    let writes = tree.clone().with_git(&broken("fast-import", full));
    assert_eq!(kind(writes.snapshot(place.project().join("..").join("home"))), TreeErrorKind::NoSpace);
    let folder = place.out("copy");
    fs::create_dir(&folder).unwrap();
    fs::copy(place.project().join("large"), folder.join("large")).unwrap();
    assert_eq!(kind(writes.snapshot(&folder)), TreeErrorKind::NoSpace);
    let reads = tree.clone().with_git(&broken("'cat-file --batch'", full));
    assert_eq!(kind(reads.check_out(&tree.base().commit, &out)), TreeErrorKind::NoSpace);
    let cancel = CancelToken::new();
    let slow = broken("fast-import", "sleep 300").with_cancel(cancel.clone());
    let cancelled = tree.with_git(&slow);
    let ended = std::thread::scope(|scope| {
        let call = scope.spawn(|| cancelled.snapshot(&folder));
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
        call.join().unwrap()
    });
    assert_eq!(kind(ended), TreeErrorKind::Cancelled);
}

//! Commits that land on a branch that has moved: as a merge, or replayed.

use std::{fs, os::unix::fs::symlink, path::Path, time::SystemTime};

use nexus_trees::{
    BranchJoin, CommitId, CommitIntent, Git, LandObstacle, Landing, Tree, TreeErrorKind, TreeOptions,
};

use super::{
    kit::{Place, at, commit, kind, needs_git, real_git, script, write},
    land::{CHANGE, FILES, changed, obstacle},
};

/// Subject, author, author's time and body of each commit.
const AS_WRITTEN: &str = "--format=%s|%an|%ae|%at|%b";

fn merge() -> BranchJoin {
    BranchJoin::Merge { time: SystemTime::UNIX_EPOCH, message: "Both".to_owned() }
}

/// A tree with two commits of its own: `a` changes, then `new` appears.
fn two_commits(place: &Place) -> (Tree, [CommitId; 2]) {
    let (tree, folder) = place.checked_out();
    let mut parent = tree.base().commit.clone();
    let mut made = Vec::new();
    for (seconds, file, message) in [(1_000, "a", "One\n\nWhy it is\nso."), (2_000, "new", "Two")] {
        write(&folder.join(file), "2\n");
        let intent = CommitIntent::new(tree.snapshot(&folder).unwrap(), parent, at(seconds), message)
            .with_trailer("Task", "12");
        parent = tree.commit(&intent).unwrap();
        made.push(parent.clone());
    }
    (tree, made.try_into().unwrap())
}

/// Another commit of the person's.
fn meanwhile(place: &Place, path: &str, content: &str) -> String {
    write(&place.project().join(path), content);
    place.person(&["add", "-A"]);
    place.person(&["commit", "-q", "-m", "meanwhile"]);
    place.person(&["rev-parse", "HEAD"])
}

fn land_by(tree: &Tree, tip: &CommitId, join: &BranchJoin) -> Landing {
    match tree.join_branch(tip, join).unwrap() {
        Ok(joined) => tree.land_joined(&joined).unwrap(),
        Err(obstacle) => Landing::Patch { patch: tree.patch(&tree.base().commit, tip).unwrap(), obstacle },
    }
}

#[test]
fn a_rebase_replays_each_commit_with_its_author_time_and_message_and_lands_once() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, [_, tip]) = two_commits(&place);
    let written = tree.land_as_branch(&tip, "as-it-is").unwrap();
    assert!(matches!(written, Landing::FastForwarded { .. }));
    let written = place.person(&["log", "-2", AS_WRITTEN, "as-it-is"]);
    assert!(written.contains("One|") && written.contains("|1000|Why it is\nso.\n\nTask: 12"), "{written}");
    let moved = meanwhile(&place, "b", "2\n");
    let before = place.repository();
    let joined = tree.join_branch(&tip, &BranchJoin::Rebase).unwrap().unwrap();
    assert_eq!(tree.join_branch(&tip, &BranchJoin::Rebase).unwrap().unwrap(), joined);
    assert_eq!(place.repository(), before);
    let landed = tree.land_joined(&joined).unwrap();
    assert!(matches!(&landed, Landing::FastForwarded { to, .. } if to == joined.commit()), "{landed:?}");
    assert_eq!(place.person(&["log", "-2", AS_WRITTEN]), written);
    assert_eq!(place.person(&["rev-list", "--count", "--merges", "HEAD"]), "0");
    assert_eq!(place.person(&["rev-parse", "HEAD~2"]), moved);
    // A commit that is older than its parent would hide others from `git log --since`.
    let committed = place.person(&["log", "-3", "--format=%ct"]);
    let times: Vec<u64> = committed.lines().map(|time| time.parse().unwrap()).collect();
    assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:?}");
    for (path, content) in [("a", "2\n"), ("b", "2\n"), ("new", "2\n")] {
        assert_eq!(fs::read_to_string(place.project().join(path)).unwrap(), content);
    }
    assert_eq!(place.person(&["status", "--porcelain"]), "");
    place.person(&["fsck", "--strict"]);
    // The same commits are on the branch, by other names. No way to land adds them again, also after another commit.
    for is_later in [false, true] {
        if is_later {
            meanwhile(&place, "a", "3\n");
        }
        let later = place.person(&["rev-parse", "HEAD"]);
        let by_way = [
            tree.land(&tip).unwrap(),
            land_by(&tree, &tip, &merge()),
            land_by(&tree, &tip, &BranchJoin::Rebase),
        ];
        for landing in by_way {
            assert!(
                matches!(&landing, Landing::FastForwarded { to, .. } if to.as_str() == later),
                "{landing:?}"
            );
        }
        assert_eq!(place.person(&["rev-parse", "HEAD"]), later);
    }
}

#[test]
fn a_rebase_leaves_out_what_the_branch_has_already() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, [_, tip]) = two_commits(&place);
    // The person made the change of the first commit.
    let moved = meanwhile(&place, "a", "2\n");
    let joined = tree.join_branch(&tip, &BranchJoin::Rebase).unwrap().unwrap();
    assert!(!joined.adds_nothing());
    assert!(matches!(tree.land_joined(&joined).unwrap(), Landing::FastForwarded { .. }));
    assert_eq!(place.person(&["log", "-1", "--format=%s %P"]), format!("Two {moved}"));

    let place = Place::with(&git, FILES);
    let (tree, [_, tip]) = two_commits(&place);
    assert!(matches!(tree.land_as_branch(&tip, "fix").unwrap(), Landing::FastForwarded { .. }));
    meanwhile(&place, "b", "2\n");
    place.person(&["cherry-pick", "fix~1", "fix"]);
    let picked = place.person(&["rev-parse", "HEAD"]);
    let joined = tree.join_branch(&tip, &BranchJoin::Rebase).unwrap().unwrap();
    assert!(joined.adds_nothing());
    let landed = tree.land_joined(&joined).unwrap();
    assert!(matches!(&landed, Landing::FastForwarded { to, .. } if to.as_str() == picked), "{landed:?}");

    // A part of the commits has landed as it is, so nothing needs to be combined.
    let place = Place::with(&git, FILES);
    let (tree, [of_part, tip]) = two_commits(&place);
    assert!(matches!(tree.land(&of_part).unwrap(), Landing::FastForwarded { .. }));
    for join in [merge(), BranchJoin::Rebase] {
        assert_eq!(tree.join_branch(&tip, &join).unwrap().unwrap().commit(), &tip);
    }
}

#[test]
fn a_conflict_of_a_rebase_names_the_files_and_changes_nothing() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, [_, tip]) = two_commits(&place);
    meanwhile(&place, "a", "three\n");
    let before = place.repository();
    let found = obstacle(land_by(&tree, &tip, &BranchJoin::Rebase));
    assert_eq!(found, LandObstacle::Conflict(vec!["a".into()]));
    assert_eq!(place.repository(), before);
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "three\n");
}

#[test]
fn on_a_rewritten_branch_a_rebase_lands_the_commits_and_nothing_that_the_person_removed() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    meanwhile(&place, "secret", "removed soon\n");
    let (tree, [_, tip]) = two_commits(&place);
    place.person(&["reset", "-q", "--hard", "HEAD~1"]);
    let moved = meanwhile(&place, "b", "2\n");
    let before = place.repository();
    for landing in [tree.land(&tip).unwrap(), land_by(&tree, &tip, &merge())] {
        let found = obstacle(landing);
        assert!(matches!(&found, LandObstacle::BranchRewritten { to } if to.as_str() == moved), "{found:?}");
    }
    assert_eq!(place.repository(), before);
    assert!(matches!(land_by(&tree, &tip, &BranchJoin::Rebase), Landing::FastForwarded { .. }));
    assert_eq!(place.person(&["rev-parse", "HEAD~2"]), moved);
    assert_eq!(place.person(&["log", "--format=%s", "--", "secret"]), "");
    assert_eq!(place.person(&["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "2\n");
    place.person(&["fsck", "--strict"]);
}

#[test]
fn what_was_combined_lands_only_on_the_commit_with_which_it_was_judged() {
    let git = needs_git!();
    for join in [merge(), BranchJoin::Rebase] {
        for is_reset in [false, true] {
            let place = Place::with(&git, FILES);
            let (tree, [_, tip]) = two_commits(&place);
            meanwhile(&place, "b", "2\n");
            let joined = tree.join_branch(&tip, &join).unwrap().unwrap();
            match is_reset {
                // The person takes the commit back. Landing must not bring it back.
                true => drop(place.person(&["reset", "-q", "--hard", "HEAD~1"])),
                false => drop(meanwhile(&place, "b", "3\n")),
            }
            let before = place.repository();
            let found = obstacle(tree.land_joined(&joined).unwrap());
            assert!(matches!(found, LandObstacle::BranchMoved { .. }), "{join:?}: {found:?}");
            assert_eq!(place.repository(), before);
            assert!(matches!(land_by(&tree, &tip, &join), Landing::FastForwarded { .. }));
            assert_eq!(place.person(&["show", "HEAD:b"]), if is_reset { "1" } else { "3" });
        }
    }
}

#[test]
fn what_the_person_added_to_the_branch_is_not_refused_and_what_the_commits_add_to_it_is() {
    let git = needs_git!();
    for join in [merge(), BranchJoin::Rebase] {
        let place = Place::with(&git, FILES);
        let (tree, [_, tip]) = two_commits(&place);
        // A commit of an agent could have none of these.
        symlink("/etc/hosts", place.project().join("out")).unwrap();
        write(&place.project().join("x.bin"), "pointer\n");
        meanwhile(&place, ".gitattributes", "*.bin filter=lfs\n");
        let landing = land_by(&tree, &tip, &join);
        assert!(matches!(landing, Landing::FastForwarded { .. }), "{join:?}: {landing:?}");
        assert_eq!(place.person(&["status", "--porcelain"]), "");

        let place = Place::with(&git, FILES);
        let (tree, tip) = changed(&place, &[("y.bin", "plain\n")]);
        meanwhile(&place, ".gitattributes", "*.bin filter=lfs\n");
        assert_eq!(kind(tree.join_branch(&tip, &join)), TreeErrorKind::Refused, "{join:?}");
    }
}

#[test]
fn a_rebase_overwrites_nothing_in_the_checkout_and_keeps_to_its_settings() {
    let git = needs_git!();
    type Prepare = fn(&Place);
    let nothing: Prepare = |_| {};
    // What the person does before the tree, and after the other commit; and a word of the obstacle.
    let cases: [(Prepare, Prepare, Option<&str>); 7] = [
        (nothing, |place| write(&place.project().join("sub/c"), "mine\n"), None),
        (nothing, |place| write(&place.project().join("a"), "mine\n"), Some("in the way")),
        (nothing, |place| write(&place.project().join("new/deep/d"), "mine\n"), Some("in the way")),
        (nothing, |place| write(&place.project().join(".git/index.lock"), ""), Some("another git command")),
        (nothing, |place| drop(place.person(&["update-index", "--skip-worktree", "sub/c"])), None),
        (
            nothing,
            |place| drop(place.person(&["update-index", "--skip-worktree", "a"])),
            Some("skip-worktree"),
        ),
        (
            |place| {
                place.person(&["config", "core.autocrlf", "true"]);
                place.person(&["rm", "-q", "--cached", "-r", "."]);
                place.person(&["reset", "-q", "--hard"]);
            },
            nothing,
            None,
        ),
    ];
    for (at, (before, after, obstacle_word)) in cases.into_iter().enumerate() {
        let place = Place::with(&git, FILES);
        before(&place);
        let (tree, tip) = changed(&place, CHANGE);
        meanwhile(&place, "b", "2\n");
        after(&place);
        let files = |path: &Path| fs::read(path).ok();
        let paths = ["a", "b", "sub/c", "new/deep/d"].map(|path| place.project().join(path));
        let (listing, contents) = (place.repository(), paths.clone().map(|path| files(&path)));
        let status = place.person(&["status", "--porcelain"]);
        let landing = land_by(&tree, &tip, &BranchJoin::Rebase);
        match obstacle_word {
            Some(word) => {
                let found = obstacle(landing).to_string();
                assert!(found.contains(word), "{at}: {found}");
                assert_eq!((place.repository(), paths.map(|path| files(&path))), (listing, contents), "{at}");
            }
            None => {
                assert!(matches!(landing, Landing::FastForwarded { .. }), "{at}: {landing:?}");
                assert_eq!(place.person(&["status", "--porcelain"]), status, "{at}");
                assert_eq!(files(&paths[2]), contents[2], "{at}");
                let expected: &[u8] = if at == 6 { b"2\r\n" } else { b"2\n" };
                assert_eq!(files(&paths[0]).as_deref(), Some(expected), "{at}");
            }
        }
    }
}

#[test]
fn the_checkout_of_the_branch_is_updated_wherever_it_is() {
    let git = needs_git!();
    for join in [merge(), BranchJoin::Rebase] {
        let place = Place::with(&git, FILES);
        let (tree, [_, tip]) = two_commits(&place);
        let moved = meanwhile(&place, "b", "2\n");
        let other = place.folder.path().join("other");
        place.person(&["checkout", "-q", "-b", "elsewhere"]);
        place.person(&["worktree", "add", "-q", other.to_str().unwrap(), "main"]);
        assert!(matches!(land_by(&tree, &tip, &join), Landing::FastForwarded { .. }));
        assert_eq!(fs::read_to_string(other.join("new")).unwrap(), "2\n");
        assert_eq!(place.person_in(&other, &["status", "--porcelain"]), "");
        assert_eq!(place.person(&["rev-parse", "HEAD"]), moved);
        assert!(!place.project().join("new").exists());
    }
}

#[test]
fn uncommitted_work_in_the_base_and_a_git_that_is_too_old_are_named_before_anything_is_combined() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    write(&place.project().join("b"), "mine\n");
    let tree = place.create_with(&TreeOptions::new().include_uncommitted()).unwrap();
    let folder = place.out("now");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    write(&folder.join("a"), "2\n");
    let tip = commit(&tree, &folder, &tree.base().commit).unwrap();
    meanwhile(&place, "c", "2\n");
    for join in [merge(), BranchJoin::Rebase] {
        assert_eq!(tree.join_branch(&tip, &join).unwrap(), Err(LandObstacle::UncommittedBase));
    }

    let place = Place::with(&git, FILES);
    let (tree, [_, tip]) = two_commits(&place);
    meanwhile(&place, "b", "2\n");
    let old = place.folder.path().join("bin/git");
    let real = real_git();
    script(
        &old,
        &format!("[ \"$1\" = --version ] && echo git version 2.37.0 || exec '{}' \"$@\"", real.display()),
    );
    let tree = tree.with_git(&Git::at(old).unwrap());
    for join in [merge(), BranchJoin::Rebase] {
        assert_eq!(tree.join_branch(&tip, &join).unwrap(), Err(LandObstacle::GitTooOld));
    }
}

#[test]
fn what_a_rebase_landed_before_is_not_replayed_again() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, [first, second]) = two_commits(&place);
    meanwhile(&place, "b", "2\n");
    assert!(matches!(land_by(&tree, &first, &BranchJoin::Rebase), Landing::FastForwarded { .. }));
    // The person changes what has landed.
    meanwhile(&place, "a", "3\n");
    assert!(matches!(land_by(&tree, &second, &BranchJoin::Rebase), Landing::FastForwarded { .. }));
    for (path, content) in [("a", "3\n"), ("b", "2\n"), ("new", "2\n")] {
        assert_eq!(fs::read_to_string(place.project().join(path)).unwrap(), content);
    }
    assert_eq!(place.person(&["log", "-4", "--format=%s"]), "Two\nmeanwhile\nOne\nmeanwhile");
}

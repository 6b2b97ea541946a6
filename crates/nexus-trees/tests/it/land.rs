//! The way into a person's branch, and what keeps a commit off it.

use std::{fs, path::Path};

use nexus_trees::{BranchJoin, CommitId, LandObstacle, Landing, Project, Tree, TreeErrorKind, TreeOptions};

use super::kit::{Place, commit, kind, listing, needs_git, write};

/// A tree with one commit more.
pub(crate) fn changed(place: &Place, files: &[(&str, &str)]) -> (Tree, CommitId) {
    let (tree, folder) = place.checked_out();
    for (path, content) in files {
        write(&folder.join(path), content);
    }
    let made = commit(&tree, &folder, &tree.base().commit).unwrap();
    (tree, made)
}

pub(crate) fn obstacle(landing: Landing) -> LandObstacle {
    match landing {
        Landing::Patch { obstacle, patch } => {
            assert!(!patch.is_empty() && !obstacle.to_string().is_empty());
            obstacle
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) const FILES: &[(&str, &str)] =
    &[("a", "1\n"), ("b", "1\n"), ("sub/c", "1\n"), (".gitignore", "ignored\n")];
pub(crate) const CHANGE: &[(&str, &str)] = &[("a", "2\n"), ("new/deep/d", "2\n")];

#[test]
fn a_branch_is_fast_forwarded_with_its_checkout_and_what_else_is_there_stays() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, made) = changed(&place, CHANGE);
    write(&place.project().join("b"), "the person's\n");
    write(&place.project().join("sub/c"), "staged\n");
    write(&place.project().join("untracked"), "x\n");
    place.person(&["add", "sub/c"]);
    let landed = tree.land(&made).unwrap();
    let from = tree.base().commit.clone();
    assert_eq!(
        landed,
        Landing::FastForwarded { branch: "refs/heads/main".to_owned(), from, to: made.clone() }
    );
    assert_eq!(place.person(&["rev-parse", "HEAD"]), made.as_str());
    assert_eq!(place.person(&["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(place.person(&["status", "--porcelain"]), " M b\nM  sub/c\n?? untracked");
    assert_eq!(fs::read_to_string(place.project().join("new/deep/d")).unwrap(), "2\n");
    place.person(&["fsck", "--strict", "--full"]);
    let after = place.repository();
    assert!(matches!(tree.land(&made).unwrap(), Landing::FastForwarded { .. }));
    assert_eq!(place.repository(), after, "landing again changes nothing");
    tree.delete().unwrap();
    place.person(&["fsck", "--strict", "--full"]);
    assert_eq!(place.person(&["show", "HEAD:a"]), "2");
}

#[test]
fn what_is_in_the_way_is_never_overwritten() {
    let git = needs_git!();
    for (path, stage) in [("a", false), ("a", true), ("new/deep/d", false), ("new", false)] {
        let place = Place::with(&git, FILES);
        let (tree, made) = changed(&place, CHANGE);
        write(&place.project().join(path), "the person's\n");
        if stage {
            place.person(&["add", path]);
        }
        let before = (place.repository(), listing(&place.project()));
        let obstacle = obstacle(tree.land(&made).unwrap());
        assert!(
            matches!(&obstacle, LandObstacle::InTheWay(words) if words.contains(path)),
            "{path}: {obstacle:?}"
        );
        assert_eq!((place.repository(), listing(&place.project())), before, "{path}");
    }
}

#[test]
fn a_branch_that_moved_gets_the_patch_and_the_patch_applies() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, made) = changed(&place, CHANGE);
    write(&place.project().join("b"), "2\n");
    place.person(&["commit", "-q", "-am", "meanwhile"]);
    let before = place.repository();
    let Landing::Patch { patch, obstacle } = tree.land(&made).unwrap() else { panic!("it was moved") };
    assert!(matches!(obstacle, LandObstacle::BranchMoved { .. }), "{obstacle:?}");
    assert_eq!(place.repository(), before);
    let file = place.folder.path().join("patch");
    fs::write(&file, patch.as_bytes()).unwrap();
    place.person(&["apply", "--index", file.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "2\n");
}

#[test]
fn every_other_obstacle_is_named() {
    let git = needs_git!();
    let case = |prepare: &dyn Fn(&Place), meanwhile: &dyn Fn(&Place)| {
        let place = Place::with(&git, FILES);
        prepare(&place);
        let (tree, made) = changed(&place, CHANGE);
        meanwhile(&place);
        let before = place.repository();
        let obstacle = obstacle(tree.land(&made).unwrap());
        assert_eq!(place.repository(), before, "{obstacle:?}");
        obstacle
    };
    let nothing = |_: &Place| {};
    let detach = |place: &Place| drop(place.person(&["checkout", "-q", "--detach"]));
    assert_eq!(case(&detach, &nothing), LandObstacle::DetachedHead);
    let remove = |place: &Place| {
        place.person(&["checkout", "-q", "-b", "other"]);
        place.person(&["branch", "-D", "-q", "main"]);
    };
    assert_eq!(case(&nothing, &remove), LandObstacle::BranchGone);
    let merging = |place: &Place| {
        let head = place.person(&["rev-parse", "HEAD"]);
        write(&place.project().join(".git/MERGE_HEAD"), head);
    };
    assert_eq!(case(&nothing, &merging), LandObstacle::InProgress("a merge"));
    let locked = |place: &Place| write(&place.project().join(".git/index.lock"), "");
    assert_eq!(case(&nothing, &locked), LandObstacle::IndexLocked);
    let sparse = |place: &Place| {
        place.person(&["sparse-checkout", "init", "--no-cone"]);
        place.person(&["sparse-checkout", "set", "--no-cone", "/a", "/b"]);
    };
    assert_eq!(case(&nothing, &sparse), LandObstacle::SparseCheckout);
    let split = |place: &Place| drop(place.person(&["update-index", "--split-index"]));
    assert_eq!(case(&nothing, &split), LandObstacle::IndexUnreadable);
}

/// Some people keep a file of their own settings so: `git update-index --skip-worktree`.
#[test]
fn a_file_that_git_is_told_to_leave_alone_is_in_the_way_of_its_own_changes_only() {
    let git = needs_git!();
    let mine = |place: &Place| {
        place.person(&["update-index", "--skip-worktree", "b"]);
        write(&place.project().join("b"), "mine\n");
    };
    let place = Place::with(&git, FILES);
    mine(&place);
    let (tree, made) = changed(&place, &[("a", "2\n")]);
    let landed = tree.land(&made).unwrap();
    assert!(matches!(landed, Landing::FastForwarded { .. }), "{landed:?}");
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "2\n");
    assert_eq!(fs::read_to_string(place.project().join("b")).unwrap(), "mine\n");
    assert_eq!(place.person(&["status", "--porcelain"]), "");
    assert!(place.person(&["ls-files", "-t"]).contains("S b"), "it is left alone from now on, too");

    let place = Place::with(&git, FILES);
    mine(&place);
    let (tree, made) = changed(&place, &[("b", "2\n")]);
    let obstacle = obstacle(tree.land(&made).unwrap());
    assert!(matches!(&obstacle, LandObstacle::InTheWay(words) if words.contains("\"b\"")), "{obstacle:?}");
    assert_eq!(fs::read_to_string(place.project().join("b")).unwrap(), "mine\n");
}

#[test]
fn a_base_with_what_was_not_committed_gives_a_patch() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    write(&place.project().join("b"), "2\n");
    let tree = place.create_with(&TreeOptions::new().include_uncommitted()).unwrap();
    let folder = place.out("now");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    write(&folder.join("a"), "2\n");
    let made = commit(&tree, &folder, &tree.base().commit).unwrap();
    assert_eq!(obstacle(tree.land(&made).unwrap()), LandObstacle::UncommittedBase);
}

#[test]
fn a_branch_that_is_checked_out_nowhere_moves_alone_and_one_elsewhere_with_its_checkout() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, made) = changed(&place, CHANGE);
    place.person(&["checkout", "-q", "-b", "other"]);
    let files = listing(&place.project().join("sub"));
    assert!(matches!(tree.land(&made).unwrap(), Landing::FastForwarded { .. }));
    assert_eq!(place.person(&["rev-parse", "main"]), made.as_str());
    assert_eq!(place.person(&["status", "--porcelain"]), "");
    assert_eq!(listing(&place.project().join("sub")), files);

    let place = Place::with(&git, FILES);
    let (tree, made) = changed(&place, CHANGE);
    let linked = place.folder.path().join("linked");
    place.person(&["checkout", "-q", "-b", "other"]);
    place.person(&["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
    assert!(matches!(tree.land(&made).unwrap(), Landing::FastForwarded { .. }));
    assert_eq!(fs::read_to_string(linked.join("a")).unwrap(), "2\n");
    assert_eq!(place.person_in(&linked, &["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "1\n");
}

#[test]
fn line_ends_of_a_checkout_are_those_of_the_person() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n2\n"), ("b", "1\n")]);
    place.person(&["config", "core.autocrlf", "true"]);
    for file in ["a", "b"] {
        fs::remove_file(place.project().join(file)).unwrap();
    }
    place.person(&["checkout", "-q", "--", "."]);
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "1\r\n2\r\n");
    write(&place.project().join("b"), "mine\r\n");
    let tree = place.create_with(&TreeOptions::new().include_uncommitted()).unwrap();
    assert_eq!(tree.base().uncommitted, [Path::new("b")]);
    let folder = place.out("now");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    assert_eq!(fs::read_to_string(folder.join("b")).unwrap(), "mine\n");
    tree.delete().unwrap();
    write(&place.project().join("b"), "1\r\n");
    fs::remove_dir_all(&folder).unwrap();
    let (tree, made) = changed(&place, &[("a", "1\n3\n")]);
    assert!(matches!(tree.land(&made).unwrap(), Landing::FastForwarded { .. }));
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "1\r\n3\r\n");
    assert_eq!(place.person(&["status", "--porcelain"]), "");
}

/// The settings are the person's own, of no repository, and in a file that their file includes.
#[test]
fn line_ends_of_a_checkout_are_those_of_the_persons_own_configuration() {
    let git = needs_git!();
    for included in [false, true] {
        let place = Place::with(&git, &[("a", "1\n2\n"), ("b", "1\n")]);
        let home = place.folder.path().join("home");
        fs::create_dir_all(&home).unwrap();
        let settings = "[core]\n\tautocrlf = true\n\thooksPath = /nowhere\n";
        let (file, text) = match included {
            true => ("more", "[include]\n\tpath = more\n"),
            false => (".gitconfig", settings),
        };
        write(&home.join(file), settings);
        write(&home.join(".gitconfig"), text);
        let mine = git.clone().with_user_configuration([home.join("absent"), home.join(".gitconfig")]);
        let place = Place { git: mine, ..place };
        for file in ["a", "b"] {
            fs::remove_file(place.project().join(file)).unwrap();
        }
        place.person(&["checkout", "-q", "--", "."]);
        assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "1\r\n2\r\n");
        let tree = place.create_with(&TreeOptions::new().include_uncommitted()).unwrap();
        assert_eq!(tree.base().uncommitted, [] as [&Path; 0], "included: {included}");
        tree.delete().unwrap();
        let (tree, made) = changed(&place, &[("a", "1\n3\n")]);
        assert!(matches!(tree.land(&made).unwrap(), Landing::FastForwarded { .. }));
        assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "1\r\n3\r\n");
        assert_eq!(place.person(&["status", "--porcelain"]), "");
    }
}

#[test]
fn a_stranger_to_the_base_is_not_landed() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let tree = place.create().unwrap();
    let stranger = place.person(&["commit-tree", "-m", "x", "HEAD^{tree}"]).parse().unwrap();
    assert_eq!(kind(tree.land(&stranger)), TreeErrorKind::Unrelated);
    let nowhere = "1".repeat(40).parse().unwrap();
    assert_eq!(kind(tree.land(&nowhere)), TreeErrorKind::NotFound);
}

#[test]
fn a_plain_folder_gets_a_patch() {
    let git = needs_git!();
    let place = Place::new(&git);
    write(&place.project().join("a"), "1\n");
    assert!(!Project::find(place.project()).unwrap().is_repository());
    let (tree, made) = changed(&place, CHANGE);
    assert_eq!(obstacle(tree.land(&made).unwrap()), LandObstacle::NoRepository);
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "1\n");
}

#[test]
fn a_branch_that_moved_on_is_merged_with_and_a_conflict_is_named() {
    let git = needs_git!();
    let lines = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n{last}\n");
    let place = Place::with(&git, &[("a", &lines("1", "7")), ("b", "1\n")]);
    let (tree, made) = changed(&place, &[("a", &lines("one", "7")), ("new", "n\n")]);
    write(&place.project().join("a"), lines("1", "seven"));
    place.person(&["commit", "-q", "-am", "meanwhile"]);
    let moved = place.person(&["rev-parse", "HEAD"]);
    // Neither committed nor in the way.
    write(&place.project().join("b"), "mine\n");
    let time = std::time::SystemTime::UNIX_EPOCH;
    let Landing::FastForwarded { branch, from, to } = tree.land_merged(&made, time, "Both").unwrap() else {
        panic!("it was not merged")
    };
    assert_eq!((branch.as_str(), from.to_string()), ("refs/heads/main", moved.clone()));
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), lines("one", "seven"));
    assert_eq!(fs::read_to_string(place.project().join("new")).unwrap(), "n\n");
    assert_eq!(fs::read_to_string(place.project().join("b")).unwrap(), "mine\n");
    assert_eq!(place.person(&["diff", "--name-only"]), "b");
    assert_eq!(place.person(&["log", "-1", "--format=%P %s"]), format!("{moved} {made} Both"));
    place.person(&["fsck", "--strict"]);
    // What has landed changes nothing, also where the branch went on.
    place.person(&["commit", "-q", "-am", "later"]);
    let later = place.person(&["rev-parse", "HEAD"]);
    for landing in [tree.land(&made).unwrap(), tree.land_merged(&made, time, "Both").unwrap()] {
        assert!(matches!(landing, Landing::FastForwarded { to, .. } if to.to_string() == later));
    }
    assert_ne!(to.to_string(), later);
    // What does not go together changes nothing either, and is named.
    let folder = place.out("now");
    write(&folder.join("b"), "theirs\n");
    let second = commit(&tree, &folder, &made).unwrap();
    let before = place.repository();
    let found = obstacle(tree.land_merged(&second, time, "Both").unwrap());
    assert_eq!(found, LandObstacle::Conflict(vec!["b".into()]));
    assert!(found.to_string().contains("\"b\""), "{found}");
    assert_eq!(place.repository(), before);
}

#[test]
fn a_merge_can_be_judged_before_it_lands() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, made) = changed(&place, CHANGE);
    let join = BranchJoin::Merge { time: std::time::SystemTime::UNIX_EPOCH, message: "Both".to_owned() };
    assert_eq!(tree.join_branch(&made, &join).unwrap().unwrap().commit(), &made);
    write(&place.project().join("b"), "2\n");
    place.person(&["commit", "-q", "-am", "meanwhile"]);
    let before = place.repository();
    let merged = tree.join_branch(&made, &join).unwrap().unwrap();
    assert_eq!(place.repository(), before);
    let landed = tree.land_joined(&merged).unwrap();
    assert!(matches!(&landed, Landing::FastForwarded { to, .. } if to == merged.commit()), "{landed:?}");
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "2\n");
    assert_eq!(fs::read_to_string(place.project().join("b")).unwrap(), "2\n");
    assert_eq!(place.person(&["status", "--porcelain"]), "");
    place.person(&["fsck", "--strict"]);
    assert_eq!(tree.join_branch(&made, &join).unwrap().unwrap().commit(), &made);
}

#[test]
fn commits_land_as_a_new_branch_whatever_became_of_the_old_one() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, made) = changed(&place, CHANGE);
    place.person(&["commit", "-q", "--amend", "--allow-empty", "-m", "another first"]);
    let head = place.person(&["rev-parse", "HEAD"]);
    for name in ["", "-d", "HEAD", "a..b", "a b", "x.lock", "main/x"] {
        let found = obstacle(tree.land_as_branch(&made, name).unwrap());
        assert!(matches!(found, LandObstacle::BranchName(_)), "{name}: {found:?}");
    }
    let found = obstacle(tree.land_as_branch(&made, "main").unwrap());
    assert!(matches!(found, LandObstacle::BranchTaken { .. }), "{found:?}");
    for _ in 0..2 {
        let landed = tree.land_as_branch(&made, "fix/one").unwrap();
        let is_there = matches!(&landed, Landing::FastForwarded { branch, to, .. } if branch == "refs/heads/fix/one" && *to == made);
        assert!(is_there, "{landed:?}");
    }
    assert_eq!(place.person(&["rev-parse", "fix/one"]), made.as_str());
    assert_eq!(place.person(&["rev-parse", "HEAD"]), head);
    assert_eq!(place.person(&["status", "--porcelain"]), "");
    place.person(&["fsck", "--strict", "--full"]);
    tree.delete().unwrap();
    assert_eq!(place.person(&["show", "fix/one:a"]), "2");
}

#[test]
fn a_branch_that_was_rewritten_is_not_merged_with() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, made) = changed(&place, CHANGE);
    place.person(&["commit", "-q", "--amend", "--allow-empty", "-m", "another first"]);
    let before = place.repository();
    let found = obstacle(tree.land_merged(&made, std::time::SystemTime::UNIX_EPOCH, "Both").unwrap());
    assert!(matches!(found, LandObstacle::BranchRewritten { .. }), "{found:?}");
    assert_eq!(place.repository(), before);
}

#[test]
fn what_a_person_changed_meanwhile_is_no_change_of_the_commits() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, made) = changed(&place, CHANGE);
    // Neither of them would be taken from an agent.
    std::os::unix::fs::symlink("/etc/hosts", place.project().join("out")).unwrap();
    write(&place.project().join(".gitattributes"), "*.bin filter=lfs\n");
    write(&place.project().join("x.bin"), "pointer\n");
    place.person(&["add", "-A"]);
    place.person(&["commit", "-q", "-m", "meanwhile"]);
    let landing = tree.land_merged(&made, std::time::SystemTime::UNIX_EPOCH, "Both").unwrap();
    assert!(matches!(landing, Landing::FastForwarded { .. }), "{landing:?}");
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "2\n");
    assert_eq!(place.person(&["status", "--porcelain"]), "");
}

#[test]
fn a_merge_runs_no_driver_that_attributes_name() {
    let git = needs_git!();
    let lines = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n{last}\n");
    let place = Place::with(&git, &[("a", &lines("1", "7")), (".gitattributes", "a merge=evil\n")]);
    let (tree, made) = changed(&place, &[("a", &lines("one", "7"))]);
    let ran = place.folder.path().join("ran");
    let driver = format!("touch {} && true %O %A %B", ran.display());
    place.person(&["config", "merge.evil.driver", &driver]);
    let forged = format!("[merge \"evil\"]\n\tdriver = touch {}\n", ran.display());
    let config = tree.path().join("repository/config");
    fs::write(&config, fs::read_to_string(&config).unwrap() + &forged).unwrap();
    write(&place.project().join("a"), lines("1", "seven"));
    place.person(&["commit", "-q", "-am", "meanwhile"]);
    let landing = tree.land_merged(&made, std::time::SystemTime::UNIX_EPOCH, "Both").unwrap();
    assert!(matches!(landing, Landing::FastForwarded { .. }), "{landing:?}");
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), lines("one", "seven"));
    assert!(!ran.exists());
}

//! Commits from an intent, refs by compare-and-set, what is refused, and bands.

use std::{
    env, fs,
    os::unix::fs::symlink,
    process::Stdio,
    sync::Barrier,
    thread,
    time::{Duration, SystemTime},
};

use nexus_testkit::{child_test, effort};
use nexus_trees::{CommitId, CommitIntent, Git, Tree, TreeErrorKind};

use super::kit::{Place, at, commit, kind, needs_git, refused, write};

#[test]
fn the_same_intent_is_the_same_commit_also_after_it_was_stored() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let (tree, folder) = place.checked_out();
    write(&folder.join("a"), "2\n");
    let snapshot = tree.snapshot(&folder).unwrap();
    let intent =
        CommitIntent::new(snapshot, tree.base().commit.clone(), at(1_700_000_000), "Change a\n\nWhy: so\n")
            .with_trailer("Task", "12")
            .with_trailer("Verdict", "advance");
    let stored = serde_json::to_string(&intent).unwrap();
    let first = tree.commit(&intent).unwrap();
    let again: CommitIntent = serde_json::from_str(&stored).unwrap();
    assert_eq!(tree.commit(&again).unwrap(), first);
    assert_eq!(Tree::open(&place.git, place.workspace()).unwrap().commit(&again).unwrap(), first);

    let repository = tree.path().join("repository");
    let shown = place.person_in(&repository, &["cat-file", "-p", first.as_str()]);
    let expected = format!(
        "tree {}\nparent {}\nauthor Nexus <nexus@localhost> 1700000000 +0000\ncommitter Nexus <nexus@localhost> 1700000000 \
         +0000\n\nChange a\n\nWhy: so\n\nTask: 12\nVerdict: advance",
        intent.tree,
        tree.base().commit
    );
    assert_eq!(shown, expected);
    let trailers = place.person_in(&repository, &["log", "-1", "--format=%(trailers)", first.as_str()]);
    assert_eq!(trailers, "Task: 12\nVerdict: advance");
    place.person_in(&repository, &["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn an_intent_that_is_none_is_refused() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let tree = place.create().unwrap();
    let base = tree.base().commit.clone();
    let whole = CommitIntent::new(tree.tree_of(&base).unwrap(), base.clone(), at(1), "x");
    tree.commit(&whole).unwrap();
    let with = |change: &dyn Fn(&mut CommitIntent)| {
        let mut intent = whole.clone();
        change(&mut intent);
        kind(tree.commit(&intent))
    };
    assert_eq!(with(&|intent| intent.message = "a\0b".to_owned()), TreeErrorKind::Malformed);
    for (name, value) in [("", "x"), ("A B", "x"), ("A", "x\ny"), ("A:", "x")] {
        let trailer = (name.to_owned(), value.to_owned());
        assert_eq!(with(&|intent| intent.trailers = vec![trailer.clone()]), TreeErrorKind::Malformed);
    }
    let nowhere = "1".repeat(40);
    assert_eq!(with(&|intent| intent.tree = nowhere.parse().unwrap()), TreeErrorKind::NotFound);
    assert_eq!(with(&|intent| intent.parents = vec![nowhere.parse().unwrap()]), TreeErrorKind::NotFound);
    assert_eq!(with(&|intent| intent.tree = base.as_str().parse().unwrap()), TreeErrorKind::NotFound);
    for text in ["", "HEAD", "--all", &"A".repeat(40), &"1".repeat(41), "1111\n"] {
        assert!(text.parse::<nexus_trees::CommitId>().is_err(), "{text:?}");
    }
    for name in ["", "/", "a//b", "../x", "a.lock", "HEAD\n", "a b", &"x".repeat(101)] {
        assert_eq!(kind(tree.move_ref(name, None, &base)), TreeErrorKind::Malformed, "{name:?}");
        assert_eq!(kind(tree.read_ref(name)), TreeErrorKind::Malformed, "{name:?}");
    }
}

/// A name, what is done, and what is refused then.
type Case<'a> = (&'a str, &'a dyn Fn(), &'a [&'a str]);

#[test]
fn what_no_tree_takes_is_refused_by_name() {
    let git = needs_git!();
    let place = Place::with(&git, &[("README", "1\n"), ("src/a", "1\n"), ("src/deep/b", "1\n")]);
    symlink("/usr/share", place.project().join("outside")).unwrap();
    symlink("src/deep", place.project().join("inside")).unwrap();
    place.person(&["add", "-A"]);
    place.person(&["commit", "-q", "-m", "links"]);
    let (tree, folder) = place.checked_out();
    let base = tree.base().commit.clone();
    let cases: [Case<'_>; 10] = [
        ("a control character", &|| write(&folder.join("a\nb"), "x"), &["a\nb ControlCharacter"]),
        ("another", &|| write(&folder.join("sub/\u{9b}x"), "x"), &["sub/\u{9b}x ControlCharacter"]),
        ("a twin", &|| write(&folder.join("readme"), "x"), &["readme Twin"]),
        ("a twin of a folder", &|| write(&folder.join("SRC/new"), "x"), &["SRC Twin"]),
        ("a short name", &|| write(&folder.join("GIT~1"), "x"), &["GIT~1 DotGit"]),
        ("an invisible letter", &|| write(&folder.join(".g\u{200c}it"), "x"), &[".g\u{200c}it DotGit"]),
        ("a link out", &|| symlink("../x", folder.join("up")).unwrap(), &["up LinkOut"]),
        ("an absolute link", &|| symlink("/etc", folder.join("src/etc")).unwrap(), &["src/etc LinkOut"]),
        ("a link into a repository", &|| symlink(".git/hooks", folder.join("h")).unwrap(), &["h LinkOut"]),
        (
            "a link of the base that is led astray",
            &|| {
                fs::remove_file(folder.join("inside")).unwrap();
                symlink("src/deep/../../..", folder.join("inside")).unwrap();
            },
            &["inside LinkOut"],
        ),
    ];
    for (name, change, expected) in cases {
        change();
        let error = commit(&tree, &folder, &base).unwrap_err();
        assert_eq!(error.kind(), TreeErrorKind::Refused, "{name}");
        assert_eq!(refused(&error), expected, "{name}");
        assert!(error.to_string().contains("rename") || error.to_string().contains("remove"), "{error}");
        tree.restore(&base, &folder, &[]).unwrap();
    }
    // What the base has, stays: also next to a change.
    symlink("../a", folder.join("src/deep/link")).unwrap();
    write(&folder.join("src/new"), "x");
    commit(&tree, &folder, &base).unwrap();
}

#[test]
fn of_two_that_move_a_ref_at_once_one_wins() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let (tree, folder) = place.checked_out();
    let base = tree.base().commit.clone();
    let commits: Vec<_> = (0..8)
        .map(|number| {
            write(&folder.join("a"), format!("{number}\n"));
            commit(&tree, &folder, &base).unwrap()
        })
        .collect();
    tree.move_ref("head", None, &base).unwrap();
    let start = Barrier::new(commits.len());
    let results: Vec<_> = thread::scope(|scope| {
        let (start, tree, base) = (&start, &tree, &base);
        let movers: Vec<_> = commits
            .iter()
            .map(|commit| {
                scope.spawn(move || {
                    start.wait();
                    tree.clone().move_ref("head", Some(base), commit)
                })
            })
            .collect();
        movers.into_iter().map(|mover| mover.join().unwrap()).collect()
    });
    let won: Vec<_> = commits.iter().zip(&results).filter(|(_, result)| result.is_ok()).collect();
    assert_eq!(won.len(), 1);
    assert_eq!(tree.read_ref("head").unwrap().as_ref(), Some(won[0].0));
    for lost in results.iter().filter_map(|result| result.as_ref().err()) {
        assert_eq!(lost.kind(), TreeErrorKind::RefMoved, "{lost}");
    }
    assert_eq!(kind(tree.move_ref("head", None, &base)), TreeErrorKind::RefMoved);
    assert_eq!(kind(tree.move_ref("other", Some(&base), &base)), TreeErrorKind::RefMoved);
}

/// The workspace that the started process works on.
const CHILD: &str = "NEXUS_TEST_TREE_CHILD";

#[test]
fn of_two_processes_that_commit_at_once_one_wins() {
    let git = needs_git!();
    if let Some(child) = env::var_os(CHILD) {
        return commit_as_a_child(&git, child.to_str().unwrap());
    }
    let place = Place::with(&git, &[("a", "1\n")]);
    let tree = place.create().unwrap();
    tree.move_ref("head", None, &tree.base().commit).unwrap();
    for round in 0..effort::rounds() {
        let from = tree.read_ref("head").unwrap().unwrap();
        let children: Vec<_> = (0..2)
            .map(|number| {
                let task = format!("{}|{number}-{round}|{from}", place.workspace().display());
                child_test::command(of_two_processes_that_commit_at_once_one_wins)
                    .env(CHILD, task)
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let said: Vec<String> = children
            .into_iter()
            .map(|child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
            .collect();
        let now = tree.read_ref("head").unwrap().unwrap();
        assert_eq!(said.iter().filter(|said| said.contains(&format!("WON {now}"))).count(), 1, "{said:?}");
        assert_eq!(said.iter().filter(|said| said.contains("LOST")).count(), 1, "{said:?}");
    }
}

fn commit_as_a_child(git: &Git, task: &str) {
    let parts: Vec<&str> = task.split('|').collect();
    let tree = Tree::open(git, parts[0]).unwrap();
    let from: CommitId = parts[2].parse().unwrap();
    let folder = tree.path().parent().unwrap().join(format!("child-{}", parts[1]));
    tree.check_out(&from, &folder).unwrap();
    write(&folder.join("a"), task);
    let made = commit(&tree, &folder, &from).unwrap();
    match tree.move_ref("head", Some(&from), &made) {
        Ok(()) => println!("WON {made}"),
        Err(error) => {
            assert_eq!(error.kind(), TreeErrorKind::RefMoved);
            println!("LOST");
        }
    }
}

#[test]
fn a_lock_that_a_dead_git_left_in_our_repository_is_removed() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let tree = place.create().unwrap();
    let lock = tree.path().join("repository/refs/nexus/head.lock");
    write(&lock, "");
    let old = SystemTime::now() - Duration::from_secs(60);
    fs::File::open(&lock).unwrap().set_modified(old).unwrap();
    tree.move_ref("head", None, &tree.base().commit).unwrap();
    assert!(!lock.exists());
}

#[test]
fn disjoint_units_become_one_tree_in_any_order_and_others_are_named() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a/one", "1\n"), ("b/two", "2\n"), ("c", "3\n"), ("d", "4\n")]);
    let (tree, folder) = place.checked_out();
    let base = tree.base().commit.clone();
    let unit = |change: &dyn Fn()| {
        tree.restore(&base, &folder, &[]).unwrap();
        change();
        tree.snapshot(&folder).unwrap()
    };
    let first = unit(&|| {
        write(&folder.join("a/one"), "first\n");
        write(&folder.join("a/new"), "first\n");
    });
    let second = unit(&|| fs::remove_file(folder.join("b/two")).unwrap());
    let third = unit(&|| {
        fs::remove_file(folder.join("c")).unwrap();
        write(&folder.join("c/now-a-folder"), "third\n");
    });
    let units = [first.clone(), second, third];
    let merged = tree.merge(&base, &units).unwrap();
    for order in [[2, 1, 0], [1, 0, 2], [2, 0, 1]] {
        assert_eq!(tree.merge(&base, &order.map(|at| units[at].clone())).unwrap(), merged);
    }
    let out = place.out("merged");
    let made = tree.commit(&CommitIntent::new(merged, base.clone(), at(5), "Band")).unwrap();
    tree.check_out(&made, &out).unwrap();
    let names: Vec<_> =
        crate::kit::listing(&out).into_keys().map(|path| path.display().to_string()).collect();
    assert_eq!(names, ["a", "a/new", "a/one", "c", "c/now-a-folder", "d"]);

    let same = unit(&|| write(&folder.join("a/new"), "first\n"));
    let error = tree.merge(&base, &[first, same]).unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::Overlap);
    assert_eq!(refused(&error), ["a/new Overlap"]);
    let file = unit(&|| write(&folder.join("new"), "x"));
    let inside = unit(&|| write(&folder.join("new/file"), "x"));
    for units in [[file.clone(), inside.clone()], [inside, file]] {
        assert_eq!(refused(&tree.merge(&base, &units).unwrap_err()), ["new/file Overlap"]);
    }
}

//! A folder brought to another commit with what was built in it, and a tree with some paths of another.

use std::{fs, path::Path};

use nexus_core::CancelToken;
use nexus_trees::TreeErrorKind;

use super::kit::{Place, commit, kind, needs_git, write};

/// The names of a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn what_was_built_stays_and_everything_else_is_as_in_the_commit() {
    let git = needs_git!();
    let place =
        Place::with(&git, &[(".gitignore", "target/\n*.pyc\n"), ("a", "1"), ("b", "1"), ("src/c", "1")]);
    let (tree, folder) = place.checked_out();
    let base = tree.base().commit.clone();
    write(&folder.join("a"), "2");
    let second = commit(&tree, &folder, &base).unwrap();
    for (path, content) in
        [("target/deep/out", "built"), ("src/c.pyc", "built"), ("extra", "x"), ("src/c", "mine")]
    {
        write(&folder.join(path), content);
    }
    // The rules of the base count, not those that a program wrote.
    write(&folder.join(".gitignore"), "extra\n");
    fs::remove_file(folder.join("b")).unwrap();
    let before = fs::metadata(folder.join("a")).unwrap().modified().unwrap();
    tree.refresh(&second, &folder).unwrap();
    assert_eq!(names(&folder), [".gitignore", "a", "b", "src", "target"]);
    assert_eq!(names(&folder.join("src")), ["c", "c.pyc"]);
    assert_eq!(
        (read(folder.join("target/deep/out")), read(folder.join("src/c"))),
        ("built".into(), "1".into())
    );
    assert_eq!(
        fs::metadata(folder.join("a")).unwrap().modified().unwrap(),
        before,
        "what is right keeps its time"
    );
    tree.refresh(&base, &folder).unwrap();
    assert_eq!((read(folder.join("a")), read(folder.join("target/deep/out"))), ("1".into(), "built".into()));
    // Without it, nothing is left.
    tree.restore(&tree.tree_of(&base).unwrap(), &folder, &[]).unwrap();
    assert_eq!(names(&folder), [".gitignore", "a", "b", "src"]);
}

#[test]
fn what_is_ignored_and_in_the_way_of_a_file_goes() {
    let git = needs_git!();
    let place = Place::with(&git, &[(".gitignore", "out\nlog\n"), ("a", "1")]);
    place.person(&["config", "advice.addIgnoredFile", "false"]);
    write(&place.project().join("out/x"), "1");
    write(&place.project().join("log"), "1");
    place.person(&["add", "-f", "out/x", "log"]);
    place.person(&["commit", "-q", "-m", "second"]);
    let (tree, folder) = place.checked_out();
    fs::remove_dir_all(folder.join("out")).unwrap();
    fs::remove_file(folder.join("log")).unwrap();
    write(&folder.join("out"), "a file");
    write(&folder.join("log/deep"), "a folder");
    write(&folder.join("sub/out"), "built");
    let base = tree.base().commit.clone();
    tree.refresh(&base, &folder).unwrap();
    assert_eq!((read(folder.join("out/x")), read(folder.join("log"))), ("1".into(), "1".into()));
    assert_eq!(read(folder.join("sub/out")), "built");
}

#[test]
fn a_tree_takes_paths_of_another_and_loses_what_is_not_there() {
    let git = needs_git!();
    let place = Place::with(&git, &[("src", "1"), ("tests/a", "1"), ("tests/b", "1"), ("x", "1")]);
    let (tree, folder) = place.checked_out();
    let base = tree.base().commit.clone();
    fs::remove_dir_all(folder.join("tests")).unwrap();
    fs::remove_file(folder.join("x")).unwrap();
    for (path, content) in [("src", "2"), ("tests", "a file"), ("x/deep/y", "2"), ("new_test", "2")] {
        write(&folder.join(path), content);
    }
    let now = commit(&tree, &folder, &base).unwrap();
    let mixed = tree.with_paths_of(&now, &base, ["tests/a", "x", "new_test", "nowhere"]).unwrap();
    let out = place.out("mixed");
    tree.check_out(&mixed, &out).unwrap();
    assert_eq!(names(&out), ["src", "tests", "x"]);
    assert_eq!(
        (read(out.join("src")), read(out.join("tests/a")), read(out.join("x"))),
        ("2".into(), "1".into(), "1".into())
    );
    assert_eq!(names(&out.join("tests")), ["a"]);
    let none: [&str; 0] = [];
    assert_eq!(tree.with_paths_of(&now, &base, none).unwrap(), tree.tree_of(&now).unwrap());
}

#[test]
fn a_cancelled_caller_gets_no_tree() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1")]);
    let tree = place.create().unwrap();
    let cancel = CancelToken::new();
    let cancelled = tree.clone().with_cancel(cancel.clone());
    cancelled.tree_of(&tree.base().commit).unwrap();
    cancel.cancel();
    assert_eq!(kind(cancelled.check_out(&tree.base().commit, place.out("out"))), TreeErrorKind::Cancelled);
}

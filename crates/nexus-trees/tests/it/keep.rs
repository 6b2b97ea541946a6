//! Commits that are kept beside a person's branches, and how a checkout is at one moment.

use nexus_trees::{CheckoutStatus, Project, Tree, TreeErrorKind, TreeLimits, TreeOptions};

use super::kit::{Place, commit, kind, needs_git, write};

const FILES: &[(&str, &str)] = &[("a", "1\n"), ("sub/b", "1\n"), (".gitignore", "ignored\n")];

#[test]
fn a_commit_is_kept_under_a_ref_and_nothing_else_is_touched() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    write(&folder.join("a"), "2\n");
    let made = commit(&tree, &folder, &tree.base().commit).unwrap();
    write(&place.project().join("a"), "the person's\n");
    let before = place.person(&["status", "--porcelain=v2", "--branch"]);
    assert_eq!(tree.keep("fleet/t1", &made).unwrap(), "refs/nexus/fleet/t1");
    let after = place.repository();
    assert_eq!(tree.keep("fleet/t1", &made).unwrap(), "refs/nexus/fleet/t1", "a second time");
    assert_eq!(place.repository(), after);
    assert_eq!(place.person(&["status", "--porcelain=v2", "--branch"]), before);
    assert_eq!(kind(tree.keep("fleet/t1", &tree.base().commit.clone())), TreeErrorKind::RefMoved);
    for name in ["base/x", "base", "../heads/main", "a b", ""] {
        assert_eq!(kind(tree.keep(name, &made)), TreeErrorKind::Malformed, "{name}");
    }
    // The base itself needs no objects.
    tree.keep("fleet/t2", &tree.base().commit.clone()).unwrap();
    tree.delete().unwrap();
    place.person(&["gc", "-q", "--prune=now"]);
    place.person(&["checkout", "-q", "--", "a"]);
    place.person(&["cherry-pick", "refs/nexus/fleet/t1"]);
    assert_eq!(place.person(&["show", "HEAD:a"]), "2");
    place.person(&["fsck", "--strict", "--full"]);
}

#[test]
fn what_is_of_another_history_or_has_no_repository_is_not_kept() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let tree = place.create().unwrap();
    let empty = place.person(&["hash-object", "-t", "tree", "-w", "--stdin"]);
    let other = place.person(&["commit-tree", "-m", "x", &empty]).parse().unwrap();
    assert_eq!(kind(tree.keep("fleet/t", &other)), TreeErrorKind::Unrelated);
    let plain = Place::new(&git);
    write(&plain.project().join("a"), "1\n");
    let project = Project::folder(plain.project()).unwrap();
    let tree = Tree::create(&git, plain.workspace(), &project, &TreeOptions::new()).unwrap();
    assert_eq!(kind(tree.keep("fleet/t", &tree.base().commit.clone())), TreeErrorKind::NotFound);
    assert_eq!(tree.checkout_status().unwrap(), None);
    // A repository without a commit has nothing that is left out.
    let unborn = Place::new(&git);
    unborn.person(&["init", "-q", "-b", "main"]);
    write(&unborn.project().join("a"), "1\n");
    let tree = unborn.create().unwrap();
    let folder = unborn.out("now");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    write(&folder.join("b"), "1\n");
    let made = commit(&tree, &folder, &tree.base().commit).unwrap();
    let name = tree.keep("fleet/t", &made).unwrap();
    assert_eq!(unborn.person(&["show", &format!("{name}:b")]), "1");
    unborn.person(&["fsck", "--strict"]);
}

#[test]
fn a_checkout_is_seen_as_it_is_now() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let tree = place.create().unwrap();
    let status = |tree: &Tree| -> CheckoutStatus { tree.checkout_status().unwrap().unwrap() };
    let first = status(&tree);
    assert_eq!(
        (first.head.as_ref(), first.branch.as_deref()),
        (tree.base().head.as_ref(), Some("refs/heads/main"))
    );
    assert!(first.uncommitted.is_empty());
    write(&place.project().join("sub/b"), "2\n");
    write(&place.project().join("new"), "2\n");
    write(&place.project().join("ignored"), "2\n");
    let before = place.repository();
    assert_eq!(status(&tree).uncommitted, [std::path::Path::new("new"), std::path::Path::new("sub/b")]);
    assert_eq!(place.repository(), before, "it is only read");
    place.person(&["switch", "-q", "-c", "other"]);
    place.person(&["add", "-A"]);
    place.person(&["commit", "-q", "-m", "second"]);
    let now = status(&tree);
    assert_eq!(now.head.unwrap().as_str(), place.person(&["rev-parse", "HEAD"]));
    assert!(now.branch.as_deref() == Some("refs/heads/other") && now.uncommitted.is_empty());
    place.person(&["switch", "-q", "--detach"]);
    assert_eq!(status(&tree).branch, None);
}

#[test]
fn a_bundle_of_files_that_are_large_once_they_are_laid_out_is_refused() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    for name in ["one", "two", "three"] {
        write(&folder.join(name), "0".repeat(400_000));
    }
    let base = tree.base().commit.clone();
    let made = commit(&tree, &folder, &base).unwrap();
    let (mut bundle, mut of_base) = (Vec::new(), Vec::new());
    tree.bundle(&base, &made, &mut bundle).unwrap();
    tree.bundle_base(&mut of_base).unwrap();
    assert!(bundle.len() < 10_000, "{} bytes", bundle.len());
    let limited = |files: usize, file_bytes: u64, total_bytes: u64| {
        let mut limits = TreeLimits::default();
        (limits.files, limits.file_bytes, limits.total_bytes) = (files, file_bytes, total_bytes);
        limits
    };
    let (enough, most) = (limited(6, 400_000, 1_300_000), limited(6, 400_000, 1_100_000));
    for limits in [most, limited(6, 399_999, 1_300_000), limited(5, 400_000, 1_300_000)] {
        let tree = tree.clone().with_limits(limits);
        assert_eq!(kind(tree.apply_bundle(&mut bundle.as_slice())), TreeErrorKind::TooLarge);
    }
    assert_eq!(tree.clone().with_limits(enough).apply_bundle(&mut bundle.as_slice()).unwrap(), made);
    let there = Place::new(&git);
    let create = |limits| {
        let options = TreeOptions::new().with_limits(limits);
        Tree::create_from_bundle(&git, there.workspace(), &mut of_base.as_slice(), &options)
    };
    assert_eq!(kind(create(limited(2, 100, 1_000))), TreeErrorKind::TooLarge);
    assert_eq!(kind(create(limited(3, 1, 1_000))), TreeErrorKind::TooLarge);
    create(limited(3, 100, 1_000)).unwrap();
}

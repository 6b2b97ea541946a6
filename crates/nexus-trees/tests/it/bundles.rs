//! A base and its changes on their way to another machine, and bundles that are none.

use nexus_trees::{CommitIntent, LandObstacle, Landing, Tree, TreeErrorKind, TreeLimits, TreeOptions};

use super::kit::{Place, at, commit, kind, listing, needs_git, refused, write};

const FILES: &[(&str, &str)] =
    &[("a", "1\n"), ("sub/b", "1\n"), (".gitignore", "ignored\n"), (".gitattributes", "*.bin filter=lfs\n")];

#[test]
fn a_base_and_a_change_travel_there_and_back() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    write(&place.project().join("a"), "1\n2\n");
    place.person(&["commit", "-q", "-am", "a history"]);
    let (tree, folder) = place.checked_out();
    let base = tree.base().commit.clone();
    let mut bundle = Vec::new();
    tree.bundle_base(&mut bundle).unwrap();

    let there = Place::new(&git);
    let options = TreeOptions::new();
    let remote = Tree::create_from_bundle(&git, there.workspace(), &mut bundle.as_slice(), &options).unwrap();
    assert_eq!((remote.base().commit.clone(), remote.project()), (base.clone(), None));
    let work = there.out("now");
    remote.check_out(&base, &work).unwrap();
    assert_eq!(listing(&work), listing(&folder));
    write(&work.join("a"), "there\n");
    write(&work.join("ignored"), "x");
    let made = commit(&remote, &work, &base).unwrap();
    write(&work.join("sub/c"), "more\n");
    let made = commit(&remote, &work, &made).unwrap();
    assert!(matches!(
        remote.land(&made).unwrap(),
        Landing::Patch { obstacle: LandObstacle::NoRepository, .. }
    ));
    let mut change = Vec::new();
    remote.bundle(&base, &made, &mut change).unwrap();

    assert_eq!(tree.apply_bundle(&mut change.as_slice()).unwrap(), made);
    assert_eq!(tree.apply_bundle(&mut change.as_slice()).unwrap(), made, "a second time");
    let file = place.folder.path().join("bundle");
    write(&file, &change);
    let repository = tree.path().join("repository");
    place.person_in(&repository, &["bundle", "verify", "-q", file.to_str().unwrap()]);
    assert!(matches!(tree.land(&made).unwrap(), Landing::FastForwarded { .. }));
    assert_eq!(place.person(&["rev-list", "--count", "HEAD"]), "4");
    place.person(&["fsck", "--strict"]);
    let again = Tree::create_from_bundle(&git, there.workspace(), &mut bundle.as_slice(), &options);
    assert_eq!(kind(again), TreeErrorKind::AlreadyExists);
}

#[test]
fn what_is_no_bundle_or_brings_what_no_tree_takes_is_refused() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    let base = tree.base().commit.clone();
    write(&folder.join("a"), "2\n");
    let made = commit(&tree, &folder, &base).unwrap();
    let mut bundle = Vec::new();
    tree.bundle(&base, &made, &mut bundle).unwrap();
    let mut of_base = Vec::new();
    tree.bundle_base(&mut of_base).unwrap();

    let other = Place::new(&git);
    let options = TreeOptions::new();
    let create = |mut bytes: &[u8]| Tree::create_from_bundle(&git, other.workspace(), &mut bytes, &options);
    assert_eq!(kind(create(&bundle)), TreeErrorKind::Malformed);
    for end in [0, 1, 10, 30, of_base.len() / 2, of_base.len() - 1] {
        assert_eq!(kind(create(&of_base[..end])), TreeErrorKind::Malformed, "cut at {end}");
    }
    for at in (0..of_base.len()).step_by(7) {
        let mut damaged = of_base.clone();
        damaged[at] ^= 0x20;
        let _ = create(&damaged).map(|tree| tree.delete().unwrap());
    }
    assert_eq!(listing(&other.workspace()).len(), 0, "nothing is left behind");
    let remote = create(&of_base).unwrap();
    for end in [0, 20, bundle.len() / 2, bundle.len() - 1] {
        assert_eq!(kind(remote.apply_bundle(&mut &bundle[..end])), TreeErrorKind::Malformed, "cut at {end}");
    }
    let endless = b"# v2 git bundle\n".iter().chain(b"x".repeat(1 << 20).iter()).copied().collect::<Vec<_>>();
    assert_eq!(kind(remote.apply_bundle(&mut endless.as_slice())), TreeErrorKind::Malformed);
    let small = TreeLimits::default();
    let mut small_limits = small;
    small_limits.total_bytes = 50;
    let limited = remote.clone().with_limits(small_limits);
    assert_eq!(kind(limited.apply_bundle(&mut bundle.as_slice())), TreeErrorKind::TooLarge);
    let text = String::from_utf8_lossy(&bundle[..300]).into_owned();
    let unknown = text.split("\n\n").next().unwrap().replace(base.as_str(), &"1".repeat(40)) + "\n\n";
    assert_eq!(kind(remote.apply_bundle(&mut unknown.as_bytes())), TreeErrorKind::NotFound);
    assert_eq!(remote.apply_bundle(&mut bundle.as_slice()).unwrap(), made);

    // What a worker committed by other means than ours.
    let repository = tree.path().join("repository");
    let blob = place.person_in(&repository, &["rev-parse", &format!("{base}:a")]);
    let input = place.folder.path().join("index");
    for (path, expected) in [
        ("up/../x", None),
        ("git~1/hooks/x", Some("git~1/hooks/x DotGit")),
        ("A", Some("A Twin")),
        ("new.bin", Some("new.bin Filtered")),
    ] {
        let _ = std::fs::remove_file(&input);
        let mut command = place.person_command(
            &repository,
            &[
                "-c",
                "core.protectNTFS=false",
                "update-index",
                "--add",
                "--cacheinfo",
                &format!("100644,{blob},{path}"),
            ],
        );
        let read = place
            .person_command(&repository, &["read-tree", base.as_str()])
            .env("GIT_INDEX_FILE", &input)
            .status();
        assert!(read.unwrap().success());
        let added = command.env("GIT_INDEX_FILE", &input).output().unwrap();
        let Some(expected) = expected else {
            assert!(!added.status.success());
            continue;
        };
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        let written = place
            .person_command(&repository, &["-c", "core.protectNTFS=false", "write-tree"])
            .env("GIT_INDEX_FILE", &input)
            .output();
        let bad = String::from_utf8(written.unwrap().stdout).unwrap();
        let bad = place
            .person_in(&repository, &["commit-tree", "-p", base.as_str(), "-m", "x", bad.trim()])
            .parse()
            .unwrap();
        let mut bundle = Vec::new();
        tree.bundle(&base, &bad, &mut bundle).unwrap();
        let error = remote.apply_bundle(&mut bundle.as_slice()).unwrap_err();
        if error.kind() == TreeErrorKind::Refused {
            assert_eq!(refused(&error), [expected]);
        } else {
            // Git itself was faster.
            assert_eq!(error.kind(), TreeErrorKind::Malformed, "{error}");
        }
        assert_eq!(kind(tree.land(&bad)), TreeErrorKind::Refused);
        let intent = CommitIntent::new(tree.tree_of(&bad).unwrap(), base.clone(), at(1), "x");
        assert_eq!(kind(tree.commit(&intent)), TreeErrorKind::Refused);
        if expected.contains("DotGit") {
            assert_eq!(kind(tree.check_out(&bad, place.out("bad"))), TreeErrorKind::Refused);
        }
    }
}

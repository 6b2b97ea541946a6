//! Every kind of repository, each with what comes of it.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, symlink},
    },
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use nexus_trees::{Git, LandObstacle, Landing, Project, Tree, TreeErrorKind, TreeLimits, TreeOptions};

use super::kit::{Place, commit, is_root, kind, listing, needs_git, real_git, refused, script, write};

const FILES: &[(&str, &str)] = &[("a", "1\n"), ("sub/b", "1\n")];

fn paths(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// Changes a file, commits it and lands it.
fn land(place: &Place, tree: &Tree) -> Landing {
    let folder = place.out("now");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    write(&folder.join("a"), "2\n");
    tree.land(&commit(tree, &folder, &tree.base().commit).unwrap()).unwrap()
}

#[test]
fn a_tree_is_opened_again_and_not_taken_for_that_of_another_project() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    assert_eq!(kind(Tree::open(&git, place.workspace())), TreeErrorKind::NotFound);
    let tree = place.create().unwrap();
    assert_eq!(tree.base().branch.as_deref(), Some("refs/heads/main"));
    assert_eq!(Some(&tree.base().commit), tree.base().head.as_ref());
    assert_eq!(place.create().unwrap().base(), tree.base());
    assert_eq!(Tree::open(&git, place.workspace()).unwrap().base(), tree.base());
    assert_eq!(place.pins().len(), 1);
    let other = place.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let other = Project::find(&other).unwrap();
    let again = Tree::create(&git, place.workspace(), &other, &TreeOptions::new());
    assert_eq!(kind(again), TreeErrorKind::AlreadyExists);
    fs::write(tree.path().join("tree.json"), "{}").unwrap();
    assert_eq!(kind(Tree::open(&git, place.workspace())), TreeErrorKind::Malformed);
}

#[test]
fn a_record_that_names_another_ref_than_one_of_ours_moves_and_deletes_nothing() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let tree = place.create().unwrap();
    let pin = place.person(&["for-each-ref", "--format=%(refname)", "refs/nexus"]);
    let record = tree.path().join("tree.json");
    let good = fs::read_to_string(&record).unwrap();
    // A lock that the joined path of the last one would lead to.
    write(&place.folder.path().join("other.lock"), "theirs\n");
    let refs = place.person(&["for-each-ref"]);
    for other in [
        "refs/heads/main",
        "HEAD",
        "refs/nexus/base/",
        "refs/nexus/base/a/b",
        "refs/nexus/base/../../heads/main",
        "refs/nexus/base/../../../../../other",
        "../../other",
    ] {
        fs::write(&record, good.replace(&pin, other)).unwrap();
        assert_eq!(kind(Tree::open(&git, place.workspace())), TreeErrorKind::Malformed, "{other}");
        let deleted = Tree::delete_in(&git, place.workspace()).unwrap_err();
        assert_eq!(deleted.kind(), TreeErrorKind::Malformed, "{other}");
        assert!(deleted.to_string().contains("tree.json"), "{deleted}");
        assert_eq!(place.person(&["for-each-ref"]), refs, "{other}");
        assert!(record.exists() && place.folder.path().join("other.lock").exists(), "{other}");
    }
    fs::write(&record, good).unwrap();
    Tree::delete_in(&git, place.workspace()).unwrap();
    assert_eq!(place.person(&["for-each-ref", "refs/nexus"]), "");
}

#[test]
fn a_tree_whose_project_git_does_not_open_any_more_can_be_deleted() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let tree = place.create().unwrap();
    // What is left is a folder of this name, and no repository.
    fs::remove_file(place.project().join(".git/HEAD")).unwrap();
    Tree::delete_in(&git, place.workspace()).unwrap();
    assert!(!tree.path().exists());
}

#[test]
fn the_base_outlives_what_the_person_throws_away() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    write(&place.project().join("a"), "other\n");
    place.person(&["commit", "-q", "--amend", "-am", "again"]);
    place.person(&["reflog", "expire", "--expire=now", "--all"]);
    place.person(&["gc", "-q", "--prune=now"]);
    write(&folder.join("a"), "2\n");
    commit(&tree, &folder, &tree.base().commit).unwrap();
    // A ref that somebody removed is set again.
    let pin = place.person(&["for-each-ref", "--format=%(refname)", "refs/nexus"]);
    place.person(&["update-ref", "-d", &pin]);
    Tree::open(&git, place.workspace()).unwrap();
    assert_eq!(place.person(&["for-each-ref", "--format=%(refname)", "refs/nexus"]), pin);
    // A project that is gone is named.
    fs::rename(place.project(), place.folder.path().join("moved")).unwrap();
    assert_eq!(kind(Tree::open(&git, place.workspace())), TreeErrorKind::NotFound);
    fs::rename(place.folder.path().join("moved"), place.project()).unwrap();
    Tree::open(&git, place.workspace()).unwrap().delete().unwrap();
    assert_eq!(kind(Tree::open(&git, place.workspace())), TreeErrorKind::NotFound);
}

#[test]
fn a_plain_folder_is_a_project_by_its_own_ignore_rules() {
    let git = needs_git!();
    let place = Place::new(&git);
    for path in ["a", "deep/b", "out/c", "deep/x.log", "deep/keep.log", "nested/.git/config", "nested/d"] {
        write(&place.project().join(path), path);
    }
    write(&place.project().join(".gitignore"), "/out/\n*.log\n");
    write(&place.project().join("deep/.gitignore"), "!keep.log\n");
    let (_tree, folder) = place.checked_out();
    let files: Vec<_> = listing(&folder).into_iter().filter(|(_, content)| content != b"folder").collect();
    let files: Vec<_> = files.iter().map(|(path, _)| path.display().to_string()).collect();
    assert_eq!(files, [".gitignore", "a", "deep/.gitignore", "deep/b", "deep/keep.log", "nested/d"]);
}

#[test]
fn a_folder_inside_a_repository_is_named_with_its_top() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let error = Project::find(place.project().join("sub")).unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::NotAProject);
    assert!(error.to_string().contains("/project\""), "{error}");
    let plain = Project::folder(place.project().join("sub")).unwrap();
    let tree = Tree::create(&git, place.workspace(), &plain, &TreeOptions::new()).unwrap();
    assert_eq!(tree.changes(&tree.base().commit, &tree.base().commit).unwrap(), []);
    assert_eq!(kind(Project::find(place.project().join("a"))), TreeErrorKind::NotAProject);
    assert_eq!(kind(Project::find(place.project().join("nothing"))), TreeErrorKind::NotFound);
}

#[test]
fn a_detached_head_an_empty_repository_and_a_bare_one() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    place.person(&["checkout", "-q", "--detach"]);
    let tree = place.create().unwrap();
    assert_eq!(tree.base().branch, None);
    assert!(tree.base().head.is_some());

    let place = Place::new(&git);
    place.person(&["init", "-q", "-b", "main"]);
    write(&place.project().join("a"), "1\n");
    let tree = place.create().unwrap();
    assert_eq!((tree.base().head.as_ref(), paths(&tree.base().uncommitted)), (None, vec!["a".to_owned()]));
    assert!(matches!(land(&place, &tree), Landing::Patch { obstacle: LandObstacle::NoCommits, .. }));
    tree.delete().unwrap();
    let tree = place.create_with(&TreeOptions::new().include_uncommitted()).unwrap();
    let folder = place.out("with");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "1\n");

    let place = Place::with(&git, FILES);
    let bare = place.folder.path().join("bare");
    place.person(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let project = Project::find(&bare).unwrap();
    assert!(project.is_repository());
    let tree = Tree::create(&git, place.workspace(), &project, &TreeOptions::new()).unwrap();
    let Landing::FastForwarded { to, .. } = land(&place, &tree) else { panic!("it was not moved") };
    assert_eq!(place.person_in(&bare, &["rev-parse", "main"]), to.as_str());
    place.person_in(&bare, &["fsck", "--strict"]);
}

#[test]
fn a_linked_checkout_has_its_own_head_and_the_pin_where_all_have_it() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let linked = place.folder.path().join("linked");
    place.person(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    write(&linked.join("sub/b"), "uncommitted\n");
    let project = Project::find(&linked).unwrap();
    let tree = Tree::create(&git, place.workspace(), &project, &TreeOptions::new()).unwrap();
    assert_eq!(tree.base().branch.as_deref(), Some("refs/heads/side"));
    assert_eq!(paths(&tree.base().uncommitted), ["sub/b"]);
    assert_eq!(place.pins().len(), 1);
    assert!(matches!(land(&place, &tree), Landing::FastForwarded { .. }));
    assert_eq!(place.person_in(&linked, &["status", "--porcelain"]), " M sub/b");
    assert_eq!(fs::read_to_string(linked.join("a")).unwrap(), "2\n");
}

#[test]
fn names_of_sha_256_and_refs_in_a_reftable() {
    let git = needs_git!();
    let mut kinds = vec![("--object-format=sha256", "sha256", 64)];
    if git.version() >= [2, 45, 0] {
        kinds.push(("--ref-format=reftable", "sha1", 40));
    }
    for (option, format, length) in kinds {
        let place = Place::new(&git);
        place.person(&["init", "-q", "-b", "main", option]);
        write(&place.project().join("a"), "1\n");
        place.person(&["add", "-A"]);
        place.person(&["commit", "-q", "-m", "first"]);
        let tree = place.create().unwrap();
        assert_eq!((tree.object_format(), tree.base().commit.as_str().len()), (format, length));
        let folder = place.out("bundled");
        tree.check_out(&tree.base().commit, &folder).unwrap();
        write(&folder.join("a"), "3\n");
        let made = commit(&tree, &folder, &tree.base().commit).unwrap();
        assert!(tree.patch(&tree.base().commit, &made).unwrap().text().contains("+3\n"));
        let mut bundle = Vec::new();
        tree.bundle(&tree.base().commit, &made, &mut bundle).unwrap();
        assert_eq!(tree.apply_bundle(&mut bundle.as_slice()).unwrap(), made);
        let Landing::FastForwarded { to, .. } = land(&place, &tree) else { panic!("it was not moved") };
        assert_eq!(place.person(&["rev-parse", "main"]), to.as_str());
        assert_eq!(place.person(&["status", "--porcelain"]), "");
        tree.delete().unwrap();
        assert_eq!(place.person(&["for-each-ref", "refs/nexus"]), "");
    }
}

#[test]
fn a_repository_of_a_kind_that_git_does_not_know_asks_for_a_newer_git() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    place.person(&["config", "core.repositoryFormatVersion", "1"]);
    place.person(&["config", "extensions.yetUnknown", "true"]);
    let error = place.create().unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::GitTooOld, "{error}");
    fs::write(place.project().join(".git/config"), "[core\n").unwrap();
    let error = place.create().unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::NotAProject, "{error}");
    assert_eq!(listing(&place.workspace()).len(), 0, "nothing is left behind");
}

#[test]
fn a_shallow_clone_is_a_project() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    write(&place.project().join("a"), "more\n");
    place.person(&["commit", "-q", "-am", "second"]);
    let shallow = place.folder.path().join("shallow");
    let from = format!("file://{}", place.project().display());
    place.person(&["clone", "-q", "--depth=1", &from, shallow.to_str().unwrap()]);
    let project = Project::find(&shallow).unwrap();
    let tree = Tree::create(&git, place.workspace(), &project, &TreeOptions::new()).unwrap();
    assert!(matches!(land(&place, &tree), Landing::FastForwarded { .. }));
    assert_eq!(place.person_in(&shallow, &["rev-list", "--count", "HEAD"]), "2");
    place.person_in(&shallow, &["fsck", "--strict"]);
}

#[test]
fn a_partial_clone_is_named_and_nothing_is_fetched() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    place.person(&["config", "uploadpack.allowFilter", "true"]);
    let partial = place.folder.path().join("partial");
    let from = format!("file://{}", place.project().display());
    place.person(&["clone", "-q", "--no-checkout", "--filter=blob:none", &from, partial.to_str().unwrap()]);
    let project = Project::find(&partial).unwrap();
    let before = listing(&partial.join(".git/objects"));
    let error = Tree::create(&git, place.workspace(), &project, &TreeOptions::new()).unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::MissingObject, "{error}");
    assert!(error.to_string().contains("git fetch"), "{error}");
    assert_eq!(listing(&partial.join(".git/objects")), before);
    // Once all of the commit is there, it is a project like others.
    place.person_in(&partial, &["checkout", "-q", "main"]);
    let tree = Tree::create(&git, place.workspace(), &project, &TreeOptions::new()).unwrap();
    assert!(matches!(land(&place, &tree), Landing::FastForwarded { .. }));
}

#[test]
fn what_is_not_committed_is_listed_and_taken_along_when_asked() {
    let git = needs_git!();
    let place = Place::with(
        &git,
        &[
            ("staged", "1\n"),
            ("changed", "1\n"),
            ("both", "1\n"),
            ("gone", "1\n"),
            ("kept", "1\n"),
            (".gitignore", "*.o\n"),
        ],
    );
    write(&place.project().join("staged"), "2\n");
    write(&place.project().join("both"), "2\n");
    write(&place.project().join("added"), "1\n");
    place.person(&["add", "staged", "both", "added"]);
    write(&place.project().join("both"), "3\n");
    write(&place.project().join("changed"), "2\n");
    fs::remove_file(place.project().join("gone")).unwrap();
    place.person(&["rm", "-q", "--cached", "kept"]);
    write(&place.project().join("new/one"), "1\n");
    write(&place.project().join("x.o"), "ignored");
    write(&place.project().join("private"), "ignored");
    write(&place.project().join(".idea/x"), "ignored");
    write(&place.project().join(".git/info/exclude"), "private\n");
    let excludes = place.folder.path().join("excludes");
    write(&excludes, ".idea\n");
    let before = (place.repository(), listing(&place.project().join("new")));
    let expected = ["added", "both", "changed", "gone", "new/one", "staged"];

    let options = TreeOptions::new().with_exclude_file(&excludes);
    let tree = place.create_with(&options).unwrap();
    let seen: Vec<_> = paths(&tree.base().uncommitted).into_iter().filter(|path| path != "kept").collect();
    assert_eq!(seen, expected);
    assert_eq!(Some(&tree.base().commit), tree.base().head.as_ref());
    tree.delete().unwrap();
    let tree = place.create_with(&options.include_uncommitted()).unwrap();
    let folder = place.out("now");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    let files: Vec<_> = listing(&folder)
        .into_iter()
        .filter(|(_, content)| content != b"folder")
        .map(|(path, content)| format!("{} {}", path.display(), String::from_utf8_lossy(&content[9..])))
        .map(|line| line.trim().to_owned())
        .collect();
    let expected = [".gitignore *.o", "added 1", "both 3", "changed 2", "kept 1", "new/one 1", "staged 2"];
    assert_eq!(files, expected);
    assert_eq!((place.repository(), listing(&place.project().join("new"))), before);
}

#[test]
fn a_change_in_the_moment_of_the_last_commit_is_seen() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let second = |path: &Path| fs::metadata(path).unwrap().mtime();
    let (file, index) = (place.project().join("a"), place.project().join(".git/index"));
    let mut number = 1;
    loop {
        number += 1;
        write(&file, format!("{}\n", number % 10));
        place.person(&["commit", "-q", "-am", "again"]);
        write(&file, format!("{}\n", (number + 1) % 10));
        if second(&file) == second(&index) {
            break;
        }
    }
    // The copy of the index is younger than what it speaks of.
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(paths(&place.create().unwrap().base().uncommitted), ["a"]);
}

#[test]
fn submodules_stay_empty_and_are_asked_nothing() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let other = Place::with(&git, &[("inside", "1\n")]);
    place.person(&["submodule", "--quiet", "add", other.project().to_str().unwrap(), "module"]);
    place.person(&["commit", "-q", "-m", "module"]);
    // Dirty, with a program that would be run by whoever looks into it.
    let canary = place.folder.path().join("canary");
    write(&place.project().join("module/inside"), "dirty\n");
    write(&place.project().join("module/.gitattributes"), "* filter=trap\n");
    for name in ["core.fsmonitor", "filter.trap.clean"] {
        let module = place.project().join("module");
        place.person_in(&module, &["config", name, &format!("touch {}; cat", canary.display())]);
    }
    let tree = place.create_with(&TreeOptions::new().include_uncommitted()).unwrap();
    assert_eq!(paths(&tree.base().submodules), ["module"]);
    assert_eq!(paths(&tree.base().uncommitted), Vec::<String>::new());
    assert!(!canary.exists());
    let folder = place.out("now");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    assert_eq!(fs::read_dir(folder.join("module")).unwrap().count(), 0);
    let base = tree.tree_of(&tree.base().commit).unwrap();
    assert_eq!(tree.snapshot(&folder).unwrap(), base);
    fs::remove_dir(folder.join("module")).unwrap();
    assert_eq!(tree.snapshot(&folder).unwrap(), base);
    write(&folder.join("module/inside"), "2\n");
    assert_eq!(refused(&tree.snapshot(&folder).unwrap_err()), ["module/inside Submodule"]);
    fs::remove_dir_all(folder.join("module")).unwrap();
    write(&folder.join("module"), "a file\n");
    assert_eq!(refused(&tree.snapshot(&folder).unwrap_err()), ["module Submodule"]);
    tree.restore(&tree.base().commit, &folder, &[]).unwrap();
    assert!(folder.join("module").is_dir());
    write(&folder.join("a"), "2\n");
    let made = commit(&tree, &folder, &tree.base().commit).unwrap();
    assert!(matches!(tree.land(&made).unwrap(), Landing::FastForwarded { .. }));
    assert!(!canary.exists());
    assert_eq!(fs::read_to_string(place.project().join("module/inside")).unwrap(), "dirty\n");
}

#[test]
fn files_under_a_filter_stay_pointers_and_cannot_be_changed() {
    let git = needs_git!();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    let place = Place::with(&git, &[("big.bin", pointer), ("other.bin", pointer), ("a", "1\n")]);
    write(&place.project().join(".gitattributes"), "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    place.person(&["add", "-A"]);
    place.person(&["commit", "-q", "-m", "filter"]);
    // As after a checkout with the filter, and another content.
    write(&place.project().join("big.bin"), "the content\n");
    let tree = place.create_with(&TreeOptions::new().include_uncommitted()).unwrap();
    assert_eq!(paths(&tree.base().filtered), ["big.bin", "other.bin"]);
    assert_eq!(paths(&tree.base().left_out), ["big.bin"]);
    assert_eq!(Some(&tree.base().commit), tree.base().head.as_ref());
    let folder = place.out("now");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    assert_eq!(fs::read_to_string(folder.join("big.bin")).unwrap(), pointer);
    write(&folder.join(".gitattributes"), "\n");
    write(&folder.join("big.bin"), "other\n");
    write(&folder.join("new.bin"), "new\n");
    fs::remove_file(folder.join("other.bin")).unwrap();
    let error = commit(&tree, &folder, &tree.base().commit).unwrap_err();
    assert_eq!(refused(&error), ["big.bin Filtered", "new.bin Filtered", "other.bin Filtered"]);
}

#[test]
fn a_sparse_checkout_has_all_files_in_its_tree() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n"), ("sub/b", "1\n"), ("other/c", "1\n")]);
    for index in ["--no-sparse-index", "--sparse-index"] {
        place.person(&["sparse-checkout", "init", "--cone", index]);
        place.person(&["sparse-checkout", "set", "sub"]);
        assert!(!place.project().join("other").exists());
        write(&place.project().join("sub/b"), "2\n");
        let tree = place.create_with(&TreeOptions::new().include_uncommitted()).unwrap();
        assert_eq!(paths(&tree.base().uncommitted), ["sub/b"], "{index}");
        let folder = place.out(index);
        tree.check_out(&tree.base().commit, &folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join("other/c")).unwrap(), "1\n");
        assert_eq!(fs::read_to_string(folder.join("sub/b")).unwrap(), "2\n");
        tree.delete().unwrap();
    }
}

#[test]
fn odd_names_of_the_base_stay_and_new_ones_are_refused() {
    let git = needs_git!();
    let place =
        Place::with(&git, &[("new\nline", "1\n"), ("Twin", "1\n"), ("twin", "2\n"), ("tab\there", "1\n")]);
    let not_unicode = OsStr::from_bytes(b"not-\xff");
    write(&place.project().join(not_unicode), "1\n");
    symlink("/nowhere", place.project().join("out")).unwrap();
    place.person(&["add", "-A"]);
    place.person(&["commit", "-q", "-m", "names"]);
    let (tree, folder) = place.checked_out();
    let base = tree.base().commit.clone();
    assert_eq!(tree.snapshot(&folder).unwrap(), tree.tree_of(&base).unwrap());
    for name in ["new\nline", "Twin", "tab\there"] {
        write(&folder.join(name), "changed\n");
    }
    write(&folder.join(not_unicode), "changed\n");
    let made = commit(&tree, &folder, &base).unwrap();
    let changed: Vec<_> = tree.changes(&base, &made).unwrap().into_iter().map(|change| change.path).collect();
    assert_eq!(
        changed,
        [Path::new("Twin"), Path::new("new\nline"), Path::new(not_unicode), Path::new("tab\there")]
    );
    assert!(tree.patch(&base, &made).unwrap().text().contains("\"b/new\\nline\""));
    assert!(matches!(tree.land(&made).unwrap(), Landing::FastForwarded { .. }));
    assert_eq!(fs::read_to_string(place.project().join("new\nline")).unwrap(), "changed\n");
    for name in ["more\nlines", "TWIN"] {
        write(&folder.join(name), "x");
        assert_eq!(commit(&tree, &folder, &base).unwrap_err().paths().len(), 1, "{name:?}");
        fs::remove_file(folder.join(name)).unwrap();
    }
}

#[test]
fn a_path_with_odd_bytes_holds_a_project_and_a_workspace() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let odd = place.folder.path().join(OsStr::from_bytes(b"odd \"\n#\xff %2f"));
    fs::create_dir(&odd).unwrap();
    fs::rename(place.project(), odd.join("project")).unwrap();
    fs::create_dir(odd.join("workspace")).unwrap();
    let project = Project::find(odd.join("project")).unwrap();
    let tree = Tree::create(&git, odd.join("workspace"), &project, &TreeOptions::new()).unwrap();
    assert_eq!(Tree::open(&git, odd.join("workspace")).unwrap().project(), Some(&project));
    assert!(matches!(land(&place, &tree), Landing::FastForwarded { .. }));
    assert_eq!(fs::read_to_string(odd.join("project/a")).unwrap(), "2\n");
}

#[test]
fn a_repository_of_another_user_is_a_project() {
    let git = needs_git!();
    if !is_root() {
        eprintln!("NOT TESTED: only root can give files away");
        return;
    }
    let place = Place::with(&git, FILES);
    let done = Command::new("chown").args(["-R", "65534:65534"]).arg(place.project()).status().unwrap();
    assert!(done.success());
    let tree = place.create().unwrap();
    assert!(matches!(land(&place, &tree), Landing::FastForwarded { .. }));
}

#[test]
fn alternates_of_the_project_are_followed() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let shared = place.folder.path().join("shared");
    place.person(&["clone", "-q", "--shared", ".", shared.to_str().unwrap()]);
    let project = Project::find(&shared).unwrap();
    let tree = Tree::create(&git, place.workspace(), &project, &TreeOptions::new()).unwrap();
    assert!(matches!(land(&place, &tree), Landing::FastForwarded { .. }));
}

#[test]
fn what_is_too_large_is_refused_by_its_size_and_not_read() {
    let git = needs_git!();
    let limits = |file_bytes: u64, total_bytes: u64| {
        let mut limits = TreeLimits::default();
        (limits.file_bytes, limits.total_bytes) = (file_bytes, total_bytes);
        limits
    };
    for (is_repository, limits) in
        [(true, limits(10, 100)), (true, limits(100, 15)), (false, limits(10, 100)), (false, limits(100, 15))]
    {
        let place = Place::with(&git, FILES);
        let project = match is_repository {
            true => Project::find(place.project()).unwrap(),
            false => {
                fs::remove_dir_all(place.project().join(".git")).unwrap();
                Project::folder(place.project()).unwrap()
            }
        };
        write(&place.project().join("m/first"), "01234567\n");
        write(&place.project().join("z"), "0123456789\n");
        // A git that writes down what it is asked for.
        let (wrapper, runs) = (place.folder.path().join("bin/git"), place.folder.path().join("runs"));
        script(
            &wrapper,
            &format!("echo \"$*\" >> '{}'; exec '{}' \"$@\"", runs.display(), real_git().display()),
        );
        let options = TreeOptions::new().include_uncommitted().with_limits(limits.clone());
        let created = Tree::create(&Git::at(&wrapper).unwrap(), place.workspace(), &project, &options);
        let error = created.expect_err(&format!("repository: {is_repository}, {limits:?}: it was taken"));
        assert_eq!(error.kind(), TreeErrorKind::TooLarge, "{error}");
        assert!(error.to_string().contains("\"z\" has 11 bytes"), "{error}");
        let runs = fs::read_to_string(runs).unwrap();
        let reads = |run: &&str| run.contains("update-index -z --add") || run.contains("fast-import");
        assert_eq!(runs.lines().find(reads), None, "repository: {is_repository}, {limits:?}");
        assert_eq!(listing(&place.workspace()).len(), 0, "nothing is left");
    }
}

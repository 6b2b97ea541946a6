//! What a person keeps beside the versioned files of a checkout, when a landing wants its place or fails halfway.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use nexus_trees::{Git, LandObstacle, Landing, Project, Tree, TreeErrorKind, TreeOptions};

use super::kit::{Place, at, commit, is_root, kind, listing, needs_git, real_git, script, write};

const FILES: &[(&str, &str)] = &[("a", "1\n"), ("z", "1\n"), (".gitignore", "built/\n*.o\n")];

#[test]
fn what_is_ignored_in_the_checkout_is_never_overwritten() {
    let git = needs_git!();
    type Prepare = fn(&Path);
    let cases: [(&str, &str, Prepare); 4] = [
        // The rule is for folders, so a file of the name is taken.
        ("built", "built/precious", |project| write(&project.join("built/precious"), "x")),
        // The person ignores it, and the base does not.
        ("own", "own", |project| {
            write(&project.join(".gitignore"), "own\n");
            write(&project.join("own"), "x");
        }),
        ("own/file", "own", |project| {
            write(&project.join(".gitignore"), "own\n");
            write(&project.join("own"), "x");
        }),
        ("own/file", "own", |project| {
            write(&project.join(".gitignore"), "own\n");
            fs::create_dir(project.join("elsewhere")).unwrap();
            symlink("elsewhere", project.join("own")).unwrap();
        }),
    ];
    for (at, (made, named, prepare)) in cases.into_iter().enumerate() {
        let place = Place::with(&git, FILES);
        let (tree, folder) = place.checked_out();
        write(&folder.join(made), "the task's\n");
        let made = commit(&tree, &folder, &tree.base().commit).unwrap();
        prepare(&place.project());
        let before = (place.repository(), listing(&place.project()));
        match tree.land(&made).unwrap() {
            Landing::Patch { obstacle: LandObstacle::InTheWay(words), .. } => {
                assert!(words.contains(named), "{at}: {words}");
            }
            other => panic!("{at}: {other:?}"),
        }
        assert_eq!((place.repository(), listing(&place.project())), before, "{at}");
    }
}

#[test]
fn a_change_that_shows_in_no_time_stamp_is_not_overwritten() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    write(&folder.join("a"), "2\n");
    let made = commit(&tree, &folder, &tree.base().commit).unwrap();
    let path = place.project().join("a");
    let set_old =
        || fs::File::options().write(true).open(&path).unwrap().set_modified(at(1_600_000_000)).unwrap();
    // The time of the change of the inode counts in whole seconds.
    let into_second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_millis();
    thread::sleep(Duration::from_millis(1010 - u64::from(into_second)));
    set_old();
    place.person(&["update-index", "--refresh"]);
    write(&path, "!\n");
    set_old();
    let landed = tree.land(&made).unwrap();
    assert!(matches!(landed, Landing::Patch { obstacle: LandObstacle::InTheWay(_), .. }), "{landed:?}");
    assert_eq!(fs::read_to_string(path).unwrap(), "!\n");
}

#[test]
fn a_versioned_folder_becomes_a_file_and_back() {
    let git = needs_git!();
    let place = Place::with(&git, &[("folder/a", "1\n"), ("folder/b", "1\n"), ("file", "1\n")]);
    let (tree, folder) = place.checked_out();
    fs::remove_dir_all(folder.join("folder")).unwrap();
    fs::remove_file(folder.join("file")).unwrap();
    write(&folder.join("folder"), "2\n");
    write(&folder.join("file/a"), "2\n");
    let made = commit(&tree, &folder, &tree.base().commit).unwrap();
    assert!(matches!(tree.land(&made).unwrap(), Landing::FastForwarded { .. }));
    assert_eq!(place.person(&["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(place.project().join("file/a")).unwrap(), "2\n");
}

/// A git that runs `text` before, or after, it moves a checkout on. `$project` is the project.
fn meddler(place: &Place, text: &str) -> Git {
    let wrapper = place.folder.path().join("bin/git");
    let (real, project) = (real_git(), place.project());
    script(
        &wrapper,
        &format!(
            "project='{}'\ngit='{}'\ncase \"$*\" in *' read-tree -m '*) {text} ;; *) exec \"$git\" \"$@\" ;; esac",
            project.display(),
            real.display()
        ),
    );
    Git::at(wrapper).unwrap()
}

#[test]
fn what_a_person_writes_while_a_landing_fails_stays() {
    let git = needs_git!();
    for (at, text) in [
        // A file appears, and is in the way.
        "echo mine > \"$project/new\"; exec \"$git\" \"$@\"",
        // One is edited when all is in place, and another git is at work.
        "\"$git\" \"$@\"; echo mine > \"$project/new\"; echo mine > \"$project/a\"; rm -f \"$project/.git/index.lock\"; : > \"$project/.git/index.lock\"",
        // A folder takes the place of a file.
        "\"$git\" \"$@\"; rm \"$project/new\"; mkdir \"$project/new\"; echo mine > \"$project/new/x\"; rm -f \"$project/.git/index.lock\"; : > \"$project/.git/index.lock\"",
        // A link leads out of the checkout.
        "\"$git\" \"$@\"; mv \"$project/sub\" \"$project/../moved\"; ln -s ../moved \"$project/sub\"; rm -f \"$project/.git/index.lock\"; : > \"$project/.git/index.lock\"",
        // It was killed in the middle of a file.
        "\"$git\" \"$@\"; printf 'the ' > \"$project/new\"; printf 'the ' > \"$project/a\"; kill -9 $$",
    ]
    .into_iter()
    .enumerate()
    {
        let place = Place::with(&git, &[("a", "1\n"), ("sub/b", "1\n"), ("gone", "1\n")]);
        let (tree, folder) = place.checked_out();
        for path in ["a", "new", "sub/b", "sub/new"] {
            write(&folder.join(path), "the task's\n");
        }
        fs::remove_file(folder.join("gone")).unwrap();
        let made = commit(&tree, &folder, &tree.base().commit).unwrap();
        let began = Instant::now();
        let landed = tree.with_git(&meddler(&place, text)).land(&made);
        assert!(!matches!(landed, Ok(Landing::FastForwarded { .. })), "{at}: {landed:?}");
        assert!(began.elapsed() < Duration::from_secs(60), "{at}");
        let read = |path: &str| fs::read_to_string(place.project().join(path)).unwrap_or_default();
        let _ = fs::remove_file(place.project().join(".git/index.lock"));
        let expected = match at {
            0 => "?? new",
            1 => " M a\n?? new",
            2 => "?? new/",
            3 => " D sub/b\n?? sub",
            _ => "",
        };
        assert_eq!(place.person(&["status", "--porcelain"]), expected, "{at}: {landed:?}");
        assert_eq!(read("gone"), "1\n", "{at}");
        match at {
            0 => assert_eq!(read("new"), "mine\n"),
            1 => assert_eq!((read("new"), read("a")), ("mine\n".to_owned(), "mine\n".to_owned())),
            2 => assert_eq!(read("new/x"), "mine\n"),
            3 => assert_eq!(read("sub/new"), "the task's\n", "behind a link nothing is touched"),
            _ => assert_eq!((read("a"), read("new")), ("1\n".to_owned(), String::new())),
        }
    }
}

#[test]
fn files_that_cannot_be_written_are_not_said_to_be_in_the_way() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    write(&folder.join("a"), "2\n");
    let made = commit(&tree, &folder, &tree.base().commit).unwrap();
    let full = "echo 'error: unable to write file a' >&2; rm \"$project/a\"; exit 128";
    let error = tree.with_git(&meddler(&place, full)).land(&made).unwrap_err();
    assert!(error.to_string().contains("space"), "{error}");
    assert_eq!(place.person(&["status", "--porcelain"]), "");
}

#[test]
fn a_project_that_cannot_be_written_to_is_named() {
    let git = needs_git!();
    if is_root() {
        eprintln!("NOT TESTED: root may write everywhere");
        return;
    }
    let place = Place::with(&git, FILES);
    let refs = place.project().join(".git/refs");
    fs::set_permissions(&refs, fs::Permissions::from_mode(0o555)).unwrap();
    assert_eq!(kind(place.create()), TreeErrorKind::PermissionDenied);
    fs::set_permissions(&refs, fs::Permissions::from_mode(0o755)).unwrap();
    place.create().unwrap();
}

#[test]
fn a_person_who_stages_while_a_landing_runs_is_refused_by_gits_own_lock_and_loses_nothing() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    write(&folder.join("a"), "2\n");
    let made = commit(&tree, &folder, &tree.base().commit).unwrap();
    let meanwhile = "\"$git\" \"$@\"; echo mine > \"$project/z\"; unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE; \"$git\" -C \"$project\" add z; true";
    let landed = tree.with_git(&meddler(&place, meanwhile)).land(&made).unwrap();
    assert!(matches!(landed, Landing::FastForwarded { .. }), "{landed:?}");
    assert_eq!(place.person(&["status", "--porcelain"]), " M z");
    assert_eq!(fs::read_to_string(place.project().join("a")).unwrap(), "2\n");
}

#[test]
fn a_person_who_commits_while_a_landing_runs_has_a_checkout_of_the_branch() {
    let git = needs_git!();
    // Before the files are moved on, and after.
    for meanwhile in ["commit; exec \"$git\" \"$@\"", "\"$git\" \"$@\"; commit; true"] {
        let place = Place::with(&git, FILES);
        let (tree, folder) = place.checked_out();
        write(&folder.join("a"), "2\n");
        write(&folder.join("new"), "2\n");
        let made = commit(&tree, &folder, &tree.base().commit).unwrap();
        let text = format!(
            "commit() {{ (unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE; echo mine > \"$project/z\"; \"$git\" -C \"$project\" -c user.name=P -c user.email=p@p commit -qam mine); }}; {meanwhile}"
        );
        let landed = tree.with_git(&meddler(&place, &text)).land(&made).unwrap();
        // What the person wrote is committed by them, or not committed yet.
        let status = place.person(&["status", "--porcelain"]);
        assert!(status.is_empty() || status == " M z", "{meanwhile}: {status:?}: {landed:?}");
        assert_eq!(fs::read_to_string(place.project().join("z")).unwrap(), "mine\n");
        let is_landed = matches!(landed, Landing::FastForwarded { .. });
        let expected = if is_landed { "2\n" } else { "1\n" };
        assert_eq!(
            fs::read_to_string(place.project().join("a")).unwrap(),
            expected,
            "{meanwhile}: {landed:?}"
        );
        place.person(&["fsck", "--strict"]);
    }
}

/// A tree of a project, in a workspace of its own.
fn tree_in(place: &Place, git: &Git, name: &str) -> (Tree, std::path::PathBuf) {
    let workspace = place.folder.path().join(name);
    fs::create_dir(&workspace).unwrap();
    let project = Project::find(place.project()).unwrap();
    let tree = Tree::create(git, &workspace, &project, &TreeOptions::new()).unwrap();
    let folder = workspace.join("now");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    (tree, folder)
}

#[test]
fn a_landing_that_comes_second_takes_no_file_of_the_first_away() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let tips = ["one", "two"].map(|name| {
        let (tree, folder) = tree_in(&place, &git, name);
        write(&folder.join("src/new"), "the same\n");
        write(&folder.join(name), "its own\n");
        let tip = commit(&tree, &folder, &tree.base().commit).unwrap();
        (tree, tip)
    });
    let [(slow, slow_tip), (quick, quick_tip)] = tips;
    // It has looked at everything, and is about to move the files. Where another landing can come in between, it does.
    let (reached, done) = (place.folder.path().join("reached"), place.folder.path().join("done"));
    let text = format!(
        ": > '{}'; n=0; while [ ! -e '{}' ] && [ $n -lt 20 ]; do sleep 0.1; n=$((n + 1)); done; exec \"$git\" \"$@\"",
        reached.display(),
        done.display()
    );
    let slow = slow.with_git(&meddler(&place, &text));
    let landed = thread::scope(|scope| {
        let first = scope.spawn(|| slow.land(&slow_tip).unwrap());
        while !reached.exists() {
            assert!(!first.is_finished(), "it never came to the files");
            thread::sleep(Duration::from_millis(5));
        }
        let second = quick.land(&quick_tip).unwrap();
        fs::write(&done, "").unwrap();
        [first.join().unwrap(), second]
    });
    let won = landed.iter().filter(|landed| matches!(landed, Landing::FastForwarded { .. })).count();
    let status = place.person(&["status", "--porcelain"]);
    assert_eq!((won, status.as_str()), (1, ""), "{landed:?}");
    assert_eq!(fs::read_to_string(place.project().join("src/new")).unwrap(), "the same\n");
}

/// Trees whose changes overlap by chance, and which land all at once, each twice.
#[test]
fn of_many_landings_at_once_the_checkout_is_that_of_the_branch() {
    let git = needs_git!();
    let seed = nexus_testkit::effort::seed();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut chance = move |below: u64| {
        // Xorshift, so that a failure is repeated by its seed.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for round in 0..nexus_testkit::effort::rounds() {
        let place = Place::with(&git, FILES);
        let tips: Vec<_> = (0..4)
            .map(|number| {
                let (tree, folder) = tree_in(&place, &git, &format!("w{number}"));
                for _ in 0..4 {
                    let path = ["a", "z", "src/one", "src/two", "new/deep/three", "b"]
                        [usize::try_from(chance(6)).unwrap()];
                    write(&folder.join(path), format!("{}\n", chance(2)));
                }
                write(&folder.join("mark"), format!("{number}\n"));
                let tip = commit(&tree, &folder, &tree.base().commit).unwrap();
                (tree, tip)
            })
            .collect();
        let landed: Vec<_> = thread::scope(|scope| {
            let calls: Vec<_> = tips
                .iter()
                .chain(&tips)
                .map(|(tree, tip)| scope.spawn(move || tree.land(tip).unwrap()))
                .collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let place_of = format!("seed {seed}, round {round}");
        let moved = landed.iter().filter(|landed| matches!(landed, Landing::FastForwarded { .. })).count();
        assert!((1..=2).contains(&moved), "{place_of}: {landed:?}");
        assert_eq!(place.person(&["status", "--porcelain"]), "", "{place_of}: {landed:?}");
        assert!(!place.project().join(".git/index.lock").exists(), "{place_of}");
        place.person(&["fsck", "--strict"]);
    }
}

#[test]
fn of_two_landings_at_once_one_wins_and_the_other_undoes_only_its_own() {
    let git = needs_git!();
    for _ in 0..8 {
        let place = Place::with(&git, FILES);
        let tips = ["one", "two"].map(|name| {
            let workspace = place.folder.path().join(name);
            fs::create_dir(&workspace).unwrap();
            let project = Project::find(place.project()).unwrap();
            let tree = Tree::create(&git, &workspace, &project, &TreeOptions::new()).unwrap();
            let folder = workspace.join("now");
            tree.check_out(&tree.base().commit, &folder).unwrap();
            write(&folder.join(if name == "one" { "a" } else { "z" }), "2\n");
            write(&folder.join(name), "2\n");
            let tip = commit(&tree, &folder, &tree.base().commit).unwrap();
            (tree, tip)
        });
        let landed = thread::scope(|scope| {
            let calls = tips.each_ref().map(|(tree, tip)| scope.spawn(move || tree.land(tip).unwrap()));
            calls.map(|call| call.join().unwrap())
        });
        let won = landed.iter().filter(|landed| matches!(landed, Landing::FastForwarded { .. })).count();
        assert!(won <= 1, "{landed:?}");
        assert_eq!(place.person(&["status", "--porcelain"]), "", "{landed:?}");
        place.person(&["fsck", "--strict"]);
    }
}

//! Folders that an agent left: what is in them is neither followed, nor waited for, nor left behind.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use nexus_testkit::effort;
use nexus_trees::{TreeErrorKind, TreeLimits};

use rustix::fs::{Mode, OFlags};

use super::kit::{Place, is_root, kind, listing, needs_git, refused, write};

const FILES: &[(&str, &str)] =
    &[("a", "1\n"), ("dir/b", "1\n"), ("dir/c", "1\n"), (".gitignore", "/ignored/\n")];

#[test]
fn pipes_sockets_and_links_are_neither_opened_nor_followed() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    let base = tree.base().commit.clone();
    let checked_out = listing(&folder);
    let outside = place.folder.path().join("outside");
    write(&outside.join("b"), "outside\n");
    write(&outside.join("c"), "outside\n");

    assert!(Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap().success());
    let _socket = UnixListener::bind(folder.join("dir/socket")).unwrap();
    let error = tree.snapshot(&folder).unwrap_err();
    assert_eq!(refused(&error), ["dir/socket Special", "pipe Special"]);
    // In an ignored folder they are nobody's business.
    fs::create_dir_all(folder.join("ignored/.git")).unwrap();
    fs::rename(folder.join("pipe"), folder.join("ignored/pipe")).unwrap();
    fs::remove_file(folder.join("dir/socket")).unwrap();
    assert_eq!(tree.snapshot(&folder).unwrap(), tree.tree_of(&base).unwrap());

    // A pipe in place of a file, a link in place of a folder.
    fs::remove_file(folder.join("a")).unwrap();
    fs::rename(folder.join("ignored/pipe"), folder.join("a")).unwrap();
    assert_eq!(refused(&tree.snapshot(&folder).unwrap_err()), ["a Special"]);
    fs::remove_dir_all(folder.join("dir")).unwrap();
    symlink(&outside, folder.join("dir")).unwrap();
    fs::remove_file(folder.join("a")).unwrap();
    let changes = tree.changes(&base, &tree.snapshot(&folder).unwrap()).unwrap();
    let seen: Vec<_> = changes.iter().map(|change| (change.path.as_path(), change.new.is_some())).collect();
    let expected = [("a", false), ("dir", true), ("dir/b", false), ("dir/c", false)];
    assert_eq!(seen, expected.map(|(path, is_there)| (Path::new(path), is_there)));

    tree.restore(&base, &folder, &[]).unwrap();
    assert_eq!(listing(&folder), checked_out);
    assert_eq!(fs::read_to_string(outside.join("b")).unwrap(), "outside\n");
}

#[test]
fn a_file_that_is_linked_outside_is_replaced_and_not_written_to() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    let outside = place.workspace().join("outside");
    write(&outside, "1\n");
    fs::remove_file(folder.join("a")).unwrap();
    fs::hard_link(&outside, folder.join("a")).unwrap();
    tree.restore(&tree.base().commit, &folder, &[]).unwrap();
    write(&folder.join("a"), "changed\n");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "1\n");
    fs::remove_file(folder.join("a")).unwrap();
    fs::hard_link(&outside, folder.join("a")).unwrap();
    fs::write(&outside, "secret\n").unwrap();
    tree.restore(&tree.base().commit, &folder, &[]).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "secret\n");
    assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "1\n");
}

#[test]
fn folders_of_any_depth_and_any_mode_are_removed() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    let checked_out = listing(&folder);
    // Deeper than any path may be long, and than handles may be open.
    let name = "d".repeat(200);
    let mut deepest = rustix::fs::open(&folder, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&deepest, name.as_str(), Mode::RWXU).unwrap();
        deepest = rustix::fs::openat(&deepest, name.as_str(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let error = tree.snapshot(&folder).unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::TooLarge);
    assert!(error.to_string().len() < 1000, "{error}");
    fs::set_permissions(folder.join("dir"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(folder.join("a"), fs::Permissions::from_mode(0o6000)).unwrap();
    if !is_root() {
        let error = tree.snapshot(&folder).unwrap_err();
        assert!(matches!(error.kind(), TreeErrorKind::PermissionDenied | TreeErrorKind::TooLarge), "{error}");
    }
    write(&folder.join("shut/away/file"), "x");
    fs::set_permissions(folder.join("shut/away"), fs::Permissions::from_mode(0o500)).unwrap();
    fs::set_permissions(folder.join("shut"), fs::Permissions::from_mode(0o000)).unwrap();
    tree.restore(&tree.base().commit, &folder, &[]).unwrap();
    assert_eq!(listing(&folder), checked_out);
}

#[test]
fn what_is_to_be_kept_is_kept_and_what_is_right_is_not_touched() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    write(&folder.join("ignored/output"), "built");
    write(&folder.join("dir/ignored/output"), "built");
    write(&folder.join("dir/more"), "x");
    write(&folder.join("a"), "2\n");
    let before = fs::metadata(folder.join("dir/b")).unwrap();
    tree.restore(&tree.base().commit, &folder, &[Path::new("ignored"), Path::new("dir/ignored/")]).unwrap();
    assert_eq!(fs::read_to_string(folder.join("ignored/output")).unwrap(), "built");
    assert_eq!(fs::read_to_string(folder.join("dir/ignored/output")).unwrap(), "built");
    assert!(!folder.join("dir/more").exists());
    assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "1\n");
    let after = fs::metadata(folder.join("dir/b")).unwrap();
    assert_eq!((after.ino(), after.mtime_nsec()), (before.ino(), before.mtime_nsec()));
    // A restore that was cut off left these.
    write(&folder.join(".nexus-tree-trash/x/y"), "x");
    write(&folder.join("dir/.nexus-tree-0123"), "x");
    tree.restore(&tree.base().commit, &folder, &[]).unwrap();
    let names: Vec<_> = listing(&folder).into_keys().map(|path| path.display().to_string()).collect();
    assert_eq!(names, [".gitignore", "a", "dir", "dir/b", "dir/c"]);
}

#[test]
fn what_is_too_large_is_named() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    // It takes no room on the disk.
    fs::File::create(folder.join("huge")).unwrap().set_len(1 << 42).unwrap();
    let error = tree.snapshot(&folder).unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::TooLarge);
    assert!(error.to_string().contains("huge"), "{error}");
    fs::remove_file(folder.join("huge")).unwrap();
    let limited = |change: &dyn Fn(&mut TreeLimits)| {
        let mut limits = TreeLimits::default();
        change(&mut limits);
        tree.clone().with_limits(limits)
    };
    assert_eq!(kind(limited(&|limits| limits.files = 3).snapshot(&folder)), TreeErrorKind::TooLarge);
    assert_eq!(kind(limited(&|limits| limits.total_bytes = 3).snapshot(&folder)), TreeErrorKind::TooLarge);
    write(&folder.join("a"), "2\n".repeat(1000));
    let snapshot = tree.snapshot(&folder).unwrap();
    let small = limited(&|limits| limits.patch_bytes = 1000);
    assert_eq!(kind(small.patch(&tree.base().commit, &snapshot)), TreeErrorKind::TooLarge);
    tree.patch(&tree.base().commit, &snapshot).unwrap();
}

#[test]
fn a_file_that_changes_while_it_is_read_is_an_error_or_one_of_its_contents() {
    let git = needs_git!();
    let place = Place::with(&git, FILES);
    let (tree, folder) = place.checked_out();
    let outside = place.folder.path().join("secret");
    write(&outside, "SECRET");
    let (file, done) = (folder.join("a"), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0_usize;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                let _ = fs::remove_file(&file);
                let _ = match round % 3 {
                    0 => symlink(&outside, &file),
                    1 => fs::write(&file, "x".repeat(round % 100_000)),
                    _ => Command::new("mkfifo").arg(&file).status().map(drop),
                };
                thread::sleep(Duration::from_micros(200));
            }
        });
        // The writer ends even if an assertion fails; otherwise the scope would wait for it forever.
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _done = Done(&done);
        for _ in 0..15 * effort::rounds() {
            let Ok(snapshot) = tree.snapshot(&folder) else { continue };
            let patch = tree.patch(&tree.base().commit, &snapshot).unwrap();
            assert!(!patch.text().contains("+SECRET"), "a link was followed");
        }
    });
    tree.restore(&tree.base().commit, &folder, &[]).unwrap();
    assert_eq!(tree.snapshot(&folder).unwrap(), tree.tree_of(&tree.base().commit).unwrap());
}

#[test]
fn what_git_would_leave_out_of_a_tree_without_a_word_is_refused_by_name() {
    let git = needs_git!();
    for name in [".gitmodules", ".GITMODULES", "gitmod~1", ".gitmodules .", ".g\u{200c}itmodules"] {
        let place = Place::with(&git, FILES);
        let (tree, folder) = place.checked_out();
        std::os::unix::fs::symlink("a", folder.join(name)).unwrap();
        let error = tree.snapshot(&folder).unwrap_err();
        assert_eq!(error.kind(), TreeErrorKind::Refused);
        assert_eq!(crate::kit::refused(&error), [format!("{name} NotForGit")]);
        fs::remove_file(folder.join(name)).unwrap();
        write(&folder.join(name), "a file is none\n");
        assert_ne!(tree.snapshot(&folder).unwrap(), tree.tree_of(&tree.base().commit).unwrap());
    }
}

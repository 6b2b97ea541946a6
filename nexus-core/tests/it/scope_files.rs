//! Files of a scope: what is checked is what is opened, also while somebody swaps it.

use std::{
    collections::BTreeSet,
    error::Error as _,
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use nexus_core::{
    Brief, ParticipantScope,
    scope::{EntryKind, FileError, ScopedFiles, WriteMode},
};
use tempfile::TempDir;

use super::effort;

struct Ground {
    _scratch: TempDir,
    root: PathBuf,
    outside: PathBuf,
}

impl Ground {
    /// A root with `open` (written) and `docs` (read), beside a folder `outside`.
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        let (root, outside) = (top.join("ws"), top.join("outside"));
        for folder in [root.join("open"), root.join("docs"), outside.clone()] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(root.join("docs/file"), "words").unwrap();
        fs::write(outside.join("file"), "secret").unwrap();
        Self { _scratch: scratch, root, outside }
    }

    fn scope(&self) -> ParticipantScope {
        let brief =
            Brief::new(&self.root).writing("open").reading("docs").do_not_touch("**/.env".parse().unwrap());
        ParticipantScope::assemble(&brief, None, None).unwrap()
    }

    fn files(&self) -> ScopedFiles {
        self.scope().files()
    }
}

fn is_denied<T>(done: &Result<T, FileError>) -> bool {
    matches!(done, Err(FileError::Denied(_)))
}

#[test]
fn files_are_read_written_listed_and_removed_in_scope() {
    let ground = Ground::new();
    let files = ground.files();
    assert_eq!(files.read_to_string("docs/file").unwrap(), "words");
    files.write("open/new/er/file", "one").unwrap();
    files.write("open/new/er/file", "two").unwrap();
    assert_eq!(files.read("open/new/er/file").unwrap(), b"two");
    files.create_folder("open/empty/deep").unwrap();
    symlink("new", ground.root.join("open/link")).unwrap();
    fs::write(ground.root.join("open/.env"), "key").unwrap();
    let seen: Vec<_> =
        files.list("open").unwrap().into_iter().map(|entry| (entry.name, entry.kind)).collect();
    let expected = [("empty", EntryKind::Folder), ("link", EntryKind::Link), ("new", EntryKind::Folder)];
    assert_eq!(seen, expected.map(|(name, kind)| (name.to_owned(), kind)));
    files.remove_file("open/link/er/file").unwrap();
    assert!(files.list("open/new/er").unwrap().is_empty());
    assert!(!ground.root.join("open/new/er/file").exists());
}

#[test]
fn the_mode_of_writing_says_what_becomes_of_the_content() {
    let ground = Ground::new();
    let files = ground.files();
    let write = |mode| -> Result<String, FileError> {
        files.open_for_writing("open/file", mode)?.write_all(b"XY").unwrap();
        files.read_to_string("open/file")
    };
    assert_eq!(write(WriteMode::New).unwrap(), "XY");
    let error = write(WriteMode::New).unwrap_err();
    assert_eq!(error.to_string(), "\"open/file\" cannot be written");
    assert!(error.source().unwrap().to_string().contains("exists"), "{error:?}");
    assert_eq!(write(WriteMode::Append).unwrap(), "XYXY");
    files.write("open/file", "abcd").unwrap();
    assert_eq!(write(WriteMode::Keep).unwrap(), "XYcd");
    assert_eq!(write(WriteMode::Empty).unwrap(), "XY");
    fs::remove_file(ground.root.join("open/file")).unwrap();
    for mode in [WriteMode::Keep, WriteMode::Append, WriteMode::Empty] {
        assert_eq!(write(mode).unwrap(), "XY");
        fs::remove_file(ground.root.join("open/file")).unwrap();
    }
}

#[test]
fn what_is_out_of_scope_is_denied_for_every_use() {
    let ground = Ground::new();
    let files = ground.files();
    symlink(&ground.outside, ground.root.join("open/out")).unwrap();
    fs::hard_link(ground.outside.join("file"), ground.root.join("open/hard")).unwrap();
    fs::write(ground.root.join("open/.env"), "key").unwrap();
    for path in ["../outside/file", "open/out/file", "open/hard", "open/.env", "open/out/new", "", "open/\0"]
    {
        assert!(is_denied(&files.open(path)), "{path}");
        assert!(is_denied(&files.read_to_string(path)), "{path}");
        assert!(is_denied(&files.write(path, "x")), "{path}");
        for mode in [WriteMode::New, WriteMode::Keep, WriteMode::Append, WriteMode::Empty] {
            assert!(is_denied(&files.open_for_writing(path, mode)), "{path}");
        }
        assert!(is_denied(&files.remove_file(path)), "{path}");
        assert!(is_denied(&files.create_folder(path)), "{path}");
        assert!(is_denied(&files.list(path)) || path == "open/hard", "{path}");
    }
    for path in ["docs/file", "docs/new"] {
        assert!(is_denied(&files.write(path, "x")) && is_denied(&files.remove_file(path)), "{path}");
    }
    assert_eq!(fs::read_to_string(ground.outside.join("file")).unwrap(), "secret");
    assert_eq!(fs::read_dir(&ground.outside).unwrap().count(), 1);
}

#[test]
fn what_the_system_refuses_is_no_denial() {
    let ground = Ground::new();
    let files = ground.files();
    let kind = |error: FileError| match error {
        FileError::Io { source, .. } => source.kind(),
        other => panic!("{other}"),
    };
    assert_eq!(kind(files.open("open/missing").unwrap_err()), std::io::ErrorKind::NotFound);
    assert_eq!(kind(files.remove_file("open/missing").unwrap_err()), std::io::ErrorKind::NotFound);
    assert_eq!(kind(files.open("docs").unwrap_err()), std::io::ErrorKind::IsADirectory);
    assert_eq!(kind(files.list("docs/file").unwrap_err()), std::io::ErrorKind::NotADirectory);
    fs::create_dir(ground.root.join("open/folder")).unwrap();
    assert_eq!(kind(files.write("open/folder", "x").unwrap_err()), std::io::ErrorKind::IsADirectory);
}

#[test]
fn a_whole_write_keeps_permissions_and_leaves_nothing_else() {
    let ground = Ground::new();
    let path = ground.root.join("open/run");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    ground.files().write("open/run", "new").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o750);
    assert_eq!(fs::read_dir(ground.root.join("open")).unwrap().count(), 1);
}

#[test]
fn what_is_to_replace_a_private_file_is_never_open_to_others() {
    let ground = Ground::new();
    let folder = ground.root.join("open");
    fs::write(folder.join("key"), "old").unwrap();
    fs::set_permissions(folder.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let (stop, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
    let files = ground.files();
    let modes = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut modes = BTreeSet::new();
            while !stop.load(Ordering::Relaxed) {
                for entry in fs::read_dir(&folder).unwrap().flatten() {
                    if let Some(metadata) = entry.metadata().ok().filter(|_| entry.file_name() != "key") {
                        seen.fetch_add(1, Ordering::Relaxed);
                        modes.insert(metadata.permissions().mode() & 0o777);
                    }
                }
            }
            modes
        });
        // Large, so that it takes time to be written.
        let (began, content) = (Instant::now(), vec![b'x'; 8 << 20]);
        while seen.load(Ordering::Relaxed) < effort::rounds() && began.elapsed() < Duration::from_secs(300) {
            files.write("open/key", &content).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    });
    assert_eq!(modes, BTreeSet::from([0o600]));
}

#[test]
fn a_grant_of_one_file_makes_nothing_beside_it_nor_above_it() {
    let ground = Ground::new();
    fs::create_dir(ground.root.join("shared")).unwrap();
    fs::write(ground.root.join("shared/mine"), "a longer old text").unwrap();
    fs::write(ground.root.join("open/mine"), "old").unwrap();
    let brief = Brief::new(&ground.root).writing("shared/mine").writing("far/away/file").writing("new");
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    let shared = fs::metadata(ground.root.join("shared")).unwrap();
    let inode = |path: &str| fs::metadata(ground.root.join(path)).unwrap().ino();
    let before = inode("shared/mine");
    scope.files().write("shared/mine", "new").unwrap();
    assert_eq!(fs::read_to_string(ground.root.join("shared/mine")).unwrap(), "new");
    assert_eq!(inode("shared/mine"), before, "it is written in its place");
    assert_eq!(
        fs::metadata(ground.root.join("shared")).unwrap().modified().unwrap(),
        shared.modified().unwrap()
    );

    let denied = scope.files().write("far/away/file", "x").unwrap_err();
    assert!(denied.to_string().contains("the folder \"far/away\" does not exist"), "{denied}");
    assert!(is_denied(&scope.files().open_for_writing("far/away/file", WriteMode::New)));
    assert!(is_denied(&scope.files().create_folder("far/away/file")) && !ground.root.join("far").exists());
    scope.files().write("new/deep/file", "x").unwrap();

    let brief = Brief::new(&ground.root).writing("open").do_not_touch("open/.*".parse().unwrap());
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    let before = inode("open/mine");
    scope.files().write("open/mine", "new").unwrap();
    assert_eq!(inode("open/mine"), before, "a rule keeps off the names of what would stand beside it");
}

#[test]
fn a_file_that_was_opened_waits_like_any_other() {
    let ground = Ground::new();
    let file = ground.files().open("docs/file").unwrap();
    assert!(!rustix::fs::fcntl_getfl(&file).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
}

#[test]
fn without_a_scope_files_are_files() {
    let ground = Ground::new();
    let files = ParticipantScope::unrestricted().files();
    let path = |name: &str| ground.outside.join(name).into_os_string().into_string().unwrap();
    files.write(&path("new/file"), "x").unwrap();
    let mut text = String::new();
    files.open(&path("new/../new/file")).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "x");
    assert_eq!(files.list(&path("new")).unwrap().len(), 1);
    files.create_folder(&path("a/b")).unwrap();
    files.open_for_writing(&path("c/d"), WriteMode::New).unwrap();
    files.remove_file(&path("new/file")).unwrap();
    assert!(matches!(files.open(&path("new/file")), Err(FileError::Io { .. })));
}

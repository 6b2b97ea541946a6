//! Files of a scope, replaced by what was read of them, removed with their folders, and marked as programs.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
};

use nexus_core::{
    Brief, ParticipantScope,
    scope::{ContentHash, FileError, ScopedFiles},
};
use tempfile::TempDir;

struct Ground {
    _scratch: TempDir,
    root: PathBuf,
    outside: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        let (root, outside) = (top.join("ws"), top.join("outside"));
        fs::create_dir_all(root.join("open")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "secret").unwrap();
        Self { _scratch: scratch, root, outside }
    }

    fn files(&self, rules: &[&str]) -> ScopedFiles {
        let brief = Brief::new(&self.root).writing("open").reading(".");
        let brief = rules.iter().fold(brief, |brief, rule| brief.do_not_touch(rule.parse().unwrap()));
        ParticipantScope::assemble(&brief, None, None).unwrap().files()
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.root.join(path)).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }
}

fn io_kind<T: std::fmt::Debug>(done: Result<T, FileError>) -> io::ErrorKind {
    match done {
        Err(FileError::Io { source, .. }) => source.kind(),
        other => panic!("{other:?}"),
    }
}

fn is_denied<T>(done: &Result<T, FileError>) -> bool {
    matches!(done, Err(FileError::Denied(_)))
}

#[test]
fn a_file_is_replaced_if_it_is_what_was_read_and_else_left_as_it_is() {
    let ground = Ground::new();
    for files in [ground.files(&[]), ground.files(&["open/.*"])] {
        fs::write(ground.root.join("open/run"), "one").unwrap();
        ground.set_mode("open/run", 0o750);
        let read = ContentHash::of("one");
        files.replace("open/run", &read, "two").unwrap();
        assert_eq!((files.read("open/run").unwrap(), ground.mode("open/run")), (b"two".to_vec(), 0o750));
        let stale = files.replace("open/run", &read, "three").unwrap_err();
        assert!(matches!(&stale, FileError::Stale { path } if path == "open/run"), "{stale:?}");
        assert_eq!(files.read("open/run").unwrap(), b"two");
        assert_eq!(io_kind(files.replace("open/gone", &read, "x")), io::ErrorKind::NotFound);
        assert_eq!(io_kind(files.replace("open/far/gone", &read, "x")), io::ErrorKind::NotFound);
        assert_eq!(ground.names("open"), ["run"]);
    }
    // Of a file that is longer than all that was read, no more is looked at than tells.
    let vast = fs::File::create(ground.root.join("open/vast")).unwrap();
    vast.set_len(1 << 40).unwrap();
    let stale = ground.files(&[]).replace("open/vast", &ContentHash::of("one"), "x");
    assert!(matches!(stale, Err(FileError::Stale { .. })));
    let free = ParticipantScope::unrestricted().files();
    let path = ground.root.join("open/run").into_os_string().into_string().unwrap();
    assert!(matches!(free.replace(&path, &ContentHash::of("one"), "x"), Err(FileError::Stale { .. })));
    free.replace(&path, &ContentHash::of("two"), "x").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "x");
}

#[test]
fn what_is_written_anew_takes_the_place_of_nothing() {
    let ground = Ground::new();
    symlink("nowhere", ground.root.join("open/dangling")).unwrap();
    symlink(ground.outside.join("file"), ground.root.join("open/out")).unwrap();
    fs::create_dir(ground.root.join("open/folder")).unwrap();
    for files in [ground.files(&[]), ground.files(&["open/.*"])] {
        files.write_new("open/new/er", "one").unwrap();
        assert_eq!(io_kind(files.write_new("open/new/er", "two")), io::ErrorKind::AlreadyExists);
        assert_eq!(files.read("open/new/er").unwrap(), b"one");
        assert!(files.write_new("open/folder", "x").is_err() && is_denied(&files.write_new("open/out", "x")));
        // Of a link that leads nowhere yet, what it leads to is made.
        files.write_new("open/dangling", "x").unwrap();
        assert_eq!(files.read("open/nowhere").unwrap(), b"x");
        fs::remove_file(ground.root.join("open/nowhere")).unwrap();
        files.remove_folder("open/new").unwrap();
    }
    assert_eq!(ground.names("open"), ["dangling", "folder", "out"]);
}

#[test]
fn a_folder_goes_with_all_that_is_in_it_and_nothing_else() {
    let ground = Ground::new();
    for folder in ["open/x/a/b", "open/x/c"] {
        fs::create_dir_all(ground.root.join(folder)).unwrap();
        fs::write(ground.root.join(folder).join("file"), "").unwrap();
    }
    symlink(&ground.outside, ground.root.join("open/x/out")).unwrap();
    symlink(ground.outside.join("file"), ground.root.join("open/x/a/out")).unwrap();
    fs::hard_link(ground.outside.join("file"), ground.root.join("open/x/hard")).unwrap();
    fs::write(ground.root.join("open/y"), "").unwrap();
    let files = ground.files(&[]);
    assert_eq!(io_kind(files.remove_folder("open/y")), io::ErrorKind::NotADirectory);
    assert_eq!(io_kind(files.remove_folder("open/gone")), io::ErrorKind::NotFound);
    for path in [".", "..", "open/..", "open/x/out"] {
        assert!(is_denied(&files.remove_folder(path)), "{path}");
    }
    files.remove_folder("open/x").unwrap();
    assert_eq!(ground.names("open"), ["y"]);
    assert_eq!(fs::read_to_string(ground.outside.join("file")).unwrap(), "secret");
}

#[test]
fn a_folder_with_something_in_it_that_must_not_be_touched_stays_whole() {
    let ground = Ground::new();
    fs::create_dir_all(ground.root.join("open/x/deep/keys")).unwrap();
    fs::write(ground.root.join("open/x/a"), "").unwrap();
    for (rule, name) in [("**/.env", ".ENV"), ("open/x/deep/keys", "k"), ("*.pem", "a.Pem")] {
        let path = ground.root.join("open/x/deep/keys").join(name);
        fs::write(&path, "").unwrap();
        assert!(is_denied(&ground.files(&[rule]).remove_folder("open/x")), "{rule}");
        assert!(path.exists() && ground.root.join("open/x/a").exists());
        fs::remove_file(path).unwrap();
    }
    let root =
        ParticipantScope::assemble(&Brief::new(&ground.root).writing("."), None, None).unwrap().files();
    assert!(is_denied(&root.remove_folder(".")));
    assert!(is_denied(&root.remove_folder("open/..")));
    let mut deep = ground.root.join("open/x");
    (0..300).for_each(|_| deep.push("d"));
    fs::create_dir_all(&deep).unwrap();
    let denied = ground.files(&[]).remove_folder("open/x").unwrap_err();
    assert!(denied.to_string().contains("256 folders deep"), "{denied}");
}

#[test]
fn a_file_becomes_a_program_for_those_who_may_read_it() {
    let ground = Ground::new();
    let files = ground.files(&[]);
    files.write("open/run", "#!/bin/sh\n").unwrap();
    for (before, on, off) in
        [(0o644, 0o755, 0o644), (0o600, 0o700, 0o600), (0o240, 0o250, 0o240), (0o4755, 0o755, 0o644)]
    {
        ground.set_mode("open/run", before);
        files.set_executable("open/run", true).unwrap();
        assert_eq!(ground.mode("open/run"), on, "{before:o}");
        files.write("open/run", "#!/bin/sh\ntrue\n").unwrap();
        assert_eq!(ground.mode("open/run"), on, "what replaces it keeps that");
        files.set_executable("open/run", false).unwrap();
        assert_eq!(ground.mode("open/run"), off, "{before:o}");
    }
    symlink(ground.outside.join("file"), ground.root.join("open/out")).unwrap();
    assert!(is_denied(&files.set_executable("open/out", true)));
    assert!(is_denied(&files.set_executable("docs", true)));
    assert_eq!(io_kind(files.set_executable("open/gone", true)), io::ErrorKind::NotFound);
    assert!(files.set_executable("open", true).is_err());
}

/// A process that is killed in between leaves no part of a file.
#[test]
#[cfg(target_os = "linux")]
fn what_stands_beside_a_file_is_whole() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let ground = Ground::new();
    let files = ground.files(&[]);
    let open = ground.root.join("open");
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::TMPFILE;
    let has_nameless = rustix::fs::open(&open, flags, rustix::fs::Mode::RUSR).is_ok();
    if !has_nameless || fs::metadata("/proc/self/fd").is_err() {
        println!("this system has no files without a name");
        return;
    }
    let length = 4 << 20;
    // Set when the writer is done, and also when it fails, or the looker would go on.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (is_over, looks) = (AtomicBool::new(false), std::sync::atomic::AtomicU32::new(0));
    std::thread::scope(|threads| {
        let looker = threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                looks.fetch_add(1, Ordering::Relaxed);
                for entry in fs::read_dir(&open).unwrap() {
                    // What is gone by now is of no interest.
                    let Ok(found) = entry.unwrap().metadata() else { continue };
                    assert_eq!(found.len(), length);
                }
            }
        });
        let _over = Over(&is_over);
        for number in 0..8_u8 {
            let looked = looks.load(Ordering::Relaxed);
            let old = vec![number; length as usize];
            let new = vec![number + 1; length as usize];
            files.write_new(&format!("open/{number}"), &old).unwrap();
            files.replace(&format!("open/{number}"), &ContentHash::of(&old), &new).unwrap();
            files.write("open/0", &new).unwrap();
            while looks.load(Ordering::Relaxed) == looked && !looker.is_finished() {
                std::thread::yield_now();
            }
        }
    });
    assert_eq!(ground.names("open").len(), 8);
}

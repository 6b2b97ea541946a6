//! Somebody swaps a file for something else, again and again, while it is read and written.
//!
//! Each swap is first shown to work against a check that is followed by opening the name; then nothing of the kind gets past
//! the files of a scope.

use std::{
    fs, mem,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use nexus_core::{
    Brief, ParticipantScope, PathAccess,
    scope::{ContentHash, FileError, LinePattern, PatternStyle, SearchOptions, WriteMode},
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use super::effort;

/// How long a swap may take to show that it works. Source: our own bound; it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the files of a scope are tried.
struct Trial {
    began: Instant,
    least: Duration,
}

impl Trial {
    fn start() -> Self {
        let rounds = u32::try_from(effort::rounds()).unwrap();
        Self { began: Instant::now(), least: Duration::from_millis(100) * rounds }
    }

    /// Whether to try once more: for a time, and then until everything was met that the trial is about.
    #[track_caller]
    fn goes_on(&self, was_met: bool) -> bool {
        let took = self.began.elapsed();
        assert!(was_met || took < PATIENCE, "the swap was never met");
        took < self.least || !was_met
    }
}

/// A root with a folder `open`, in which `x/file` is asked for, beside a folder `outside`.
struct Ground {
    _scratch: TempDir,
    root: PathBuf,
    outside: PathBuf,
    scope: ParticipantScope,
}

impl Ground {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        let (root, outside) = (top.join("ws"), top.join("outside"));
        fs::create_dir_all(root.join("open/x")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(root.join("open/x/file"), "fine").unwrap();
        fs::write(outside.join("file"), "secret").unwrap();
        let brief = Brief::new(&root).writing("open");
        let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
        Self { _scratch: scratch, root, outside, scope }
    }

    /// Exchanges two names until `trial` is over. The answer is how often.
    fn swapping(&self, one: &Path, other: &Path, trial: impl FnOnce()) -> u64 {
        let (is_over, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            });
            // Also when it fails, or the thread would go on.
            struct Over<'a>(&'a AtomicBool);
            impl Drop for Over<'_> {
                fn drop(&mut self) {
                    self.0.store(true, Ordering::Relaxed);
                }
            }
            let _over = Over(&is_over);
            trial();
        });
        swaps.load(Ordering::Relaxed)
    }

    /// Swaps `one` and `other` while `open/x/file` is read.
    fn read_while_swapping(&self, one: &Path, other: &Path) {
        let (mut by_name, mut tried) = (0_u64, 0_u64);
        self.swapping(one, other, || {
            let began = Instant::now();
            while by_name == 0 {
                assert!(began.elapsed() < PATIENCE, "the swap was never hit in {tried} attempts");
                tried += 1;
                let Ok(path) = self.scope.check_path("open/x/file", PathAccess::Read) else { continue };
                by_name += u64::from(fs::read(path).is_ok_and(|content| content == b"secret"));
            }
        });
        let (mut fine, mut refused) = (0_u64, 0_u64);
        let any_line = LinePattern::new("^", PatternStyle::default()).unwrap();
        let swaps = self.swapping(one, other, || {
            let (trial, files) = (Trial::start(), self.scope.files());
            while trial.goes_on(fine > 0 && refused > 0) {
                match files.read_to_string("open/x/file") {
                    Ok(content) => {
                        assert_eq!(content, "fine");
                        fine += 1;
                    }
                    Err(_) => refused += 1,
                }
                let found = files.search("open", &any_line, &SearchOptions::default()).unwrap();
                assert!(found.matches.iter().all(|found| found.text == "fine"), "{:?}", found.matches);
            }
        });
        println!(
            "by name: 1 of {tried} read the secret; scoped: {fine} fine, {refused} refused, {swaps} swaps"
        );
    }

    /// Swaps `one` and `other` while `open/x/file` is written, in every way there is.
    fn write_while_swapping(&self, one: &Path, other: &Path, kept: &Path) {
        let files = self.scope.files();
        let mut done = 0_u64;
        let swaps = self.swapping(one, other, || {
            let trial = Trial::start();
            while trial.goes_on(done > 0) {
                for mode in [WriteMode::New, WriteMode::Keep, WriteMode::Append, WriteMode::Empty] {
                    use std::io::Write as _;
                    if let Ok(mut file) = files.open_for_writing("open/x/file", mode) {
                        done += u64::from(file.write_all(b"mine").is_ok());
                    }
                }
                if let Ok(content) = files.read("open/x/file") {
                    done +=
                        u64::from(files.replace("open/x/file", &ContentHash::of(content), "mine").is_ok());
                }
                drop(files.set_executable("open/x/file", true));
                let mode = fs::metadata(kept).unwrap().permissions().mode();
                assert_eq!((fs::read_to_string(kept).unwrap().as_str(), mode & 0o111), ("secret", 0));
            }
        });
        println!("scoped: {done} written, {swaps} swaps");
        assert_eq!(fs::read_to_string(kept).unwrap(), "secret");
    }
}

#[test]
fn a_file_swapped_for_a_link_is_not_read_through_it() {
    let ground = Ground::new();
    symlink(ground.outside.join("file"), ground.root.join("open/link")).unwrap();
    ground.read_while_swapping(&ground.root.join("open/x/file"), &ground.root.join("open/link"));
}

#[test]
fn a_folder_swapped_for_a_link_is_not_read_through_it() {
    let ground = Ground::new();
    symlink(&ground.outside, ground.root.join("open/y")).unwrap();
    ground.read_while_swapping(&ground.root.join("open/x"), &ground.root.join("open/y"));
}

#[test]
fn a_file_swapped_for_a_hard_link_is_not_read() {
    let ground = Ground::new();
    fs::hard_link(ground.outside.join("file"), ground.root.join("open/hard")).unwrap();
    ground.read_while_swapping(&ground.root.join("open/x/file"), &ground.root.join("open/hard"));
}

#[test]
fn a_file_swapped_for_a_link_is_not_written_through_it() {
    let ground = Ground::new();
    symlink(ground.outside.join("file"), ground.root.join("open/link")).unwrap();
    let (one, other) = (ground.root.join("open/x/file"), ground.root.join("open/link"));
    ground.write_while_swapping(&one, &other, &ground.outside.join("file"));
}

#[test]
fn a_folder_swapped_for_a_link_is_not_written_through_it() {
    let ground = Ground::new();
    symlink(&ground.outside, ground.root.join("open/y")).unwrap();
    let (one, other) = (ground.root.join("open/x"), ground.root.join("open/y"));
    ground.write_while_swapping(&one, &other, &ground.outside.join("file"));
    assert_eq!(fs::read_dir(&ground.outside).unwrap().count(), 1, "something was made outside");
}

#[test]
fn a_file_swapped_for_a_hard_link_is_neither_written_nor_emptied() {
    let ground = Ground::new();
    fs::hard_link(ground.outside.join("file"), ground.root.join("open/hard")).unwrap();
    let (one, other) = (ground.root.join("open/x/file"), ground.root.join("open/hard"));
    ground.write_while_swapping(&one, &other, &ground.outside.join("file"));
}

#[test]
fn a_file_swapped_for_a_pipe_holds_nobody_up() {
    let ground = Ground::new();
    let pipe = ground.root.join("open/pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let files = ground.scope.files();
    ground.swapping(&ground.root.join("open/x/file"), &pipe, || {
        let trial = Trial::start();
        while trial.goes_on(true) {
            if let Ok(content) = files.read_to_string("open/x/file") {
                assert_eq!(content, "fine");
            }
            drop(files.open_for_writing("open/x/file", WriteMode::Append));
        }
    });
}

#[test]
fn readers_of_a_file_that_is_written_whole_see_it_whole() {
    let ground = Ground::new();
    let (one, other) = ("a".repeat(100_000), "b".repeat(100_000));
    ground.scope.files().write("open/x/file", &one).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..10 * effort::rounds() {
                ground.scope.files().write("open/x/file", &other).unwrap();
                ground.scope.files().write("open/x/file", &one).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            let seen = ground.scope.files().read_to_string("open/x/file").unwrap();
            assert!(seen == one || seen == other, "{} bytes", seen.len());
        }
    });
    assert_eq!(fs::read_dir(ground.root.join("open/x")).unwrap().count(), 1, "a part was left");
}

#[test]
fn a_folder_that_is_removed_takes_nothing_with_it_that_was_put_in_its_place() {
    let ground = Ground::new();
    let (folder, link) = (ground.root.join("open/x/folder"), ground.root.join("open/link"));
    symlink(&ground.outside, &link).unwrap();
    fs::create_dir(ground.outside.join("deep")).unwrap();
    let (is_over, mut removed) = (AtomicBool::new(false), 0_u64);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE);
            }
        });
        let trial = Trial::start();
        while trial.goes_on(removed > 0) {
            for file in ["deep/file", "file", "more"] {
                drop(ground.scope.files().write(&format!("open/x/folder/{file}"), "x"));
            }
            removed += u64::from(ground.scope.files().remove_folder("open/x").is_ok());
            if !link.exists() && fs::symlink_metadata(&link).is_err() {
                let _ = symlink(&ground.outside, &link);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(ground.outside.join("file")).unwrap(), "secret");
    assert!(ground.outside.join("deep").is_dir());
}

#[test]
fn of_replacements_at_once_none_is_lost() {
    const WRITERS: usize = 6;
    const LINES: usize = 60;
    let ground = Ground::new();
    let stale = AtomicU64::new(0);
    // All have read the same before the first of them writes.
    let all_have_read = Barrier::new(WRITERS);
    std::thread::scope(|threads| {
        for writer in 0..WRITERS {
            let (ground, stale, all_have_read) = (&ground, &stale, &all_have_read);
            threads.spawn(move || {
                let files = ground.scope.files();
                let mut is_first = true;
                for line in 0..LINES {
                    loop {
                        let mut content = files.read("open/x/file").unwrap();
                        if mem::take(&mut is_first) {
                            all_have_read.wait();
                        }
                        let expected = ContentHash::of(&content);
                        content.extend(format!("{writer} {line}\n").bytes());
                        match files.replace("open/x/file", &expected, content) {
                            Ok(()) => break,
                            Err(FileError::Stale { .. }) => stale.fetch_add(1, Ordering::Relaxed),
                            Err(error) => panic!("{error:?}"),
                        };
                    }
                }
            });
        }
    });
    let content = fs::read_to_string(ground.root.join("open/x/file")).unwrap();
    for (writer, line) in (0..WRITERS).flat_map(|writer| (0..LINES).map(move |line| (writer, line))) {
        let line = format!("{writer} {line}\n");
        assert_eq!(content.matches(&line).count(), 1, "{line:?} is lost");
    }
    assert!(stale.into_inner() >= WRITERS as u64 - 1, "all but one of them were late");
    assert_eq!(fs::read_dir(ground.root.join("open/x")).unwrap().count(), 1, "a part was left");
}

#[test]
fn what_somebody_else_put_there_after_it_was_read_is_not_lost() {
    let ground = Ground::new();
    let (path, theirs) = (ground.root.join("open/x/file"), ground.root.join("open/theirs"));
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    fs::write(&path, "0").unwrap();
    let (is_over, stale) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let files = ground.scope.files();
            for own in 0_u64.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let content = files.read_to_string("open/x/file").unwrap();
                let number = content.split(' ').next().unwrap();
                let done =
                    files.replace("open/x/file", &ContentHash::of(&content), format!("{number} seen {own}"));
                stale.fetch_add(u64::from(done.is_err()), Ordering::Relaxed);
            }
        });
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _over = Over(&is_over);
        let trial = Trial::start();
        for number in 1_u64.. {
            fs::write(&theirs, number.to_string()).unwrap();
            fs::rename(&theirs, &path).unwrap();
            let written = Instant::now();
            while !read(&path).starts_with(&format!("{number} seen")) {
                assert!(written.elapsed() < PATIENCE, "{number} is lost: {}", read(&path));
            }
            if !trial.goes_on(stale.load(Ordering::Relaxed) > 0) {
                break;
            }
        }
    });
}

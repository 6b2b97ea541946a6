//! Files of a scope, gone through and searched: what is found is what `grep` finds, and nothing outside of the scope.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use nexus_core::{
    Brief, ParticipantScope,
    scope::{
        Bound, EntryKind, FileError, LinePattern, PatternStyle, ScopedFiles, Search, SearchOptions, Walk,
        WalkOptions,
    },
};
use proptest::{collection::vec, prelude::*, sample::select};
use tempfile::TempDir;

/// A root `ws`, all of which may be written, beside a folder `outside`.
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
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "secret\n").unwrap();
        Self { _scratch: scratch, root, outside }
    }

    fn files(&self) -> ScopedFiles {
        self.files_but(&[])
    }

    fn files_but(&self, rules: &[&str]) -> ScopedFiles {
        let brief = Brief::new(&self.root).writing(".");
        let brief = rules.iter().fold(brief, |brief, rule| brief.do_not_touch(rule.parse().unwrap()));
        ParticipantScope::assemble(&brief, None, None).unwrap().files()
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn pipe(&self, name: &str) {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let (here, kind) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(here, self.root.join(name), kind, mode, 0).unwrap();
    }
}

fn pattern(text: &str) -> LinePattern {
    LinePattern::new(text, PatternStyle::default()).unwrap()
}

fn search(files: &ScopedFiles, text: &str) -> Search {
    files.search(".", &pattern(text), &SearchOptions::default()).unwrap()
}

fn paths(walk: &Walk) -> Vec<&str> {
    walk.entries.iter().map(|entry| entry.path.as_str()).collect()
}

fn walk_of(change: impl FnOnce(&mut WalkOptions)) -> WalkOptions {
    let mut options = WalkOptions::default();
    change(&mut options);
    options
}

fn search_of(change: impl FnOnce(&mut SearchOptions)) -> SearchOptions {
    let mut options = SearchOptions::default();
    change(&mut options);
    options
}

#[test]
fn a_walk_names_what_is_there_in_order_and_follows_nothing() {
    let ground = Ground::new();
    for path in ["b/x", "b/a/y", "a", "c.txt", "B/z", "target/out"] {
        ground.put(path, "");
    }
    symlink(&ground.outside, ground.root.join("b/out")).unwrap();
    symlink(".", ground.root.join("loop")).unwrap();
    ground.pipe("pipe");
    fs::write(ground.root.join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
    let options = walk_of(|options| options.not_entered = vec!["target".to_owned()]);
    let walk = ground.files().walk(".", &options).unwrap();
    let expected = ["B", "B/z", "a", "b", "b/a", "b/a/y", "b/out", "b/x", "c.txt", "loop", "pipe", "target"];
    assert_eq!(paths(&walk), expected);
    let kind = |path: &str| walk.entries.iter().find(|entry| entry.path == path).unwrap().kind;
    assert_eq!(
        (kind("b/out"), kind("loop"), kind("pipe")),
        (EntryKind::Link, EntryKind::Link, EntryKind::Other)
    );
    assert_eq!((walk.passed_over.not_unicode, walk.passed_over.not_entered, walk.stopped), (1, 1, None));
    let below = ground.files().walk("b/a/..", &walk_of(|options| options.depth = 1)).unwrap();
    assert_eq!(paths(&below), ["b/a", "b/out", "b/x"]);
    assert_eq!(paths(&ground.files().walk("c.txt", &WalkOptions::default()).unwrap()), ["c.txt"]);
    assert_eq!(paths(&ground.files().walk("target", &options).unwrap()), ["target/out"]);
}

#[test]
fn a_walk_names_nothing_that_is_out_of_scope_or_must_not_be_touched() {
    let ground = Ground::new();
    for path in ["src/a", "src/.GIT/config", "src/keys/k", "src/K.PEM", "docs/d", "private/p"] {
        ground.put(path, "words");
    }
    let brief = Brief::new(&ground.root).reading("docs").writing("src").reading("src/a").reading("gone");
    let brief = ["**/.git", "src/keys", "*.pem"]
        .into_iter()
        .fold(brief, |brief, rule| brief.do_not_touch(rule.parse().unwrap()));
    let files = ParticipantScope::assemble(&brief, None, None).unwrap().files();
    assert_eq!(paths(&files.walk("src", &WalkOptions::default()).unwrap()), ["src/a"]);
    assert_eq!(files.readable(), ["docs", "src"]);
    for path in [".", "private", "..", "src/keys", "src/.git", "gone/../private"] {
        let denied = files.walk(path, &WalkOptions::default()).unwrap_err();
        assert!(matches!(denied, FileError::Denied(_)), "{path}: {denied:?}");
        assert!(files.search(path, &pattern("^"), &SearchOptions::default()).is_err(), "{path}");
    }
    let found = files.search("src", &pattern("words"), &SearchOptions::default()).unwrap();
    assert_eq!(found.matches.len(), 1);
    let missing = files.walk("gone", &WalkOptions::default()).unwrap_err();
    assert!(matches!(missing, FileError::Io { .. }), "{missing:?}");
}

#[test]
fn a_huge_folder_gives_the_first_of_its_names() {
    let ground = Ground::new();
    fs::create_dir(ground.root.join("many")).unwrap();
    for number in (0..20_000).rev() {
        fs::write(ground.root.join(format!("many/{number:05}")), "").unwrap();
    }
    ground.put("z", "");
    let walk = ground.files().walk(".", &walk_of(|options| options.entries = 100)).unwrap();
    let expected: Vec<_> =
        std::iter::once("many".to_owned()).chain((0..99).map(|number| format!("many/{number:05}"))).collect();
    assert_eq!(
        (paths(&walk), walk.stopped),
        (expected.iter().map(String::as_str).collect(), Some(Bound::Entries))
    );
    let whole = ground.files().walk(".", &walk_of(|options| options.entries = 20_002)).unwrap();
    assert_eq!((whole.entries.len(), whole.stopped), (20_002, None));
    let none = ground.files().walk(".", &walk_of(|options| options.time = Duration::ZERO)).unwrap();
    assert_eq!((none.entries.len(), none.stopped), (0, Some(Bound::Time)));
}

#[test]
fn a_deep_tree_is_gone_into_as_far_as_there_are_paths() {
    let ground = Ground::new();
    // Deeper than a path can say.
    let name = "d".repeat(250);
    let mut folder =
        rustix::fs::open(&ground.root, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..20 {
        rustix::fs::mkdirat(&folder, &*name, rustix::fs::Mode::from_raw_mode(0o700)).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY;
        folder = rustix::fs::openat(&folder, &*name, flags, rustix::fs::Mode::empty()).unwrap();
    }
    let walk = ground.files().walk(".", &WalkOptions::default()).unwrap();
    assert!((14..20).contains(&walk.entries.len()), "{}", walk.entries.len());
    assert_eq!((walk.passed_over.unreadable_folders, walk.passed_over.unreadable.len()), (1, 1));
    let shallow = ground.files().walk(".", &walk_of(|options| options.depth = 3)).unwrap();
    assert_eq!((shallow.entries.len(), shallow.passed_over.not_entered), (3, 1));
    ground.files().remove_folder(&name).unwrap();
    assert_eq!(fs::read_dir(&ground.root).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_read_is_told_and_stops_nothing() {
    let ground = Ground::new();
    ground.put("a/shut/x", "needle");
    ground.put("a/shut.txt", "needle");
    ground.put("b", "needle");
    for path in ["a/shut", "a/shut.txt"] {
        fs::set_permissions(ground.root.join(path), fs::Permissions::from_mode(0o000)).unwrap();
    }
    // To root, permissions mean nothing.
    let is_root = fs::read_dir(ground.root.join("a/shut")).is_ok();
    let found = search(&ground.files(), "needle");
    assert_eq!(found.matches.len(), if is_root { 3 } else { 1 });
    let expected = if is_root { (0, 0) } else { (1, 1) };
    assert_eq!((found.passed_over.unreadable_folders, found.unreadable_files), expected);
    fs::set_permissions(ground.root.join("a/shut"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn neither_pipes_nor_devices_nor_links_nor_hard_links_are_searched() {
    let ground = Ground::new();
    ground.put("a", "secret place\r\nno\nsecret");
    ground.pipe("pipe");
    symlink(ground.outside.join("file"), ground.root.join("link")).unwrap();
    symlink(&ground.outside, ground.root.join("folder")).unwrap();
    fs::hard_link(ground.outside.join("file"), ground.root.join("hard")).unwrap();
    let began = Instant::now();
    let found = search(&ground.files(), "secret$|place$");
    let lines: Vec<_> = found.matches.iter().map(|found| (&*found.path, found.line, &*found.text)).collect();
    assert_eq!(lines, [("a", 1, "secret place"), ("a", 3, "secret")]);
    assert_eq!((found.files, found.unreadable_files), (1, 1));
    assert!(found.unreadable[0].to_string().contains("hard link"), "{:?}", found.unreadable);
    let free = ParticipantScope::unrestricted().files();
    for path in [ground.root.join("pipe"), PathBuf::from("/dev/zero"), PathBuf::from("/dev/tty")] {
        let found = free.search(path.to_str().unwrap(), &pattern("^"), &SearchOptions::default());
        assert!(found.is_err() || found.is_ok_and(|found| found.unreadable_files == 1), "{path:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_search_keeps_to_its_bounds_and_says_which_it_reached() {
    let ground = Ground::new();
    ground.put("a", "x\n".repeat(50));
    ground.put("b", "x\n".repeat(50));
    ground.put("long", format!("{}x{}\n{}x\n", "-".repeat(500), "é".repeat(500), "-".repeat(9000)));
    ground.put("picture", "x\0x\n");
    let find = |change: fn(&mut SearchOptions)| {
        ground.files().search(".", &pattern("x"), &search_of(change)).unwrap()
    };
    let all = find(|_| {});
    assert_eq!((all.matches.len(), all.files, all.binary_files, all.stopped), (102, 3, 1, None));
    let few = find(|options| options.matches = 60);
    assert_eq!((few.matches.len(), few.stopped), (60, Some(Bound::Matches)));
    let exact = find(|options| options.matches = 102);
    assert_eq!((exact.matches.len(), exact.stopped), (102, None));
    let small = find(|options| options.bytes = 150);
    assert_eq!((small.matches.len(), small.stopped), (50, Some(Bound::Bytes)));
    let light = find(|options| options.file_bytes = 100);
    assert_eq!((light.matches.len(), light.large, light.stopped), (100, vec!["long".to_owned()], None));
    let narrow = find(|options| options.line_bytes = 1000);
    assert_eq!((narrow.matches.len(), narrow.long_lines), (101, 2));
    let shown = &narrow.matches.last().unwrap().text;
    assert!(
        shown.len() < 520 && shown.starts_with('…') && shown.contains("-xé") && shown.ends_with("é…"),
        "{shown}"
    );
    let over = find(|options| options.walk.time = Duration::ZERO);
    assert_eq!((over.matches.len(), over.stopped), (0, Some(Bound::Time)));
    let first = find(|options| options.walk.entries = 1);
    assert_eq!((first.matches.len(), first.stopped), (50, Some(Bound::Entries)));
    let named = find(|options| options.names = Some("{b,c}".parse().unwrap()));
    assert_eq!((named.files, named.matches.len()), (1, 50));
}

#[test]
fn the_end_of_a_part_is_not_the_end_of_a_line() {
    let ground = Ground::new();
    ground.put("a", "a".repeat(100) + "b");
    let options = search_of(|options| options.line_bytes = 100);
    for (text, is_found) in [("a$", false), (r"a\b", false), ("aaa", true), ("^a", true), ("a{100}", false)] {
        let found = ground.files().search(".", &pattern(text), &options).unwrap();
        assert_eq!((found.matches.len(), found.long_lines), (usize::from(is_found), 1), "{text}");
    }
}

#[test]
fn no_pattern_takes_more_than_its_time() {
    let ground = Ground::new();
    ground.put("a", ("a".repeat(60_000) + "\n").repeat(200));
    for text in ["(a*)*b", "(a|a)*$b", "(.*)(.*)(.*)(.*)(.*)[^a]$", "(?:a?){200}a{200}c", "[ab]*a[ab]{2000}c"]
    {
        let began = Instant::now();
        let options = search_of(|options| options.walk.time = Duration::from_millis(500));
        let found = ground.files().search(".", &pattern(text), &options).unwrap();
        assert!(found.matches.is_empty(), "{text}");
        println!("{text}: {:?}, {:?}", began.elapsed(), found.stopped);
        assert!(began.elapsed() < Duration::from_secs(60), "{text} took {:?}", began.elapsed());
    }
    for text in ["a{1000}{1000}", r"(\w{300}){300}", "", "(", "a\nb", &"a".repeat(5000), r"(a)\1", "(?=a)"] {
        let refused = LinePattern::new(text, PatternStyle::default());
        assert!(refused.is_err(), "{text:.20}");
    }
}

#[test]
fn names_of_any_usual_length_can_be_looked_for() {
    for (text, line) in [
        (r"\w{3,40}", "fn"),
        (r"\b[A-Za-z_]\w{0,30}\(", "call me"),
        (r"(?i)\w{1,30}_id\b", "USER_ID_OF"),
        (r"\b\w{8}(-\w{4}){3}-\w{12}\b", "01234567-89ab-cdef-0123-456789"),
    ] {
        let found = format!("{line}: user_id(01234567-89ab-cdef-0123-456789abcdef)");
        assert!(pattern(text).is_in(found) && !pattern(text).is_in(line), "{text}");
    }
}

#[test]
fn a_file_that_grows_is_read_to_an_end() {
    use std::{
        io::Write as _,
        sync::atomic::{AtomicBool, Ordering},
    };
    let ground = Ground::new();
    ground.put("log", "x\n");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut log = fs::File::options().append(true).open(ground.root.join("log")).unwrap();
            while !is_over.load(Ordering::Relaxed) && log.metadata().unwrap().len() < 64 << 20 {
                log.write_all(&b"x\n".repeat(10_000)).unwrap();
            }
        });
        let options = search_of(|options| options.file_bytes = 1 << 20);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(300) {
            let found = ground.files().search(".", &pattern("x"), &options).unwrap();
            assert!(found.matches.len() <= options.matches);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let options = search_of(|options| options.file_bytes = 1 << 20);
    assert_eq!(ground.files().search(".", &pattern("x"), &options).unwrap().large_files, 1);
}

#[test]
fn names_are_matched_as_they_are_written() {
    let of = |glob: &str, path: &str| glob.parse::<nexus_core::scope::NameGlob>().unwrap().is_match(path);
    for (glob, path) in [
        ("*.rs", "src/lib.rs"),
        ("*.rs", "lib.rs"),
        ("lib.rs", "src/lib.rs"),
        ("src/**/*.rs", "src/a/b.rs"),
        ("src/*.rs", "src/b.rs"),
        ("**/t/*", "a/t/x"),
        ("*.{rs,md}", "a.md"),
    ] {
        assert!(of(glob, path), "{glob} {path}");
    }
    for (glob, path) in [
        ("*.rs", "LIB.RS"),
        ("src/*.rs", "src/a/b.rs"),
        ("lib", "lib.rs"),
        ("src", "src/lib.rs"),
        ("s*", "src/lib.rs"),
        ("a/*.rs", "b/a/x.rs"),
    ] {
        assert!(!of(glob, path), "{glob} {path}");
    }
    assert!("a[".parse::<nexus_core::scope::NameGlob>().is_err());
    assert!("".parse::<nexus_core::scope::NameGlob>().is_err());
}

/// A part of a pattern that means the same to `grep -E` and to us.
fn expression() -> impl Strategy<Value = String> {
    let atom =
        select(&["a", "b", "c", " ", ".", "[ab]", "[^a]", "[a-c]", "\\.", "A"][..]).prop_map(str::to_owned);
    atom.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            vec(inner.clone(), 2..3).prop_map(|parts| format!("({})", parts.join("|"))),
            (inner, select(&["*", "+", "?", "{1,2}", "{2}"][..]))
                .prop_map(|(part, often)| format!("({part}){often}")),
        ]
    })
}

fn tree() -> impl Strategy<Value = Vec<(String, Vec<String>)>> {
    let name = select(&["a", "B", "c d", ".h", "x.txt", "é", "n\nl", "-r"][..]);
    let path = vec(name, 1..4).prop_map(|names| names.join("/"));
    let line =
        vec(select(&["a", "b", "c", "A", " ", ".", "ab", "\t"][..]), 0..8).prop_map(|parts| parts.concat());
    vec((path, vec(line, 0..6)), 0..12)
}

/// What `grep` finds below a folder: file, line, text.
fn grep(root: &Path, flags: &[&str], text: &str) -> BTreeSet<(String, usize, String)> {
    let mut command = Command::new("grep");
    command.args(["-rnZ", "--binary-files=without-match"]).args(flags).args(["-e", text, "."]);
    let output = command.current_dir(root).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.code() < Some(2), "{text:?}: {}", String::from_utf8_lossy(&output.stderr));
    let (stdout, mut found) = (String::from_utf8(output.stdout).unwrap(), BTreeSet::new());
    let mut rest = stdout.as_str();
    while let Some((path, after)) = rest.split_once('\0') {
        let (line, after) = after.split_once(':').unwrap();
        let (text, after) = after.split_once('\n').unwrap();
        found.insert((path.trim_start_matches("./").to_owned(), line.parse().unwrap(), text.to_owned()));
        rest = after;
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_found_is_what_grep_finds(
        tree in tree(),
        text in expression(),
        ends in (any::<bool>(), any::<bool>()),
        style in (any::<bool>(), any::<bool>()),
        has_end in any::<bool>(),
    ) {
        let ground = Ground::new();
        for (path, lines) in &tree {
            let path = ground.root.join(path);
            if fs::create_dir_all(path.parent().unwrap()).is_ok() {
                let content = lines.join("\n") + if has_end { "\n" } else { "" };
                let _ = fs::write(path, content);
            }
        }
        symlink("..", ground.root.join("up")).unwrap();
        ground.put("zero", "a\0a\nab");
        let (literal, ignore_case) = style;
        let text = match ends {
            _ if literal => text,
            (from, to) => format!("{}({text}){}", if from { "^" } else { "" }, if to { "$" } else { "" }),
        };
        let flags = [if literal { "-F" } else { "-E" }, if ignore_case { "-i" } else { "-n" }];
        let pattern = LinePattern::new(&text, PatternStyle { literal, ignore_case }).unwrap();
        let found = ground.files().search(".", &pattern, &SearchOptions::default()).unwrap();
        let in_order: Vec<_> =
            found.matches.iter().map(|found| (found.path.clone(), found.line, found.text.clone())).collect();
        prop_assert!(found.matches.windows(2).all(|pair| pair[0].path != pair[1].path || pair[0].line < pair[1].line));
        let set: BTreeSet<_> = in_order.iter().cloned().collect();
        prop_assert_eq!(set.len(), in_order.len());
        prop_assert_eq!(set, grep(&ground.root, &flags, &text), "{}", text);
    }
}

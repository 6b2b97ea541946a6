//! Whatever is in a tree and whatever is asked for: nobody gets out of a scope.
//!
//! The oracle is the kernel: it opens what was asked for by its name, links and all, and says where that is.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use nexus_core::{
    Brief, ParticipantScope, PathAccess,
    scope::{ContentHash, LinePattern, PatternStyle, SearchOptions, WalkOptions},
};
use proptest::{collection::vec, prelude::*, sample::select};

const NAMES: [&str; 8] = ["a", "b", "c", "A", "\u{e9}", "e\u{301}", ".env", "k.pem"];
const RULES: [&str; 5] = ["**/.env", "*.pem", "w/b", "r/c", "w/\u{e9}"];

/// Something in the tree, at a path below its top.
#[derive(Clone, Debug)]
enum Entry {
    Folder(String),
    File(String),
    Link(String, String),
    /// Of one of those before it, counted from the first, over and over.
    HardLink(String, usize),
}

impl Entry {
    fn place(&self) -> &str {
        let (Self::Folder(at) | Self::File(at) | Self::Link(at, _) | Self::HardLink(at, _)) = self;
        at
    }
}

fn name() -> impl Strategy<Value = String> {
    select(&NAMES[..]).prop_map(str::to_owned)
}

/// Where things are: in what may be written, in what may be read, elsewhere below the root, outside of it.
fn place() -> impl Strategy<Value = String> {
    let zone = prop_oneof![4 => Just("ws/w"), 2 => Just("ws/r"), 1 => Just("ws"), 2 => Just("out")];
    (zone, vec(name(), 1..4)).prop_map(|(zone, names)| format!("{zone}/{}", names.join("/")))
}

/// A path as somebody writes it who wants out. `{top}` stands for the tree's.
fn wish() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        8 => name(),
        3 => Just("..".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just(String::new()),
        1 => Just("w".to_owned()),
    ];
    let start = prop_oneof![
        6 => Just("w/"),
        2 => Just("r/"),
        2 => Just(""),
        1 => Just("../out/"),
        1 => Just("{top}/ws/w/"),
        1 => Just("{top}/out/"),
        1 => Just("/proc/self/cwd/"),
    ];
    (start, vec(step, 1..6)).prop_map(|(start, steps)| format!("{start}{}", steps.join("/")))
}

fn entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        3 => place().prop_map(Entry::Folder),
        4 => place().prop_map(Entry::File),
        4 => (place(), link_target()).prop_map(|(at, to)| Entry::Link(at, to)),
        2 => (place(), 0..99_usize).prop_map(|(at, to)| Entry::HardLink(at, to)),
    ]
}

fn link_target() -> impl Strategy<Value = String> {
    let step = prop_oneof![3 => name(), 2 => Just("..".to_owned()), 1 => select(&["w", "r", "out", "ws"][..]).prop_map(str::to_owned)];
    prop_oneof![3 => vec(step, 1..5).prop_map(|steps| steps.join("/")), 1 => place().prop_map(|place| format!("{{top}}/{place}"))]
}

struct Ground {
    _scratch: tempfile::TempDir,
    top: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        for folder in ["ws/w", "ws/r", "out"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        Self { _scratch: scratch, top }
    }

    fn scope(&self, rules: &[&str], hard_links: bool) -> ParticipantScope {
        let mut brief = Brief::new(self.top.join("ws")).writing("w").reading("r");
        if hard_links {
            brief = brief.allow_hard_links_for_reading();
        }
        let brief = rules.iter().fold(brief, |brief, rule| brief.do_not_touch(rule.parse().unwrap()));
        ParticipantScope::assemble(&brief, None, None).unwrap()
    }

    fn named(&self, text: &str) -> String {
        text.replace("{top}", self.top.to_str().unwrap())
    }

    /// Makes what can be made; of two things at one place the first stays. A file holds the path it was made at.
    fn fill(&self, entries: &[Entry]) {
        for (index, entry) in entries.iter().enumerate() {
            let path = self.top.join(entry.place());
            if fs::symlink_metadata(&path).is_ok() || fs::create_dir_all(path.parent().unwrap()).is_err() {
                continue;
            }
            // Through a link of the tree's own, this may land anywhere in it.
            let _ = match entry {
                Entry::Folder(_) => fs::create_dir(&path),
                Entry::File(_) => {
                    let real = path.parent().unwrap().canonicalize().unwrap().join(path.file_name().unwrap());
                    fs::write(&path, real.strip_prefix(&self.top).unwrap_or(&real).to_str().unwrap())
                }
                Entry::Link(_, to) => std::os::unix::fs::symlink(self.named(to), &path),
                Entry::HardLink(_, to) => {
                    let other = &entries[to % (index + 1)];
                    fs::hard_link(self.top.join(other.place()), &path)
                }
            };
        }
    }

    /// Everything outside of what may be written, with its content.
    fn rest(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.top.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
                if path == self.top.join("ws/w") {
                    continue;
                }
                let content = match kind {
                    kind if kind.is_dir() => {
                        folders.push(path.clone());
                        "folder".to_owned()
                    }
                    kind if kind.is_symlink() => fs::read_link(&path).unwrap().display().to_string(),
                    _ => fs::read_to_string(&path).unwrap(),
                };
                let mode = fs::symlink_metadata(&path).unwrap().mode();
                found.insert(path, format!("{mode:o} {content}"));
            }
        }
        found
    }

    /// Where the kernel finds what was asked for.
    fn kernel_finds(&self, asked: &str) -> Option<PathBuf> {
        let (flags, mode) = (rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
        let opened = rustix::fs::open(self.top.join("ws").join(asked), flags, mode).ok()?;
        fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()
    }

    /// Where the kernel makes what was asked for, once there are folders for it.
    fn kernel_makes(&self, asked: &str, real: &Path) -> Option<PathBuf> {
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        let asked = asked.trim_end_matches(['/', '.']);
        let path = self.top.join("ws").join(asked);
        let made = File::options().write(true).create(true).truncate(false).open(path).ok()?;
        fs::read_link(format!("/proc/self/fd/{}", made.as_raw_fd())).ok()
    }
}

/// Whether a rule's words, read as simply as can be, keep off a path.
fn is_kept_off(top: &Path, rule: &str, path: &Path) -> bool {
    let names = || {
        path.strip_prefix(top.join("ws")).unwrap().components().map(|part| part.as_os_str().to_str().unwrap())
    };
    match rule {
        "**/.env" => names().any(|name| name.eq_ignore_ascii_case(".env")),
        "*.pem" => names().any(|name| name.to_lowercase().ends_with(".pem")),
        rule => {
            let place = top.join("ws").join(rule);
            let same = |one: &Path, other: &Path| match (fs::metadata(one), fs::metadata(other)) {
                (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
                _ => one == other,
            };
            path.ancestors().any(|above| same(above, &place))
        }
    }
}

fn check(
    ground: &Ground,
    scope: &ParticipantScope,
    rules: &[&str],
    hard_links: bool,
    wish: &str,
    access: PathAccess,
) {
    let asked = ground.named(wish);
    let ws = ground.top.join("ws");
    let in_scope = |path: &Path| {
        path.starts_with(ws.join("w")) || (access == PathAccess::Read && path.starts_with(ws.join("r")))
    };
    let found = ground.kernel_finds(&asked);
    match scope.check_path(&asked, access) {
        Ok(real) => {
            assert!(in_scope(&real), "{asked:?} leads to {real:?}");
            for rule in rules {
                assert!(!is_kept_off(&ground.top, rule, &real), "{asked:?} leads to {real:?} past {rule}");
            }
            match found {
                Some(found) => {
                    assert_eq!(found, real, "{asked:?}");
                    let metadata = fs::symlink_metadata(&real).unwrap();
                    let is_alone = metadata.nlink() == 1 || (hard_links && access == PathAccess::Read);
                    assert!(metadata.is_dir() || (metadata.is_file() && is_alone), "{asked:?}");
                }
                None if access == PathAccess::Write && fs::symlink_metadata(&real).is_err() => {
                    // What cannot be made is no way out; what is made is made where it was said.
                    if let Some(made) = ground.kernel_makes(&asked, &real) {
                        assert_eq!(made, real, "{asked:?}");
                    }
                }
                None => {}
            }
        }
        Err(denial) => {
            // Without rules only what is outside, or ambiguous, is refused.
            let Some(found) = found.filter(|_| rules.is_empty()) else { return };
            let metadata = fs::metadata(&found).unwrap();
            let is_plain = metadata.is_dir() || (metadata.is_file() && metadata.nlink() == 1);
            assert!(!in_scope(&found) || !is_plain || asked.starts_with("/proc"), "{denial}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_path_that_is_let_through_is_where_the_kernel_finds_it_and_in_scope(
        entries in vec(entry(), 0..14),
        rules in proptest::sample::subsequence(RULES.to_vec(), 0..=RULES.len()),
        wishes in vec((wish(), any::<bool>()), 1..14),
        hard_links in any::<bool>(),
    ) {
        let ground = Ground::new();
        let scope = ground.scope(&rules, hard_links);
        ground.fill(&entries);
        // What there is, in the tree, is asked for, too.
        let placed = entries.iter().flat_map(|entry| {
            let place = entry.place().strip_prefix("ws/").unwrap_or(entry.place()).to_owned();
            [(place.clone(), false), (place, true)]
        });
        for (wish, writes) in placed.chain(wishes) {
            let access = if writes { PathAccess::Write } else { PathAccess::Read };
            check(&ground, &scope, &rules, hard_links, &wish, access);
        }
    }

    #[test]
    fn nothing_outside_is_read_or_changed_by_scoped_files(
        entries in vec(entry(), 0..14),
        rules in proptest::sample::subsequence(RULES.to_vec(), 0..=RULES.len()),
        wishes in vec((wish(), 0..12_usize), 1..14),
    ) {
        let ground = Ground::new();
        let scope = ground.scope(&rules, false);
        ground.fill(&entries);
        let before = ground.rest();
        let files = scope.files();
        let any_line = LinePattern::new("^", PatternStyle::default()).unwrap();
        let is_fine = |content: &str| {
            let from = Path::new(content);
            content == "written" || content.is_empty() || from.starts_with("ws/w") || from.starts_with("ws/r")
        };
        let is_hidden = |path: &str| rules.contains(&"**/.env") && path.contains(".env");
        let placed = entries.iter().enumerate().map(|(index, entry)| {
            (entry.place().strip_prefix("ws/").unwrap_or(entry.place()).to_owned(), index % 12)
        });
        for (wish, action) in placed.chain(wishes) {
            let asked = ground.named(&wish);
            match action {
                0 => drop(files.write(&asked, "written")),
                1 => drop(files.open_for_writing(&asked, nexus_core::scope::WriteMode::Empty)),
                2 => drop(files.remove_file(&asked)),
                3 => drop(files.create_folder(&asked)),
                4 => if let Ok(entries) = files.list(&asked) {
                    prop_assert!(!rules.contains(&"**/.env") || entries.iter().all(|entry| entry.name != ".env"));
                },
                5 => if let Ok(walk) = files.walk(&asked, &WalkOptions::default()) {
                    for entry in walk.entries {
                        let is_there = entry.path.starts_with("w/") || entry.path.starts_with("r/");
                        prop_assert!(is_there && !is_hidden(&entry.path), "{asked:?} names {entry:?}");
                    }
                },
                6 => if let Ok(found) = files.search(&asked, &any_line, &SearchOptions::default()) {
                    for found in found.matches {
                        prop_assert!(is_fine(&found.text) && !is_hidden(&found.path), "{asked:?}: {found:?}");
                    }
                },
                7 => if let Ok(content) = files.read(&asked) {
                    drop(files.replace(&asked, &ContentHash::of(content), "written"));
                },
                8 => drop(files.remove_folder(&asked)),
                9 => drop(files.write_new(&asked, "written")),
                10 => drop(files.set_executable(&asked, true)),
                _ => if let Ok(content) = files.read_to_string(&asked) {
                    prop_assert!(is_fine(&content), "{asked:?} read {content:?}");
                },
            }
        }
        prop_assert_eq!(ground.rest(), before);
    }

    #[test]
    fn any_text_at_all_is_answered(path in "\\PC{0,40}|[./a\\x00-\\x7f]{0,60}", rule in "\\PC{0,20}|[a/*?\\[\\]{},!\\\\.-]{0,20}") {
        let ground = Ground::new();
        let scope = ground.scope(&[], false);
        for access in [PathAccess::Read, PathAccess::Write] {
            if let Ok(real) = scope.check_path(&path, access) {
                prop_assert!(real.starts_with(ground.top.join("ws")));
            }
        }
        if let Ok(rule) = format!("w/{rule}").parse::<nexus_core::PathRule>() {
            let brief = Brief::new(ground.top.join("ws")).writing("w").do_not_touch(rule.clone());
            let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
            // What is spelt like a rule is kept off by it.
            if let Ok(real) = scope.check_path(rule.as_str(), PathAccess::Write) {
                prop_assert!(false, "{rule:?} lets through {real:?}");
            }
        }
    }
}

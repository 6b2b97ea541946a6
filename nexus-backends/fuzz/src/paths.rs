//! A scope's paths and rules, in a folder of their own.
//!
//! An input is a script of lines, each a sign and its words; `{top}` stands for the folder. Below it `ws` is the root of the
//! scope, and everything else is outside.
//!
//! | line | says |
//! | --- | --- |
//! | `d PATH`, `f PATH` | there is a folder, a file |
//! | `l PATH TARGET`, `h PATH TARGET` | there is a symbolic link, a hard link |
//! | `+PATH`, `-PATH` | this may be written, read |
//! | `!RULE` | this must not be touched |
//! | `r PATH`, `w PATH` | may this be read, written? |
//! | `R PATH`, `W PATH`, `L PATH`, `X PATH` | the file is read, written; the folder is listed; the file is removed |

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::{Component, Path, PathBuf},
};

use globset::GlobBuilder;
use nexus_core::{Brief, ParticipantScope, PathAccess, PathRule};

/// Maximum number of lines that are read of a script.
const MAX_LINES: usize = 64;

/// Content of files outside of the scope.
const SECRET: &str = "secret";

/// Plays a script, and checks every answer.
///
/// # Panics
///
/// A panic is a finding.
pub fn check(input: &[u8]) {
    let Ok(script) = std::str::from_utf8(input) else { return };
    let scratch = tempfile::tempdir().expect("a folder to play in");
    let top = scratch.path().canonicalize().expect("the folder");
    for folder in ["ws/w", "ws/r", "out"] {
        fs::create_dir_all(top.join(folder)).expect("a folder");
    }
    let lines: Vec<&str> = script.lines().take(MAX_LINES).collect();
    let mut brief = Brief::new(top.join("ws"));
    let mut rules = Vec::new();
    let (mut written, mut grants) = (vec![top.join("ws/w")], 0);
    for line in &lines {
        let (sign, words) = parts(line);
        let words = words.replace("{top}", top.to_str().expect("a name"));
        match sign {
            '!' => rules.extend(words.parse::<PathRule>()),
            // Skip grants of the whole machine, which would allow every access.
            '+' | '-' if is_plain(&words) => {
                brief = if sign == '+' { brief.writing(&words) } else { brief.reading(&words) };
                if sign == '+' {
                    written.push(top.join("ws").join(&words));
                }
                grants += 1;
            }
            _ => {}
        }
    }
    if grants == 0 {
        brief = brief.writing("w").reading("r");
    }
    let brief = rules.iter().cloned().fold(brief, Brief::do_not_touch);
    let Ok(scope) = ParticipantScope::assemble(&brief, None, None) else { return };
    for line in &lines {
        make(&top, line);
    }
    let before = outside(&top, &written);
    for line in &lines {
        let (sign, asked) = parts(line);
        let asked = asked.replace("{top}", top.to_str().expect("a name"));
        ask(&top, &scope, &brief, sign, &asked);
    }
    assert_eq!(outside(&top, &written), before, "something outside has changed");
}

fn parts(line: &str) -> (char, &str) {
    let mut characters = line.chars();
    let sign = characters.next().unwrap_or(' ');
    (sign, characters.as_str().trim_start_matches(' '))
}

/// Returns true if a path cannot lead out of the folder.
fn is_plain(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.contains('\0') && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Creates the file, folder or link of a line, if possible and inside of the folder.
fn make(top: &Path, line: &str) {
    let (sign, words) = parts(line);
    let (at, target) = words.split_once(' ').unwrap_or((words, ""));
    if !matches!(sign, 'd' | 'f' | 'l' | 'h') || !is_plain(at) {
        return;
    }
    let path = top.join(at);
    let above = path.parent().filter(|above| above.starts_with(top));
    let Some(above) = above.and_then(|above| nearest(above).canonicalize().ok()) else { return };
    if !above.starts_with(top) || fs::create_dir_all(path.parent().unwrap_or(top)).is_err() {
        return;
    }
    let is_outside = !above.starts_with(top.join("ws"));
    let _ = match sign {
        'd' => fs::create_dir(&path),
        'f' if fs::symlink_metadata(&path).is_err() => {
            fs::write(&path, if is_outside { SECRET } else { "fine" })
        }
        'l' => symlink(target.replace("{top}", top.to_str().unwrap_or_default()), &path),
        'h' if is_plain(target) => fs::hard_link(top.join(target), &path),
        _ => Ok(()),
    };
}

/// Returns the path, or its nearest existing ancestor.
fn nearest(path: &Path) -> &Path {
    path.ancestors().find(|path| fs::symlink_metadata(path).is_ok()).unwrap_or(path)
}

/// Requests an access, and compares the answer with the file system.
fn ask(top: &Path, scope: &ParticipantScope, brief: &Brief, sign: char, asked: &str) {
    let access = match sign {
        'r' | 'R' | 'L' => PathAccess::Read,
        'w' | 'W' | 'X' => PathAccess::Write,
        _ => return,
    };
    let root = top.join("ws");
    let Ok(real) = scope.check_path(asked, access) else { return };
    assert!(real.starts_with(&root), "{asked:?} leads out, to {real:?}");
    let reads = brief.read.iter().filter(|_| access == PathAccess::Read);
    let mut grants = brief.write.iter().chain(reads).map(|grant| root.join(grant));
    assert!(grants.any(|grant| real.starts_with(grant)), "{asked:?} was not granted");
    let there = nearest(&real);
    assert_eq!(there.canonicalize().ok().as_deref(), Some(there), "a link is left in {real:?}");
    if let Ok(found) = root.join(asked).canonicalize() {
        assert_eq!(found, real, "{asked:?} leads elsewhere");
    }
    if let Ok(metadata) = fs::symlink_metadata(&real) {
        assert!(
            metadata.is_dir() || (metadata.is_file() && metadata.nlink() == 1),
            "{real:?} is no plain file"
        );
    }
    for rule in &brief.do_not_touch {
        assert!(!is_kept_off(&root, rule.as_str(), &real), "{asked:?} passes {rule}");
    }
    let files = scope.files();
    match sign {
        'R' => {
            if let Ok(content) = files.read_to_string(asked) {
                assert_ne!(content, SECRET, "{asked:?} was read");
            }
        }
        'W' => drop(files.write(asked, "written")),
        'X' => drop(files.remove_file(asked)),
        'L' => drop(files.list(asked)),
        _ => {}
    }
}

/// Returns true if a rule, in its simplest reading, protects a path below the root.
fn is_kept_off(root: &Path, rule: &str, real: &Path) -> bool {
    let Ok(below) = real.strip_prefix(root) else { return false };
    if real.starts_with(root.join(rule)) {
        return true;
    }
    // A rule without these characters is a path, relative to the root.
    if !rule.contains(['*', '?', '[', '{', '\\']) {
        return false;
    }
    let text = rule.strip_suffix('/').unwrap_or(rule);
    let Ok(glob) = GlobBuilder::new(text).literal_separator(true).build() else { return false };
    let glob = glob.compile_matcher();
    if rule.starts_with("./") || rule.starts_with('/') {
        return false;
    }
    if text.contains('/') {
        return below.ancestors().any(|above| !above.as_os_str().is_empty() && glob.is_match(above));
    }
    below.iter().any(|name| glob.is_match(name))
}

/// Returns all files outside of the writable paths, with their contents.
fn outside(top: &Path, written: &[PathBuf]) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![top.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().ok());
            if written.iter().any(|grant| path.starts_with(grant) || grant.starts_with(&path)) {
                // Folders above a writable path may be created for it.
                if !written.contains(&path) && kind.is_some_and(|kind| kind.is_dir()) {
                    folders.push(path);
                }
                continue;
            }
            let is_file = kind.is_some_and(|kind| kind.is_file());
            if kind.is_some_and(|kind| kind.is_dir()) {
                folders.push(path.clone());
            }
            let content = is_file.then(|| fs::read(&path).unwrap_or_default());
            found.insert(path, content);
        }
    }
    found
}

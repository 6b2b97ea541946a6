//! A path is held against the scope by where it really leads.

use std::{
    fs,
    os::unix::{ffi::OsStrExt as _, fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
};

use PathAccess::{Read, Write};
use nexus_core::{Brief, ParticipantScope, PathAccess};
use tempfile::TempDir;

/// A root `ws` with `src` (written), `docs` (read) and `secret`, beside a folder `outside`.
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
        for folder in
            [root.join("src"), root.join("src/deep"), root.join("docs"), root.join("secret"), outside.clone()]
        {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("file"), "words").unwrap();
        }
        Self { _scratch: scratch, root, outside }
    }

    fn brief(&self) -> Brief {
        Brief::new(&self.root).writing("src").reading("docs")
    }

    fn scope(&self, rules: &[&str]) -> ParticipantScope {
        let brief = rules.iter().fold(self.brief(), |brief, rule| brief.do_not_touch(rule.parse().unwrap()));
        ParticipantScope::assemble(&brief, None, None).unwrap()
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.root.join(name)).unwrap();
    }

    fn allows(&self, path: &str, access: PathAccess, real: &str) {
        assert_eq!(self.scope(&[]).check_path(path, access).unwrap(), self.root.join(real), "{path}");
    }

    fn denies(&self, path: &str, access: PathAccess, reason: &str) {
        denies(&self.scope(&[]), path, access, reason);
    }
}

fn denies(scope: &ParticipantScope, path: &str, access: PathAccess, reason: &str) {
    let denial = scope.check_path(path, access).expect_err(path);
    assert!(denial.reason.contains(reason), "{path:?}: {denial}");
    assert_eq!(denial.access, access);
}

#[test]
fn a_path_that_is_in_scope_comes_back_absolute_and_real() {
    let ground = Ground::new();
    ground.allows("src/file", Write, "src/file");
    ground.allows("./src//deep/../file", Read, "src/file");
    ground.allows("docs", Read, "docs");
    ground.allows("docs/", Read, "docs");
    ground.allows("src/new/er/file", Write, "src/new/er/file");
    ground.allows("src/.../file", Write, "src/.../file");
    let absolute = ground.root.join("docs/file");
    ground.allows(absolute.to_str().unwrap(), Read, "docs/file");
}

#[test]
fn dots_lead_nowhere_else() {
    let ground = Ground::new();
    for path in
        ["../outside/file", "src/../secret/file", "src/../../outside", "docs/../../../../../etc/passwd", ".."]
    {
        ground.denies(path, Read, "out of scope");
        ground.denies(path, Write, "out of scope");
    }
    ground.denies("docs/file", Write, "is read-only; you may write: \"src\"");
    ground.denies("src/missing/../../docs/new", Write, "`..` in it follows a name that does not exist");
    ground.denies("src/file/../file", Read, "not a folder");
    ground.denies("src/file/", Read, "ends like a folder");
    ground.denies("src/file/.", Read, "ends like a folder");
}

#[test]
fn what_is_no_path_is_refused() {
    let ground = Ground::new();
    ground.denies("", Read, "empty");
    ground.denies("src/a\0b", Write, "NUL");
    ground.denies(&format!("src/{}", "n".repeat(256)), Write, "longer than 255 bytes");
    ground.denies(&"src/".repeat(1100), Write, "longer than 4095 bytes");
    ground.denies("~/file", Read, "out of scope");
    ground.denies("file:///etc/passwd", Read, "out of scope");
}

#[test]
fn symbolic_links_are_followed_to_where_they_lead() {
    let ground = Ground::new();
    ground.link("deep/file", "src/inside");
    ground.link("deep", "src/folder");
    ground.link("../docs/file", "src/to_docs");
    ground.link(&ground.outside, "src/out");
    ground.link("../../outside/file", "src/out_file");
    ground.link("/etc", "src/etc");
    ground.allows("src/inside", Write, "src/deep/file");
    ground.allows("src/folder/file", Write, "src/deep/file");
    ground.allows("src/folder/../file", Write, "src/file");
    ground.allows("src/to_docs", Read, "docs/file");
    ground.denies("src/to_docs", Write, "is read-only");
    for path in
        ["src/out", "src/out/file", "src/out/new", "src/out_file", "src/etc/passwd", "src/out/../ws/secret"]
    {
        ground.denies(path, Read, "out of scope");
        ground.denies(path, Write, "out of scope");
    }
    // Out and in again is in.
    ground.allows("src/out/../ws/docs/file", Read, "docs/file");
}

#[test]
fn dangling_and_endless_links_are_no_way_out() {
    let ground = Ground::new();
    ground.link(ground.outside.join("new"), "src/dangling_out");
    ground.link("deep/new", "src/dangling_in");
    ground.link("gone/../../secret/x", "src/dangling_dots");
    ground.link("loop_b", "src/loop_a");
    ground.link("loop_a", "src/loop_b");
    ground.link("self/self", "src/self");
    ground.denies("src/dangling_out", Write, "out of scope");
    ground.allows("src/dangling_in", Write, "src/deep/new");
    ground.denies("src/dangling_dots", Write, "`..` in it follows a name that does not exist");
    ground.denies("src/loop_a", Read, "perhaps a loop");
    ground.denies("src/self", Write, "perhaps a loop");
    for step in 0..45 {
        ground.link(format!("chain{}", step + 1), &format!("src/chain{step}"));
    }
    ground.denies("src/chain0", Write, "perhaps a loop");
    ground.allows("src/chain6", Write, "src/chain45");
}

#[cfg(target_os = "linux")]
#[test]
fn links_of_the_kernel_are_not_followed() {
    let ground = Ground::new();
    let brief = ground.brief().reading("/proc").reading("/");
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    let file = fs::File::open(ground.root.join("src/file")).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    for path in
        [format!("/proc/self/fd/{number}"), "/proc/self/root/etc/passwd".into(), "/proc/self/cwd/x".into()]
    {
        denies(&scope, &path, Read, "whose target cannot be read");
    }
    ground.link("/proc/self/root", "src/kernel");
    denies(&scope, "src/kernel/etc/passwd", Read, "whose target cannot be read");
    ground.denies("src/kernel/etc/passwd", Read, "out of scope");
}

#[test]
fn a_file_of_several_names_is_not_written_and_read_only_if_the_brief_says_so() {
    let ground = Ground::new();
    fs::hard_link(ground.outside.join("file"), ground.root.join("src/hard")).unwrap();
    ground.denies("src/hard", Write, "a hard link");
    ground.denies("src/hard", Read, "a hard link");
    let lenient =
        |brief: Brief| ParticipantScope::assemble(&brief.allow_hard_links_for_reading(), None, None).unwrap();
    let scope = lenient(ground.brief());
    assert!(scope.check_path("src/hard", Read).is_ok());
    denies(&scope, "src/hard", Write, "a hard link");
    // Of something that must not be touched it is not even read.
    fs::hard_link(ground.root.join("secret/file"), ground.root.join("src/inner")).unwrap();
    let scope = lenient(ground.brief().do_not_touch("secret/file".parse().unwrap()));
    denies(&scope, "src/inner", Read, "must not be touched (rule \"secret/file\")");
}

#[test]
fn pipes_and_sockets_are_neither_read_nor_written() {
    let ground = Ground::new();
    let _socket = UnixListener::bind(ground.root.join("src/socket")).unwrap();
    let (fifo, mode) = (ground.root.join("src/pipe"), rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    ground.link("/dev/null", "src/null");
    for access in [Read, Write] {
        ground.denies("src/socket", access, "neither a file nor a folder");
        ground.denies("src/pipe", access, "neither a file nor a folder");
        ground.denies("src/pipe/x", access, "not a folder");
        ground.denies("src/null", access, "out of scope");
    }
    let brief = ground.brief().reading("/dev");
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    denies(&scope, "/dev/null", Read, "neither a file nor a folder");
}

#[test]
fn a_real_name_that_is_not_unicode_is_refused() {
    let ground = Ground::new();
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff");
    fs::create_dir(ground.root.join("src").join(odd)).unwrap();
    ground.link(odd, "src/link");
    ground.denies("src/link/new", Write, "not Unicode");
    ground.denies("src/link", Read, "not Unicode");
}

#[test]
fn grants_go_by_the_name_on_disk_and_denials_by_every_spelling() {
    let ground = Ground::new();
    fs::create_dir_all(ground.root.join("SRC")).unwrap();
    ground.denies("SRC/file", Read, "out of scope");
    let scope = ground.scope(&["src/Caf\u{e9}", "src/keys"]);
    for path in [
        "src/cafe\u{301}",
        "src/CAFE\u{301}/x",
        "src/caf\u{e9}",
        "src/KEYS",
        "src/keys./x",
        "src/k\u{200d}eys",
    ] {
        denies(&scope, path, Read, "must not be touched");
        denies(&scope, path, Write, "must not be touched");
    }
    assert!(scope.check_path("src/cafe", Write).is_ok());
}

#[test]
fn what_must_not_be_touched_wins_over_every_grant() {
    let ground = Ground::new();
    fs::write(ground.root.join("src/deep/.env"), "").unwrap();
    fs::create_dir(ground.root.join("src/keys.pem")).unwrap();
    ground.link("deep/.env", "src/plain");
    ground.link("file", "src/name.pem");
    ground.link("../src", "src/back.pem");
    ground.link("deep", "src/way");
    let scope = ground.scope(&["**/.env", "*.pem", "src/way", "docs"]);
    for path in [
        "src/deep/.env",
        "src/deep/.ENV",
        "src/plain",
        "src/name.pem",
        "src/back.pem/file",
        "src/keys.pem/../file",
        "src/keys.pem/inside",
        "src/new/x.pem",
        "src/way/file",
        "docs/file",
        "docs",
    ] {
        denies(&scope, path, Read, "must not be touched");
    }
    // Where the link leads is protected by itself, by whatever name it goes.
    denies(&scope, "src/deep/file", Write, "must not be touched (rule \"src/way\")");
    assert!(scope.check_path("src/file", Write).is_ok());
}

#[test]
fn a_protected_link_protects_where_it_leads_also_before_that_exists() {
    let ground = Ground::new();
    ground.link("later/place", "src/pointer");
    let scope = ground.scope(&["src/pointer"]);
    denies(&scope, "src/later/place/x", Write, "must not be touched");
    fs::create_dir_all(ground.root.join("src/later/place")).unwrap();
    denies(&scope, "src/later/place/x", Write, "must not be touched");
    assert!(scope.check_path("src/later/other", Write).is_ok());
}

#[test]
fn a_folder_that_holds_something_protected_is_listed_and_not_written() {
    let ground = Ground::new();
    fs::create_dir_all(ground.root.join("src/deep/er")).unwrap();
    let scope = ground.scope(&["src/deep/er/keys"]);
    for path in ["src", "src/deep", "src/deep/er"] {
        denies(&scope, path, Write, "a path in it must not be touched");
        assert!(scope.check_path(path, Read).is_ok(), "{path}");
    }
    assert!(scope.check_path("src/deep/er/other", Write).is_ok());
    let scope = ground.scope(&["*.key"]);
    assert!(scope.check_path("src/deep", Write).is_ok());
    fs::write(ground.root.join("src/deep/er/1.KEY"), "").unwrap();
    denies(&scope, "src/deep", Write, "a path in it must not be touched (rule \"*.key\")");
    assert!(scope.check_path("src/deep", Read).is_ok());
}

#[test]
fn what_is_protected_below_a_name_that_is_not_unicode_is_found_when_a_folder_is_written() {
    let ground = Ground::new();
    let odd = ground.root.join("src/deep").join(std::ffi::OsStr::from_bytes(b"\xff"));
    fs::create_dir(&odd).unwrap();
    let scope = ground.scope(&["**/.env"]);
    scope.check_path("src/deep", Write).unwrap();
    fs::write(odd.join(".env"), "key").unwrap();
    denies(&scope, "src/deep", Write, "a path in it must not be touched");
}

#[test]
fn a_folder_is_searched_for_other_names_of_what_is_protected() {
    let ground = Ground::new();
    fs::hard_link(ground.root.join("secret/file"), ground.root.join("src/deep/other")).unwrap();
    ground.scope(&["*.pem"]).check_path("src/deep", Write).unwrap();
    denies(&ground.scope(&["*.pem", "secret/file"]), "src/deep", Write, "(rule \"secret/file\")");
}

#[test]
fn a_path_that_must_not_be_touched_is_said_to_be_that_first() {
    let ground = Ground::new();
    fs::create_dir(ground.root.join("docs/private")).unwrap();
    let scope = ground.scope(&["docs/private", "*.pem"]);
    for path in ["docs/private/diary", "src/../docs/private/diary", "docs/x.pem"] {
        denies(&scope, path, Write, "it must not be touched");
    }
    denies(&scope, "docs/file", Write, "it is read-only");
    denies(&scope, "secret/x.pem", Write, "it is out of scope");
}

#[test]
fn a_root_that_is_swapped_for_a_link_gives_nothing_away() {
    let ground = Ground::new();
    let scope = ground.scope(&[]);
    fs::rename(&ground.root, ground.root.with_file_name("moved")).unwrap();
    fs::create_dir(ground.outside.join("src")).unwrap();
    fs::write(ground.outside.join("src/file"), "outside").unwrap();
    symlink(&ground.outside, &ground.root).unwrap();
    denies(&scope, "src/file", Read, "out of scope");
    assert!(scope.files().read("src/file").is_err());
}

#[test]
fn a_denial_does_not_tell_what_exists_elsewhere() {
    let ground = Ground::new();
    ground.link("../secret/file", "src/there");
    ground.link("../secret/missing", "src/not_there");
    let reason = |path: &str| ground.scope(&[]).check_path(path, Read).unwrap_err().reason;
    let expected = "it is out of scope; you may read: \"src\", \"docs\"";
    for path in [
        "secret/file",
        "secret/missing",
        "secret/file/x",
        "src/there",
        "src/not_there",
        "secret/a/../b",
        "/srv/x",
    ] {
        assert_eq!(reason(path), expected, "{path}");
    }
}

#[test]
fn an_unrestricted_scope_hands_paths_on_as_they_are() {
    let scope = ParticipantScope::unrestricted();
    for path in ["", "../x", "/etc/passwd", "a\0b"] {
        assert_eq!(scope.check_path(path, Write).unwrap(), PathBuf::from(path));
    }
    assert!(scope.allows_tool("anything") && scope.root().is_none());
}

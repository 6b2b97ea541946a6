//! Scopes are put together from what is written down, and from nothing else.

use std::{fs, path::PathBuf};

use nexus_core::{
    Brief, Overlay, ParticipantScope, PathAccess, PathRule, ScopeError, TurnOverride, WriteSlice,
};
use tempfile::TempDir;

/// A root with `src/a`, `src/b`, `docs` and a file in each.
fn ground() -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().canonicalize().unwrap().join("ws");
    for folder in ["src/a", "src/b", "docs"] {
        fs::create_dir_all(root.join(folder)).unwrap();
        fs::write(root.join(folder).join("file"), folder).unwrap();
    }
    (scratch, root)
}

fn assembled(brief: &Brief) -> Result<ParticipantScope, ScopeError> {
    ParticipantScope::assemble(brief, None, None)
}

fn may(scope: &ParticipantScope, path: &str, access: PathAccess) -> bool {
    scope.check_path(path, access).is_ok()
}

use PathAccess::{Read, Write};

fn rule(text: &str) -> PathRule {
    text.parse().unwrap()
}

#[test]
fn a_brief_alone_allows_what_it_names_and_nothing_else() {
    let (_scratch, root) = ground();
    let nothing = assembled(&Brief::new(&root)).unwrap();
    assert!(!nothing.allows_tool("read") && !may(&nothing, ".", Read) && !may(&nothing, "docs/file", Read));
    assert_eq!(nothing.root(), Some(root.as_path()));

    let brief = Brief::new(&root).tool("read_*".parse().unwrap()).reading("docs").writing("src/a");
    let scope = assembled(&brief).unwrap();
    assert!(scope.allows_tool("read_file") && !scope.allows_tool("write_file"));
    assert!(may(&scope, "docs/file", Read) && !may(&scope, "docs/file", Write));
    assert!(may(&scope, "src/a/file", Read) && may(&scope, "src/a/file", Write), "writing implies reading");
    assert!(!may(&scope, "src/b/file", Read) && !may(&scope, ".", Read) && !may(&scope, "src", Read));
    assert!(!may(&scope, "docs2", Read), "a name that begins alike");
}

#[test]
fn an_overlay_adds_and_a_turn_replaces() {
    let (_scratch, root) = ground();
    let brief = Brief::new(&root).tool("read".parse().unwrap()).reading("docs").do_not_touch(rule("docs/x"));
    let overlay = Overlay::new().tool("write".parse().unwrap()).writing("src/a").do_not_touch(rule("docs/y"));
    let both = ParticipantScope::assemble(&brief, Some(&overlay), None).unwrap();
    assert!(both.allows_tool("read") && both.allows_tool("write"));
    assert!(may(&both, "docs/file", Read) && may(&both, "src/a/file", Write));

    let turn = TurnOverride::new()
        .with_tools(["look".parse().unwrap()])
        .with_read(["src/b", "docs"])
        .with_write::<&str>([])
        .do_not_touch(rule("docs/z"));
    let scope = ParticipantScope::assemble(&brief, Some(&overlay), Some(&turn)).unwrap();
    assert!(scope.allows_tool("look") && !scope.allows_tool("read") && !scope.allows_tool("write"));
    assert!(may(&scope, "src/b/file", Read) && !may(&scope, "src/a/file", Write));
    for path in ["docs/x", "docs/y", "docs/z"] {
        assert!(!may(&scope, path, Read), "what must not be touched only grows: {path}");
    }
    assert!(may(&scope, "docs/w", Read));

    let untouched = ParticipantScope::assemble(&brief, Some(&overlay), Some(&TurnOverride::new())).unwrap();
    assert!(untouched.allows_tool("write") && may(&untouched, "src/a/file", Write));
}

#[test]
fn a_turn_goes_beyond_the_brief_and_never_past_what_must_not_be_touched() {
    let (_scratch, root) = ground();
    let brief = Brief::new(&root).writing("src/a").do_not_touch(rule("docs/file"));
    let turn = TurnOverride::new().with_write(["docs"]).with_tools(["shell".parse().unwrap()]);
    let scope = ParticipantScope::assemble(&brief, None, Some(&turn)).unwrap();
    assert!(scope.allows_tool("shell") && may(&scope, "docs/new", Write) && !may(&scope, "src/a/x", Write));
    assert!(!may(&scope, "docs/file", Read));
}

#[test]
fn an_error_names_the_place_and_the_way_out() {
    let (scratch, root) = ground();
    fs::write(root.join("plain"), "").unwrap();
    let said = |brief: Brief| assembled(&brief).unwrap_err().to_string();
    let has = |text: String, words: &[&str]| {
        for word in words {
            assert!(text.contains(word), "{text:?} lacks {word:?}");
        }
    };
    has(said(Brief::new("ws")), &["\"ws\"", "not absolute"]);
    has(said(Brief::new(root.join("missing"))), &["cannot be used"]);
    has(said(Brief::new(root.join("plain"))), &["is no folder"]);
    has(said(Brief::new("/")), &["name a folder"]);
    has(
        said(Brief::new(&root).writing("src/a").writing("docs").writing("../out")),
        &["write path 3 of the brief", "../out", "`..`", "write the path it leads to"],
    );
    for grant in ["~/x", "~", "$HOME", "${TMPDIR}/x"] {
        has(said(Brief::new(&root).writing(grant)), &["write path 1 of the brief", "is not expanded here"]);
    }
    assert!(may(&assembled(&Brief::new(&root).writing("./~")).unwrap(), "~/x", Write));
    has(said(Brief::new(&root).reading("")), &["read path 1 of the brief", "empty"]);
    has(said(Brief::new(&root).reading("plain/x")), &["read path 1 of the brief", "not a folder"]);
    let overlay = Overlay::new().reading("a\0b");
    let error = ParticipantScope::assemble(&Brief::new(&root), Some(&overlay), None).unwrap_err();
    has(error.to_string(), &["read path 1 of the overlay", "NUL"]);
    let turn = TurnOverride::new().with_write(["x".repeat(300)]);
    let error = ParticipantScope::assemble(&Brief::new(&root), None, Some(&turn)).unwrap_err();
    has(error.to_string(), &["write path 1 of the turn", "longer than 255 bytes"]);
    drop(scratch);
}

#[cfg(unix)]
#[test]
fn a_link_below_the_root_grants_nothing() {
    let (scratch, root) = ground();
    let outside = root.with_file_name("outside");
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("out")).unwrap();
    std::os::unix::fs::symlink(&root, root.with_file_name("alias")).unwrap();
    for path in [
        PathBuf::from("out"),
        "out/deeper".into(),
        root.join("out"),
        root.with_file_name("alias").join("out"),
    ] {
        let error = assembled(&Brief::new(&root).writing(&path)).unwrap_err().to_string();
        assert!(
            error.contains("symbolic link") && error.contains("write that path if you mean it"),
            "{error}"
        );
    }
    // Named by itself it is granted, and so is a root that goes by another name.
    let named = assembled(&Brief::new(&root).writing(&outside)).unwrap();
    assert_eq!(named.check_path("out/new", Write).unwrap(), outside.join("new"));
    let alias = Brief::new(root.with_file_name("alias")).reading(root.with_file_name("alias").join("docs"));
    assert!(may(&assembled(&alias).unwrap(), "docs/file", Read));
    drop(scratch);
}

#[test]
fn a_brief_is_data_and_unknown_keys_are_errors() {
    let text = r#"{"root": "/w", "tools": ["read_*"], "write": ["src"], "do_not_touch": ["**/.env"]}"#;
    let brief: Brief = serde_json::from_str(text).unwrap();
    assert_eq!(
        brief,
        Brief::new("/w").tool("read_*".parse().unwrap()).writing("src").do_not_touch(rule("**/.env"))
    );
    for text in [
        r#"{"root": "/w", "writes": []}"#,
        r#"{"root": "/w", "do_not_touch": ["a/../b"]}"#,
        r#"{"root": "/w", "tools": ["a b"]}"#,
        r#"{}"#,
    ] {
        assert!(serde_json::from_str::<Brief>(text).is_err(), "{text}");
    }
    assert_eq!(serde_json::from_str::<Overlay>("{}").unwrap(), Overlay::new());
    assert_eq!(serde_json::from_str::<TurnOverride>(r#"{"write": []}"#).unwrap().write, Some(vec![]));
    assert!(serde_json::from_str::<TurnOverride>(r#"{"root": "/"}"#).is_err());
}

#[test]
fn a_slice_takes_the_place_of_the_write_paths() {
    let (_scratch, root) = ground();
    let brief = Brief::new(&root).reading("docs").writing("src").do_not_touch(rule("src/a/keys"));
    let scope = assembled(&brief).unwrap();
    let slice = scope.with_write_slice(["src/a"]).unwrap();
    assert!(may(&slice, "src/a/new", Write) && may(&slice, "docs/file", Read));
    assert!(!may(&slice, "src/b/file", Write) && !may(&slice, "src/b/file", Read));
    assert!(!may(&slice, "src/a/keys/1", Write), "what must not be touched stays so");
    assert!(may(&scope, "src/b/file", Write), "the scope itself stays as it is");
    assert!(slice.with_write_slice(["src/a/deep"]).is_ok());

    for (path, words) in [
        ("docs", "is outside the write paths"),
        (".", "is outside the write paths"),
        ("src/../docs", "`..`"),
        ("srcs", "is outside the write paths"),
        ("src/a/keys", "must not be touched"),
    ] {
        let error = scope.with_write_slice(["src/b", path]).unwrap_err().to_string();
        assert!(error.contains("path 2 of the slice") && error.contains(words), "{error}");
    }
    assert!(slice.with_write_slice(["src/b"]).is_err(), "a slice of a slice is inside of it");
    let none = ParticipantScope::unrestricted().with_write_slice(["a"]);
    assert_eq!(none.unwrap_err(), ScopeError::Unrestricted);
}

#[test]
fn slices_are_disjoint_and_inside_or_the_error_names_both() {
    let (_scratch, root) = ground();
    let scope = assembled(&Brief::new(&root).writing("src").writing("docs")).unwrap();
    let slices = |second: &[&str]| {
        let slices = [WriteSlice::new("one", ["src/a", "docs/new"]), WriteSlice::new("two", second)];
        scope.check_slices(&slices)
    };
    slices(&["src/b", "docs/file", "src/ab", "docs/news"]).unwrap();
    for (path, shared) in [
        ("src/a", "src/a"),
        ("src/a/deep/er", "src/a/deep/er"),
        ("src", "src/a"),
        ("src/A", "src/A"),
        ("docs/NEW", "docs/NEW"),
        ("./src/./a", "src/a"),
        ("src/a\u{200b}", "src/a\u{200b}"),
    ] {
        let error = slices(&["src/b", path]).unwrap_err();
        let expected = ScopeError::Overlap {
            first: "one".to_owned(),
            second: "two".to_owned(),
            path: root.join(shared),
        };
        assert_eq!(error, expected, "{path}");
    }
    let error = slices(&["src/b", "elsewhere"]).unwrap_err().to_string();
    assert!(error.contains("path 2 of the slice \"two\""), "{error}");
    // One slice may name a place twice.
    scope.check_slices(&[WriteSlice::new("one", ["src", "src/a"])]).unwrap();
    assert_eq!(ParticipantScope::unrestricted().check_slices(&[]), Err(ScopeError::Unrestricted));
}

#[cfg(unix)]
#[test]
fn slices_that_are_one_file_by_two_names_overlap() {
    let (_scratch, root) = ground();
    fs::hard_link(root.join("src/a/file"), root.join("src/b/same")).unwrap();
    std::os::unix::fs::symlink("a", root.join("src/link")).unwrap();
    let scope = assembled(&Brief::new(&root).writing("src")).unwrap();
    let two = |path: &str| [WriteSlice::new("one", ["src/a/file"]), WriteSlice::new("two", [path])];
    assert!(matches!(scope.check_slices(&two("src/b/same")), Err(ScopeError::Overlap { .. })));
    let error = scope.check_slices(&two("src/link/file")).unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
    let forms = [WriteSlice::new("one", ["src/caf\u{e9}"]), WriteSlice::new("two", ["src/cafe\u{301}/x"])];
    assert!(matches!(scope.check_slices(&forms), Err(ScopeError::Overlap { .. })));
}

/// Mounts `source` at `target` too, and takes it away again. `None` where this is not allowed.
#[cfg(target_os = "linux")]
struct Mounted(PathBuf);

#[cfg(target_os = "linux")]
impl Mounted {
    fn at(source: &std::path::Path, target: PathBuf) -> Option<Self> {
        let mut mount = std::process::Command::new("mount");
        let done = mount.arg("--bind").arg(source).arg(&target).stderr(std::process::Stdio::null()).status();
        done.is_ok_and(|status| status.success()).then_some(Self(target))
    }
}

#[cfg(target_os = "linux")]
impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

/// Where nothing can be mounted, this has nothing to look at; the comparison itself is tested beside it.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_is_mounted_twice_is_one_also_for_what_is_not_there_yet() {
    let (_scratch, root) = ground();
    for folder in ["m1/keys", "m2", "deep/m3"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let mounts = [("m1", "m2"), ("m1/keys", "deep/m3")]
        .map(|(source, target)| Mounted::at(&root.join(source), root.join(target)));
    if mounts.iter().any(Option::is_none) {
        return;
    }
    let brief = Brief::new(&root).writing(".").do_not_touch(rule("m1/keys")).do_not_touch(rule("m1/new"));
    let scope = assembled(&brief).unwrap();
    let both = |one: &str, other: &str| {
        scope.check_slices(&[WriteSlice::new("one", [one]), WriteSlice::new("other", [other])])
    };
    for (one, other) in [("m1/x", "m2/x"), ("m2/x/y", "m1/X"), ("m1/x", "m2"), ("m2", "m1")] {
        assert!(matches!(both(one, other), Err(ScopeError::Overlap { .. })), "{one} and {other}");
    }
    both("m1/x", "m2/y").unwrap();
    for path in ["m2", "m2/keys", "m2/keys/x", "m2/new", "m2/New/x", "deep/m3", "deep/m3/x"] {
        assert!(!may(&scope, path, Write), "{path}");
    }
    assert!(may(&scope, "m2/x", Write) && may(&scope, "m1/x", Write));
    let scope = assembled(&brief.do_not_touch(rule("*.pem"))).unwrap();
    assert!(!may(&scope, "deep", Write), "what is searched is compared by what is there");
}

//! Names that git itself refuses are refused here, too.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use nexus_trees::{TreeErrorKind, TreeOptions};
use proptest::prelude::*;

use super::kit::{Place, git, listing, write};

/// Names that are close to `.git`.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        ".",
        "g",
        "G",
        "i",
        "I",
        "t",
        "T",
        ".git",
        ".GIT",
        "git~1",
        "GIT~1",
        "~",
        "1",
        " ",
        ":",
        "\\",
        "$",
        "x",
        "\u{200c}",
        "\u{feff}",
        "\u{202e}",
        "\u{206a}",
        "::$INDEX_ALLOCATION",
    ]);
    let close = prop::collection::vec(part, 1..5).prop_map(|parts| parts.concat().into_bytes());
    let ending = prop::sample::select(vec!["", ".", " ", "..", ":x", "\\x", "\u{200d}"]);
    let closer = ending.prop_map(|ending| [b".git", ending.as_bytes()].concat());
    prop_oneof![3 => close, 1 => closer]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_git_takes_for_a_repository_is_taken_for_one(names in prop::collection::vec(name(), 8)) {
        let Some(git) = git() else { return Ok(()) };
        let place = Place::with(&git, &[("a", "1\n")]);
        let tree = place.create_with(&TreeOptions::new()).unwrap();
        let repository = tree.path().join("repository");
        let folder = place.out("now");
        for name in names {
            if name == b"." || name == b".." {
                continue;
            }
            tree.restore(&tree.base().commit, &folder, &[]).unwrap();
            write(&folder.join(OsStr::from_bytes(&name)), "x");
            let ours = tree.snapshot(&folder);
            // Git, with its protection for both file systems.
            let blob = place.person_in(&repository, &["rev-parse", "refs/nexus/base:a"]);
            let protect = ["-c", "core.protectNTFS=true", "-c", "core.protectHFS=true", "update-index", "--add", "--cacheinfo"];
            let mut entry = format!("100644,{blob},").into_bytes();
            entry.extend_from_slice(&name);
            let output = place
                .person_command(&repository, &protect)
                .arg(OsStr::from_bytes(&entry))
                .env("GIT_INDEX_FILE", place.folder.path().join("index"))
                .output()
                .unwrap();
            if !output.status.success() {
                let words = String::from_utf8_lossy(&output.stderr).into_owned();
                prop_assert!(ours.is_err(), "{:?}: {}", String::from_utf8_lossy(&name), words);
                let error = ours.unwrap_err();
                prop_assert_eq!(error.kind(), TreeErrorKind::Refused, "{:?} {}", String::from_utf8_lossy(&name), error);
                prop_assert_eq!(error.paths().len(), 1);
            }
            prop_assert!(listing(&folder).len() >= 2);
        }
    }
}

//! A trap that cannot be used is refused, with the place.
#![cfg(target_os = "linux")]

use std::{fs, os::unix::fs::symlink, path::Path};

use nexus_testbed::Trap;

use crate::support::{edit, write_example};

/// What is said of the example after a change, without its folder.
fn refused(change: impl FnOnce(&Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    write_example(folder.path());
    change(folder.path());
    let error = Trap::load(folder.path()).unwrap_err().to_string();
    error
        .replace(&format!("{}/", folder.path().display()), "")
        .replace(&folder.path().display().to_string(), "FOLDER")
}

fn refused_yaml(old: &str, new: &str) -> String {
    refused(|folder| edit(&folder.join("trap.yaml"), old, new))
}

#[test]
fn what_is_missing_or_unknown_in_the_file_is_told_with_its_line() {
    let claims = "claims:\n  - text: src/add.sh and src/total.sh both read src/sum.sh.\n  - text: The tests pass.\n    shown_by_tests: true\n";
    let said = refused_yaml(claims, "");
    assert!(said.starts_with("trap.yaml: ") && said.contains("claims"), "{said}");
    let said = refused_yaml("claims:\n", "claims: []\nrest:\n");
    assert!(said.contains("rest"), "{said}");
    let said = refused_yaml("kind: lost_sign", "kind: [");
    assert!(said.starts_with("trap.yaml: ") && said.contains("line"), "{said}");
    let said = refused(|folder| fs::remove_file(folder.join("trap.yaml")).unwrap());
    assert_eq!(said, "FOLDER: has no trap.yaml; docs/reference/traps.md describes its content");
    let said = refused(|folder| fs::write(folder.join("trap.yaml"), b"name: \xff").unwrap());
    assert_eq!(said, "trap.yaml: is not UTF-8");
    let error = Trap::load("/nonexistent/trap").unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/trap: cannot be read: "), "{error}");
}

#[test]
fn values_that_cannot_be_used_are_told_with_their_key() {
    for (old, new, place) in [
        ("name: capped-sum", "name: ../up", "trap.yaml: name: "),
        ("name: capped-sum", "name: \"\\e]0;x\"", "trap.yaml: name: "),
        ("kind: lost_sign", "kind: Lost", "trap.yaml: kind: "),
        ("about: The", "about: \"\\e[2J\" #", "trap.yaml: about: "),
        ("about: The", "about: \"\u{202e}x\" #", "trap.yaml: about: "),
        ("[sh, test.sh]", "[]", "trap.yaml: test_command: "),
        ("text: The tests pass.\n    shown", "text: ' '\n    shown", "trap.yaml: claims[1].text: "),
        ("[sh, probe.sh]", "[]", "trap.yaml: probe: "),
        ("[sh, truth_check.sh]", "[\"a\\0b\"]", "trap.yaml: truth: "),
        ("    -7\n    7\n    -1\n", "    \n", "trap.yaml: truth.expected: "),
        ("probe:\n", "seconds: 0\nprobe:\n", "trap.yaml: seconds: "),
        ("probe:\n", "seconds: 601\nprobe:\n", "trap.yaml: seconds: "),
        (
            "probe:\n",
            "removed: { planted: [src/none] }\nprobe:\n",
            "trap.yaml: removed.planted[0]: is not a file of base/",
        ),
        (
            "probe:\n",
            "removed: { right: [test.sh] }\nprobe:\n",
            "trap.yaml: removed.right[0]: is not below the paths of brief.write",
        ),
        (
            "probe:\n",
            "removed: { right: [src/add.sh] }\nprobe:\n",
            "trap.yaml: removed.right[0]: is a file of the answer as well",
        ),
        ("write: [src]", "write: [other]", "planted/src/add.sh: is not below the paths of brief.write"),
        ("write: [src]", "write: ['.']", "probe/probe.sh: is below brief.write (.)"),
        ("write: [src]", "write: [src, Truth_Check.SH]", "truth/truth_check.sh: is below brief.write"),
    ] {
        let said = refused_yaml(old, new);
        assert!(said.starts_with(place), "{new:?}: {said}");
    }
    let said = refused_yaml(
        "plan:\n",
        "plan:\n    - { tier: execution, phase: implement, agent_type: executor, outcome: x }\n",
    );
    assert!(said.starts_with("trap.yaml: brief.plan: has 2 entries"), "{said}");
}

#[test]
fn files_that_a_trap_may_not_have_are_told_with_their_path() {
    let write = |folder: &Path, path: &str, content: &[u8]| {
        fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        fs::write(folder.join(path), content).unwrap();
    };
    for (said, place) in [
        (
            refused(|folder| symlink("/etc/passwd", folder.join("base/x")).unwrap()),
            "base/x: is neither a file nor a folder",
        ),
        (
            refused(|folder| symlink("../..", folder.join("base/up")).unwrap()),
            "base/up: is neither a file nor a folder",
        ),
        (
            refused(|folder| symlink("base", folder.join("more")).unwrap()),
            "more: is neither a file nor a folder",
        ),
        (
            refused(|folder| write(folder, "base/.GIT/config", b"")),
            "base/.GIT: a trap must not contain git's own files",
        ),
        (
            refused(|folder| write(folder, "base/.gitignore", b"*")),
            "base/.gitignore: a trap must not contain git's own files",
        ),
        (refused(|folder| write(folder, "base/big", &vec![b'x'; (1 << 20) + 1])), "base/big: is too large"),
        (
            refused(|folder| {
                (0..9).for_each(|number| write(folder, &format!("base/{number}"), &vec![b'x'; 1 << 20]));
            }),
            "base/",
        ),
        (
            refused(|folder| (0..500).for_each(|number| write(folder, &format!("base/{number}"), b"x"))),
            "contains more than 500 files",
        ),
        (refused(|folder| write(folder, &format!("base/{}x", "d/".repeat(20)), b"x")), "base/d/"),
        (refused(|folder| write(folder, "stray", b"")), "stray: is in none of base/"),
        (refused(|folder| write(folder, "truth/binary", b"\xff\xfe")), "truth/binary: is not UTF-8"),
        (
            refused(|folder| write(folder, "truth/test.sh", b"")),
            "truth/test.sh: has the same path as test.sh of the project",
        ),
        (refused(|folder| write(folder, "truth/src/x", b"")), "truth/src/x: is below brief.write (src)"),
        (refused(|folder| write(folder, "probe/big", &vec![b'x'; 70 << 10])), "trap.yaml: probe: "),
        (
            refused(|folder| (0..17).for_each(|number| write(folder, &format!("truth/{number}"), b""))),
            "trap.yaml: truth: ",
        ),
        (refused(|folder| fs::remove_dir_all(folder.join("base")).unwrap()), "base: has no file"),
        (refused(|folder| fs::remove_dir_all(folder.join("planted")).unwrap()), "planted: changes nothing"),
    ] {
        let said = said.trim_start_matches("FOLDER: ");
        assert!(said.starts_with(place), "{place}: {said}");
    }
    let same = refused(|folder| {
        for name in ["sum.sh", "add.sh", "total.sh"] {
            fs::copy(folder.join("planted/src").join(name), folder.join("right/src").join(name)).unwrap();
        }
    });
    assert_eq!(same, "right: creates the same files as planted/");
}

#[test]
fn a_folder_of_traps_has_each_name_once() {
    let folder = tempfile::tempdir().unwrap();
    let error = Trap::load_all(folder.path()).unwrap_err().to_string();
    assert!(error.contains("contains no folder of a trap"), "{error}");
    write_example(&folder.path().join("one"));
    // What a clone of git's and an editor leave beside the traps.
    fs::create_dir_all(folder.path().join(".git/objects")).unwrap();
    fs::create_dir(folder.path().join(".idea")).unwrap();
    let traps = Trap::load_all(folder.path()).unwrap();
    assert_eq!((traps.len(), traps[0].name()), (1, "capped-sum"));
    write_example(&folder.path().join("two"));
    let error = Trap::load_all(folder.path()).unwrap_err().to_string();
    assert!(error.contains("/two/trap.yaml: name: \"capped-sum\" is also the name of"), "{error}");
}

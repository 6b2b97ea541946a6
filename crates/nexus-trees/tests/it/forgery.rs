//! A project and an agent that do all they can to run a program, or to hide a change.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nexus_trees::{Landing, TreeOptions};

use super::kit::{Place, commit, listing, needs_git, refused, script, write};

/// A repository whose configuration names a program wherever git takes one. Each writes a canary.
fn trapped(place: &Place) -> PathBuf {
    let canaries = place.folder.path().join("canaries");
    fs::create_dir(&canaries).unwrap();
    let trap = place.folder.path().join("trap");
    script(&trap, &format!("echo \"$0 $*\" >> {}/ran\ncat", canaries.display()));
    let hooks = place.project().join(".git/own-hooks");
    for folder in [&hooks, &place.project().join(".git/hooks")] {
        for hook in [
            "post-checkout",
            "pre-commit",
            "commit-msg",
            "post-commit",
            "post-merge",
            "post-rewrite",
            "pre-push",
            "reference-transaction",
            "post-index-change",
            "pre-auto-gc",
            "fsmonitor-watchman",
            "pre-receive",
            "update",
            "post-update",
            "proc-receive",
            "sendemail-validate",
        ] {
            script(&folder.join(hook), &format!("echo {hook} >> {}/ran", canaries.display()));
        }
    }
    let trap = trap.to_str().unwrap();
    for (name, value) in [
        ("core.hooksPath", hooks.to_str().unwrap()),
        ("core.fsmonitor", trap),
        ("core.sshCommand", trap),
        ("core.askPass", trap),
        ("core.pager", trap),
        ("core.editor", trap),
        ("core.alternateRefsCommand", trap),
        ("credential.helper", trap),
        ("gpg.program", trap),
        ("commit.gpgSign", "true"),
        ("diff.external", trap),
        ("diff.trap.command", trap),
        ("diff.trap.textconv", trap),
        ("filter.trap.clean", trap),
        ("filter.trap.smudge", trap),
        ("filter.trap.required", "true"),
        ("filter.lfs.process", trap),
        ("merge.trap.driver", trap),
        ("uploadpack.packObjectsHook", trap),
        ("remote.origin.url", &format!("ext::{trap}")),
        ("remote.origin.promisor", "true"),
        ("protocol.ext.allow", "always"),
        ("gc.auto", "1"),
        ("submodule.recurse", "true"),
        ("alias.update-ref", &format!("!{trap}")),
        ("alias.rev-parse", &format!("!{trap}")),
    ] {
        place.person(&["config", name, value]);
    }
    canaries
}

#[test]
fn no_program_of_the_projects_runs_and_every_changed_byte_is_in_the_diff() {
    let git = needs_git!();
    let place = Place::with(
        &git,
        &[
            ("code.py", "print('one')\n"),
            ("lib/data.bin", "plain\n"),
            ("ignored.log", "tracked all the same\n"),
            (".gitignore", "*.log\n/target/\n"),
            (".gitattributes", "*.txt diff=trap merge=trap\n"),
            ("a.txt", "a\n"),
        ],
    );
    place.person(&["add", "-f", "ignored.log"]);
    place.person(&["commit", "-q", "-m", "second"]);
    // What is not committed is looked at by git, too, in a checkout with filters.
    let canaries = trapped(&place);
    write(&place.project().join("a.txt"), "changed by the person\n");
    write(&place.project().join("b.txt"), "new of the person\n");
    let before = place.repository();

    let tree = place.create_with(&TreeOptions::new().include_uncommitted()).unwrap();
    assert_eq!(tree.base().uncommitted, [Path::new("a.txt"), Path::new("b.txt")]);
    let folder = place.out("now");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    assert_eq!(fs::read_to_string(folder.join("b.txt")).unwrap(), "new of the person\n");

    // The agent's turn.
    write(
        &folder.join(".gitattributes"),
        "* -diff -text filter=trap diff=trap merge=trap export-ignore\n*.py -diff\n",
    );
    write(&folder.join(".gitignore"), "*\n");
    write(&folder.join("lib/.gitignore"), "*\n!.gitignore\n");
    write(&folder.join(".husky/pre-commit"), "#!/bin/sh\nexit 1\n");
    write(&folder.join("code.py"), "print('two')\n");
    write(&folder.join("lib/data.bin"), b"a\0b\xff\x1b[2K\r\nno end");
    write(&folder.join("hidden.py"), "import os\n");
    write(&folder.join("ignored.log"), "changed\n");
    write(&folder.join("new.log"), "ignored by the base\n");
    write(&folder.join("target/x.py"), "ignored by the base\n");
    let snapshot = tree.snapshot(&folder).unwrap();
    let base = &tree.base().commit;
    let paths: Vec<_> = tree
        .changes(base, &snapshot)
        .unwrap()
        .iter()
        .map(|change| change.path.display().to_string())
        .collect();
    let expected = [
        ".gitattributes",
        ".gitignore",
        ".husky/pre-commit",
        "code.py",
        "hidden.py",
        "ignored.log",
        "lib/.gitignore",
        "lib/data.bin",
    ];
    assert_eq!(paths, expected);
    let patch = tree.patch(base, &snapshot).unwrap();
    let has = |part: &[u8]| patch.as_bytes().windows(part.len()).any(|window| window == part);
    for part in [
        b"+print('two')\n".as_slice(),
        b"-print('one')\n",
        b"+a\0b\xff\x1b[2K\r\n+no end\n\\ No newline",
        b"+import os\n",
        b"+changed\n",
        b"+*.py -diff\n",
        b"+exit 1\n",
    ] {
        assert!(has(part), "{:?} is not in\n{}", String::from_utf8_lossy(part), patch.text());
    }
    assert!(patch.text().contains("+a<0x00>b<0xFF><0x1B>[2K<0x0D>\n+no end\n"), "{}", patch.text());

    // A repository of the agent's own is neither obeyed nor committed.
    write(&folder.join("lib/.GIT/config"), "[core]\n\tfsmonitor = /tmp/x\n");
    let error = tree.snapshot(&folder).unwrap_err();
    assert_eq!(refused(&error), ["lib/.GIT DotGit"]);
    tree.restore(base, &folder, &[]).unwrap();
    assert_eq!(tree.snapshot(&folder).unwrap(), tree.tree_of(base).unwrap());

    write(&folder.join("code.py"), "print('three')\n");
    let made = commit(&tree, &folder, base).unwrap();
    tree.move_ref("head", None, &made).unwrap();
    let merged = tree.merge(base, &[tree.tree_of(&made).unwrap()]).unwrap();
    assert_eq!(merged, tree.tree_of(&made).unwrap());
    let mut bundle = Vec::new();
    tree.bundle(base, &made, &mut bundle).unwrap();
    tree.apply_bundle(&mut bundle.as_slice()).unwrap();
    assert!(matches!(tree.land(&made).unwrap(), Landing::Patch { .. }));

    assert_eq!(place.repository(), before, "the person's repository was changed");
    assert_eq!(place.pins().len(), 1);
    tree.delete().unwrap();
    assert_eq!(place.pins().len(), 0);
    assert_eq!(listing(&canaries).len(), 0, "{:?}", fs::read_to_string(canaries.join("ran")));
}

#[test]
fn landing_runs_no_program_of_the_projects() {
    let git = needs_git!();
    let place = Place::with(
        &git,
        &[("a.txt", "one\n"), ("b.sh", "x\n"), (".gitattributes", "*.txt diff=trap merge=trap\n")],
    );
    let canaries = trapped(&place);
    let (tree, folder) = place.checked_out();
    write(&folder.join("a.txt"), "two\n");
    write(&folder.join(".gitattributes"), "* filter=trap diff=trap\n");
    let made = commit(&tree, &folder, &tree.base().commit).unwrap();
    let landing = tree.land(&made).unwrap();
    assert!(matches!(landing, Landing::FastForwarded { .. }), "{landing:?}");
    assert_eq!(fs::read_to_string(place.project().join("a.txt")).unwrap(), "two\n");
    assert_eq!(listing(&canaries).len(), 0, "{:?}", fs::read_to_string(canaries.join("ran")));
}

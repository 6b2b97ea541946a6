//! What lies where in a sandbox, and what is refused.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nexus_process::sandbox::{Sandbox, SandboxCommand, SandboxError};

use super::support::{has_sandbox, ran, refused, said, sandbox, shell};
use crate::program;

/// A folder with these files.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, content) in files {
        let file = folder.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    folder
}

#[tokio::test]
async fn what_is_hidden_is_hidden_wherever_it_lies() {
    if !has_sandbox().await {
        return;
    }
    let tree = tree(&[("file", "secret"), ("folder/below", "secret"), ("open", "open")]);
    let socket = tree.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let shown = ["file", "folder", "socket"];
    for sandbox in [sandbox().read_only(tree.path(), "/work"), sandbox().writable(tree.path(), "/work")] {
        let sandbox =
            shown.iter().fold(sandbox, |sandbox, name| sandbox.hidden(Path::new("/work").join(name)));
        let script = "cat /work/file; ls -A /work/folder; cat /work/open; test -S /work/socket && echo a socket; rm -f /work/file; :";
        assert_eq!(said(&sandbox, script).await, "open");
    }
    assert_eq!(fs::read_to_string(tree.path().join("file")).unwrap(), "secret");
    let usual = sandbox().hidden("/usr/bin/env").hidden("/usr/share").hidden("/tmp/nowhere");
    assert_eq!(said(&usual, "test -s /usr/bin/env || echo empty; ls -A /usr/share").await, "empty\n");
    let whole = sandbox().read_only(tree.path(), "/work").hidden("/work");
    assert_eq!(reason(whole).await, "it was added as a whole and cannot be hidden");
}

#[tokio::test]
async fn a_folder_that_only_its_names_open_is_looked_through_by_name() {
    use std::os::unix::fs::PermissionsExt as _;
    if !has_sandbox().await {
        return;
    }
    let chain = tree(&[("blind/credentials.toml", "secret"), ("blind/module", "code")]);
    let blind = chain.path().join("blind");
    fs::set_permissions(&blind, fs::Permissions::from_mode(0o311)).unwrap();
    let seen = ran(
        &sandbox().tool_chain(chain.path()),
        shell("cat blind/credentials.toml blind/module").folder(chain.path()),
    )
    .await;
    fs::set_permissions(&blind, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(seen.stdout.text(), "code");
}

/// Why a sandbox is refused, as far as a person is told.
async fn reason(sandbox: Sandbox) -> String {
    match refused(&sandbox, shell(":")).await {
        SandboxError::PathRefused { reason, .. } => reason.to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_tree_lies_where_the_caller_says_and_is_written_only_if_it_may_be() {
    if !has_sandbox().await {
        return;
    }
    let tree = tree(&[("file", "what is meant"), ("below/file", "")]);
    program::write(&tree.path().join("below/run"), "#!/bin/sh\necho ran; cat file");
    for place in
        ["/home/me/project", "/work", "/tmp/a/b", "/run/x", "/var/lib/y", "/home", "/opt", "/a b/c'd\"$e"]
    {
        let sandbox = sandbox().home("/home-of-its-own").read_only(tree.path(), place);
        let command = SandboxCommand::new(["below/run"]).folder(place);
        assert_eq!(ran(&sandbox, command).await.stdout.text(), "ran\nwhat is meant", "{place}");
        let outcome = ran(&sandbox, shell("touch new || rm file || echo x >file").folder(place)).await;
        assert!(!outcome.is_success(), "{place}");
    }
    let writable = sandbox().writable(tree.path(), "/work");
    said(&writable, "cd /work; echo changed >file; mkdir new; rm -r below").await;
    assert_eq!(fs::read_to_string(tree.path().join("file")).unwrap(), "changed\n");
    assert!(tree.path().join("new").is_dir() && !tree.path().join("below").exists());
}

#[tokio::test]
async fn any_name_that_a_file_system_takes_is_a_place() {
    if !has_sandbox().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in
        [&b"new\nline"[..], b"\xff\xfe no text", b"--bind", b"-", b"a\\b*?[x]", "\u{202e}x".as_bytes()]
    {
        let name = OsString::from_vec(name.to_vec());
        let outside = folder.path().join(&name);
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "here").unwrap();
        let place = Path::new("/work").join(&name);
        let sandbox = sandbox().writable(&outside, &place);
        let command = shell("cat file; echo there >new").folder(&place);
        assert_eq!(ran(&sandbox, command).await.stdout.text(), "here", "{name:?}");
        assert_eq!(fs::read_to_string(outside.join("new")).unwrap(), "there\n");
    }
}

#[tokio::test]
async fn what_is_deeper_covers_what_is_above_in_whatever_order_it_was_given() {
    if !has_sandbox().await {
        return;
    }
    let (above, kept) = (tree(&[("file", "above"), ("kept/file", "covered")]), tree(&[("file", "kept")]));
    let script = "cat /work/file /work/kept/file; echo x >/work/new; echo x >/work/kept/new || echo no";
    for sandbox in [
        sandbox().writable(above.path(), "/work").read_only(kept.path(), "/work/kept"),
        sandbox().read_only(kept.path(), "/work/kept").writable(above.path(), "/work"),
    ] {
        assert_eq!(said(&sandbox, script).await, "abovekeptno\n");
    }
    assert_eq!(fs::read_to_string(above.path().join("kept/file")).unwrap(), "covered");
    assert!(!kept.path().join("new").exists());

    // The place is made where it can be, also for a file, and scratch lies below a tree that cannot be written.
    let single = kept.path().join("file");
    let sandbox = sandbox()
        .writable(above.path(), "/work")
        .read_only(kept.path(), "/work/a/b")
        .read_only(&single, "/work/one");
    assert_eq!(said(&sandbox, "cat /work/a/b/file /work/one").await, "keptkept");
    assert!(above.path().join("a/b").is_dir() && above.path().join("one").is_file());
    let sandbox = super::support::sandbox().read_only(above.path(), "/work").scratch("/work/kept");
    assert_eq!(said(&sandbox, "ls -A /work/kept; echo x >/work/kept/x; cat /work/kept/x").await, "x\n");
}

#[tokio::test]
async fn a_place_that_cannot_be_made_is_named() {
    if !has_sandbox().await {
        return;
    }
    let (above, kept) = (tree(&[("file", "above")]), tree(&[]));
    symlink("/etc", above.path().join("link")).unwrap();
    let below = |place: &str| sandbox().read_only(above.path(), "/work").read_only(kept.path(), place);
    let error = refused(&below("/work/node_modules"), shell(":")).await;
    assert!(matches!(error, SandboxError::NoMountPoint { .. }), "{error:?}");
    assert!(error.to_string().contains("/work/node_modules"), "{error}");
    assert_eq!(reason(below("/work/file")).await, "a file and a folder cannot cover each other");
    // A link in a tree, which a program may have put there, leads nobody out of it.
    assert_eq!(reason(below("/work/link")).await, "a symbolic link is part of the path");
    let writable = sandbox().writable(above.path(), "/work").writable(kept.path(), "/work/link/x");
    assert_eq!(reason(writable).await, "a symbolic link is part of the path");
    assert!(!Path::new("/etc/x").exists());
    let system = refused(&sandbox().read_only(kept.path(), "/usr/nowhere"), shell(":")).await;
    assert!(matches!(system, SandboxError::NoMountPoint { .. }), "{system:?}");
}

#[tokio::test]
async fn what_is_no_folder_or_file_of_its_own_is_refused() {
    let folder = tree(&[("tree/file", "x")]);
    let (link, socket) = (folder.path().join("link"), folder.path().join("socket"));
    symlink(folder.path().join("tree"), &link).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let at = |outside: PathBuf, place: &str| sandbox().read_only(outside, place);
    let tree = || folder.path().join("tree");
    assert_eq!(reason(at(link, "/work")).await, "it is a symbolic link; name its target");
    assert_eq!(reason(at(socket, "/work")).await, "it is neither a folder nor a regular file");
    assert_eq!(reason(at("tree".into(), "/work")).await, "it is not absolute");
    for place in ["work", "", "/work/../etc", "/work\0"] {
        let wanted = "a path in a sandbox must be absolute, without `..` and NUL";
        assert_eq!(reason(at(tree(), place)).await, wanted, "{place:?}");
    }
    for place in ["/proc", "/proc/sys", "/dev/shm", "/sys/x"] {
        assert_eq!(
            reason(at(tree(), place)).await,
            "`/proc`, `/dev` and `/sys` are reserved for the sandbox"
        );
    }
    for place in ["/", "/usr", "/etc", "/lib", "//usr/."] {
        assert_eq!(reason(at(tree(), place)).await, "the path belongs to the system's folders", "{place}");
    }
    let twice = at(tree(), "/work").read_only(tree(), "/work/");
    assert_eq!(reason(twice).await, "two entries would have the same path");
    // Where credentials are covered too, in whatever order it was said.
    fs::write(tree().join("token"), "secret").unwrap();
    let (chain, given) = (tree(), tree().join("file"));
    let before = sandbox().read_only(&given, chain.join("token")).tool_chain(&chain);
    let after = sandbox().tool_chain(&chain).read_only(&given, chain.join("token"));
    for either in [before, after] {
        assert_eq!(reason(either).await, "two entries would have the same path");
    }
    // The files of this run and of others.
    let wanted = "it contains the files of runs; choose another folder for temporary files, or hide that \
        folder";
    assert_eq!(reason(at(std::env::temp_dir(), "/work")).await, wanted);
    assert_eq!(reason(sandbox().writable(std::env::temp_dir(), "/work")).await, wanted);
    let missing = refused(&at(folder.path().join("nowhere"), "/work"), shell(":")).await;
    assert!(matches!(&missing, SandboxError::Path { path, .. } if path.ends_with("nowhere")), "{missing:?}");
}

#[tokio::test]
async fn a_tool_chain_is_a_folder_and_not_a_whole_home() {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let wide = ["/", "/home", "/root", "/etc", "/var", "/tmp", "/run"].map(PathBuf::from);
    for folder in wide.into_iter().chain(home).filter(|folder| folder.exists()) {
        if let Err(error) = sandbox().tool_chain(&folder).run(shell(":")).await {
            assert!(matches!(error, SandboxError::PathRefused { .. }), "{error:?}");
        } else {
            panic!("{folder:?}");
        }
    }
    let file = tree(&[("file", "")]);
    assert_eq!(reason(sandbox().tool_chain(file.path().join("file"))).await, "a tool chain must be a folder");
}

#[tokio::test]
async fn credentials_of_a_tool_chain_are_covered_also_behind_links() {
    if !has_sandbox().await {
        return;
    }
    let chain = tree(&[
        ("credentials.toml", "secret"),
        ("config/credentials", "secret"),
        ("real/token-store", "secret"),
        (".ssh/id_rsa", "secret"),
        ("versions/one/.NPMRC", "secret"),
        ("lib/module", "code"),
        ("own-name", "secret"),
        ("folder/below", "secret"),
    ]);
    symlink("real/token-store", chain.path().join("auth.json")).unwrap();
    symlink("/etc/passwd", chain.path().join("netrc")).unwrap();
    symlink("/nowhere", chain.path().join(".netrc")).unwrap();
    let link = chain.path().with_extension("link");
    symlink(chain.path(), &link).unwrap();
    for place in [chain.path(), &link] {
        let sandbox = sandbox()
            .tool_chain(place)
            .hidden(place.join("own-name"))
            .hidden(place.join("folder"))
            .hidden(place.join("not-there"));
        let script = "find -L . -type f -exec cat {} + 2>/dev/null | tr -d '\\n' | sed 's/root:.*//;s/nobody:.*//'; echo; ls -A folder .ssh; \
            touch .ssh/x folder/x 2>/dev/null && echo wrote; cat lib/module";
        let command = shell(script).folder(place);
        let seen = ran(&sandbox, command).await.stdout.text();
        assert!(!seen.contains("secret") && seen.contains("code") && !seen.contains("wrote"), "{seen}");
    }
    fs::remove_file(link).unwrap();
}

#[tokio::test]
async fn settings_of_a_tool_chain_are_shown_without_their_tokens() {
    if !has_sandbox().await {
        return;
    }
    let cargo = "[build]\njobs = 2 # kept\n[registry]\ntoken = \"secret\"\n[registries]\nown = { index = \"i\", token = \"secret\" }\n\
                 [http]\nproxy = \"me:secret@proxy:1\"\n[env]\nMY_PASSWORD = \"secret\"\nPLAIN = \"ghp_secret0123456789abcdef\"\n";
    let chain = tree(&[
        ("config.toml", cargo),
        ("a/.cargo/config", cargo),
        ("a/.cargo/credentials", "secret"),
        ("b/config.toml", "token = \"\"\"\nsecret\n\"\"\"\njobs = 2 # kept\n"),
        ("c/config.toml", "jobs = 2 # kept\n"),
        ("d/bunfig.toml", "[install]\nregistry = { url = \"u\", token = \"secret\" }\n"),
        ("go/env", "GOPROXY=https://me:secret@proxy\nGOFLAGS=-mod=mod # kept\n"),
    ]);
    symlink("b/config.toml", chain.path().join("config")).unwrap();
    let sandbox = sandbox().tool_chain(chain.path());
    let script = "for f in config.toml a/.cargo/config b/config.toml c/config.toml go/env; do echo $f $(grep -c kept $f); done; \
                  cat config.toml config a/.cargo/* b/* c/* d/* go/env";
    let seen = ran(&sandbox, shell(script).folder(chain.path())).await.stdout.text();
    assert!(!seen.contains("secret"), "{seen}");
    let kept: Vec<&str> = seen.lines().take(5).collect();
    // Where a text spans lines nothing is told apart.
    assert_eq!(
        kept,
        ["config.toml 1", "a/.cargo/config 1", "b/config.toml 0", "c/config.toml 1", "go/env 1"]
    );
    assert!(seen.contains("[registry]") && seen.contains("jobs = 2"), "{seen}");
}

#[tokio::test]
async fn a_tree_in_memory_is_a_tree() {
    if !has_sandbox().await {
        return;
    }
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    fs::write(folder.path().join("file"), "here").unwrap();
    let sandbox = sandbox().writable(folder.path(), "/work");
    assert_eq!(said(&sandbox, "cat /work/file; echo there >/work/new").await, "here");
    assert_eq!(fs::read_to_string(folder.path().join("new")).unwrap(), "there\n");
}

#[tokio::test]
async fn what_is_covered_in_a_tree_is_not_moved_for_the_next_run() {
    if !has_sandbox().await {
        return;
    }
    let tree = tree(&[("a/b/secret", "secret"), ("a/kept/file", "kept"), ("a/other", "other")]);
    let sandbox = sandbox()
        .writable(tree.path(), "/work")
        .hidden("/work/a/b/secret")
        .read_only(tree.path().join("a/kept"), "/work/a/kept");
    let script = "cd /work; for one in a a/b a/b/secret a/kept; do mv -n $one moved; cat moved/b/secret; rm -rf moved $one; done 2>/dev/null; \
        find . -type f -exec cat {} +; echo x >a/b/new && mv a/b/new a/b/newer && rm a/b/newer && echo wrote";
    for _ in 0..2 {
        assert_eq!(said(&sandbox, script).await, "keptwrote\n");
    }
    assert_eq!(fs::read_to_string(tree.path().join("a/b/secret")).unwrap(), "secret");
}

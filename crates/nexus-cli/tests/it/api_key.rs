//! `nexus key`, where no keyring answers. What a keyring does with a key is proven where there is one.

use std::{
    io::Write as _,
    process::{Output, Stdio},
};

use crate::support::Folder;

/// Runs a command with this on its standard input, in a home of its own, without any keyring.
fn nexus(arguments: &[&str], input: &str) -> Output {
    let folder = Folder::empty();
    let mut child = folder
        .command(arguments)
        .env("DBUS_SESSION_BUS_ADDRESS", folder.no_bus())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads nothing closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_keyring_that_is_not_there_is_told_without_the_key() {
    for arguments in [&["key", "set", "openai"][..], &["key", "remove", "openai"]] {
        let output = nexus(arguments, "sk-canary\n");
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("keyring"), "{}", stderr(&output));
        let all = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8(all).unwrap().contains("canary"));
    }
}

#[test]
fn what_is_no_key_is_refused() {
    for input in ["", "\n", "two words\n", "two\nlines\n"] {
        let output = nexus(&["key", "set", "openai"], input);
        assert_eq!(output.status.code(), Some(1), "{input:?}");
        assert!(!stderr(&output).contains("words"), "{}", stderr(&output));
    }
}

#[test]
fn a_key_is_never_an_argument() {
    let output = nexus(&["key", "set", "openai", "sk-canary"], "");
    assert_eq!(output.status.code(), Some(2));
}

//! `cargo xtask dist`: the files of a release for Linux x86-64, in `target/release-files`.
//!
//! - `nexus-VERSION-x86_64-linux.tar.gz`: the command, its completions, its manual page and the licences, in the layout of a prefix
//!   such as `~/.local`;
//! - `install.sh`: installs this archive, whose SHA-256 is written in it, for one user;
//! - `nexus-turn-VERSION.tgz`: the same program as an npm package, without an install script;
//! - `dist.json`: the version, and size and SHA-256 of each file.
//!
//! The program runs on every Linux with glibc 2.28 or newer. `cargo-zigbuild` links it against that version, and this command
//! checks the result.

mod archive;
#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod installer_tests;
mod notices;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use archive::{Archive, Member};

/// Platform that the program is built for.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Newest symbol version of glibc that the program may need: that of Debian 10, Ubuntu 20.04 and RHEL 8.
const NEWEST_GLIBC: (u32, u32) = (2, 28);
/// Largest program, in bytes.
const MAX_PROGRAM_BYTES: usize = 40 << 20;
/// Package of the command.
const PACKAGE: &str = "nexus-turn-cli";
/// Shells with completions, and where a prefix has them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/nexus"),
    ("zsh", "share/zsh/site-functions/_nexus"),
    ("fish", "share/fish/vendor_completions.d/nexus.fish"),
];
/// Files of the repository that the archive has below `share/doc/nexus`.
const DOCUMENTS: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "nexus.yaml.example"];
/// Script that installs the archive, with names in `@` in place of the release's values.
const INSTALLER: &str = include_str!("install.sh");

/// Builds the release. `base_url` is the address below which the files will be published; without one, the installer has to be
/// called with `--from`. Returns the number of checks that failed.
pub(crate) fn run(base_url: Option<&str>) -> Result<usize, String> {
    let base_url = base_url.unwrap_or_default();
    // The address becomes part of a shell script, so it must not contain quotes or `$`.
    if !base_url.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._~:/%+".contains(letter)) {
        return Err(format!("{base_url}: a base URL has letters, digits and -._~:/%+ alone"));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = build(&root)?;
    let bytes = read(&program)?;
    let faults = check(&bytes);
    // Stop before the old release files are removed.
    if faults > 0 {
        return Ok(faults);
    }

    let version = env!("CARGO_PKG_VERSION");
    // Not `target/dist`, which Cargo uses for the profile of that name.
    let out = root.join("target/release-files");
    if out.exists() {
        fs::remove_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;

    // The licences of all linked crates require that their texts are distributed with the program.
    let licences = notices::third_party(&root, PACKAGE, TARGET)?;
    let name = format!("nexus-{version}-x86_64-linux");
    let members = prefix(&root, &program, &bytes, &licences)?;
    // Pack the archive before the installer, which contains its SHA-256.
    let archive = Archive::below(&name).with_all(&members).gzip()?;
    let files = [
        (format!("nexus-turn-{version}.tgz"), npm(&root, version, &bytes, &licences)?),
        ("install.sh".to_owned(), installer(version, &name, &sha256(&archive), base_url).into_bytes()),
        (format!("{name}.tar.gz"), archive),
    ];
    let mut listed = Vec::new();
    for (name, bytes) in &files {
        write(&out.join(name), bytes)?;
        println!("{:9} bytes  {}  {name}", bytes.len(), sha256(bytes));
        listed.push(json!({ "name": name, "bytes": bytes.len(), "sha256": sha256(bytes) }));
    }
    let manifest = json!({
        "version": version,
        "target": TARGET,
        "glibc": format!("{}.{}", NEWEST_GLIBC.0, NEWEST_GLIBC.1),
        "program_bytes": bytes.len(),
        "files": listed,
    });
    write(&out.join("dist.json"), format!("{manifest:#}\n").as_bytes())?;
    println!("written to {}", out.display());
    Ok(0)
}

/// Builds the command, and returns its path.
fn build(root: &Path) -> Result<PathBuf, String> {
    let (major, minor) = NEWEST_GLIBC;
    let mut command = Command::new(cargo());
    command.args(["zigbuild", "--locked", "--profile", "dist", "--package", PACKAGE]);
    command.arg("--target").arg(format!("{TARGET}.{major}.{minor}"));
    let status = command.current_dir(root).status().map_err(|error| format!("cargo zigbuild: {error}"))?;
    if !status.success() {
        return Err(
            "cargo zigbuild failed. If it is missing: `pip install cargo-zigbuild ziglang`".to_owned()
        );
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join(TARGET).join("dist/nexus"))
}

/// Checks the program against the bounds, and returns the number of faults.
fn check(program: &[u8]) -> usize {
    let newest = newest_glibc(program);
    let is_large = program.len() > MAX_PROGRAM_BYTES;
    let is_new = newest.is_none_or(|newest| newest > NEWEST_GLIBC);
    let mark = |is_fault| if is_fault { "  TOO MUCH" } else { "" };
    println!("program: {} bytes of at most {MAX_PROGRAM_BYTES}{}", program.len(), mark(is_large));
    let (major, minor) = newest.unwrap_or_default();
    println!(
        "newest symbol version: GLIBC_{major}.{minor} of at most GLIBC_{}.{}{}",
        NEWEST_GLIBC.0,
        NEWEST_GLIBC.1,
        mark(is_new)
    );
    usize::from(is_large) + usize::from(is_new)
}

/// Returns the newest version in any name `GLIBC_MAJOR.MINOR` of the program, also where it is only a text: this may find a newer
/// version than the linker will, never an older one.
fn newest_glibc(program: &[u8]) -> Option<(u32, u32)> {
    let names = regex::bytes::Regex::new(r"GLIBC_([0-9]{1,3})\.([0-9]{1,3})").expect("a pattern");
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse().ok();
    names.captures_iter(program).filter_map(|found| Some((number(&found[1])?, number(&found[2])?))).max()
}

/// The archive's files, as a prefix such as `~/.local` has them.
fn prefix(root: &Path, program: &Path, bytes: &[u8], licences: &str) -> Result<Vec<Member>, String> {
    let mut members = vec![Member::program("bin/nexus", bytes.to_vec())];
    for (shell, path) in COMPLETIONS {
        members.push(Member::file(path, printed(program, &["completions", shell])?));
    }
    members.push(Member::file("share/man/man1/nexus.1", printed(program, &["manual"])?));
    for name in DOCUMENTS {
        members.push(Member::file(format!("share/doc/nexus/{name}"), read(&root.join(name))?));
    }
    members.push(Member::file("share/doc/nexus/THIRD-PARTY-LICENSES.txt", licences.as_bytes().to_vec()));
    Ok(members)
}

/// What the built program prints.
fn printed(program: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    match output.status.success() && !output.stdout.is_empty() {
        true => Ok(output.stdout),
        false => Err(format!("nexus {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr))),
    }
}

/// The npm package. npm links `bin/nexus` itself, so that nothing runs at the installation.
fn npm(root: &Path, version: &str, program: &[u8], licences: &str) -> Result<Vec<u8>, String> {
    let package = json!({
        "name": "nexus-turn",
        "version": version,
        "description": "The nexus command: agent turns on the vendors that one file names",
        "license": "MIT OR Apache-2.0",
        "os": ["linux"],
        "cpu": ["x64"],
        "libc": ["glibc"],
        "bin": { "nexus": "bin/nexus" },
        "files": ["bin/nexus", "LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES.txt"],
    });
    let mut members = vec![
        Member::file("package.json", format!("{package:#}\n").into_bytes()),
        Member::program("bin/nexus", program.to_vec()),
        Member::file("THIRD-PARTY-LICENSES.txt", licences.as_bytes().to_vec()),
    ];
    for name in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        members.push(Member::file(name, read(&root.join(name))?));
    }
    Archive::below("package").with_all(&members).gzip()
}

fn installer(version: &str, archive: &str, sha256: &str, base_url: &str) -> String {
    INSTALLER
        .replace("@VERSION@", version)
        .replace("@ARCHIVE@", archive)
        .replace("@SHA256@", sha256)
        .replace("@BASE_URL@", base_url.trim_end_matches('/'))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

/// `cargo metadata` of the workspace.
fn metadata(root: &Path, arguments: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(cargo());
    command.args(["metadata", "--locked", "--format-version=1"]).args(arguments).current_dir(root);
    let output = command.output().map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_found_by_number_and_not_by_letter() {
        assert_eq!(newest_glibc(b"GLIBC_2.9\0GLIBC_2.17\0GLIBC_2.2.5\0"), Some((2, 17)));
        assert_eq!(newest_glibc(b"no version"), None);
    }

    #[test]
    fn a_program_that_needs_a_newer_glibc_or_is_not_linked_to_one_is_a_fault() {
        assert_eq!(check(b"GLIBC_2.28"), 0);
        assert_eq!(check(b"GLIBC_2.29"), 1);
        assert_eq!(check(b""), 1);
    }

    #[test]
    fn the_installer_has_every_value_of_the_release() {
        let script = installer("1.2.3", "nexus-1.2.3-x86_64-linux", "abc", "https://example.org/files/");
        for value in
            ["version=1.2.3", "archive=nexus-1.2.3-x86_64-linux", "sha256=abc", "https://example.org/files}"]
        {
            assert!(script.contains(value), "{value}");
        }
        let name = regex::Regex::new("@[A-Z0-9_]+@").unwrap();
        assert!(!name.is_match(&script), "a name was not replaced");
    }
}

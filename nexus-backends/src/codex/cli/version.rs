//! Finds the program and determines its version.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use nexus_core::{Availability, ErrorKind, harness::Failure};

use crate::cli::refusal;
use crate::cli::settings::VersionsSetting;
use crate::cli::versions::{AdmittedVersion, VersionTable};
use nexus_process::environment::Environment;
use nexus_process::executable::{Executable, ExecutableError};
use nexus_process::version::version_line;

/// Facts about each version.
pub(in crate::codex) static VERSIONS: LazyLock<VersionTable> =
    LazyLock::new(|| VersionTable::read(include_str!("versions.json")));

/// Advice for a missing program.
const INSTALL: &str = "install it with `npm install -g @openai/codex`, or name it by `executable`";

/// Finds the program `name`, by default `codex`, on `search_path`.
///
/// The npm package has a script in front of the native program, which costs a second process and 50 ms. If the native
/// program is beside the script, it is used directly.
///
/// # Errors
///
/// An [`ExecutableError`] that names the searched places.
pub(super) fn find(name: Option<&Path>, search_path: Option<&str>) -> Result<Executable, ExecutableError> {
    let name = name.unwrap_or(Path::new("codex"));
    let found = Executable::find(name, search_path.map(AsRef::as_ref))?;
    let native = native_beside(found.path()).and_then(|path| Executable::at(path).ok());
    Ok(native.unwrap_or(found))
}

/// Returns the native program of the package whose script is at `path`.
fn native_beside(path: &Path) -> Option<PathBuf> {
    let script = std::fs::canonicalize(path).ok()?;
    if script.extension().is_none_or(|extension| extension != "js") {
        return None;
    }
    let package = script.parent()?.parent()?;
    let (platform, triple) = platform()?;
    // Package managers nest the platform's package, hoist it beside this one, or unpack it here.
    let places = [
        package.join("node_modules/@openai").join(platform),
        package.parent()?.join(platform),
        package.to_owned(),
    ];
    let native = |place: PathBuf| place.join("vendor").join(triple).join("bin/codex");
    places.into_iter().map(native).find(|path| path.is_file())
}

/// Returns the package and target triple of this machine. Source: the packages of @openai/codex 0.169.0.
fn platform() -> Option<(&'static str, &'static str)> {
    Some(match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => ("codex-linux-x64", "x86_64-unknown-linux-musl"),
        ("linux", "aarch64") => ("codex-linux-arm64", "aarch64-unknown-linux-musl"),
        ("macos", "x86_64") => ("codex-darwin-x64", "x86_64-apple-darwin"),
        ("macos", "aarch64") => ("codex-darwin-arm64", "aarch64-apple-darwin"),
        _ => return None,
    })
}

/// Returns the version of the program, if it may run; [`ErrorKind::NotInstalled`] if the program is not Codex.
pub(super) async fn version(
    executable: &Executable,
    environment: &Environment,
    setting: VersionsSetting,
) -> Result<AdmittedVersion, Failure> {
    let line = version_line(executable, environment)
        .await
        .map_err(|error| refusal::untold(executable.path(), &error, INSTALL))?;
    VERSIONS.admit(executable.path(), &line, setting)
}

/// Converts a missing program into the result of an availability check.
pub(super) fn unavailable(error: ExecutableError) -> Availability {
    match error {
        ExecutableError::Missing { looked_in, .. } => {
            Availability::NotInstalled { looked_in, remedy: INSTALL.to_owned() }
        }
        error => Availability::Unusable { reason: error.to_string() },
    }
}

/// Converts a missing program into the failure of a turn.
pub(super) fn not_installed(error: ExecutableError) -> Failure {
    let message = format!("{error}: {INSTALL}");
    Failure::new(ErrorKind::NotInstalled, message).with_source(error)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_native_program_is_taken_where_it_lies_beside_the_script() {
        let Some((platform, triple)) = platform() else { return };
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let script = root.join("node_modules/@openai/codex/bin/codex.js");
        program(&script);
        let link = root.join("bin/codex");
        fs::create_dir(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&script, &link).unwrap();
        assert_eq!(find(Some(&link), None).unwrap().path(), link);

        let native =
            root.join("node_modules/@openai").join(platform).join("vendor").join(triple).join("bin/codex");
        program(&native);
        assert_eq!(find(Some(&link), None).unwrap().path(), native);
        assert_eq!(find(None, Some(root.join("bin").to_str().unwrap())).unwrap().path(), native);
    }

    #[test]
    fn the_program_is_told_by_what_it_says() {
        let admits = |line: &str| VERSIONS.admit("/bin/codex".as_ref(), line, VersionsSetting::Warn).is_ok();
        assert!(admits("codex-cli 0.158.0") && admits("codex-cli 1.0.0-alpha.1"));
        for line in ["codex-cli 0.157.1", "codex 0.169.0", "hello world", "0.169.0"] {
            assert!(!admits(line), "{line}");
        }
    }
}

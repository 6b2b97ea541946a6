//! Lists the workspace's packages and the root files of their libraries and programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::layers::{Dependency, short_name};

/// The conformance suite and its fakes. Reported apart: it imitates vendors and ships in no program.
const TESTKIT: &str = "crates/nexus-testkit";
/// This program, named by its folder because its package is not published.
const XTASK: &str = "xtask";

/// One library or program of the workspace.
#[derive(Debug)]
pub(crate) struct Target {
    /// Folder of the package, relative to the workspace's root; empty for the root package.
    pub(crate) package: PathBuf,
    /// `lib.rs`, `main.rs` or a file of `src/bin`, relative to the workspace's root.
    pub(crate) root_file: PathBuf,
    /// True for the conformance suite, which is reported apart.
    pub(crate) testkit: bool,
}

/// The packages of the workspace.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the root package.
    pub(crate) root: PathBuf,
    /// The libraries and programs, in the order of their paths.
    pub(crate) targets: Vec<Target>,
    /// The dependencies between packages under `nexus-turn-…`, without dev-dependencies.
    pub(crate) dependencies: Vec<Dependency>,
}

/// Reads the workspace by `cargo metadata`.
pub(crate) fn load() -> Result<Workspace, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let root = PathBuf::from(text(&metadata["workspace_root"])?);
    let (mut targets, mut dependencies) = (Vec::new(), Vec::new());
    for package in array(&metadata["packages"]) {
        let manifest = PathBuf::from(text(&package["manifest_path"])?);
        let folder = relative(&root, manifest.parent().unwrap_or(&root))?;
        if folder == Path::new(XTASK) {
            continue;
        }
        for dependency in array(&package["dependencies"]) {
            let (from, to) = (text(&package["name"])?, text(&dependency["name"])?);
            if to.starts_with("nexus-turn") && dependency["kind"] != "dev" {
                let [from, to] = [from, to].map(|name| short_name(name).to_owned());
                dependencies.push(Dependency { from, to });
            }
        }
        for target in array(&package["targets"]) {
            let product = array(&target["kind"]).iter().any(|kind| kind == "lib" || kind == "bin");
            let root_file = relative(&root, Path::new(text(&target["src_path"])?))?;
            if product && root_file.starts_with(folder.join("src")) {
                let testkit = folder == Path::new(TESTKIT);
                targets.push(Target { package: folder.clone(), root_file, testkit });
            }
        }
    }
    targets.sort_by(|one, other| one.root_file.cmp(&other.root_file));
    Ok(Workspace { root, targets, dependencies })
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("cargo metadata: {value} is no text"))
}

fn relative(root: &Path, path: &Path) -> Result<PathBuf, String> {
    path.strip_prefix(root)
        .map(Path::to_path_buf)
        .map_err(|_| format!("{} is outside the workspace", path.display()))
}

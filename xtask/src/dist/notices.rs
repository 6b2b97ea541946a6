//! The licences of the crates that the command contains.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Returns the licence of each crate of others that `package` links on `target`, with the texts that the crates bring.
pub(super) fn third_party(root: &Path, package: &str, target: &str) -> Result<String, String> {
    let metadata = super::metadata(root, &["--filter-platform", target])?;
    let linked = linked(&metadata, package)?;
    let mut crates = Vec::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for found in list(&metadata["packages"]).iter().filter(|found| linked.contains(text(&found["id"]))) {
        // Crates of the workspace have no source. Their licences are files of their own.
        if found["source"].is_null() {
            continue;
        }
        let name = format!("{} {}", text(&found["name"]), text(&found["version"]));
        let licence = found["license"].as_str().unwrap_or("see its text below");
        crates.push(format!("{name}: {licence}"));
        let folder = Path::new(text(&found["manifest_path"])).parent().unwrap_or(root).to_path_buf();
        for words in licence_texts(&folder)? {
            texts.entry(words).or_default().push(name.clone());
        }
    }
    crates.sort();
    let mut notices =
        String::from("The program nexus contains these crates. The texts of their licences follow.\n\n");
    for line in &crates {
        let _ = writeln!(notices, "{line}");
    }
    for (words, names) in &texts {
        let _ = writeln!(notices, "\n{}\n{}\n\n{}", "-".repeat(80), names.join(", "), words.trim_end());
    }
    Ok(notices)
}

/// The packages that the package links: its normal dependencies, and theirs.
fn linked<'a>(metadata: &'a Value, package: &str) -> Result<BTreeSet<&'a str>, String> {
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).iter().map(|node| (text(&node["id"]), node)).collect();
    let first = list(&metadata["packages"]).iter().find(|found| found["name"] == package);
    let first = first.ok_or_else(|| format!("cargo metadata lists no package {package}"))?;
    let (mut linked, mut open) = (BTreeSet::new(), vec![text(&first["id"])]);
    while let Some(id) = open.pop() {
        if !linked.insert(id) {
            continue;
        }
        let dependencies = nodes.get(id).map_or(&[][..], |node| list(&node["deps"]));
        let is_linked =
            |dependency: &&Value| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        open.extend(dependencies.iter().filter(is_linked).map(|dependency| text(&dependency["pkg"])));
    }
    Ok(linked)
}

/// The licence files of a crate.
fn licence_texts(folder: &Path) -> Result<Vec<String>, String> {
    let problem = |error| format!("{}: {error}", folder.display());
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).map_err(problem)? {
        let entry = entry.map_err(problem)?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_licence =
            ["LICEN", "COPYING", "NOTICE", "COPYRIGHT"].iter().any(|start| name.starts_with(start));
        if is_licence && entry.path().is_file() {
            let bytes = fs::read(entry.path()).map_err(problem)?;
            texts.push(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"));
        }
    }
    Ok(texts)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crate_that_only_builds_or_tests_the_command_is_not_in_it() {
        let dependency = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [{ "name": "command", "id": "command" }],
            "resolve": { "nodes": [
                { "id": "command", "deps": [dependency("library", Value::Null), dependency("tester", json!("dev"))] },
                { "id": "library", "deps": [dependency("below", Value::Null), dependency("builder", json!("build"))] },
            ] },
        });
        assert_eq!(linked(&metadata, "command"), Ok(BTreeSet::from(["command", "library", "below"])));
        assert!(linked(&metadata, "another").is_err());
    }
}

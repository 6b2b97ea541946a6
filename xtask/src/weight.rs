//! `cargo xtask weight`: counts the crates that a dependent compiles, and holds each count to a bound.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::Command;

/// A package with some of its features, and the most crates it may bring along, itself included.
struct Build {
    package: &'static str,
    /// `None`: the features that are on by default.
    features: Option<&'static str>,
    most: usize,
}

/// Builds that are counted. Each bound leaves room for updates of dependencies; a new dependency has to raise
/// it.
const BUILDS: [Build; 4] = [
    Build { package: "nexus-turn-core", features: Some(""), most: 45 },
    Build { package: "nexus-turn", features: Some(""), most: 55 },
    // Fewer than `genai` has (145).
    Build { package: "nexus-turn", features: Some("responses"), most: 130 },
    // Two of them, `nexus-http` and `nexus-mcp`, stand for modules that other crates of ours had twice; none is a stranger's.
    Build { package: "nexus-turn", features: None, most: 227 },
];

/// Prints the counts. Returns the number of counts above their bound.
pub(crate) fn run() -> Result<usize, String> {
    let mut faults = 0;
    println!("crates that are compiled, by name and version, on this platform:");
    for build in &BUILDS {
        let count = crates(build)?.len();
        let features = match build.features {
            None => "default features",
            Some("") => "no feature",
            Some(list) => list,
        };
        let name = format!("{}, {features}", build.package);
        let mark = if count > build.most { "  TOO MANY" } else { "" };
        faults += usize::from(count > build.most);
        println!("  {name:36} {count:4} of at most {:3}{mark}", build.most);
    }
    println!("\n{faults} faults");
    Ok(faults)
}

/// The crates of a build, build scripts' and tests' own ones left out.
fn crates(build: &Build) -> Result<BTreeSet<String>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(["tree", "--locked", "--edges", "normal", "--prefix", "none", "--package", build.package]);
    if let Some(features) = build.features {
        command.args(["--no-default-features", "--features", features]);
    }
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.map_err(|error| format!("cargo tree: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(named(&String::from_utf8_lossy(&output.stdout)))
}

/// Name and version of each line, without marks, paths and repetitions.
fn named(tree: &str) -> BTreeSet<String> {
    let crates = tree.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
    crates.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_counts_once_for_each_of_its_versions() {
        let tree = "a v0.1.0 (/somewhere/a)\nb v1.0.0\nb v2.0.0 (proc-macro)\nb v1.0.0 (*)\n\na v0.1.0 (*)\n";
        assert_eq!(named(tree).into_iter().collect::<Vec<_>>(), ["a v0.1.0", "b v1.0.0", "b v2.0.0"]);
    }
}

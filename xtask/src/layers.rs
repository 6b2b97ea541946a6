//! Dependencies between the crates of the workspace that go up a layer.

use std::fmt;

/// The crates by layer, lowest first. A crate depends on crates of lower layers alone; dev-dependencies do not count.
///
/// `nexus` is the facade.
const LAYERS: [&[&str]; 17] = [
    &["files"],
    &["core"],
    &["http", "process"],
    &["auth"],
    &["mcp"],
    &["backends"],
    &["router"],
    &["trees", "conversations"],
    &["work"],
    &["tasks", "debates", "project", "nats"],
    &["artifacts", "fleet"],
    &["testbed"],
    &["nexus"],
    &["broker"],
    &["editor", "otlp"],
    &["testkit"],
    &["cli"],
];

/// A dependency of one package of the workspace on another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dependency {
    /// Name of the package that has it, without the prefix `nexus-turn-`.
    pub(crate) from: String,
    /// Name of the other package.
    pub(crate) to: String,
}

/// A package's name without the prefix that published packages have.
pub(crate) fn short_name(package: &str) -> &str {
    match package {
        "nexus-turn" => "nexus",
        _ => package.strip_prefix("nexus-turn-").unwrap_or(package),
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (layer_of(&self.from), layer_of(&self.to)) {
            (None, _) => write!(f, "{} has no layer: add it to xtask/src/layers.rs", self.from),
            (_, None) => write!(f, "{} has no layer: add it to xtask/src/layers.rs", self.to),
            _ => write!(f, "{} depends on {}, which is not below it", self.from, self.to),
        }
    }
}

/// Returns the dependencies on crates of the same or a higher layer.
pub(crate) fn faults(dependencies: &[Dependency]) -> Vec<&Dependency> {
    let goes_down = |dependency: &&Dependency| matches!((layer_of(&dependency.from), layer_of(&dependency.to)), (Some(from), Some(to)) if to < from);
    let mut faults: Vec<_> = dependencies.iter().filter(|dependency| !goes_down(dependency)).collect();
    faults.sort();
    // Cargo lists a dependency once for each platform.
    faults.dedup();
    faults
}

fn layer_of(package: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&package))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(from: &str, to: &str) -> Dependency {
        Dependency { from: from.to_owned(), to: to.to_owned() }
    }

    #[test]
    fn a_dependency_goes_down_and_never_sideways_or_up() {
        let all = [
            dependency("core", "files"),
            dependency("core", "router"),
            dependency("debates", "fleet"),
            dependency("files", "unheard-of"),
        ];
        let faults: Vec<_> = faults(&all).into_iter().map(ToString::to_string).collect();
        assert_eq!(
            faults,
            [
                "core depends on router, which is not below it",
                "debates depends on fleet, which is not below it",
                "unheard-of has no layer: add it to xtask/src/layers.rs",
            ]
        );
    }

    #[test]
    fn the_prefix_of_published_packages_is_left_out() {
        assert_eq!(["nexus-turn", "nexus-turn-core", "xtask"].map(short_name), ["nexus", "core", "xtask"]);
    }
}

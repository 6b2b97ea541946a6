//! The integration tests of the core.

// The testkit depends on the core with all of its features, and would turn them on for `without_features`.
#[allow(dead_code, unreachable_pub, reason = "the testkit makes it public, and has tests that use all of it")]
#[path = "../../../crates/nexus-testkit/src/child_test.rs"]
mod child_test;
#[allow(dead_code, unreachable_pub, reason = "the testkit makes it public, and has tests that use all of it")]
#[path = "../../../crates/nexus-testkit/src/effort.rs"]
mod effort;

#[cfg(all(unix, feature = "files"))]
mod file_tools;
mod neutral;
mod record;
#[cfg(feature = "globs")]
mod scope_assembly;
#[cfg(all(unix, feature = "files"))]
mod scope_changes;
#[cfg(all(target_os = "linux", feature = "files"))]
mod scope_escapes;
#[cfg(all(unix, feature = "globs"))]
mod scope_files;
#[cfg(all(unix, feature = "globs"))]
mod scope_paths;
#[cfg(all(unix, feature = "files"))]
mod scope_search;
#[cfg(all(target_os = "linux", feature = "files"))]
mod scope_swaps;
#[cfg(feature = "schema")]
mod session;
#[cfg(feature = "schema")]
mod toolbox;
#[cfg(not(all(feature = "globs", feature = "schema")))]
mod without_features;

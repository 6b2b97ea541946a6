//! The integration tests of the core.

// The testkit depends on the core with all of its features, and would turn them on for `without_features`.
#[allow(dead_code, unreachable_pub, reason = "the testkit makes it public, and has tests that use all of it")]
#[path = "../../../nexus-testkit/src/child_test.rs"]
mod child_test;
#[allow(dead_code, unreachable_pub, reason = "the testkit makes it public, and has tests that use all of it")]
#[path = "../../../nexus-testkit/src/effort.rs"]
mod effort;

#[cfg(all(unix, feature = "files"))]
mod file_tools;
mod neutral;
mod record;
mod scope_assembly;
#[cfg(unix)]
mod scope_changes;
#[cfg(target_os = "linux")]
mod scope_escapes;
#[cfg(unix)]
mod scope_files;
#[cfg(unix)]
mod scope_paths;
#[cfg(unix)]
mod scope_search;
#[cfg(target_os = "linux")]
mod scope_swaps;
mod session;
mod toolbox;
#[cfg(not(all(feature = "globs", feature = "schema")))]
mod without_features;

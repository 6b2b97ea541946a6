//! The vendors' own programs, as the environment names them: one variable a vendor, with the paths of any number of
//! versions of its program, separated as in `PATH`. `real/clis/install` of the repository of Nexus prints them.

use std::path::PathBuf;

/// Returns the programs that `variable` names, in its order. Empty if it is not set.
pub fn programs(variable: &str) -> Vec<PathBuf> {
    let value = std::env::var_os(variable).unwrap_or_default();
    std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Returns the last of the programs, for a test that needs only one.
///
/// # Panics
///
/// Panics if the variable names no program.
pub fn last(variable: &str) -> PathBuf {
    programs(variable).pop().unwrap_or_else(|| panic!("{variable} is not set: run real/clis/install"))
}

//! The effort of a test: little by default, so that `cargo test` is quick, and more in the lanes of `.ci/deep`.
//!
//! Property tests take their number of cases from `PROPTEST_CASES`, which `.cargo/config.toml` sets.

use std::env;

/// Number of rounds of a loop that kills a process or breaks a link at a different moment each time: `NEXUS_TEST_ROUNDS`, default 4.
///
/// # Panics
///
/// If `NEXUS_TEST_ROUNDS` is not a number above zero.
pub fn rounds() -> usize {
    match number("NEXUS_TEST_ROUNDS") {
        Some(0) => panic!("NEXUS_TEST_ROUNDS must be above zero"),
        Some(rounds) => usize::try_from(rounds).unwrap_or(usize::MAX),
        None => 4,
    }
}

/// Seed of the moments at which processes are killed: `NEXUS_TEST_SEED`, 1 unless set.
///
/// # Panics
///
/// If `NEXUS_TEST_SEED` is not a number.
pub fn seed() -> u64 {
    number("NEXUS_TEST_SEED").unwrap_or(1)
}

/// Returns true if `NEXUS_TEST_DEEP` is set: tests then run every backend in the conformance suite, and kill at every
/// write.
pub fn is_deep() -> bool {
    env::var_os("NEXUS_TEST_DEEP").is_some()
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {value:?}")))
}

//! Trees over real repositories, with the git of the `PATH`. Where there is none the tests say so and pass, unless
//! `NEXUS_TEST_GIT` is set, as it is by `.ci/run`.
#![cfg(target_os = "linux")]

mod branch_join;
mod bundles;
mod commits;
mod folder_history;
mod forgery;
mod hostile;
mod ignored;
mod keep;
mod kept;
mod kill;
mod kit;
mod land;
mod oracle;
mod programs;
mod projects;
mod random;
mod refresh;

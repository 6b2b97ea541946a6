//! The sandbox. Where there is none, its tests say so and pass; with `NEXUS_TEST_SANDBOX=required` they fail.

mod canaries;
mod ends;
mod failures;
mod kernel;
mod limits;
mod network;
mod places;
mod prepared;
mod projects;
mod repositories;
mod support;

//! The sign-ins of the vendors that come along, before an issuer that behaves as theirs do. The sign-in itself is
//! attacked in the tests of `nexus-auth`, whose stage is used here.

#[allow(dead_code, reason = "the tests of nexus-auth use all of it")]
#[path = "../../auth/tests/login_attacks/stage.rs"]
mod stage;
mod vendors;
#[allow(dead_code, reason = "the tests of nexus-auth use all of it")]
#[path = "../../auth/tests/login_attacks/wire.rs"]
mod wire;

//! Shared by several modules of tests.

pub(crate) mod party;
pub(crate) mod player;
pub(crate) mod program;
pub(crate) mod ran;
pub(crate) mod recordings;
pub(crate) mod row;
pub(crate) mod sandbox;
pub(crate) mod scripted_source;
pub(crate) mod stage;

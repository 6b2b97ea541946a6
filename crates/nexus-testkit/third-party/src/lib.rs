//! `parrot`: a backend for Nexus whose agent is any [`Voice`], and a [`Whistle`] by which it is let in.
//!
//! It shows what it takes to write one: the trait, a [`RunningTurn`](nexus_core::harness::RunningTurn) for everything that
//! every turn needs, and the conformance suite to know when it is done.

mod backend;
mod turn;
mod voice;
mod whistle;

pub use backend::Parrot;
pub use voice::{Asked, End, Piece, Utterance, Voice, Wanted};
pub use whistle::{Aviary, Whistle};

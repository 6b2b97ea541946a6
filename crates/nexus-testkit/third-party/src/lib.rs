//! `parrot`: a backend for Nexus whose agent is any [`Voice`], and a sign-in, the [`Whistle`].
//!
//! It shows the parts of a third-party backend: the trait, a [`RunningTurn`](nexus_core::harness::RunningTurn) for the
//! common work of every turn, and the conformance suite, which shows when the backend is complete.

mod backend;
mod turn;
mod voice;
mod whistle;

pub use backend::Parrot;
pub use voice::{Asked, End, Piece, Utterance, Voice, Wanted};
pub use whistle::{Aviary, Whistle};

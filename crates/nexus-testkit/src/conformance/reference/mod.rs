//! A backend that keeps every promise of the seam, in this process and without a network: it reads the script
//! of a [`Setting`](super::Setting) as if a model had said it, and runs the tools itself.
//!
//! It shows that the suite can be passed, and it is what the suite's own tests break, one promise at a time.
//! It is a small native backend to learn from, too.

mod access;
mod backend;
mod fault;
mod session;
mod subject;
mod tools;
mod turn;

pub use backend::ReferenceBackend;
pub use subject::{BareReferenceSubject, ReferenceSubject};

//! A backend that fulfils every promise of the seam, in this process and without a network: it reads the script
//! of a [`Setting`](super::Setting) as a model's answers, and runs the tools itself.
//!
//! It proves that the suite can be passed. The suite's own tests break it, one promise at a time.
//! It is also a small example of a native backend.

mod access;
mod backend;
mod fault;
mod session;
mod subject;
mod tools;
mod turn;

pub use backend::ReferenceBackend;
pub use subject::{BareReferenceSubject, ReferenceSubject};

//! Any server that speaks the Responses API: `responses`.

pub mod native;

pub use native::Responses;

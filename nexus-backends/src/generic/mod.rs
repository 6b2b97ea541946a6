//! Any server that speaks the Responses API: `responses`.

pub mod native;

pub use native::Responses;

use crate::vendor::{Vendor, kind};

/// What this vendor has.
pub(crate) const VENDOR: Vendor = Vendor::new("generic", &[kind::<Responses>]);

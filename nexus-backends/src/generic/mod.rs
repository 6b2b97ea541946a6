//! `responses`: a backend for any server that speaks the Responses API.

mod detect;
pub mod native;
mod stream_decoder;

pub use native::Responses;
pub use stream_decoder::{Decoded, DecodedCall, DecodedEnding, StreamDecoder};

use crate::vendor::{Vendor, kind};

/// Backends of this vendor.
pub(crate) const VENDOR: Vendor = Vendor::new("generic", &[kind::<Responses>]).with_detector(detect::detect);

//! `responses`, `chat`, `messages` and `gemini`: backends for any server that speaks the API of that name.

mod any_server;
mod call_settings;
pub mod chat;
mod detect;
pub mod gemini;
pub mod messages;
pub mod native;
pub(crate) mod providers;
mod stream_decoder;

pub use chat::ChatCompletions;
pub use gemini::GeminiApi;
pub use messages::MessagesApi;
pub use native::Responses;
pub use stream_decoder::{Decoded, DecodedCall, DecodedEnding, StreamDecoder};

use crate::vendor::{Vendor, kind};

/// Backends of this vendor.
pub(crate) const VENDOR: Vendor = Vendor::new(
    "generic",
    &[kind::<Responses>, kind::<ChatCompletions>, kind::<MessagesApi>, kind::<GeminiApi>],
)
.with_detector(detect::detect);

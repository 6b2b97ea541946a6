//! Triggers of type `webhook`: signed requests over HTTP, which [`WebhookServer`] receives.

mod rate;
mod secret;
mod server;
mod signature;

pub use secret::WebhookSecrets;
pub use server::{WebhookServer, WebhookSettings};
pub use signature::WebhookKey;

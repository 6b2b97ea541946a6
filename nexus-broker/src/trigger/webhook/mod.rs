//! Triggers of type `webhook`: signed requests over HTTP.
//!
//! A request is `POST /hooks/TRIGGER`, signed as [Standard Webhooks](https://www.standardwebhooks.com) has it:
//!
//! | header | what |
//! | --- | --- |
//! | `webhook-id` | tells the event from others; 1 to 256 visible characters. Sent again with the same, it fires once |
//! | `webhook-timestamp` | when it is sent, in seconds since 1970: at most five minutes from the broker's clock |
//! | `webhook-signature` | `v1,` and the base64 of the HMAC-SHA256 of `ID.TIMESTAMP.BODY`; several stand with spaces between them, one has to be right |
//!
//! The secret is `whsec_` and the base64 of 24 to 64 random bytes. Each trigger has its own, in a file of the broker's folder of secrets that only its user
//! can read, or in an environment variable of the broker: see [`WebhookSecrets`] for why.
//!
//! The body is the trigger's `data`: as JSON where it is JSON, else as text, else `{ "base64": … }`. It is data, never an instruction.
//!
//! | answer | when |
//! | --- | --- |
//! | 202 | the message is in its queue, now or since an earlier request of this id |
//! | 401 | a header is missing or wrong, the time is off, or no signature is right. It does not say which |
//! | 404 | there is no webhook here: another path, another method, a trigger that is switched off or has no secret |
//! | 408 | the body did not come in time |
//! | 413 | the body, or the message with it, is too large |
//! | 429 | too many requests; or too many for this trigger, or its target's queue is full. `Retry-After` says when to try again |
//! | 503 | the store cannot be reached: the same request again is safe |

mod rate;
mod secret;
mod server;
mod signature;

pub use secret::WebhookSecrets;
pub use server::{WebhookServer, WebhookSettings};
pub use signature::WebhookKey;

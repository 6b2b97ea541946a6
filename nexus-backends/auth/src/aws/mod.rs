//! Keys of Amazon Web Services, and the signature of requests with them.
//!
//! | module | contents |
//! | --- | --- |
//! | `keys` | the source of keys: variables, or a profile |
//! | `profile` | the files with profiles |
//! | `key_program` | the program of a profile that prints keys |
//! | `sign` | the signature of a request (Signature Version 4) |

mod key_program;
mod keys;
mod profile;
mod sign;

pub use keys::{AwsKeys, ProfilePlace};
pub use sign::{SignError, SigningScope, sign};

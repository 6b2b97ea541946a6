//! The Messages API as a wire.
//!
//! | module | contents |
//! | --- | --- |
//! | `shape` | differences between the requests of servers, as data |
//! | `request`, `tool` | items as messages of a request, and its tools |
//! | `reader`, `event` | events of the stream to turn events and a reply |
//!
//! Facts about the API, with their sources:
//!
//! | fact | source |
//! | --- | --- |
//! | results follow directly on the reply with their calls, before other content of the user | the guide to tool use |
//! | messages of one role are one message; a text must not be empty | the API reference |
//! | thinking with its signature goes back unchanged while a turn calls tools | the guide to extended thinking; types of the vendor's SDK 2.14.0 |
//! | forced tools and thinking exclude each other | the guide to extended thinking |
//! | `thinking.budget_tokens` is at least 1,024 and less than `max_tokens` | types of the vendor's SDK 2.14.0 |
//! | newer models take `thinking.type: adaptive` and `output_config.effort`, and reject a budget | the guide to adaptive thinking; public threads |
//! | counts in `message_delta` are cumulative; input excludes cached tokens | types of the vendor's SDK 2.14.0 |
//! | stop reasons, and `stop_details` of a refusal | types of the vendor's SDK 2.14.0 |
//! | ids of calls have letters, digits, `_` and `-` | the error of the API for another id |

mod event;
pub(crate) mod reader;
pub(crate) mod request;
pub(crate) mod shape;
pub(crate) mod tool;

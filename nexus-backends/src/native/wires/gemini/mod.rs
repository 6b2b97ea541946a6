//! The Gemini API as a wire: `streamGenerateContent`.
//!
//! | module | contents |
//! | --- | --- |
//! | `shape` | differences between the requests of servers, as data |
//! | `request`, `contents`, `declaration` | items as contents of a request, and its tools |
//! | `schema`, `references` | the subset of JSON Schema that the API knows |
//! | `reader`, `chunk`, `parts` | chunks of the stream to turn events and a reply |
//! | `stray` | errors in a stream outside of its events |
//! | `signature` | signatures of thinking, between a reply and later requests |
//!
//! Facts about the API, with their sources. *Service definition* is `google/ai/generativelanguage/v1beta` in the
//! repository googleapis.
//!
//! | fact | source |
//! | --- | --- |
//! | `alt=sse` selects events; without it the stream is one JSON list | the API reference, `streamGenerateContent` |
//! | a candidate without `finishReason` has not stopped; the reasons | service definition, `Candidate` |
//! | an error may follow in the stream as bare JSON | the vendor's SDK for JavaScript |
//! | a blocked prompt has `promptFeedback` and no candidates | service definition, `GenerateContentResponse` |
//! | `promptTokenCount` includes cached tokens; the total adds thinking to the other counts | service definition, `UsageMetadata`; types of the vendor's SDK |
//! | the id of a call is optional, and its response repeats it | service definition, `FunctionCall` |
//! | responses have the keys `output` or `error` | types of the vendor's SDK, `FunctionResponse` |
//! | pictures of a response are in its `parts`, for models since Gemini 3 | the guide to function calling |
//! | the keywords of `responseJsonSchema` | service definition, `GenerationConfig` |
//! | a signature goes back in the part in which it came; parts with one are never merged | the guide to thought signatures |
//! | models since Gemini 3 reject a call without a signature, and accept a placeholder for a call of another model | the guide to thought signatures, its questions and answers |
//! | `thinkingLevel` and `thinkingBudget` exclude each other | the guide to thinking |
//! | names of functions begin with a letter or `_`, and have at most 64 characters | the error of the API for another name |
//! | the first content is the user's; responses follow directly on their calls | the error of the API for another order |
//!
//! The required form of a call's id is not documented. Ids of a server go back unchanged.

mod chunk;
mod contents;
pub(crate) mod declaration;
mod parts;
pub(crate) mod reader;
mod references;
pub(crate) mod request;
pub(crate) mod schema;
pub(crate) mod shape;
mod signature;
mod stray;

/// Beginning of the id of a call to which the server gave none. Requests leave such an id out, and the server pairs
/// the call by its name and its position.
const UNNAMED_CALL: &str = "unnamed_call_";

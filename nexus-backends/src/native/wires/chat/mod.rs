//! Chat Completions as a wire.
//!
//! | module | contents |
//! | --- | --- |
//! | `shape` | differences between the requests of servers, as data |
//! | `request`, `function` | items as messages of a request, and its tools |
//! | `reader`, `chunk`, `tool_calls`, `thinking` | chunks of the stream to turn events and a reply |
//!
//! The API has many subsets. Facts about them, with their sources:
//!
//! | fact | source |
//! | --- | --- |
//! | a chunk with the usage and without choices follows the last one | the public API reference, `stream_options` |
//! | `finish_reason` is missing at some servers, `[DONE]` at others | public threads about gateways and local servers |
//! | thinking is in `reasoning_content`, in `reasoning`, or in `<think>` before the answer | the references of DeepSeek, OpenRouter and vLLM; templates of open models |
//! | the thinking of a reply with calls is sent back in its own field | the guides of DeepSeek (thinking mode) and OpenRouter (`reasoning_details`) |
//! | a call has no `index`, no `id`, or an object as arguments | public threads about local servers and gateways |
//! | an error in the stream is an object `error` with a numeric code, beside or in place of choices | the reference of OpenRouter, and vLLM |
//! | a tool's message has only text, so pictures follow in a user's message | the public API reference, `ChatCompletionToolMessageParam` |
//! | templates of open models reject two messages of one role in sequence | public threads about llama.cpp and vLLM |

mod chunk;
pub(crate) mod function;
pub(crate) mod reader;
pub(crate) mod request;
pub(crate) mod shape;
mod thinking;
mod tool_calls;

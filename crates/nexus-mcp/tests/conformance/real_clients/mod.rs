//! Clients that nobody here wrote: the conformance suite of the Model Context Protocol over HTTP, and the SDKs for Python and
//! TypeScript over stdio. Each needs the variables of `real/servers/install`.

mod conformance;
mod sdks;

pub(crate) use conformance::the_server_is_right_by_the_protocols_own_suite;
pub(crate) use sdks::{
    the_client_of_the_python_sdk_lists_and_calls, the_client_of_the_typescript_sdk_lists_and_calls,
};

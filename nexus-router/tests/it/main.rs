//! The integration tests of the router.

mod conformance;
mod router;

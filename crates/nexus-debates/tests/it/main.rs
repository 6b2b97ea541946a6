//! The integration tests.

mod debates;
mod example;
mod rules;

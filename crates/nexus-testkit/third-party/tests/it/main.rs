//! The tests of `parrot`.

mod conformance;
mod constructors;
mod sign_in;

//! Integration tests of the facade: one configuration moves work between vendors, and the examples do what they show.

mod continue_on;
mod examples;
mod native_routes;
mod real_routes;
mod real_tools;

//! Turns on other machines.

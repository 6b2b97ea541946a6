//! Checks of the machine and of a configuration, which `doctor`, `status`, `check --probe` and `setup` share.
//!
//! A backend is ready only if a turn on it would start: its program starts and has a known version, its login or key is there, its server
//! answers and has the model. A type is ready only if enough of its backends are.

mod availability;
mod check;
#[cfg(feature = "login")]
mod logins;
mod programs;
mod readiness;
mod runs_on;
mod survey;

#[cfg(feature = "login")]
pub(crate) use self::logins::logins;
pub(crate) use self::{
    check::{Check, Severity},
    programs::programs,
    readiness::{HeldBackend, Readiness},
    runs_on::RunsOn,
    survey::{Survey, TypeReadiness},
};

//! `nexus login`, `nexus status` and `nexus logout`, run as a person or a script runs them: a process of its own, a
//! home of its own, an environment that holds what a test puts there. The issuer is simulated, on loopback; the test
//! plays the person's browser.

mod core_dumps;
mod home;
#[cfg(feature = "keyring")]
mod keyring_real;
mod logout;
mod renewal;
mod running;
mod sign_in;
mod status;
mod store;
mod surroundings;

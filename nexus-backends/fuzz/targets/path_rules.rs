//! Checks the paths and rules of a scope against the file system.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_backends_fuzz::paths;

fuzz_target!(|input: &[u8]| paths::check(input));

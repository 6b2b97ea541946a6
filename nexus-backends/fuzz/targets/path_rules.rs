//! Paths and rules of a scope, held against what the system says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_backends_fuzz::paths;

fuzz_target!(|input: &[u8]| paths::check(input));

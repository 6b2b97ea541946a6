//! Compares the reader of faulty JSON with `serde_json`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_backends_fuzz::json;

fuzz_target!(|input: &[u8]| json::check(input));

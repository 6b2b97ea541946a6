//! JSON that is not quite JSON, held against `serde_json`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_backends_fuzz::json;

fuzz_target!(|input: &[u8]| json::check(input));

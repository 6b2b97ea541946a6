//! Splits binary messages whole, in pieces and byte by byte. The results must be equal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_backends_fuzz::frames;

fuzz_target!(|input: &[u8]| frames::check(input));

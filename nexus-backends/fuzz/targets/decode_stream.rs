//! Decodes a body whole, in pieces and byte by byte. The results must be equal, and must obey the rules of every decoder.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_backends_fuzz::decode;

/// Shows how much memory a decoder takes.
#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

fuzz_target!(|input: &[u8]| decode::check(input, &MEMORY));

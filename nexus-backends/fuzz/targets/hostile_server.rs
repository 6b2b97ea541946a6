//! A turn against a server that answers what the input says: it ends in time, and tells the truth.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use nexus_backends_fuzz::{stage::Stage, tools};

static STAGE: OnceLock<Stage> = OnceLock::new();

fuzz_target!(
    init: {
        tools::let_them_panic();
        STAGE.set(Stage::new()).expect("this runs once");
    },
    |input: &[u8]| STAGE.get().expect("the stage was set").play(input)
);

//! Runs a turn against a server whose answers are the input. The turn must end in time, with a correct result.

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

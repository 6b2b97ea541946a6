//! Tools for a hostile model.

use std::{panic, sync::Arc, time::Duration};

use nexus_core::{Effects, Json, OutputSchema, Picture, Tool, ToolRouter, Toolbox};
use serde_json::{Value, json};

/// Message of the tool that panics.
const PANIC: &str = "this tool always panics";

/// A PNG file of one pixel.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc`\0\0\0\x02\0\x01H\xaf\xa4q\0\0\0\0IEND\xaeB`\x82";

/// One tool of each character.
#[must_use]
pub fn tools() -> Arc<dyn ToolRouter> {
    let numbers =
        json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } } });
    let tools = Toolbox::new()
        .with(
            Tool::with_schema("echo", "Says it again.", numbers, |arguments: Value| async {
                Json(arguments)
            })
            .read_only(),
        )
        .with(Tool::without_arguments("panic", "Panics.", || async {
            if true {
                panic!("{PANIC}");
            }
        }))
        .with(Tool::without_arguments("picture", "Shows a picture.", || async { Picture(PIXEL) }).read_only())
        .with(Tool::without_arguments("fail", "Fails.", || async { Err::<(), _>("it failed") }))
        .with(
            Tool::without_arguments("sleep", "Takes a while.", || {
                tokio::time::sleep(Duration::from_millis(300))
            })
            .with_effects(Effects::Wrote),
        )
        .with(Tool::without_arguments("submit", "Hands in the answer.", || async {}).terminal());
    assert!(tools.quarantined().is_empty(), "{:?}", tools.quarantined());
    Arc::new(tools)
}

/// Number of tools.
pub const TOOL_COUNT: usize = 6;

/// Schema of the answer.
#[must_use]
pub fn schema() -> OutputSchema {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    OutputSchema::new(schema).expect("this is a schema")
}

/// Hides the panic of our tool from the fuzzer, which counts every panic as a finding. The turn must survive this one.
pub fn let_them_panic() {
    let fuzzers = panic::take_hook();
    panic::set_hook(Box::new(move |news| {
        if news.payload_as_str() != Some(PANIC) {
            fuzzers(news);
        }
    }));
}

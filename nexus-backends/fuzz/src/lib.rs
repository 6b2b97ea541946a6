//! The parts of the fuzz targets. `decode`, `json` and `paths` are a target each; the others are the stage of the fourth: a
//! `script` that a `server` plays, `tools` for the model to call, the turn that `stage` runs, and `checks` of how it
//! ended.

pub mod checks;
pub mod decode;
pub mod json;
pub mod paths;
pub mod script;
pub mod server;
pub mod stage;
pub mod tools;

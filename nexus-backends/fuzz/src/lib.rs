//! Parts of the fuzz targets. `decode`, `frames`, `json` and `paths` are one target each. The other modules form the fifth: a
//! `script` that a `server` plays, `tools` that the model calls, the turn that `stage` runs, and `checks` of its end.

pub mod checks;
pub mod decode;
pub mod frames;
pub mod json;
pub mod paths;
pub mod script;
pub mod server;
pub mod stage;
pub mod tools;

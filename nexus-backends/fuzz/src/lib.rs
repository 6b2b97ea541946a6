//! What the fuzz targets are made of. `decode` is all of the one target; the others are the stage of the other: a
//! `script` that a `server` plays, `tools` for the model to call, the turn that `stage` runs, and `checks` of how it
//! ended.

pub mod checks;
pub mod decode;
pub mod script;
pub mod server;
pub mod stage;
pub mod tools;

//! What the fuzz targets are made of. `decode` is all of one target and `paths` of another; the others are the stage of the third: a
//! `script` that a `server` plays, `tools` for the model to call, the turn that `stage` runs, and `checks` of how it
//! ended.

pub mod checks;
pub mod decode;
pub mod paths;
pub mod script;
pub mod server;
pub mod stage;
pub mod tools;

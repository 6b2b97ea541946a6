//! What one stream of 100,000 pieces of text costs, beside the floor client.
//!
//! `cargo bench -p nexus-benches --bench decode`, or with `-- --quick` for a first look. `peers/` has the same
//! with other people's clients beside it. See README.md.

mod native;

fn main() -> std::process::ExitCode {
    native::main("decode", &[])
}

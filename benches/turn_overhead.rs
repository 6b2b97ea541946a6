//! What a turn costs beside the bytes that it takes: time to a delta, a tool round, memory.
//!
//! `cargo bench -p nexus-benches --bench turn_overhead`, or with `-- --quick` for a first look, `-- --counts` for instructions alone. `peers/` has the
//! same with other people's clients beside it. See README.md.

mod native;

fn main() -> std::process::ExitCode {
    native::main("turn_overhead", &[])
}

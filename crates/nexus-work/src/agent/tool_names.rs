//! Names of the tools for files and checks, grouped by their effect.

/// Tools that read the brief, the submissions of other agents, and files.
pub const READING_TOOLS: [&str; 5] =
    ["read_my_brief", "read_handoffs", "list_files", "read_file", "search_files"];
/// Tools that change files.
pub const CHANGING_TOOLS: [&str; 3] = ["write_file", "edit_file", "delete_file"];
/// Tools that run tests and probes.
pub const CHECKING_TOOLS: [&str; 2] = ["run_tests", "run_probe"];

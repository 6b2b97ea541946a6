//! Commands and settings that register `nexus mcp spawn` with the vendors' programs. `--help` prints this text, and the tests with
//! those programs take their lines from it.

/// Name of the registered server. Models see its tools as `mcp__nexus_spawn__task_create` or `nexus_spawn__task_create`.
#[cfg_attr(not(test), allow(dead_code, reason = "for the tests"))]
pub(crate) const SERVER_NAME: &str = "nexus_spawn";

/// Section of `nexus mcp spawn --help` on registration. Source: observed with the programs that it names.
pub(crate) const HELP: &str = include_str!("registration.txt");

/// Section of `nexus mcp debate --help` on registration.
pub(crate) const DEBATE_HELP: &str = "Register it as shown by `nexus mcp spawn --help`, with the name \
nexus_debate and the command `nexus mcp debate`: models then see its tools as \
mcp__nexus_debate__debate_create. Both servers can be registered together.";

/// Section of `nexus mcp project --help` on registration.
pub(crate) const PROJECT_HELP: &str = "Register it as shown by `nexus mcp spawn --help`, with the name \
nexus_project and the command `nexus mcp project`: models then see its tools as \
mcp__nexus_project__plan_start. It works on the project in which the client is started.";

/// Returns the commands and settings in the text, one a line.
#[cfg_attr(not(test), allow(dead_code, reason = "for the tests"))]
pub(crate) fn lines() -> impl Iterator<Item = &'static str> {
    HELP.lines().filter_map(|line| line.strip_prefix("    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_programs_are_told_the_name_and_the_command() {
        let added: Vec<_> =
            lines().filter(|line| line.contains(" mcp add ") && line.contains(" -- ")).collect();
        assert_eq!(added.len(), 3, "{added:?}");
        for line in added {
            let (add, served) = line.split_once(" -- ").unwrap();
            assert!(add.ends_with(SERVER_NAME) && served == "nexus mcp spawn", "{line}");
        }
    }
}

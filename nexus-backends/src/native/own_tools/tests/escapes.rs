//! Forty ways out of the working directory, by commands. None succeeds in the sandbox, and nearly all succeed without it.

use nexus_testkit::escapes::EscapeSite;

use super::*;

/// Runs all tries at one level. Returns the numbers of those that succeeded.
async fn escapes(access: ToolAccess) -> Option<Vec<usize>> {
    let machine = Machine::new();
    let tools = machine.tools(access).await;
    if !has_commands(&tools) {
        return None;
    }
    let mut site = EscapeSite::beside(&machine.project());
    let found = site.succeeded(&run(&tools, &site.script()).await);
    if access != ToolAccess::Unrestricted {
        site.assert_untouched();
    }
    Some(found)
}

#[tokio::test]
async fn no_command_in_the_sandbox_gets_out_of_the_working_directory() {
    for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite] {
        let Some(found) = escapes(access).await else { return };
        assert!(found.is_empty(), "{access:?}: {found:?}");
    }
}

#[tokio::test]
async fn without_the_sandbox_the_same_commands_get_out() {
    let Some(found) = escapes(ToolAccess::Unrestricted).await else { return };
    let all = EscapeSite::TRIES;
    assert!(found.len() >= all - 2, "{} of {all}: {found:?}", found.len());
}

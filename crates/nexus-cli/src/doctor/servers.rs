//! Checks of the servers of `mcp_servers`.

use std::collections::BTreeMap;

use nexus::{MCP_SERVERS, McpServerSummary, Router, ServerWorkspace, ToolAccess};
use nexus_mcp::client::{ServerFault, ToolOffer};

use crate::{checks::Check, output::printable, turn_servers};

/// Maximum number of tools that a line names.
const MOST_NAMED: usize = 12;

/// Starts each server as for a turn that reads the current folder, and reports its tools.
pub(super) async fn servers(router: &Router) -> Vec<Check> {
    let named = match turn_servers::of(router) {
        Ok(named) => named,
        Err(error) => {
            let advice = format!("correct the section `{MCP_SERVERS}`");
            return vec![Check::failed(MCP_SERVERS, error.to_string()).fixed_by(advice)];
        }
    };
    // The servers are only tried, so they start with the lowest access.
    let workspace = ServerWorkspace::new(ToolAccess::ReadOnly, std::env::current_dir().ok());
    let opened = named.open(&workspace, "Run `nexus doctor` again");
    let faults = opened.offer(&mut ToolOffer::new()).await;
    let listed: BTreeMap<_, _> = opened.listed().await.into_iter().collect();
    opened.stop().await;
    let summaries = named.summaries();
    let checks = summaries.iter().map(|server| {
        let faults = faults.iter().filter(|fault| fault.server == server.name);
        check(server, listed.get(&server.name), faults)
    });
    checks.collect()
}

fn check<'a>(
    server: &McpServerSummary,
    tools: Option<&Vec<String>>,
    faults: impl Iterator<Item = &'a ServerFault>,
) -> Check {
    let subject = format!("server {}", server.name);
    let reasons: Vec<_> = faults.map(|fault| printable(&fault.reason)).collect();
    let advice = format!("correct {MCP_SERVERS}.{}, or remove it", server.name);
    let Some(tools) = tools else {
        let check =
            Check::problem(subject, format!("{}: {}", printable(&server.reach), reasons.join("; ")), advice);
        // Turns run without the server, unless its entry says otherwise.
        return if server.is_required { check } else { check.noted() };
    };
    let approval =
        if server.is_approved { "no call needs an approval" } else { "each call needs an approval" };
    let mut shown: Vec<_> = tools.iter().take(MOST_NAMED).map(|name| printable(name)).collect();
    if tools.len() > MOST_NAMED {
        shown.push(format!("and {} more", tools.len() - MOST_NAMED));
    }
    let detail = format!("{}: {}; {approval}", printable(&server.reach), shown.join(", "));
    match reasons.is_empty() {
        true => Check::ok(subject, detail),
        false => Check::note(subject, format!("{detail}; {}", reasons.join("; "))).fixed_by(advice),
    }
}

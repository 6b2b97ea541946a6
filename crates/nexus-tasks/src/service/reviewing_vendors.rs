//! Checks that `nexus.yaml` binds enough vendors to review a task, each at an address of its own.
//!
//! The router's panel of the work-kind `reviewer` chooses the backends. [`PanelReview`](crate::PanelReview) counts their votes by vendor.

use std::collections::BTreeSet;

use nexus_router::{ExplainedTarget, Panel, Router};

use crate::task_error::{TaskError, TaskErrorKind};

/// Work-kind of reviewers.
pub(super) const REVIEWER: &str = "reviewer";

/// Checks that the reviewers' vendors have addresses of their own. Returns warnings.
///
/// # Errors
///
/// [`NotConfigured`](TaskErrorKind::NotConfigured) if two share an address and the panel requires distinct ones.
pub(super) async fn check_addresses(router: &Router) -> Result<Vec<String>, TaskError> {
    let Ok(panel) = router.panel(REVIEWER) else { return Ok(Vec::new()) };
    let mut warnings = Vec::new();
    for shared in router.shared_addresses().await.iter().filter(|shared| shared.panel == panel.name) {
        let text = format!("the panel {:?}: {shared}", shared.panel);
        if shared.is_refused {
            return Err(TaskError::new(TaskErrorKind::NotConfigured, text, shared.advice()));
        }
        warnings.push(format!("{text}, so their votes may come from one server: {}", shared.advice()));
    }
    Ok(warnings)
}

/// Checks that the reviewers have enough vendors for a step to advance. Without `asked`, the setting of the panel counts.
///
/// # Errors
///
/// [`NotConfigured`](TaskErrorKind::NotConfigured) if they have too few: every turn before the first review would be paid for nothing.
pub(super) fn check_vendors(target: &ExplainedTarget, asked: Option<usize>) -> Result<(), TaskError> {
    let (chains, of_panel) = match target {
        ExplainedTarget::Chain(chain) => (vec![chain], Panel::new(REVIEWER, []).min_vendors),
        ExplainedTarget::Panel { seats, min_vendors, .. } => {
            (seats.iter().map(|seat| &seat.chain).collect(), *min_vendors)
        }
        _ => return Ok(()),
    };
    let needed = asked.unwrap_or(of_panel);
    let vendors: BTreeSet<_> =
        chains.iter().flat_map(|chain| &chain.entries).filter_map(|entry| entry.vendor.as_ref()).collect();
    // Each seat has one vote, so a single seat with fallbacks of other vendors still adds only one vendor.
    let most = vendors.len().min(chains.len());
    if needed <= most {
        return Ok(());
    }
    let message = format!(
        "no step can advance: it needs votes of {needed} vendors, but the reviewers in nexus.yaml have at most {most}"
    );
    let instead = "bind reviewers of more vendors, or set `min_vendors` to a smaller number";
    Err(TaskError::new(TaskErrorKind::NotConfigured, message, instead))
}

//! Modes and options of a session: types of the configuration, and access levels.

use agent_client_protocol_schema::v1::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode,
    SessionModeState,
};
use nexus_core::ToolAccess;
use nexus_router::{ExplainedTarget, Router};

/// Id of the option for the mode, for clients that show options and no modes.
pub(crate) const MODE: &str = "mode";
/// Id of the option for the access level.
pub(crate) const ACCESS: &str = "access";

/// Every access level, lowest first, with its name and description.
const LEVELS: [(ToolAccess, &str, &str); 4] = [
    (ToolAccess::ScopedOnly, "Text only", "No tools"),
    (ToolAccess::ReadOnly, "Read only", "The vendor's own tools, limited to reading"),
    (ToolAccess::WorkspaceWrite, "Write in the folder", "The vendor's own tools, writing inside the folder"),
    (ToolAccess::Unrestricted, "Unrestricted", "The vendor's own tools without a sandbox"),
];

/// Returns the types that can be a mode: types with one chain. A panel has no conversation.
pub(crate) fn kinds(router: &Router) -> Vec<String> {
    router.kinds().into_iter().filter(|kind| router.binding(kind.as_str()).is_ok()).collect()
}

/// Returns the type of a new session.
///
/// # Errors
///
/// The wanted type is not a mode, or the configuration has no mode.
pub(crate) fn first_kind(router: &Router, wanted: Option<&str>) -> Result<String, String> {
    let Some(wanted) = wanted else {
        let first = kinds(router).into_iter().next();
        return first.ok_or_else(|| {
            "the configuration has no type with a single chain; a panel has no conversation".to_owned()
        });
    };
    check_kind(router, wanted)?;
    Ok(wanted.to_owned())
}

/// Checks that a type is a mode.
///
/// # Errors
///
/// The reason, and the names of the modes.
pub(crate) fn check_kind(router: &Router, kind: &str) -> Result<(), String> {
    let known = || kinds(router).join(", ");
    router.binding(kind).map(drop).map_err(|error| format!("{error}; the modes are: {}", known()))
}

/// Returns the modes, with `current` as the selected one.
pub(crate) fn modes(router: &Router, current: &str) -> SessionModeState {
    let modes = kinds(router).into_iter().map(|kind| {
        let description = description(router, &kind);
        SessionMode::new(kind.clone(), kind).description(description)
    });
    SessionModeState::new(current.to_owned(), modes.collect())
}

/// Returns the options: the mode, and the access levels up to `most`.
pub(crate) fn options(
    router: &Router,
    current: &str,
    access: ToolAccess,
    most: ToolAccess,
) -> Vec<SessionConfigOption> {
    let modes = kinds(router).into_iter().map(|kind| {
        let description = description(router, &kind);
        SessionConfigSelectOption::new(kind.clone(), kind).description(description)
    });
    let levels = LEVELS.iter().filter(|(level, ..)| *level <= most).map(|(level, name, what)| {
        SessionConfigSelectOption::new(level.as_str(), *name).description((*what).to_owned())
    });
    vec![
        SessionConfigOption::select(MODE, "Type", current.to_owned(), modes.collect::<Vec<_>>())
            .description("The type of nexus.yaml that answers".to_owned())
            .category(SessionConfigOptionCategory::Mode),
        SessionConfigOption::select(ACCESS, "Access", access.as_str(), levels.collect::<Vec<_>>())
            .description("Permissions of the agent in this session".to_owned()),
    ]
}

/// Returns the access level with this name, if it is at most `most`.
pub(crate) fn level(name: &str, most: ToolAccess) -> Option<ToolAccess> {
    let mut levels = LEVELS.iter().map(|(level, ..)| *level);
    levels.find(|level| *level <= most && level.as_str() == name)
}

/// Describes a type and its backends: `operations/review · a group, model strong`.
fn description(router: &Router, kind: &str) -> Option<String> {
    let explanation = router.explain(kind).ok()?;
    let ExplainedTarget::Chain(chain) = &explanation.target else { return None };
    let mut words = Vec::new();
    if let (Some(tier), Some(phase)) = (&explanation.tier, &explanation.phase) {
        words.push(format!("{tier}/{phase}"));
    }
    let model = chain.model.as_ref().map(|model| format!(", model {model}")).unwrap_or_default();
    words.push(format!("{}{model}", chain.group));
    Some(words.join(" · "))
}

//! Values that a backend gets by a name in the file: the address and credential of a provider's row, and the program of an agent
//! of the user.

use nexus::{KnownAgentSummary, ProviderSummary, Providers, Registry};
use serde_json::{Map, Value, json};

use super::{ConfigUse, ConfigUseKind, shown, shown_value};

/// Returns the added values of all backends of a configuration.
pub(super) fn uses(value: &Value, registry: &Registry) -> Vec<ConfigUse> {
    let Some(providers) = registry.providers() else { return Vec::new() };
    let section = value.get(providers.name());
    let rows = providers.list(section);
    let mut found = Vec::new();
    for (id, entry) in value["backends"].as_object().into_iter().flatten() {
        let row = rows.iter().find(|row| entry["provider"].as_str() == Some(row.name.as_str()));
        // Skip an entry with a `base_url`: it sends only its own credential there, and the file shows both.
        let (Some(row), Some(entry), None) = (row, entry.as_object(), entry.get("base_url")) else {
            continue;
        };
        let settings = completed(&**providers, row, entry, section);
        let key = format!("backends.{}.provider", shown(id));
        for (setting, kind) in
            [("base_url", ConfigUseKind::Address), ("credential", ConfigUseKind::Credential)]
        {
            if let (Some(value), false) = (settings.get(setting), entry.contains_key(setting)) {
                let value = shown_value(kind, value);
                found.push(ConfigUse { kind, key: key.clone(), value, is_in_folder: false });
            }
        }
    }
    found
}

/// Returns the programs of the user's own agents that the backends of a configuration name. Those of Nexus's agents are known.
pub(super) fn programs(value: &Value, agents: &[KnownAgentSummary]) -> Vec<ConfigUse> {
    let entries = value["backends"].as_object().into_iter().flatten();
    let named = entries.filter_map(|(id, entry)| {
        // An entry with a `command` starts that program, and the row of its agent does not matter.
        let name = entry.get("command").is_none().then(|| entry["agent"].as_str())??;
        let agent = agents.iter().find(|agent| agent.is_yours && agent.name == name)?;
        Some(ConfigUse {
            kind: ConfigUseKind::Program,
            key: format!("backends.{}.agent", shown(id)),
            value: shown_value(ConfigUseKind::Program, &json!(agent.command)),
            is_in_folder: false,
        })
    });
    named.collect()
}

/// Returns the settings of an entry after its row was applied. An entry that cannot be completed gets the row's address with the
/// values that it has, so that an error hides nothing.
fn completed(
    providers: &dyn Providers,
    row: &ProviderSummary,
    entry: &Map<String, Value>,
    section: Option<&Value>,
) -> Map<String, Value> {
    let mut entry = entry.clone();
    ["kind", "provider"].iter().for_each(|key| drop(entry.remove(*key)));
    if let Ok(done) = providers.complete(&row.name, &entry, section) {
        return done.settings;
    }
    // The entry is incomplete, so show the address with the parameters that it has.
    let texts = row.parameters.iter().filter_map(|name| Some((name, entry.get(name)?.as_str()?)));
    let address = texts
        .fold(row.base_url.clone(), |address, (name, text)| address.replace(&format!("{{{name}}}"), text));
    let credential = row.variable.as_ref().map(|name| ("credential".to_owned(), json!({ "env": name })));
    [("base_url".to_owned(), address.into())].into_iter().chain(credential).collect()
}

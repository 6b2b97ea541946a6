//! From an entry of a configuration with `provider` to the settings of a kind.

use nexus_core::SettingsError;
use serde_json::{Map, Value, json};

use super::row::{OWN_KEY_HEADERS, ProviderRow, fill, placeholders};
use crate::native::call_route::StreamFraming;
use crate::native::key_placement::KeyPlacement;
use crate::native::signature::is_scope_name;

/// Longest value of a parameter, in bytes. Source: the limit of a label in a host name.
const MAX_PARAMETER_BYTES: usize = 63;

/// Settings of a kind for the place of the key: that of most kinds, and that of kinds with a header of their own.
const PLACEMENTS: [&str; 2] = ["auth", "key_header"];

/// Returns the settings of the row's kind. The entry's own settings win over those of the row.
pub(super) fn settings(
    name: &str,
    row: &ProviderRow,
    entry: &Map<String, Value>,
) -> Result<Map<String, Value>, SettingsError> {
    let mut entry = entry.clone();
    let has_own_address = entry.contains_key("base_url");
    let mut settings = row.settings.clone();
    if let Some(signature) = &row.sigv4 {
        // Skip a region that is not a text: the check of the parameters rejects it.
        if let Some(region) = entry.get("region").and_then(Value::as_str) {
            if !is_scope_name(region) {
                let reason = "must be the name of a region in lower case, such as us-east-1";
                return Err(SettingsError::new("region", reason));
            }
            settings.insert("sigv4".to_owned(), json!({ "service": signature.service, "region": region }));
        }
    }
    let (base_url, path) = address(name, row, &mut entry, has_own_address)?;
    if let Some(path) = path {
        settings.insert("path".to_owned(), path.into());
    }
    if row.framing != StreamFraming::default() {
        settings.insert("framing".to_owned(), json!(row.framing));
    }
    settings.insert("base_url".to_owned(), base_url.into());
    // The address that an entry names may belong to another company.
    if let Some(vendor) = row.vendor.as_deref().filter(|_| !has_own_address) {
        settings.insert("vendor".to_owned(), vendor.into());
    }
    let has_own_header = OWN_KEY_HEADERS.iter().any(|(wire, _)| *wire == row.wire);
    if row.auth == KeyPlacement::None {
        let has_own_placement = PLACEMENTS.iter().any(|key| entry.contains_key(*key));
        if entry.contains_key("credential") && !has_own_placement {
            let key = if has_own_header { PLACEMENTS[1] } else { PLACEMENTS[0] };
            let reason = format!(
                "the row of the provider {name} sends no key (`auth: none`): remove the credential, or set `{key}` to the \
                 place of the key"
            );
            return Err(SettingsError::new("credential", reason));
        }
    }
    if has_own_header {
        if row.auth == KeyPlacement::Bearer {
            settings.insert("key_header".to_owned(), "authorization".into());
        }
    } else {
        match &row.auth {
            KeyPlacement::Bearer => {}
            KeyPlacement::None => {
                settings.insert("auth".to_owned(), "none".into());
            }
            KeyPlacement::Header(header) => {
                settings.insert("auth".to_owned(), json!({ "header": header }));
            }
            KeyPlacement::Query(parameter) => {
                settings.insert("auth".to_owned(), json!({ "query": parameter }));
            }
        }
    }
    // A key for the provider's server is not sent to the address that an entry names.
    if let Some(variable) = row.variable.as_deref().filter(|_| !has_own_address) {
        settings.insert("credential".to_owned(), json!({ "env": variable }));
    }
    let headers = row.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    merge(&mut settings, &mut entry, "headers", headers, str::eq_ignore_ascii_case);
    let query = row.query.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    merge(&mut settings, &mut entry, "query", query, str::eq);
    merge(&mut settings, &mut entry, "body", row.body.clone(), str::eq);
    settings.extend(entry);
    Ok(settings)
}

/// Takes the parameters out of the entry, and returns the address and the path of a call with them.
fn address(
    name: &str,
    row: &ProviderRow,
    entry: &mut Map<String, Value>,
    has_own_address: bool,
) -> Result<(String, Option<String>), SettingsError> {
    let (mut address, mut path) = (row.base_url.clone(), row.path.clone());
    for (parameter, meaning) in &row.parameters {
        let is_in_path =
            row.path.as_deref().is_some_and(|path| placeholders(path).any(|name| name == parameter));
        let value = match entry.remove(parameter) {
            // An entry with an address of its own needs no part of another one.
            _ if has_own_address && !is_in_path => continue,
            Some(Value::String(value)) => value,
            Some(_) => return Err(SettingsError::new(parameter, format!("must be text: the {meaning}"))),
            None => {
                let reason = format!("the provider {name} needs it: write `{parameter}:` with the {meaning}");
                return Err(SettingsError::new(parameter, reason));
            }
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if value.is_empty() || value.len() > MAX_PARAMETER_BYTES || !value.chars().all(fits) {
            let reason = "must consist of at most 63 ASCII letters, digits, `-` and `_`, because it is part of an address";
            return Err(SettingsError::new(parameter, reason));
        }
        address = fill(&address, parameter, &value);
        path = path.map(|path| fill(&path, parameter, &value));
    }
    Ok((address, path))
}

/// Merges a mapping of the row with that of the entry, whose members win.
fn merge(
    settings: &mut Map<String, Value>,
    entry: &mut Map<String, Value>,
    key: &str,
    of_row: Map<String, Value>,
    is_same: fn(&str, &str) -> bool,
) {
    // A value of another type stays, so that the kind rejects it.
    if of_row.is_empty() || entry.get(key).is_some_and(|own| !own.is_object()) {
        return;
    }
    let Some(own) = entry.get_mut(key).and_then(Value::as_object_mut) else {
        settings.insert(key.to_owned(), of_row.into());
        return;
    };
    for (name, value) in of_row {
        if !own.keys().any(|known| is_same(known, &name)) {
            own.insert(name, value);
        }
    }
}

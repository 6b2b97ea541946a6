//! The section `providers` of `nexus.yaml`, with rows of the file's writer.

use std::sync::Arc;

use nexus_core::{
    BackendKind, CompletedEntry, ConfigSection, ProviderSummary, Providers, SettingsError, settings_schema,
};
use serde_json::{Map, Value, json};

use super::row::ProviderRow;
use super::{complete, table};

/// The rows of Nexus and of a file.
#[derive(Clone, Debug)]
pub(crate) struct ProviderRows {
    /// The wires of this build.
    kinds: Vec<Arc<dyn BackendKind>>,
}

impl ProviderRows {
    /// Creates the table for the kinds that can speak a row's wire.
    pub(crate) fn new(kinds: impl IntoIterator<Item = Arc<dyn BackendKind>>) -> Self {
        Self { kinds: kinds.into_iter().collect() }
    }

    /// Returns the row of a name: the file's own, otherwise that of Nexus.
    fn row(&self, name: &str, section: Option<&Value>) -> Option<ProviderRow> {
        match section.and_then(|rows| rows.get(name)) {
            // The section was checked before.
            Some(own) => ProviderRow::read(own, &self.kinds).ok(),
            None => table().get(name).cloned(),
        }
    }
}

impl ConfigSection for ProviderRows {
    fn name(&self) -> &'static str {
        "providers"
    }

    fn schema(&self) -> Value {
        let mut row = settings_schema::of::<ProviderRow>();
        row["required"] = json!(["wire", "base_url"]);
        json!({
            "description": "Rows of providers in addition to those of Nexus, by name. An entry of backends with \
                that name as its `provider` is completed from the row.",
            "additionalProperties": row,
        })
    }

    fn check(&self, value: &Value) -> Result<(), SettingsError> {
        let Some(rows) = value.as_object() else {
            let reason = "must be a mapping of providers by name".to_owned();
            return Err(SettingsError { path: Vec::new(), reason });
        };
        for (name, row) in rows {
            ProviderRow::read(row, &self.kinds).map_err(|mut error| {
                error.path.insert(0, name.clone());
                error
            })?;
        }
        Ok(())
    }
}

impl Providers for ProviderRows {
    fn list(&self, section: Option<&Value>) -> Vec<ProviderSummary> {
        let own = section.and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let mut names: Vec<&String> = table().keys().chain(own).collect();
        names.sort_unstable();
        names.dedup();
        let summary = |name: &String| {
            let row = self.row(name, section)?;
            Some(ProviderSummary {
                name: name.clone(),
                wire: row.wire,
                base_url: row.base_url,
                parameters: row.parameters.into_keys().collect(),
                variable: row.variable,
                checked: row.checked,
                is_of_the_file: section.is_some_and(|rows| rows.get(name).is_some()),
                source: row.source,
            })
        };
        names.into_iter().filter_map(summary).collect()
    }

    fn complete(
        &self,
        provider: &str,
        entry: &Map<String, Value>,
        section: Option<&Value>,
    ) -> Result<CompletedEntry, SettingsError> {
        let row = self.row(provider, section).ok_or_else(|| {
            SettingsError::new("provider", format!("the provider {provider} has no usable row"))
        })?;
        let settings = complete::settings(provider, &row, entry)?;
        Ok(CompletedEntry { kind: row.wire, settings })
    }
}

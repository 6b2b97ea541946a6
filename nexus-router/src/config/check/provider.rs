//! Entries that name a provider, whose row completes them.

use nexus_core::{BackendId, CompletedEntry, ProviderSummary};

use super::{
    super::{nearest, node::MappingKey, report::quoted, schema::BackendWritten},
    FileCheck, mapping,
};

impl FileCheck<'_> {
    /// Returns the providers of the registry and of the file.
    pub(super) fn providers(&self) -> Vec<ProviderSummary> {
        let providers = self.sources.registry.providers();
        providers.map(|all| all.list(self.sections.get(all.name()))).unwrap_or_default()
    }

    /// Returns the kind and the settings of an entry that names a provider. `Some(None)` if the entry names none, and `None` after
    /// a reported problem.
    pub(super) fn completed(
        &mut self,
        id: &BackendId,
        key: &MappingKey,
        written: &BackendWritten,
    ) -> Option<Option<CompletedEntry>> {
        let Some(provider) = &written.provider else {
            // An invalid `provider` was already reported.
            let is_invalid = mapping(written).iter().any(|(key, _)| key.text == "provider");
            return (!is_invalid).then_some(None);
        };
        let Some(providers) = self.sources.registry.providers().cloned() else {
            self.report.add(provider.position, "this build has no providers: write `kind` and `base_url`");
            return None;
        };
        // An invalid section was already reported.
        if self.refused_sections.contains(providers.name()) {
            return None;
        }
        let all = self.providers();
        let Some(row) = all.iter().find(|row| row.name == provider.value) else {
            let names = || all.iter().map(|row| row.name.as_str());
            // Without a similar name, list all providers: `unknown` lists only a few names.
            match nearest(&provider.value, names()) {
                Some(_) => {
                    self.report.unknown(provider.position, "provider", &provider.value, names());
                }
                None => {
                    let names = names().collect::<Vec<_>>().join(", ");
                    let message = format!("unknown provider {}; valid: {names}", quoted(&provider.value));
                    self.report.add(provider.position, message);
                }
            }
            return None;
        };
        if let Some(kind) = written.kind.as_ref().filter(|kind| kind.value != row.wire) {
            let message = format!(
                "the provider {} is of kind {}: leave `kind` out",
                quoted(&provider.value),
                quoted(&row.wire)
            );
            self.report.add(kind.position, message);
            return None;
        }
        let registry = &self.sources.registry;
        let is_kind = registry.kind(&key.text).is_some() || registry.absence(&key.text).is_some();
        if is_kind && key.text != row.wire {
            let message =
                format!("{} is the name of a kind: give this backend another name", quoted(&key.text));
            self.report.add(key.position, message);
            return None;
        }
        let section = self.sections.get(providers.name());
        match providers.complete(&provider.value, &written.settings, section) {
            Ok(entry) => Some(Some(entry)),
            Err(error) => {
                self.refused_settings(id, Some((key, written)), &error);
                None
            }
        }
    }

    /// Returns the settings that only the provider of an entry reads, for its address.
    pub(super) fn provider_parameters(&self, written: &BackendWritten) -> Vec<String> {
        let Some(provider) = &written.provider else { return Vec::new() };
        let row = self.providers().into_iter().find(|row| row.name == provider.value);
        row.map(|row| row.parameters).unwrap_or_default()
    }
}

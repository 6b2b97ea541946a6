//! Resolves every name in a file, builds its backends, and reports every mismatch.

mod provider;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use nexus_core::{
    BackendId, BuildContext, CompletedEntry, ExecutionBackend, ModelId, SettingsError, VendorId,
    scope::folded_name,
};
use serde_json::{Map, Value};

use super::{
    configuration::{
        BuiltFrom, Configuration, ConfiguredBackend, DEFAULT_MIN_VENDORS, EntryState, PanelSeat,
        PoolBuiltFrom, Roster, Target, WorkType,
    },
    node::{MappingKey, Node, NodeValue, Position},
    report::{FoundProblems, Placed, quoted},
    schema::{
        BACKEND_KEYS, BackendWritten, BindingWritten, ModelWritten, PanelWritten, TypeWritten,
        WrittenConfiguration,
    },
    settings::names_are_known,
    sources::Sources,
};
use crate::{binding::Binding, spending::BudgetSubject};

pub(crate) fn check(
    written: &WrittenConfiguration,
    sources: &Sources,
    before: Option<&Configuration>,
    report: &mut FoundProblems,
) -> Configuration {
    let mut check = FileCheck {
        written,
        sources,
        before,
        report,
        sections: BTreeMap::new(),
        refused_sections: BTreeSet::new(),
        backends: BTreeMap::new(),
        vendors: BTreeMap::new(),
        schemas: BTreeMap::new(),
        context: sources.context.clone(),
    };
    // Check sections before backends: building a pooled backend needs a section.
    check.sections();
    check.pools();
    check.shared_logins();
    check.backends();
    check.groups();
    check.models();
    let panels = check.panels();
    let types = check.types();
    check.budgets();
    let FileCheck { backends, sections, .. } = check;
    let models = written.models.iter().map(|(key, _)| key.text.clone()).collect();
    let base_directory = sources.context.base_directory.clone();
    let budgets = written.budgets.clone();
    Configuration { backends, types, panels, models, budgets, sections, base_directory, warnings: Vec::new() }
}

/// Check of a configuration file.
struct FileCheck<'a> {
    written: &'a WrittenConfiguration,
    sources: &'a Sources,
    before: Option<&'a Configuration>,
    report: &'a mut FoundProblems,
    sections: BTreeMap<&'static str, Value>,
    /// Sections with errors that were already reported.
    refused_sections: BTreeSet<&'static str>,
    backends: BTreeMap<BackendId, Arc<ConfiguredBackend>>,
    /// Vendors by their normalized names, each with its first spelling in the file.
    vendors: BTreeMap<String, VendorId>,
    /// Schemas of the settings of kinds, by the names of the kinds that were needed so far.
    schemas: BTreeMap<String, Value>,
    /// Context for building backends: the context of the sources, with the file's shared logins.
    context: BuildContext,
}

impl<'a> FileCheck<'a> {
    fn backends(&mut self) {
        for custom in &self.sources.custom {
            let vendor = custom.vendor.clone().map(|vendor| self.vendor(vendor));
            // The entry is shared, so replace it only if an earlier backend spells its vendor in another way.
            let entry = match custom.backend() {
                Some(backend) if vendor != custom.vendor => Arc::new(ConfiguredBackend {
                    id: custom.id.clone(),
                    state: EntryState::Built(Arc::clone(backend)),
                    vendor,
                    parked: None,
                    max_turns_at_once: None,
                    built_from: None,
                }),
                _ => Arc::clone(custom),
            };
            self.backends.insert(custom.id.clone(), entry);
        }
        for (key, backend) in &self.written.backends {
            if let Some(entry) = self.configured(key, backend) {
                self.backends.insert(entry.id.clone(), Arc::new(entry));
            }
        }
    }

    /// Returns the first spelling of a vendor. Names are equal if they differ only in case, in Unicode form or in invisible
    /// characters.
    fn vendor(&mut self, vendor: VendorId) -> VendorId {
        let key = folded_name(vendor.as_str().trim());
        self.vendors.entry(key).or_insert(vendor).clone()
    }

    /// Returns a backend that has an entry in the file.
    fn configured(&mut self, key: &MappingKey, written: &BackendWritten) -> Option<ConfiguredBackend> {
        let id = BackendId::new(key.text.as_str());
        let custom = self.sources.custom.iter().find(|custom| custom.id == id);
        let mut entry = match custom {
            Some(custom) => self.configured_custom(custom, key, written)?,
            None => match self.completed(&id, key, written)? {
                Some(CompletedEntry { kind, settings }) => {
                    self.build(&id, &kind, &settings, Some((key, written)))?
                }
                None => {
                    let kind = self.kind_of(key, written)?;
                    self.build(&id, &kind, &written.settings, Some((key, written)))?
                }
            },
        };
        entry.parked.clone_from(&written.parked);
        entry.max_turns_at_once = written.max_turns_at_once;
        Some(entry)
    }

    /// Returns a backend that was registered from Rust, with the file's entry for it. The entry may set only if, how often and
    /// on which machines the backend runs.
    fn configured_custom(
        &mut self,
        custom: &ConfiguredBackend,
        key: &MappingKey,
        written: &BackendWritten,
    ) -> Option<ConfiguredBackend> {
        for (named, key) in [(&written.kind, "kind"), (&written.provider, "provider")] {
            if let Some(named) = named {
                let message = format!("the program registers this backend: leave `{key}` out");
                self.report.add(named.position, message);
            }
        }
        for (key, _) in mapping(written) {
            if !BACKEND_KEYS.contains(&key.text.as_str()) {
                let what = "key of a backend that the program registered";
                let valid = BACKEND_KEYS.iter().copied().filter(|key| !["kind", "provider"].contains(key));
                self.report.unknown(key.position, what, &key.text, valid);
            }
        }
        let local = Arc::clone(custom.backend()?);
        let built_from = self.built_from(None, &Map::new(), Some(written));
        let backend = self.built(&custom.id, &built_from, Some((key, written)), || Ok(local))?;
        Some(ConfiguredBackend {
            id: custom.id.clone(),
            state: EntryState::Built(backend),
            vendor: custom.vendor.clone().map(|vendor| self.vendor(vendor)),
            parked: None,
            max_turns_at_once: None,
            built_from: Some(built_from),
        })
    }

    /// Returns the kind of a configured backend: the kind that it names, else the kind with its own name.
    fn kind_of(&mut self, key: &MappingKey, written: &BackendWritten) -> Option<String> {
        let registry = &self.sources.registry;
        let is_kind = |name: &str| registry.kind(name).is_some() || registry.absence(name).is_some();
        match &written.kind {
            None if is_kind(&key.text) => Some(key.text.clone()),
            // The entry has an invalid `kind`, which was already reported.
            None if mapping(written).iter().any(|(key, _)| key.text == "kind") => None,
            None => {
                match self.providers().iter().any(|row| row.name == key.text) {
                    true => {
                        let name = quoted(&key.text);
                        let message =
                            format!("{name} is a provider: write `provider: {}` in this entry", key.text);
                        self.report.add(key.position, message);
                    }
                    false => {
                        self.report.unknown(key.position, "backend", &key.text, self.known_backends());
                    }
                }
                None
            }
            Some(kind) if is_kind(&kind.value) => {
                if is_kind(&key.text) && kind.value != key.text {
                    let message = format!(
                        "{} is the name of a kind: give this backend another name",
                        quoted(&key.text)
                    );
                    self.report.add(key.position, message);
                    return None;
                }
                Some(kind.value.clone())
            }
            Some(kind) if self.written.backends.iter().any(|(other, _)| other.text == kind.value) => {
                let message = format!(
                    "`kind` must name a kind of backend, but {} is a backend of this file",
                    quoted(&kind.value)
                );
                self.report.add(kind.position, message);
                None
            }
            Some(kind) => {
                self.report.unknown(kind.position, "kind of backend", &kind.value, registry.names());
                None
            }
        }
    }

    /// Builds a backend of a known kind.
    fn build(
        &mut self,
        id: &BackendId,
        kind_name: &str,
        settings: &Map<String, Value>,
        written: Option<(&MappingKey, &BackendWritten)>,
    ) -> Option<ConfiguredBackend> {
        let entry = |state, vendor, built_from| ConfiguredBackend {
            id: id.clone(),
            state,
            vendor,
            parked: None,
            max_turns_at_once: None,
            built_from,
        };
        // A kind that is missing from this build is no fault of the file: the backend is skipped at run time.
        let Some(kind) = self.sources.registry.kind(kind_name) else {
            let reason = self.sources.registry.absence(kind_name).unwrap_or_default();
            return Some(entry(EntryState::Absent(reason.to_owned()), None, None));
        };
        if let Some((_, written)) = written {
            let parameters = self.provider_parameters(written);
            let common: Vec<&str> =
                BACKEND_KEYS.iter().copied().chain(parameters.iter().map(String::as_str)).collect();
            let schema = self.schemas.entry(kind_name.to_owned()).or_insert_with(|| kind.settings_schema());
            if !names_are_known(&written.node, schema, kind.name(), &common, self.report) {
                return None;
            }
        }
        let context = self.context.clone();
        let built_from = self.built_from(Some(kind_name), settings, written.map(|(_, written)| written));
        let vendor = kind.vendor(settings, &context);
        let vendor = Some(self.vendor(vendor));
        let backend = self.built(id, &built_from, written, || kind.build(id.clone(), settings, &context))?;
        Some(entry(EntryState::Built(backend), vendor, Some(built_from)))
    }

    fn built_from(
        &self,
        kind: Option<&str>,
        settings: &Map<String, Value>,
        written: Option<&BackendWritten>,
    ) -> BuiltFrom {
        let pool = written.and_then(|written| written.pool.as_ref()).map(|pool| PoolBuiltFrom {
            name: pool.value.clone(),
            section: self.section_of_pools().cloned(),
        });
        BuiltFrom {
            kind: kind.map(ToOwned::to_owned),
            settings: settings.clone(),
            base_directory: self.sources.context.base_directory.clone(),
            pool,
            shared_logins: match self.context.shared_logins.is_empty() {
                true => None,
                false => self.section_of_pools().cloned(),
            },
        }
    }

    /// Returns the backend that the router uses. It is the previous one if its inputs are unchanged, else the output of `local`
    /// or the pool's replacement.
    fn built(
        &mut self,
        id: &BackendId,
        built_from: &BuiltFrom,
        written: Option<(&MappingKey, &BackendWritten)>,
        local: impl FnOnce() -> Result<Arc<dyn ExecutionBackend>, SettingsError>,
    ) -> Option<Arc<dyn ExecutionBackend>> {
        let unchanged = self
            .before
            .and_then(|before| before.backends.get(id))
            .filter(|before| before.built_from.as_ref() == Some(built_from))
            .and_then(|before| before.backend());
        if let Some(backend) = unchanged {
            return Some(Arc::clone(backend));
        }
        match local() {
            Ok(local) => match written.and_then(|(_, written)| written.pool.as_ref()) {
                Some(pool) => self.in_pool(local, pool),
                None => Some(local),
            },
            Err(error) => {
                self.refused_settings(id, written, &error);
                None
            }
        }
    }

    /// Returns the replacement of a backend whose turns run in a pool.
    fn in_pool(
        &mut self,
        local: Arc<dyn ExecutionBackend>,
        pool: &Placed<String>,
    ) -> Option<Arc<dyn ExecutionBackend>> {
        // A missing build feature or section was already reported.
        let pools = self.sources.registry.pools()?;
        if self.refused_sections.contains(pools.name()) {
            return None;
        }
        let id = local.id().clone();
        let section = self.section_of_pools();
        let error = match pools.build(local, &pool.value, section, &self.context) {
            Ok(backend) => return Some(backend),
            Err(error) => error,
        };
        let written = self.written.sections.iter().find(|(name, _)| *name == pools.name());
        match written {
            // An error with a path lies in the section, which all pooled backends share, so report it once.
            Some((name, node)) if section.is_some() && !error.path.is_empty() => {
                self.refused_sections.insert(name);
                self.report.add(node.position_of(&error.path), format!("{name}: {error}"));
            }
            _ => self.report.add(pool.position, format!("`pool` of {id}: {error}")),
        }
        None
    }

    /// Applies the section for logins that another machine owns.
    fn shared_logins(&mut self) {
        let Some(pools) = self.sources.registry.pools() else { return };
        let Some(section) = self.section_of_pools() else { return };
        if self.refused_sections.contains(pools.name()) {
            return;
        }
        match pools.shared_logins(section, &self.context) {
            Ok(logins) => self.context = self.context.clone().with_shared_logins(logins),
            Err(error) => {
                let written = self.written.sections.iter().find(|(name, _)| *name == pools.name());
                if let Some((name, node)) = written {
                    self.refused_sections.insert(name);
                    self.report.add(node.position_of(&error.path), format!("{name}: {error}"));
                }
            }
        }
    }

    fn section_of_pools(&self) -> Option<&Value> {
        self.sections.get(self.sources.registry.pools()?.name())
    }

    /// Checks that this build can build pooled backends.
    fn pools(&mut self) {
        if self.sources.registry.pools().is_some() {
            return;
        }
        for pool in self.written.backends.iter().filter_map(|(_, backend)| backend.pool.as_ref()) {
            let message = "this build cannot run turns on other machines: build it with the feature `fleet`, or leave \
                           `pool` out to run them here";
            self.report.add(pool.position, message);
        }
    }

    /// Checks the sections of programs above the router, as far as this build knows those programs.
    fn sections(&mut self) {
        let written =
            self.written.sections.iter().filter(|(_, node)| !matches!(node.content, NodeValue::Null));
        for (name, node) in written.clone() {
            let Some(section) = self.sources.registry.sections().find(|section| section.name() == *name)
            else {
                continue;
            };
            let what = format!("`{name}`");
            if !names_are_known(node, &section.schema(), &what, &[], self.report) {
                self.refused_sections.insert(name);
                continue;
            }
            if let Err(error) = section.check(&node.to_value()) {
                self.refused_sections.insert(name);
                self.report.add(node.position_of(&error.path), format!("{name}: {error}"));
            }
        }
        self.sections = written.map(|(name, node)| (*name, node.to_value())).collect();
    }

    fn refused_settings(
        &mut self,
        id: &BackendId,
        written: Option<(&MappingKey, &BackendWritten)>,
        error: &SettingsError,
    ) {
        let position = match written {
            Some((key, _)) if error.path.is_empty() => key.position,
            Some((key, written)) => match written.node.content {
                NodeValue::Mapping(_) => written.node.position_of(&error.path),
                _ => key.position,
            },
            None => self.first_use(id),
        };
        let message = if error.path.is_empty() {
            format!("{id}: {}", error.reason)
        } else {
            format!("`{}` of {id}: {}", error.path.join("."), error.reason)
        };
        self.report.add(position, message);
    }

    /// Returns the first mention of a backend without an entry of its own.
    fn first_use(&self, id: &BackendId) -> Position {
        let named = |chain: &'a [Placed<String>]| chain.iter().find(|name| name.value == id.as_str());
        let first = self.written.groups.iter().find_map(|(_, group)| named(&group.chain));
        first.map_or(Position::START, |name| name.position)
    }

    fn known_backends(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let configured = self.written.backends.iter().map(|(key, _)| key.text.as_str());
        let custom = self.sources.custom.iter().map(|custom| custom.id.as_str());
        configured.chain(custom).chain(self.sources.registry.names())
    }

    fn groups(&mut self) {
        for (key, group) in &self.written.groups {
            let mut seen = BTreeSet::new();
            for name in &group.chain {
                if !seen.insert(name.value.as_str()) {
                    let message = format!("{} is already in this chain", quoted(&name.value));
                    self.report.add(name.position, message);
                    continue;
                }
                self.member(key, name);
            }
        }
    }

    /// Checks one backend of a chain, and builds it without settings if the file has no entry for it.
    fn member(&mut self, group: &MappingKey, name: &Placed<String>) {
        let id = BackendId::new(name.value.as_str());
        let is_configured = self.written.backends.iter().any(|(key, _)| key.text == name.value);
        if is_configured || self.backends.contains_key(&id) {
            return;
        }
        let registry = &self.sources.registry;
        if registry.kind(&name.value).is_some() || registry.absence(&name.value).is_some() {
            if let Some(entry) = self.build(&id, &name.value, &Map::new(), None) {
                self.backends.insert(id, Arc::new(entry));
            }
            return;
        }
        let is_group = self.written.groups.iter().any(|(key, _)| key.text == name.value);
        if is_group {
            let itself = if group.text == name.value { " (the same group)" } else { "" };
            let message =
                format!("{} is a group{itself}: a chain lists backends, not groups", quoted(&name.value));
            self.report.add(name.position, message);
        } else {
            self.report.unknown(name.position, "backend", &name.value, self.known_backends());
        }
    }

    fn models(&mut self) {
        for (_, names) in &self.written.models {
            for (owner, _) in names {
                let written = self.written;
                let groups = written.groups.iter().map(|(key, _)| key.text.as_str());
                let vendors = self.known_vendors();
                let is_vendor = vendors.iter().any(|vendor| is_same_vendor(vendor, &owner.text));
                let known = || groups.clone().chain(self.known_backends());
                if !is_vendor && !known().any(|name| name == owner.text) {
                    let known = known().chain(vendors.iter().map(VendorId::as_str));
                    self.report.unknown(owner.position, "group, backend or vendor", &owner.text, known);
                }
            }
        }
    }

    /// Returns the vendors of all backends in the file and of all registered kinds.
    fn known_vendors(&self) -> Vec<VendorId> {
        let registry = &self.sources.registry;
        let kinds = registry.names().filter_map(|name| registry.kind(name));
        kinds
            .map(|kind| kind.vendor(&Map::new(), &self.context))
            .chain(self.vendors.values().cloned())
            .collect()
    }

    /// Returns the binding, if its group exists.
    fn binding(&mut self, written: &BindingWritten) -> Option<Binding> {
        let name = written.group.as_ref()?;
        let Some((_, group)) = self.written.groups.iter().find(|(key, _)| key.text == name.value) else {
            let groups = self.written.groups.iter().map(|(key, _)| key.text.as_str());
            self.report.unknown(name.position, "group", &name.value, groups);
            return None;
        };
        let chain = group.chain.iter().map(|name| BackendId::new(name.value.as_str()));
        let mut binding = Binding::new(name.value.clone(), chain).with_effort(written.effort);
        match &written.model {
            None => {}
            Some(ModelWritten::Exact(model)) => binding.model = Some(ModelId::new(model.as_str())),
            Some(ModelWritten::Portable(model)) => self.name_model(model, &mut binding),
        }
        Some(binding)
    }

    /// Sets the name of the model for each backend of a binding. A backend's own name comes first, then its group's, then its
    /// vendor's.
    fn name_model(&mut self, name: &Placed<String>, binding: &mut Binding) {
        let Some((_, names)) = self.written.models.iter().find(|(key, _)| key.text == name.value) else {
            let models = self.written.models.iter().map(|(key, _)| key.text.as_str());
            self.report.unknown(name.position, "model", &name.value, models);
            return;
        };
        let named = |is_owner: &dyn Fn(&str) -> bool| {
            names
                .iter()
                .find(|(key, _)| is_owner(&key.text))
                .map(|(_, name)| ModelId::new(name.value.as_str()))
        };
        binding.model = named(&|key| key == binding.group);
        let mut nameless = Vec::new();
        for backend in &binding.chain {
            let entry = self.backends.get(backend);
            // A name for the group takes precedence over a name for the vendor.
            let vendor = entry.and_then(|entry| entry.vendor.as_ref()).filter(|_| binding.model.is_none());
            let own = named(&|key| key == backend.as_str());
            let own = own.or_else(|| named(&|key| vendor.is_some_and(|vendor| is_same_vendor(vendor, key))));
            match own {
                Some(model) => {
                    binding.own_models.insert(backend.clone(), model);
                }
                None if binding.model.is_some() => {}
                // A backend that is missing from this build is skipped at run time, and its vendor is unknown.
                None if entry.is_none_or(|entry| matches!(entry.state, EntryState::Absent(_))) => {}
                None => nameless.push(backend),
            }
        }
        let (model, group) = (quoted(&name.value), quoted(&binding.group));
        let message = match nameless.first() {
            Some(backend) if !binding.own_models.is_empty() => format!(
                "the model {model} has no name for {} in the group {group}: add one under `models`, by backend, group or vendor",
                quoted(backend.as_str())
            ),
            None if binding.model.is_some() || !binding.own_models.is_empty() => return,
            _ => format!("the model {model} has no name in the group {group}: add it under `models`"),
        };
        self.report.add(name.position, message);
    }

    fn panels(&mut self) -> BTreeMap<String, Roster> {
        let mut panels = BTreeMap::new();
        for (key, panel) in &self.written.panels {
            let mut seats = Vec::new();
            for seat in &panel.seats {
                let lens = seat.lens.as_ref().and_then(|lens| self.lens(lens));
                if let Some(binding) = self.binding(&seat.binding) {
                    seats.push(PanelSeat { binding, lens });
                }
            }
            // Faults of seats were already reported, so judge only complete panels.
            if !seats.is_empty() && seats.len() == panel.seats.len() {
                self.spread(key, panel, &seats);
            }
            let min_vendors = min_vendors(panel);
            panels.insert(key.text.clone(), Roster { seats, min_vendors, distinct: panel.distinct });
        }
        panels
    }

    fn lens(&mut self, name: &Placed<String>) -> Option<(String, String)> {
        let Some((key, text)) = self.written.lenses.iter().find(|(key, _)| key.text == name.value) else {
            let lenses = self.written.lenses.iter().map(|(key, _)| key.text.as_str());
            self.report.unknown(name.position, "lens", &name.value, lenses);
            return None;
        };
        Some((key.text.clone(), text.clone()))
    }

    /// Checks that a panel can reach its required number of vendors. At run time only vendors that answer count. If the first
    /// choices of the seats are too few, the panel is probably a mistake.
    fn spread(&mut self, key: &MappingKey, panel: &PanelWritten, seats: &[PanelSeat]) {
        if let Some(written) = &panel.min_vendors
            && written.value > seats.len()
        {
            self.report.add(written.position, "more vendors than the panel has seats");
            return;
        }
        let vendors: Vec<_> = seats.iter().map(|seat| self.vendor_of(&seat.binding)).collect();
        let known: BTreeSet<_> = vendors.iter().flatten().collect();
        // A backend that is not part of this build may have any vendor.
        let unknown = vendors.iter().filter(|vendor| vendor.is_none()).count();
        let wanted = min_vendors(panel);
        if known.len() + unknown < wanted {
            let mut names: Vec<_> = known.iter().map(|vendor| vendor.as_str()).collect();
            names.extend((unknown > 0).then_some("backends that this build leaves out"));
            let message = format!(
                "the panel {} needs answers of {wanted} vendors, but its seats would be filled by {}: name \
                 another vendor, or write `min_vendors: {}`",
                quoted(&key.text),
                names.join(", "),
                known.len() + unknown,
            );
            self.report.warn(key.position, message);
        }
    }

    /// Returns the vendor of the first backend in a chain that could run. If no backend could, returns the first known vendor.
    fn vendor_of(&self, binding: &Binding) -> Option<VendorId> {
        let entries = || binding.chain.iter().filter_map(|id| self.backends.get(id));
        let entry = entries().find(|entry| entry.is_runnable());
        entry.or_else(|| entries().find(|entry| entry.vendor.is_some()))?.vendor.clone()
    }

    fn types(&mut self) -> Vec<WorkType> {
        let mut types = Vec::new();
        let mut pairs: BTreeMap<(String, String), String> = BTreeMap::new();
        for (key, written) in &self.written.types {
            let tier_and_phase = match (&written.tier, &written.phase) {
                (Some(tier), Some(phase)) => Some((tier.value.clone(), phase.value.clone())),
                _ => None,
            };
            if let (Some(pair), Some(tier)) = (&tier_and_phase, &written.tier)
                && let Some(other) = pairs.insert(pair.clone(), key.text.clone())
            {
                let message = format!(
                    "the tier {} and the phase {} are already used by {}",
                    quoted(&pair.0),
                    quoted(&pair.1),
                    quoted(&other)
                );
                self.report.add(tier.position, message);
            }
            if let Some(target) = self.target(written) {
                types.push(WorkType {
                    name: key.text.clone(),
                    tier_and_phase,
                    fallback: written.fallback,
                    target,
                });
            }
        }
        types
    }

    /// Checks that the backends and vendors of budgets exist, and warns of other types: a misspelled name would count nothing, but tasks and
    /// debates also have agents whose types the file does not name.
    fn budgets(&mut self) {
        for budget in &self.written.budgets {
            for (subject, name) in &budget.only {
                let known: Vec<&str> = match subject {
                    BudgetSubject::Backend => self.backends.keys().map(BackendId::as_str).collect(),
                    BudgetSubject::Vendor => self.vendors.values().map(VendorId::as_str).collect(),
                    BudgetSubject::Type => {
                        self.written.types.iter().map(|(key, _)| key.text.as_str()).collect()
                    }
                    _ => continue,
                };
                if !known.contains(&name.as_str()) {
                    let position = Position { line: budget.line, column: 1 };
                    if *subject == BudgetSubject::Type {
                        let message = format!(
                            "the budget {} counts turns of the type {}, which this file does not have: it counts only agents of tasks and \
                             debates with this type",
                            quoted(&budget.name),
                            quoted(name)
                        );
                        self.report.warn(position, message);
                        continue;
                    }
                    let what = format!("{} of the budget {}", subject.as_str(), quoted(&budget.name));
                    self.report.unknown(position, &what, name, known);
                }
            }
        }
    }

    fn target(&mut self, written: &TypeWritten) -> Option<Target> {
        let Some(panel) = &written.panel else {
            return self.binding(&written.binding).map(Target::Binding);
        };
        if !self.written.panels.iter().any(|(key, _)| key.text == panel.value) {
            let panels = self.written.panels.iter().map(|(key, _)| key.text.as_str());
            self.report.unknown(panel.position, "panel", &panel.value, panels);
            return None;
        }
        Some(Target::Panel(panel.value.clone()))
    }
}

/// Returns true if `name` names this vendor, by the rules for comparing vendors.
fn is_same_vendor(vendor: &VendorId, name: &str) -> bool {
    folded_name(vendor.as_str().trim()) == folded_name(name.trim())
}

fn min_vendors(panel: &PanelWritten) -> usize {
    panel.min_vendors.as_ref().map_or(DEFAULT_MIN_VENDORS, |written| written.value)
}

fn mapping(written: &BackendWritten) -> &[(MappingKey, Node)] {
    match &written.node.content {
        NodeValue::Mapping(entries) => entries,
        _ => &[],
    }
}

//! The structure of `nexus.yaml`: every key, its type and its position.
//!
//! This module does not resolve names. `check.rs` does, once all names are known.

use std::{collections::BTreeSet, num::NonZeroUsize};

use nexus_core::{Effort, Usd};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    node::{MappingKey, Node, NodeValue},
    report::{FoundProblems, MappingFields, Placed},
    variables::{NO_VARIABLES, variable_in},
};
use crate::spending::{BudgetPeriod, BudgetSubject, SpendingBudget};

/// Top-level keys of the file.
pub(crate) const ROOT_KEYS: &[&str] =
    &["groups", "backends", "models", "types", "panels", "lenses", "budgets"];
/// The sections of Nexus's own programs above the router. A program ignores the sections that it does not have,
/// so that all programs can read one file.
pub(crate) const OTHER_SECTIONS: &[&str] = &["tasks", "debate", "fleet", "broker", "serve", "mcp_servers"];
/// Prefix of top-level keys that Nexus ignores, for example for values with anchors.
pub(crate) const EXTENSION_PREFIX: &str = "x-";
/// Keys of a backend that the router reads. All other keys are settings of its kind.
pub(crate) const BACKEND_KEYS: &[&str] = &["kind", "provider", "parked", "max_turns_at_once", "pool"];
/// Maximum number of characters of a pool's name.
pub(crate) const MAX_POOL_NAME: usize = 64;
/// The keys of a type.
pub(crate) const TYPE_KEYS: &[&str] = &["tier", "phase", "group", "panel", "model", "effort", "fallback"];
/// The keys of a panel that is written as a mapping.
pub(crate) const PANEL_KEYS: &[&str] = &["min_vendors", "distinct", "seats"];
/// The keys of a seat.
pub(crate) const SEAT_KEYS: &[&str] = &["group", "model", "effort", "lens"];
/// The keys of a budget beside those of [`BudgetSubject`].
pub(crate) const BUDGET_KEYS: &[&str] = &["per", "each", "usd", "tokens", "turns"];
/// The keys of a model that is named exactly.
pub(crate) const EXACT_KEYS: &[&str] = &["exact"];

/// Condition under which two vendors of a panel count as distinct. By default their names must differ, and a shared address is a
/// warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distinct {
    /// The names must differ. One server may serve several vendors.
    Vendor,
    /// The names and the servers' addresses must differ.
    Address,
}

impl Distinct {
    pub(crate) const ALL: [Self; 2] = [Self::Vendor, Self::Address];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Vendor => "vendor",
            Self::Address => "address",
        }
    }
}

/// Condition under which another backend may take over a failed turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FallbackRule {
    /// Only if the failed backend wrote nothing. The default.
    #[default]
    BeforeWrites,
    /// Also after a write, once the host has reverted the changes. It needs a host that can do so
    /// ([`TurnHost::with_before_retry`](nexus_core::TurnHost::with_before_retry)); with any other host the turn is rejected
    /// before it runs.
    Restore,
    /// Also after a write: the changes stay, and the next backend receives a record of them and continues. If the changes are
    /// unknown, no other backend takes over.
    Continue,
    /// No fallback after a failure: the first backend that runs the turn decides its outcome. Parked, missing, held or unsuitable
    /// backends before it are still skipped.
    Never,
}

impl FallbackRule {
    /// Every rule.
    pub const ALL: [Self; 4] = [Self::BeforeWrites, Self::Restore, Self::Continue, Self::Never];

    /// The rule's name in `nexus.yaml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeWrites => "before-writes",
            Self::Restore => "restore",
            Self::Continue => "continue",
            Self::Never => "never",
        }
    }
}

/// The configuration file as written, before names are resolved.
#[derive(Debug, Default)]
pub(crate) struct WrittenConfiguration {
    pub(crate) groups: Vec<(MappingKey, GroupWritten)>,
    pub(crate) backends: Vec<(MappingKey, BackendWritten)>,
    pub(crate) models: Vec<(MappingKey, ModelNames)>,
    pub(crate) types: Vec<(MappingKey, TypeWritten)>,
    pub(crate) panels: Vec<(MappingKey, PanelWritten)>,
    pub(crate) lenses: Vec<(MappingKey, String)>,
    pub(crate) budgets: Vec<SpendingBudget>,
    /// Sections of programs above the router.
    pub(crate) sections: Vec<(&'static str, Node)>,
}

/// Names of one model, by group, backend or vendor.
pub(crate) type ModelNames = Vec<(MappingKey, Placed<String>)>;

/// An ordered fallback chain.
#[derive(Debug)]
pub(crate) struct GroupWritten {
    pub(crate) chain: Vec<Placed<String>>,
}

/// Settings of one backend.
#[derive(Debug)]
pub(crate) struct BackendWritten {
    pub(crate) kind: Option<Placed<String>>,
    /// Name of the provider whose row completes the settings.
    pub(crate) provider: Option<Placed<String>>,
    pub(crate) parked: Option<String>,
    pub(crate) max_turns_at_once: Option<NonZeroUsize>,
    /// The pool in which the backend's turns run, with the position of the key's value.
    pub(crate) pool: Option<Placed<String>>,
    pub(crate) settings: Map<String, Value>,
    pub(crate) node: Node,
}

/// A model, by its portable name or by the vendor's name.
#[derive(Clone, Debug)]
pub(crate) enum ModelWritten {
    Portable(Placed<String>),
    Exact(String),
}

/// Target of a work-kind.
#[derive(Debug)]
pub(crate) struct TypeWritten {
    pub(crate) tier: Option<Placed<String>>,
    pub(crate) phase: Option<Placed<String>>,
    pub(crate) panel: Option<Placed<String>>,
    pub(crate) binding: BindingWritten,
    pub(crate) fallback: FallbackRule,
}

/// A group, with the requested model and effort.
#[derive(Debug)]
pub(crate) struct BindingWritten {
    pub(crate) group: Option<Placed<String>>,
    pub(crate) model: Option<ModelWritten>,
    pub(crate) effort: Option<Effort>,
}

/// The seats of a panel, written as a list or as a mapping that contains the list.
#[derive(Debug)]
pub(crate) struct PanelWritten {
    pub(crate) seats: Vec<SeatWritten>,
    pub(crate) min_vendors: Option<Placed<usize>>,
    pub(crate) distinct: Option<Distinct>,
}

/// One seat.
#[derive(Debug)]
pub(crate) struct SeatWritten {
    pub(crate) binding: BindingWritten,
    pub(crate) lens: Option<Placed<String>>,
}

impl WrittenConfiguration {
    /// Reads the file. `sections` are the keys of the sections that this program defines.
    pub(crate) fn read(
        node: &Node,
        sections: impl IntoIterator<Item = &'static str>,
        report: &mut FoundProblems,
    ) -> Self {
        let mut written = Self::default();
        let sections: BTreeSet<_> = sections.into_iter().chain(OTHER_SECTIONS.iter().copied()).collect();
        let keys: Vec<_> = ROOT_KEYS.iter().copied().chain(sections.iter().copied()).collect();
        let own = without_extensions(node);
        let Some(fields) = MappingFields::of(&own, "the file", &keys, report) else {
            return written;
        };
        // Skip lenses: a lens is a prompt and may contain `${…}` of shells and templates.
        for name in ROOT_KEYS.iter().filter(|name| **name != "lenses") {
            fields.value(name).into_iter().for_each(|node| report_variables(node, report));
        }
        let given = sections.into_iter().filter_map(|name| Some((name, fields.value(name)?.clone())));
        written.sections = given.collect();
        let section = |name: &str, report: &mut FoundProblems| match fields.value(name) {
            None | Some(Node { content: NodeValue::Null, .. }) => Vec::new(),
            Some(node) => node.entries(&format!("`{name}`"), report).unwrap_or_default().to_vec(),
        };
        for (key, node) in section("groups", report) {
            let group = GroupWritten::read(&node, report);
            written.groups.push((key, group));
        }
        for (key, node) in section("backends", report) {
            let backend = BackendWritten::read(node, report);
            written.backends.push((key, backend));
        }
        for (key, node) in section("models", report) {
            let names = node.entries("a model", report).unwrap_or_default();
            let name = |(group, node): &(MappingKey, Node), report: &mut FoundProblems| {
                Some((
                    group.clone(),
                    node.text("the model's name in a group, on a backend or of a vendor", report)?,
                ))
            };
            let names = names.iter().filter_map(|entry| name(entry, report)).collect();
            written.models.push((key, names));
        }
        for (key, node) in section("types", report) {
            if let Some(kind) = TypeWritten::read(&node, report) {
                written.types.push((key, kind));
            }
        }
        for (key, node) in section("panels", report) {
            let panel = PanelWritten::read(&node, report);
            written.panels.push((key, panel));
        }
        for (key, node) in section("lenses", report) {
            let text = node.text("a lens", report).map(|text| text.value).unwrap_or_default();
            written.lenses.push((key, text));
        }
        for (key, node) in section("budgets", report) {
            written.budgets.extend(budget(&key, &node, report));
        }
        written
    }
}

/// Returns the file without the keys that Nexus ignores.
fn without_extensions(node: &Node) -> Node {
    let mut own = node.clone();
    if let NodeValue::Mapping(entries) = &mut own.content {
        entries.retain(|(key, _)| !key.text.starts_with(EXTENSION_PREFIX));
    }
    own
}

/// Reports texts that other programs would replace by a variable. Texts with blanks are not reported, because they may be shell
/// commands.
fn report_variables(node: &Node, report: &mut FoundProblems) {
    match &node.content {
        NodeValue::Text(text) if !text.contains(char::is_whitespace) => {
            if let Some(name) = variable_in(text) {
                report.add(node.position, format!("`${{{name}}}` {NO_VARIABLES}"));
            }
        }
        NodeValue::Sequence(items) => items.iter().for_each(|item| report_variables(item, report)),
        NodeValue::Mapping(entries) => entries.iter().for_each(|(_, value)| report_variables(value, report)),
        _ => {}
    }
}

impl GroupWritten {
    fn read(node: &Node, report: &mut FoundProblems) -> Self {
        let items = node.items("a group", report).unwrap_or_default();
        if matches!(&node.content, NodeValue::Sequence(items) if items.is_empty()) {
            report.add(node.position, "the chain is empty: name at least one backend");
        }
        let chain = items.iter().filter_map(|item| item.text("a backend's name", report)).collect();
        Self { chain }
    }
}

impl BackendWritten {
    fn read(node: Node, report: &mut FoundProblems) -> Self {
        let mut backend = Self {
            kind: None,
            provider: None,
            parked: None,
            max_turns_at_once: None,
            pool: None,
            settings: Map::new(),
            node,
        };
        if matches!(backend.node.content, NodeValue::Null) {
            return backend;
        }
        for (key, value) in backend.node.entries("a backend", report).unwrap_or_default() {
            match key.text.as_str() {
                "kind" => backend.kind = value.text("`kind`", report),
                "provider" => backend.provider = value.text("`provider`", report),
                "parked" => backend.parked = parked(value, report),
                "max_turns_at_once" => backend.max_turns_at_once = count(value, &key.text, report),
                "pool" => backend.pool = pool(key, value, report),
                _ => {
                    backend.settings.insert(key.text.clone(), value.to_value());
                }
            }
        }
        backend
    }
}

fn parked(node: &Node, report: &mut FoundProblems) -> Option<String> {
    if matches!(node.content, NodeValue::Bool(_)) {
        report
            .add(node.position, "`parked` must be the reason, as text; leave the key out to use the backend");
        return None;
    }
    node.text("`parked`", report).map(|reason| reason.value)
}

/// Reads a pool's name. It becomes part of addresses, in which other characters have a meaning.
fn pool(key: &MappingKey, node: &Node, report: &mut FoundProblems) -> Option<Placed<String>> {
    let name = node.text("`pool`", report)?.value;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.len() > MAX_POOL_NAME || !name.chars().all(is_allowed) {
        let message =
            format!("`pool` must be a name of at most {MAX_POOL_NAME} ASCII letters, digits, `-` and `_`");
        report.add(node.position, message);
        return None;
    }
    Some(Placed { value: name, position: key.position })
}

fn count(node: &Node, name: &str, report: &mut FoundProblems) -> Option<NonZeroUsize> {
    let number = match &node.content {
        NodeValue::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()),
        _ => None,
    };
    let count = number.and_then(NonZeroUsize::new);
    if count.is_none() {
        report.add(node.position, format!("`{name}` must be a whole number of at least 1"));
    }
    count
}

impl TypeWritten {
    fn read(node: &Node, report: &mut FoundProblems) -> Option<Self> {
        let fields = MappingFields::of(node, "a type", TYPE_KEYS, report)?;
        let written = Self {
            tier: fields.text("tier", report),
            phase: fields.text("phase", report),
            panel: fields.text("panel", report),
            binding: BindingWritten::read(&fields, report),
            fallback: match fields.text("fallback", report) {
                Some(text) => {
                    choice(&text, "rule of `fallback`", &FallbackRule::ALL, FallbackRule::as_str, report)
                        .unwrap_or_default()
                }
                None => FallbackRule::default(),
            },
        };
        match (fields.key_position("tier"), fields.key_position("phase")) {
            (Some(position), None) => report.add(position, "a type that has a `tier` needs a `phase`"),
            (None, Some(position)) => report.add(position, "a type that has a `phase` needs a `tier`"),
            _ => {}
        }
        match (fields.key_position("group"), fields.key_position("panel")) {
            (None, None) => report.add(node.position, "a type needs a `group` or a `panel`"),
            (Some(_), Some(position)) => report.add(
                position,
                "a type cannot have both a `group` and a \
                `panel`",
            ),
            (None, Some(_)) => {
                for name in ["model", "effort"] {
                    if let Some(position) = fields.key_position(name) {
                        report.add(position, format!("write `{name}` in each seat of the panel"));
                    }
                }
            }
            (Some(_), None) => {}
        }
        Some(written)
    }
}

impl BindingWritten {
    fn read(fields: &MappingFields<'_>, report: &mut FoundProblems) -> Self {
        let effort = fields
            .text("effort", report)
            .and_then(|text| choice(&text, "effort", &Effort::ALL, Effort::as_str, report));
        Self {
            group: fields.text("group", report),
            model: fields.value("model").and_then(|node| model(node, report)),
            effort,
        }
    }
}

fn model(node: &Node, report: &mut FoundProblems) -> Option<ModelWritten> {
    if !matches!(node.content, NodeValue::Mapping(_)) {
        return node.text("`model`", report).map(ModelWritten::Portable);
    }
    let fields = MappingFields::of(node, "`model`", EXACT_KEYS, report)?;
    if fields.key_position("exact").is_none() {
        report.add(node.position, "write `model: name`, or `model: { exact: \"the vendor's name\" }`");
    }
    fields.text("exact", report).map(|name| ModelWritten::Exact(name.value))
}

fn choice<T: Copy>(
    text: &Placed<String>,
    what: &str,
    all: &[T],
    name: fn(T) -> &'static str,
    report: &mut FoundProblems,
) -> Option<T> {
    let found = all.iter().copied().find(|one| name(*one) == text.value);
    if found.is_none() {
        report.unknown(text.position, what, &text.value, all.iter().map(|one| name(*one)));
    }
    found
}

/// Reads a budget.
fn budget(key: &MappingKey, node: &Node, report: &mut FoundProblems) -> Option<SpendingBudget> {
    let subjects = BudgetSubject::ALL.map(BudgetSubject::as_str);
    let keys: Vec<_> = BUDGET_KEYS.iter().copied().chain(subjects).collect();
    let fields = MappingFields::of(node, "a budget", &keys, report)?;
    let Some(period) = fields.text("per", report) else {
        // A `per` that is not text was already reported.
        if fields.key_position("per").is_none() {
            report.add(key.position, "a budget needs `per`: hour, day or month");
        }
        return None;
    };
    let period = choice(&period, "period of a budget", &BudgetPeriod::ALL, BudgetPeriod::as_str, report)?;
    let mut budget = SpendingBudget::new(key.text.as_str(), period);
    budget.line = key.position.line;
    budget.each = fields.text("each", report).and_then(|text| {
        choice(&text, "property of turns", &BudgetSubject::ALL, BudgetSubject::as_str, report)
    });
    for subject in BudgetSubject::ALL {
        if let Some(text) = fields.text(subject.as_str(), report) {
            budget.only.push((subject, text.value));
        }
    }
    budget.usd = fields.value("usd").and_then(|node| dollars(node, report));
    let count = |name: &str, report: &mut FoundProblems| {
        let count = count(fields.value(name)?, name, report)?;
        u64::try_from(count.get()).ok()
    };
    budget.tokens = count("tokens", report);
    budget.turns = count("turns", report);
    if ["usd", "tokens", "turns"].iter().all(|name| fields.key_position(name).is_none()) {
        report.add(key.position, "a budget needs `usd`, `tokens` or `turns`");
    }
    Some(budget)
}

fn dollars(node: &Node, report: &mut FoundProblems) -> Option<Usd> {
    let number = match &node.content {
        NodeValue::Number(number) => number.as_f64().filter(|usd| usd.is_finite() && *usd > 0.0),
        _ => None,
    };
    if number.is_none() {
        report.add(node.position, "`usd` must be a number greater than 0");
    }
    number.map(Usd)
}

impl PanelWritten {
    fn read(node: &Node, report: &mut FoundProblems) -> Self {
        let mut panel = Self { seats: Vec::new(), min_vendors: None, distinct: None };
        let roster = match &node.content {
            NodeValue::Mapping(_) => {
                let Some(fields) = MappingFields::of(node, "a panel", PANEL_KEYS, report) else {
                    return panel;
                };
                panel.min_vendors = fields.value("min_vendors").and_then(|node| {
                    let value = count(node, "min_vendors", report)?.get();
                    Some(Placed { value, position: node.position })
                });
                panel.distinct = fields.text("distinct", report).and_then(|text| {
                    choice(&text, "rule of distinct vendors", &Distinct::ALL, Distinct::as_str, report)
                });
                let Some(seats) = fields.value("seats") else {
                    report.add(node.position, "a panel needs its `seats`");
                    return panel;
                };
                seats
            }
            _ => node,
        };
        let items = roster.items("a panel", report).unwrap_or_default();
        if matches!(&roster.content, NodeValue::Sequence(items) if items.is_empty()) {
            report.add(roster.position, "the panel is empty: give it at least two seats");
        }
        panel.seats = items.iter().filter_map(|item| SeatWritten::read(item, report)).collect();
        panel
    }
}

impl SeatWritten {
    fn read(node: &Node, report: &mut FoundProblems) -> Option<Self> {
        let fields = MappingFields::of(node, "a seat", SEAT_KEYS, report)?;
        if fields.key_position("group").is_none() {
            report.add(node.position, "a seat needs a `group`");
        }
        let binding = BindingWritten::read(&fields, report);
        Some(Self { binding, lens: fields.text("lens", report) })
    }
}

//! A configuration derived from the backends that the machine has.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use nexus_core::{
    BackendId, BuildContext, Registry,
    detection::{DetectedBackend, Detection, Machine, Payment, UnusedFinding},
};

use crate::{config::ConfigError, payer_notices::PayerNotices};

/// Types of the configuration that run on one group, with their other keys.
const TYPES: [(&str, &str); 6] = [
    ("orchestrator", "tier: operations, phase: orchestrate, "),
    ("executor", "tier: execution, phase: implement, "),
    ("reflector", "tier: operations, phase: reflect, "),
    ("cartographer", ""),
    // The agents of a debate, apart from its panelists.
    ("framer", ""),
    ("arbiter", ""),
];

/// Types of the configuration that run on the panel, with their other keys.
const PANEL_TYPES: [(&str, &str); 2] = [("reviewer", "tier: operations, phase: review, "), ("panelist", "")];

/// First lines of a detected configuration.
const ORIGIN: &str =
    "# Derived from what this machine has. To change it, write it to a file: `nexus setup`\n\n";
/// Name of the panel.
const PANEL: &str = "review";

/// A backend of a detected configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectedEntry {
    /// The backend.
    pub backend: DetectedBackend,
    /// Vendor of the backend, as the spread of a panel counts it.
    pub vendor: String,
    /// Group of the vendor.
    pub group: String,
    /// Lines of its entry under `backends`, indented by two spaces, with a comment before them.
    pub text: String,
}

/// A configuration derived from the backends that the machine has: installed programs with their logins, logins of Nexus, API keys in
/// well-known variables, and model servers of this machine.
///
/// It binds the types of tasks and debates. A reviewer is a panel with a seat for each vendor. A plan and a local server come before an API key:
/// keys are used only if nothing else exists, and a chain has either plans or keys.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectedConfig {
    text: String,
    entries: Vec<DetectedEntry>,
    search_path: String,
    /// Note on the payer, by metered backend.
    metered: BTreeMap<BackendId, String>,
    found: Vec<String>,
    unused: Vec<UnusedFinding>,
}

impl DetectedConfig {
    /// Looks at the machine of the registry. Takes up to a few seconds, and starts programs for their versions and login status.
    ///
    /// # Errors
    ///
    /// [`NothingDetected`], with what was found and cannot be used. A registry without a machine detects nothing.
    pub async fn look(registry: &Registry, context: &BuildContext) -> Result<Self, NothingDetected> {
        match registry.machine(context) {
            Some(machine) => Self::look_at(&*machine, registry, context).await,
            None => Err(NothingDetected { unused: Vec::new(), ways: Vec::new() }),
        }
    }

    /// Looks at this machine, by the rules of [`look`](Self::look).
    ///
    /// # Errors
    ///
    /// [`NothingDetected`].
    pub async fn look_at(
        machine: &dyn Machine,
        registry: &Registry,
        context: &BuildContext,
    ) -> Result<Self, NothingDetected> {
        let Detection { mut backends, mut unused, ways } = registry.detect(machine).await;
        // A detector may find a backend whose kind this build lacks.
        backends.retain(|backend| registry.kind(&backend.kind).is_some());
        // A plan before a local server; of equals, the order of the vendors.
        backends.sort_by_key(|backend| backend.payment);
        let has_free = backends.iter().any(|backend| backend.payment != Payment::Metered);
        // A backend that is paid for each call is used only if no other one was found.
        let (used, left): (Vec<_>, Vec<_>) =
            backends.into_iter().partition(|backend| !has_free || backend.payment != Payment::Metered);
        unused.extend(left.into_iter().map(|backend| UnusedFinding {
            reason: format!(
                "it is metered, and {} is not: name it in a configuration to use it",
                used[0].name
            ),
            subject: backend.found,
        }));
        if used.is_empty() {
            return Err(NothingDetected { unused, ways });
        }
        let groups = groups(&used, registry, context);
        let entries = used.iter().filter_map(|backend| {
            let is_in =
                |group: &&VendorGroup<'_>| group.members.iter().any(|member| member.name == backend.name);
            let group = groups.iter().find(is_in)?;
            Some(DetectedEntry {
                backend: backend.clone(),
                vendor: group.vendor.clone(),
                group: group.name.clone(),
                text: entry_text(backend),
            })
        });
        let entries: Vec<_> = entries.collect();
        Ok(Self {
            text: text(&entries, &groups, &unused),
            entries,
            search_path: machine.search_path(),
            metered: used
                .iter()
                .filter(|backend| backend.payment == Payment::Metered)
                .map(|backend| (BackendId::new(backend.name.as_str()), payer_note(backend)))
                .collect(),
            found: used.into_iter().map(|backend| backend.found).collect(),
            unused,
        })
    }

    /// Returns the configuration as YAML, with comments. A file with this text is the same configuration.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text without the first comment, which says where the configuration comes from.
    pub fn sections(&self) -> &str {
        self.text.strip_prefix(ORIGIN).unwrap_or(&self.text)
    }

    /// Returns the backends of the configuration, with the parts of the text that declare them.
    pub fn entries(&self) -> &[DetectedEntry] {
        &self.entries
    }

    /// Returns the types of tasks and debates that run on one group, each with its line under `types`.
    pub fn types_on(group: &str) -> Vec<(&'static str, String)> {
        TYPES.map(|(name, keys)| (name, format!("  {name}: {{ {keys}group: {group} }}\n"))).to_vec()
    }

    /// Returns the types that run on a panel, each with its line under `types`.
    pub fn types_of_panel(panel: &str) -> Vec<(&'static str, String)> {
        PANEL_TYPES.map(|(name, keys)| (name, format!("  {name}: {{ {keys}panel: {panel} }}\n"))).to_vec()
    }

    /// Returns the lines of a panel under `panels`, with a seat for each group. Each group is of another vendor.
    pub fn panel_of<'a>(panel: &str, groups: impl IntoIterator<Item = &'a str>) -> String {
        let seats: Vec<_> =
            groups.into_iter().map(|group| format!("      - {{ group: {group} }}\n")).collect();
        let note = match seats.len() {
            1 => {
                "Only one vendor was found, so its vote alone decides. With a second vendor, use min_vendors: 2."
            }
            _ => "A seat for each vendor that was found. At least two of them must answer.",
        };
        let min_vendors = seats.len().min(2);
        format!("  # {note}\n  {panel}:\n    min_vendors: {min_vendors}\n    seats:\n{}", seats.concat())
    }

    /// Returns the backends of the configuration, in words: location, version and payer of each.
    pub fn found(&self) -> &[String] {
        &self.found
    }

    /// Returns the findings that are not used.
    pub fn unused(&self) -> &[UnusedFinding] {
        &self.unused
    }

    /// Returns the context for the configuration: programs see only the folders of `PATH` that detection uses.
    pub(crate) fn context(&self, mut context: BuildContext) -> BuildContext {
        context.environment.insert("PATH".to_owned(), self.search_path.clone());
        context
    }

    pub(crate) fn notices(&self) -> PayerNotices {
        PayerNotices::new(self.metered.clone())
    }
}

fn payer_note(backend: &DetectedBackend) -> String {
    format!(
        "turns on {} are paid for each call: {}; no login to a plan and no local server was found",
        backend.name, backend.found
    )
}

/// The backends of one vendor, in the order of their chain.
struct VendorGroup<'a> {
    name: String,
    vendor: String,
    members: Vec<&'a DetectedBackend>,
}

fn groups<'a>(
    used: &'a [DetectedBackend],
    registry: &Registry,
    context: &BuildContext,
) -> Vec<VendorGroup<'a>> {
    let mut groups: Vec<VendorGroup<'a>> = Vec::new();
    for backend in used {
        let Some(kind) = registry.kind(&backend.kind) else { continue };
        let vendor = kind.vendor(&backend.settings, context);
        let vendor = vendor.as_str();
        match groups.iter_mut().find(|group| group.vendor == vendor) {
            Some(group) => group.members.push(backend),
            None => {
                // The vendor of an unknown server is its address, which cannot be the name of a group.
                let is_name = vendor.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
                let name = if is_name { vendor.to_owned() } else { backend.name.clone() };
                groups.push(VendorGroup { name, vendor: vendor.to_owned(), members: vec![backend] });
            }
        }
    }
    groups
}

/// Returns the lines of a backend under `backends`.
fn entry_text(backend: &DetectedBackend) -> String {
    let payer = match backend.payment {
        Payment::Plan => "paid by a plan",
        Payment::Local => "on this machine",
        Payment::Metered => "paid for each call",
    };
    let mut text = format!("  # {}; {payer}\n  {}:\n", on_one_line(&backend.found), backend.name);
    if backend.kind != backend.name {
        let _ = writeln!(text, "    kind: {}", backend.kind);
    }
    for (key, value) in &backend.settings {
        // JSON is YAML too, and its strings are quoted.
        let _ = writeln!(text, "    {key}: {value}");
    }
    text
}

fn text(entries: &[DetectedEntry], groups: &[VendorGroup<'_>], unused: &[UnusedFinding]) -> String {
    let mut text = format!(
        "{ORIGIN}# One group for each vendor. The next backend of a chain takes over if a backend cannot run.\n\
         groups:\n",
    );
    // Writing into a string does not fail.
    for VendorGroup { name, members, .. } in groups {
        let members: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
        let _ = writeln!(text, "  {name}: [{}]", members.join(", "));
    }
    text.push_str("\nbackends:\n");
    entries.iter().for_each(|entry| text.push_str(&entry.text));
    let first = groups.first().map_or("", |group| group.name.as_str());
    text.push_str("\ntypes:\n");
    let types = DetectedConfig::types_on(first).into_iter().chain(DetectedConfig::types_of_panel(PANEL));
    types.for_each(|(_, line)| text.push_str(&line));
    let _ = write!(
        text,
        "\npanels:\n{}",
        DetectedConfig::panel_of(PANEL, groups.iter().map(|group| group.name.as_str()))
    );
    if !unused.is_empty() {
        text.push_str("\n# Found and not used:\n");
        for finding in unused {
            let _ = writeln!(text, "#   {}", on_one_line(&finding.to_string()));
        }
    }
    text
}

/// Returns text for a comment. A path may contain line breaks, which would end the comment.
fn on_one_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    text.chars().map(|c| if breaks(c) { '?' } else { c }).collect()
}

/// No backend was found on the machine. [`Display`](fmt::Display) names the shortest ways to get one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NothingDetected {
    /// Findings that cannot be used.
    pub unused: Vec<UnusedFinding>,
    /// The shortest ways to get a backend.
    pub ways: Vec<String>,
}

impl fmt::Display for NothingDetected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no backend was found on this machine")?;
        if !self.ways.is_empty() {
            f.write_str(". The shortest ways to get one:")?;
            self.ways.iter().try_for_each(|way| write!(f, "\n  {way}"))?;
        }
        if !self.unused.is_empty() {
            f.write_str("\nfound and not used:")?;
            self.unused
                .iter()
                .try_for_each(|finding| write!(f, "\n  {}", on_one_line(&finding.to_string())))?;
        }
        Ok(())
    }
}

impl std::error::Error for NothingDetected {}

/// A router could not be built from what the machine has.
#[derive(Debug)]
#[non_exhaustive]
pub enum DetectError {
    /// No backend was found.
    Nothing(NothingDetected),
    /// The derived configuration does not load, for example because a program replaced a kind.
    Config(ConfigError),
}

impl fmt::Display for DetectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(nothing) => nothing.fmt(f),
            Self::Config(error) => write!(f, "the detected configuration cannot be used: {error}"),
        }
    }
}

impl std::error::Error for DetectError {}

//! The registry of tiers and agent types.

mod written;

use nexus_core::Overlay;
use serde::{Deserialize, Serialize};

use self::written::WrittenTypes;
use super::{AgentNameKind, AgentType, AgentTypeError, Surface, name};

/// The built-in tiers.
const TIERS: [&str; 2] = ["operations", "execution"];
/// The built-in types: name, tier, phase.
const TYPES: [[&str; 3]; 4] = [
    ["orchestrator", "operations", "orchestrate"],
    ["executor", "execution", "implement"],
    ["reviewer", "operations", "review"],
    ["reflector", "operations", "reflect"],
];
/// Reserved names of tiers and types: they name other parts of Nexus, which people and agents read about in the same texts.
const RESERVED: [&str; 3] = ["cartographer", "advisory", "field"];

/// The tiers and types of agents: the built-in ones, and the registered ones.
///
/// A name identifies one tier or type, for programs and for people. A new name must differ from every existing one, and must not
/// look like one (other case, other hyphens, `0` for `o`). Built-in tiers and types never change. Only
/// [`AgentTypes::with_replaced_type`] replaces a custom type, so that two parts of a program notice if they chose the same name.
///
/// ```
/// use nexus_core::{Overlay, ParticipantScope, scope::Brief};
/// use nexus_work::{AgentType, AgentTypes, agent::Surface};
///
/// let reading = Surface::only(["read_*".parse()?, "search_files".parse()?]);
/// let surveyor = AgentType::new("surveyor", "research", "survey")
///     .with_description("Says what there is before anything is changed.")
///     .with_topic("layout")
///     .with_surface(Surface::only(["read_file".parse()?]));
/// let types = AgentTypes::built_in()
///     .with_tier("research", "operations", reading)?
///     .with_type(surveyor)?
///     .with_tier_overlay("operations", Overlay::new().tool("read_*".parse()?))?
///     .with_phase_overlay("operations", "review", Overlay::new().do_not_touch(".env".parse()?))?;
///
/// let error = AgentTypes::built_in().with_type(AgentType::new("Reviewer", "operations", "review")).unwrap_err();
/// assert!(error.to_string().contains("looks like the built-in \"reviewer\""));
///
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path().canonicalize()?;
/// let overlay = types.overlay("operations", "review")?;
/// let scope = ParticipantScope::assemble(&Brief::new(root), Some(&overlay), None)?;
/// assert!(scope.allows_tool("read_file"));
///
/// let offered = types.tools_of("surveyor", ["list_files", "read_file", "search_files"])?;
/// assert_eq!(offered, ["read_file"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It can be parsed from a file with the additions to the built-in tiers and types:
///
/// ```
/// let types: nexus_work::AgentTypes = serde_json::from_str(r#"{
///     "tiers": {
///         "operations": { "phases": { "review": { "tools": ["read_*"] } } },
///         "research": { "like": "operations", "surface": ["read_*"], "overlay": { "read": ["docs"] } }
///     },
///     "types": {
///         "surveyor": { "tier": "research", "phase": "survey", "topics": ["layout"], "surface": ["read_file"] }
///     }
/// }"#)?;
/// assert_eq!(types.find("surveyor")?.tier, "research");
/// assert_eq!(types.overlay_of("reviewer")?.tools.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenTypes", into = "WrittenTypes")]
pub struct AgentTypes {
    tiers: Vec<Tier>,
    types: Vec<AgentType>,
}

/// A tier with its overlay and the overlays of its phases.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tier {
    name: String,
    /// The built-in tier that a custom tier is based on.
    like: Option<String>,
    surface: Surface,
    overlay: Overlay,
    phases: Vec<(String, Overlay)>,
}

impl Tier {
    fn new(name: &str) -> Self {
        let (name, overlay, phases) = (name.to_owned(), Overlay::new(), Vec::new());
        Self { name, like: None, surface: Surface::all(), overlay, phases }
    }

    /// Adds the overlays of this tier and of its phase.
    fn add_to(&self, overlay: &mut Overlay, phase: &str) {
        add(overlay, self.overlay.clone());
        let of_phase = self.phases.iter().find(|(known, _)| known == phase);
        add(overlay, of_phase.map(|(_, overlay)| overlay.clone()).unwrap_or_default());
    }

    /// Fails for tools in the overlay of a custom tier: its built-in tier may not have them.
    fn refuse_tools(&self, overlay: &Overlay) -> Result<(), AgentTypeError> {
        match &self.like {
            Some(like) if !overlay.tools.is_empty() => {
                Err(AgentTypeError::AddsTools { tier: self.name.clone(), like: like.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the overlay of a phase. Adds the phase if it is unknown.
    fn phase_mut(&mut self, phase: &str) -> Result<&mut Overlay, AgentTypeError> {
        let what = AgentNameKind::Phase;
        name::check(what, phase)?;
        let alike = self.phases.iter().position(|(known, _)| name::look_alike(known, phase));
        let at = match alike {
            Some(at) => at,
            None => {
                self.phases.push((phase.to_owned(), Overlay::new()));
                self.phases.len() - 1
            }
        };
        let (known, overlay) = &mut self.phases[at];
        if known != phase {
            let (name, other) = (phase.to_owned(), known.clone());
            return Err(match is_built_in_phase(&self.name, known) {
                true => AgentTypeError::ShadowsBuiltIn { what, name, built_in: other },
                false => AgentTypeError::AlreadyThere { what, name, other },
            });
        }
        Ok(overlay)
    }
}

impl AgentTypes {
    /// Returns the built-in tiers and types, without overlays.
    pub fn built_in() -> Self {
        let mut tiers = TIERS.map(Tier::new);
        for [_, tier, phase] in TYPES {
            for known in tiers.iter_mut().filter(|known| known.name == tier) {
                known.phases.push((phase.to_owned(), Overlay::new()));
            }
        }
        let types = TYPES.map(|[name, tier, phase]| AgentType::new(name, tier, phase));
        Self { tiers: tiers.into(), types: types.into() }
    }

    /// Adds a tier that is based on a built-in one, `operations` or `execution`. It has the overlays of that tier and of its
    /// phases, and the tools of that tier that `surface` keeps.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError`] if the name is invalid, is reserved, or looks like that of an existing tier, and if `like` is not
    /// built in.
    pub fn with_tier(mut self, tier: &str, like: &str, surface: Surface) -> Result<Self, AgentTypeError> {
        let what = AgentNameKind::Tier;
        name::check(what, tier)?;
        refuse_reserved(what, tier)?;
        refuse_look_alikes(what, tier, self.tiers())?;
        if !is_built_in(what, like) {
            let (name, known) = (like.chars().take(128).collect(), TIERS.map(str::to_owned).into());
            return Err(AgentTypeError::NotBuiltIn { name, known });
        }
        self.tiers.push(Tier { like: Some(like.to_owned()), surface, ..Tier::new(tier) });
        Ok(self)
    }

    /// Adds a type of agent. Its phase need not be known; several types may share one.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError`] if one of its names is invalid; if its own name is reserved or looks like that of an existing
    /// type; if its tier is unknown; if its phase looks like another phase of the tier; or if a text is out of bounds.
    pub fn with_type(mut self, agent_type: AgentType) -> Result<Self, AgentTypeError> {
        let what = AgentNameKind::Type;
        name::check(what, &agent_type.name)?;
        refuse_reserved(what, &agent_type.name)?;
        agent_type.check_texts()?;
        refuse_look_alikes(what, &agent_type.name, self.types().map(|known| known.name.as_str()))?;
        // Creates the phase of the type, if its tier does not have it yet.
        self.phase_mut(&agent_type.tier, &agent_type.phase)?;
        self.types.push(agent_type);
        Ok(self)
    }

    /// Replaces the custom type with the same name.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError`] if the name is unknown or built in. Errors of [`AgentTypes::with_type`] for its tier, phase and
    /// texts.
    pub fn with_replaced_type(mut self, agent_type: AgentType) -> Result<Self, AgentTypeError> {
        let what = AgentNameKind::Type;
        self.find(&agent_type.name)?;
        let name = &agent_type.name;
        if is_built_in(what, name) {
            let (name, built_in) = (name.clone(), name.clone());
            return Err(AgentTypeError::ShadowsBuiltIn { what, name, built_in });
        }
        agent_type.check_texts()?;
        self.phase_mut(&agent_type.tier, &agent_type.phase)?;
        self.types.retain(|known| known.name != *name);
        self.types.push(agent_type);
        Ok(self)
    }

    /// Adds a custom type, or replaces the custom type with the same name.
    ///
    /// # Errors
    ///
    /// Errors of [`AgentTypes::with_type`] and [`AgentTypes::with_replaced_type`].
    pub fn with_custom_type(self, agent_type: AgentType) -> Result<Self, AgentTypeError> {
        let is_known = self.types().any(|known| known.name == agent_type.name);
        match is_known {
            true => self.with_replaced_type(agent_type),
            false => self.with_type(agent_type),
        }
    }

    /// Removes a custom type.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError`] if the name is unknown, or if it is built in.
    pub fn without_type(mut self, agent_type: &str) -> Result<Self, AgentTypeError> {
        let what = AgentNameKind::Type;
        self.find(agent_type)?;
        if is_built_in(what, agent_type) {
            let (name, built_in) = (agent_type.to_owned(), agent_type.to_owned());
            return Err(AgentTypeError::ShadowsBuiltIn { what, name, built_in });
        }
        self.types.retain(|known| known.name != agent_type);
        Ok(self)
    }

    /// Adds to the tools and paths that every agent of a tier has beyond its brief.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if the tier is unknown; [`AgentTypeError::AddsTools`] if it is a custom tier and the
    /// overlay has tools.
    pub fn with_tier_overlay(mut self, tier: &str, overlay: Overlay) -> Result<Self, AgentTypeError> {
        let known = self.tier_mut(tier)?;
        known.refuse_tools(&overlay)?;
        add(&mut known.overlay, overlay);
        Ok(self)
    }

    /// Adds to the tools and paths that agents in one phase of a tier have, beyond their brief and the overlay of the tier.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError`] if the tier is unknown; if the phase is not a name, or looks like another phase of the tier; or if
    /// the tier is custom and the overlay has tools.
    pub fn with_phase_overlay(
        mut self,
        tier: &str,
        phase: &str,
        overlay: Overlay,
    ) -> Result<Self, AgentTypeError> {
        let known = self.tier_mut(tier)?;
        known.refuse_tools(&overlay)?;
        add(self.phase_mut(tier, phase)?, overlay);
        Ok(self)
    }

    /// Returns the tools and paths of an agent beyond its brief: the overlay of the tier, then that of its phase. For a
    /// custom tier, the overlays of the built-in tier come first.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if the tier is unknown, or has no type and no overlay for this phase. Without this check,
    /// a misspelt name would lift the bans of the overlay.
    pub fn overlay(&self, tier: &str, phase: &str) -> Result<Overlay, AgentTypeError> {
        let known = self.tiers.iter().find(|known| known.name == tier).ok_or_else(|| self.no_tier(tier))?;
        if !known.phases.iter().any(|(known, _)| known == phase) {
            let phases = known.phases.iter().map(|(known, _)| known.as_str());
            return Err(unknown(AgentNameKind::Phase, phase, phases));
        }
        let mut overlay = Overlay::new();
        // The overlay of the built-in tier comes first, then that of the tier itself.
        let like = self.tiers.iter().find(|tier| known.like.as_ref() == Some(&tier.name));
        for tier in like.into_iter().chain([known]) {
            tier.add_to(&mut overlay, phase);
        }
        Ok(overlay)
    }

    /// Returns the built-in tier of a tier: the tier itself, or the one that it is based on. A surface can remove only tools
    /// of that tier.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if the tier is unknown.
    pub fn built_in_tier(&self, tier: &str) -> Result<&str, AgentTypeError> {
        let known = self.tiers.iter().find(|known| known.name == tier).ok_or_else(|| self.no_tier(tier))?;
        Ok(known.like.as_ref().unwrap_or(&known.name))
    }

    /// Returns the tools that an agent of this type gets. `tools` are the tools of the built-in tier; the surfaces of the
    /// tier and of the type must both keep a tool. The offered tools and the agent's scope are made from the result.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if the type is unknown.
    pub fn tools_of<'a>(
        &self,
        agent_type: &str,
        tools: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<&'a str>, AgentTypeError> {
        let found = self.find(agent_type)?;
        let tier = self.tiers.iter().find(|known| known.name == found.tier);
        let tier = tier.ok_or_else(|| self.no_tier(&found.tier))?;
        let is_kept = |tool: &&str| tier.surface.keeps(tool) && found.surface.keeps(tool);
        Ok(tools.into_iter().filter(is_kept).collect())
    }

    /// Returns the tools and paths of an agent of this type beyond its brief.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if the type is unknown.
    pub fn overlay_of(&self, agent_type: &str) -> Result<Overlay, AgentTypeError> {
        let found = self.find(agent_type)?;
        self.overlay(&found.tier, &found.phase)
    }

    /// Returns the type of this name.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if no type has this name.
    pub fn find(&self, agent_type: &str) -> Result<&AgentType, AgentTypeError> {
        self.types.iter().find(|known| known.name == agent_type).ok_or_else(|| {
            unknown(AgentNameKind::Type, agent_type, self.types().map(|known| known.name.as_str()))
        })
    }

    /// Returns every type: the built-in ones, then the others in the order of their registration.
    pub fn types(&self) -> impl Iterator<Item = &AgentType> {
        self.types.iter()
    }

    /// Returns the custom types in the order of their registration.
    pub fn custom_types(&self) -> impl Iterator<Item = &AgentType> {
        self.types().filter(|known| !Self::is_built_in(&known.name))
    }

    /// Returns true if the type of this name is built in.
    pub fn is_built_in(agent_type: &str) -> bool {
        is_built_in(AgentNameKind::Type, agent_type)
    }

    /// Returns the name of every tier: the built-in ones, then the others in the order of their registration.
    pub fn tiers(&self) -> impl Iterator<Item = &str> {
        self.tiers.iter().map(|tier| tier.name.as_str())
    }

    fn tier_mut(&mut self, tier: &str) -> Result<&mut Tier, AgentTypeError> {
        match self.tiers.iter().position(|known| known.name == tier) {
            Some(at) => Ok(&mut self.tiers[at]),
            None => Err(self.no_tier(tier)),
        }
    }

    /// Returns the overlay of a phase, by the spelling of the built-in tier if that tier has the phase. Two spellings of one
    /// phase would be separate, and the bans of the built-in tier would not apply to the other spelling.
    fn phase_mut(&mut self, tier: &str, phase: &str) -> Result<&mut Overlay, AgentTypeError> {
        let like = self.built_in_tier(tier)?;
        let like = self.tiers.iter().find(|known| known.name == like && known.name != tier);
        let mut phases = like.into_iter().flat_map(|like| &like.phases).map(|(known, _)| known.as_str());
        let twin = phases.find(|known| name::look_alike(known, phase) && *known != phase);
        if let Some(other) = twin {
            let (what, name, other) = (AgentNameKind::Phase, phase.to_owned(), other.to_owned());
            return Err(AgentTypeError::AlreadyThere { what, name, other });
        }
        self.tier_mut(tier)?.phase_mut(phase)
    }

    fn no_tier(&self, tier: &str) -> AgentTypeError {
        unknown(AgentNameKind::Tier, tier, self.tiers())
    }
}

impl Default for AgentTypes {
    fn default() -> Self {
        Self::built_in()
    }
}

/// Returns true if a tier or a type of exactly this name is built in.
fn is_built_in(what: AgentNameKind, name: &str) -> bool {
    match what {
        AgentNameKind::Tier => TIERS.contains(&name),
        AgentNameKind::Type => TYPES.iter().any(|[known, ..]| *known == name),
        // A phase is built in for a tier only: see `is_built_in_phase`.
        AgentNameKind::Phase => false,
    }
}

fn is_built_in_phase(tier: &str, phase: &str) -> bool {
    TYPES.iter().any(|[_, known_tier, known]| *known_tier == tier && *known == phase)
}

fn refuse_reserved(what: AgentNameKind, name: &str) -> Result<(), AgentTypeError> {
    match RESERVED.into_iter().find(|reserved| name::look_alike(reserved, name)) {
        Some(reserved) => {
            Err(AgentTypeError::Reserved { what, name: name.to_owned(), reserved: reserved.to_owned() })
        }
        None => Ok(()),
    }
}

fn refuse_look_alikes<'a>(
    what: AgentNameKind,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Result<(), AgentTypeError> {
    let mut alike = known.filter(|known| name::look_alike(known, name));
    let Some(other) = alike.next() else { return Ok(()) };
    let (name, is_built_in, other) = (name.to_owned(), is_built_in(what, other), other.to_owned());
    Err(match is_built_in {
        true => AgentTypeError::ShadowsBuiltIn { what, name, built_in: other },
        false => AgentTypeError::AlreadyThere { what, name, other },
    })
}

fn unknown<'a>(what: AgentNameKind, name: &str, known: impl Iterator<Item = &'a str>) -> AgentTypeError {
    let known: Vec<&str> = known.collect();
    AgentTypeError::Unknown {
        what,
        name: name.chars().take(128).collect(),
        nearest: name::nearest(name, known.iter().copied()),
        known: known.into_iter().map(str::to_owned).collect(),
    }
}

fn add(overlay: &mut Overlay, more: Overlay) {
    overlay.tools.extend(more.tools);
    overlay.read.extend(more.read);
    overlay.write.extend(more.write);
    overlay.do_not_touch.extend(more.do_not_touch);
}

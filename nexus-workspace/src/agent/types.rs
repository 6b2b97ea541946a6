//! The registry of tiers and agent types.

mod written;

use nexus_core::Overlay;
use serde::{Deserialize, Serialize};

use self::written::Written;
use super::{AgentNameKind, AgentType, AgentTypeError, name};

/// The tiers that are there without being registered.
const TIERS: [&str; 2] = ["operations", "execution"];
/// The types that are: name, tier, phase.
const TYPES: [[&str; 3]; 4] = [
    ["orchestrator", "operations", "orchestrate"],
    ["executor", "execution", "implement"],
    ["reviewer", "operations", "review"],
    ["reflector", "operations", "reflect"],
];

/// The tiers and types of agents: those that are built in, and the caller's.
///
/// A name stands for one thing, for programs and for people: what is registered can neither have the name of a tier or
/// type that is there, nor one that could be taken for it (other case, other hyphens, `0` for `o`). What is built in
/// never changes its meaning; a custom type is replaced by [`AgentTypes::with_replaced_type`] alone, so that two parts of
/// a program that chose one name by accident find out.
///
/// ```
/// use nexus_core::{Overlay, ParticipantScope, scope::Brief};
/// use nexus_workspace::{AgentType, AgentTypes};
///
/// let types = AgentTypes::built_in()
///     .with_tier("research")?
///     .with_type(AgentType::new("cartographer", "research", "survey"))?
///     .with_tier_overlay("operations", Overlay::new().tool("read_*".parse()?))?
///     .with_phase_overlay("operations", "review", Overlay::new().do_not_touch("**/.env".parse()?))?;
///
/// let error = AgentTypes::built_in().with_type(AgentType::new("Reviewer", "operations", "review")).unwrap_err();
/// assert!(error.to_string().contains("would pass for \"reviewer\", which is built in"));
///
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path().canonicalize()?;
/// let overlay = types.overlay("operations", "review")?;
/// let scope = ParticipantScope::assemble(&Brief::new(root), Some(&overlay), None)?;
/// assert!(scope.allows_tool("read_file"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It can be read from a file, which says what it adds to what is built in:
///
/// ```
/// let types: nexus_workspace::AgentTypes = serde_json::from_str(r#"{
///     "tiers": {
///         "operations": { "phases": { "review": { "tools": ["read_*"] } } },
///         "research": { "overlay": { "read": ["docs"] } }
///     },
///     "types": { "cartographer": { "tier": "research", "phase": "survey" } }
/// }"#)?;
/// assert_eq!(types.find("cartographer")?.tier, "research");
/// assert_eq!(types.overlay_of("reviewer")?.tools.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct AgentTypes {
    tiers: Vec<Tier>,
    types: Vec<AgentType>,
}

/// A tier, and what it and its phases add to a brief.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tier {
    name: String,
    overlay: Overlay,
    phases: Vec<(String, Overlay)>,
}

impl Tier {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), overlay: Overlay::new(), phases: Vec::new() }
    }

    /// The overlay of a phase; the phase is made known if it was not.
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
    /// Those that are built in, none of them with an overlay.
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

    /// Adds a tier.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError`] if the name is none, or looks like that of a tier which is there.
    pub fn with_tier(mut self, tier: &str) -> Result<Self, AgentTypeError> {
        let what = AgentNameKind::Tier;
        name::check(what, tier)?;
        refuse_look_alikes(what, tier, self.tiers())?;
        self.tiers.push(Tier::new(tier));
        Ok(self)
    }

    /// Adds a type of agent. Its phase need not be known; several types may share one.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError`] if one of its names is none, if its own looks like that of a type which is there, if there is
    /// no such tier, or if its phase looks like another one of the tier.
    pub fn with_type(mut self, agent_type: AgentType) -> Result<Self, AgentTypeError> {
        let what = AgentNameKind::Type;
        name::check(what, &agent_type.name)?;
        refuse_look_alikes(what, &agent_type.name, self.types().map(|known| known.name.as_str()))?;
        self.tier_mut(&agent_type.tier)?.phase_mut(&agent_type.phase)?;
        self.types.push(agent_type);
        Ok(self)
    }

    /// Puts a type of agent in the place of a custom one of the same name.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError`] if there is none of this name, if it is built in, and as [`AgentTypes::with_type`] for its tier
    /// and phase.
    pub fn with_replaced_type(mut self, agent_type: AgentType) -> Result<Self, AgentTypeError> {
        let what = AgentNameKind::Type;
        self.find(&agent_type.name)?;
        let name = &agent_type.name;
        if is_built_in(what, name) {
            let (name, built_in) = (name.clone(), name.clone());
            return Err(AgentTypeError::ShadowsBuiltIn { what, name, built_in });
        }
        self.tier_mut(&agent_type.tier)?.phase_mut(&agent_type.phase)?;
        self.types.retain(|known| known.name != *name);
        self.types.push(agent_type);
        Ok(self)
    }

    /// Adds to what every agent of a tier has beyond its brief.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if there is no such tier.
    pub fn with_tier_overlay(mut self, tier: &str, overlay: Overlay) -> Result<Self, AgentTypeError> {
        add(&mut self.tier_mut(tier)?.overlay, overlay);
        Ok(self)
    }

    /// Adds to what the agents in one phase of a tier have beyond their brief and the overlay of the tier.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError`] if there is no such tier, or if the phase is no name, or looks like another one of the tier.
    pub fn with_phase_overlay(
        mut self,
        tier: &str,
        phase: &str,
        overlay: Overlay,
    ) -> Result<Self, AgentTypeError> {
        add(self.tier_mut(tier)?.phase_mut(phase)?, overlay);
        Ok(self)
    }

    /// What an agent has beyond its brief: the overlay of the tier, then that of its phase.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if there is no such tier, or no type and no overlay for this phase of it: a slip of
    /// the pen would otherwise take away what must not be touched.
    pub fn overlay(&self, tier: &str, phase: &str) -> Result<Overlay, AgentTypeError> {
        let known = self.tiers.iter().find(|known| known.name == tier).ok_or_else(|| self.no_tier(tier))?;
        let (_, of_phase) = known.phases.iter().find(|(known, _)| known == phase).ok_or_else(|| {
            let phases = known.phases.iter().map(|(known, _)| known.as_str());
            unknown(AgentNameKind::Phase, phase, phases)
        })?;
        let mut overlay = known.overlay.clone();
        add(&mut overlay, of_phase.clone());
        Ok(overlay)
    }

    /// What an agent of this type has beyond its brief.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if there is no such type.
    pub fn overlay_of(&self, agent_type: &str) -> Result<Overlay, AgentTypeError> {
        let found = self.find(agent_type)?;
        self.overlay(&found.tier, &found.phase)
    }

    /// The type of this name.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if there is none.
    pub fn find(&self, agent_type: &str) -> Result<&AgentType, AgentTypeError> {
        self.types.iter().find(|known| known.name == agent_type).ok_or_else(|| {
            unknown(AgentNameKind::Type, agent_type, self.types().map(|known| known.name.as_str()))
        })
    }

    /// Every type: those that are built in, then the others in the order in which they were registered.
    pub fn types(&self) -> impl Iterator<Item = &AgentType> {
        self.types.iter()
    }

    /// The name of every tier, in the same order.
    pub fn tiers(&self) -> impl Iterator<Item = &str> {
        self.tiers.iter().map(|tier| tier.name.as_str())
    }

    fn tier_mut(&mut self, tier: &str) -> Result<&mut Tier, AgentTypeError> {
        match self.tiers.iter().position(|known| known.name == tier) {
            Some(at) => Ok(&mut self.tiers[at]),
            None => Err(self.no_tier(tier)),
        }
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

/// Whether a tier or a type of exactly this name is built in.
fn is_built_in(what: AgentNameKind, name: &str) -> bool {
    match what {
        AgentNameKind::Tier => TIERS.contains(&name),
        AgentNameKind::Type => TYPES.iter().any(|[known, ..]| *known == name),
        AgentNameKind::Phase => false,
    }
}

fn is_built_in_phase(tier: &str, phase: &str) -> bool {
    TYPES.iter().any(|[_, known_tier, known]| *known_tier == tier && *known == phase)
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

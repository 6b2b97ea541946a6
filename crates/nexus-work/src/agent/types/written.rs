//! The file format of the registry: only additions to the built-in tiers and types.

use std::{collections::BTreeSet, fmt, marker::PhantomData};

use nexus_core::Overlay;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor},
};

use super::{AgentTypes, Tier, is_built_in};
use crate::agent::{AgentNameKind, AgentType, AgentTypeError, Surface};

/// Agent types in the form of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenTypes {
    #[serde(default, skip_serializing_if = "Entries::is_empty")]
    tiers: Entries<TierWritten>,
    #[serde(default, skip_serializing_if = "Entries::is_empty")]
    types: Entries<TypeWritten>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TierWritten {
    /// The built-in tier that a custom tier is based on. Missing for a built-in tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    like: Option<String>,
    #[serde(skip_serializing_if = "Surface::is_all")]
    surface: Surface,
    overlay: Overlay,
    phases: Entries<Overlay>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TypeWritten {
    tier: String,
    phase: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    topics: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Surface::is_all")]
    surface: Surface,
}

impl TryFrom<WrittenTypes> for AgentTypes {
    type Error = AgentTypeError;

    fn try_from(written: WrittenTypes) -> Result<Self, AgentTypeError> {
        let mut types = Self::built_in();
        // Read the tiers first, because the types name them.
        for (name, tier) in written.tiers.0 {
            // An entry with the name of a built-in tier, and without these fields, only overlays that tier.
            if tier.like.is_some() || !tier.surface.is_all() || !is_built_in(AgentNameKind::Tier, &name) {
                types = types.with_tier(&name, tier.like.as_deref().unwrap_or_default(), tier.surface)?;
            }
            types = types.with_tier_overlay(&name, tier.overlay)?;
            for (phase, overlay) in tier.phases.0 {
                types = types.with_phase_overlay(&name, &phase, overlay)?;
            }
        }
        for (name, written) in written.types.0 {
            let TypeWritten { tier, phase, description, topics, prompt, surface } = written;
            types = types.with_type(AgentType { name, tier, phase, description, topics, prompt, surface })?;
        }
        Ok(types)
    }
}

impl From<AgentTypes> for WrittenTypes {
    fn from(types: AgentTypes) -> Self {
        let bare = AgentTypes::built_in();
        // A built-in tier is stored only if it has overlays.
        let added = types.tiers.into_iter().filter(|tier| !bare.tiers.contains(tier));
        let tiers = added.map(|Tier { name, like, surface, overlay, phases }| {
            (name, TierWritten { like, surface, overlay, phases: Entries(phases) })
        });
        let custom = types.types.into_iter().filter(|known| !AgentTypes::is_built_in(&known.name));
        let custom = custom.map(|known| {
            let AgentType { name, tier, phase, description, topics, prompt, surface } = known;
            (name, TypeWritten { tier, phase, description, topics, prompt, surface })
        });
        Self { tiers: Entries(tiers.collect()), types: Entries(custom.collect()) }
    }
}

/// JSON object in the order of its keys. Duplicate keys are rejected.
struct Entries<T>(Vec<(String, T)>);

impl<T> Entries<T> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Serialize> Serialize for Entries<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Visit<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names, each with its value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries: Vec<(String, T)> = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    // A map type would let the later of two values win silently.
                    if entries.iter().any(|(known, _)| *known == name) {
                        return Err(de::Error::custom(format_args!(
                            "the name {name:?} occurs more than once"
                        )));
                    }
                    entries.push((name, map.next_value()?));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Visit(PhantomData))
    }
}

//! Type names with more than one definition.

use std::collections::BTreeMap;

use syn::{Item, Visibility};

use crate::modules::Tree;

/// The definitions of each name.
#[derive(Default)]
pub(crate) struct TypeNames {
    names: BTreeMap<String, Vec<Definition>>,
}

struct Definition {
    /// `path:line`.
    place: String,
    public: bool,
}

impl TypeNames {
    /// Adds the module-level types of `tree`.
    pub(crate) fn add(&mut self, tree: &Tree) {
        for module in &tree.modules {
            for item in &module.items {
                let (name, visibility) = match item {
                    Item::Enum(item) => (&item.ident, &item.vis),
                    Item::Struct(item) => (&item.ident, &item.vis),
                    Item::Trait(item) => (&item.ident, &item.vis),
                    Item::Type(item) => (&item.ident, &item.vis),
                    Item::Union(item) => (&item.ident, &item.vis),
                    _ => continue,
                };
                let path = tree.sources[module.file].path.display();
                let place = format!("{path}:{}", name.span().start().line);
                let public = matches!(visibility, Visibility::Public(_));
                self.names.entry(name.to_string()).or_default().push(Definition { place, public });
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// Names that are defined more than once, whatever their visibility.
    pub(crate) fn repeated(&self) -> Vec<(&str, Vec<&str>)> {
        self.names_with(|_| true)
    }

    /// Names with more than one public definition.
    pub(crate) fn repeated_public(&self) -> Vec<(&str, Vec<&str>)> {
        self.names_with(|definition| definition.public)
    }

    /// Names with more than one definition that `counts`, and the places of those.
    fn names_with(&self, counts: impl Fn(&Definition) -> bool) -> Vec<(&str, Vec<&str>)> {
        self.names
            .iter()
            .map(|(name, all)| {
                let places = all.iter().filter(|one| counts(one)).map(|one| one.place.as_str()).collect();
                (name.as_str(), places)
            })
            .filter(|(_, places): &(_, Vec<_>)| places.len() > 1)
            .collect()
    }
}

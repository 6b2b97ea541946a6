//! Type names with more than one definition.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use syn::{Item, Visibility};

use crate::modules::Tree;

/// The definitions of each name.
#[derive(Default)]
pub(crate) struct TypeNames {
    names: BTreeMap<String, Vec<Definition>>,
}

struct Definition {
    path: PathBuf,
    line: usize,
    public: bool,
}

/// A name and the `path:line` of each of its definitions.
pub(crate) type Repeated<'a> = (&'a str, Vec<String>);

/// Maximum number of names that exist twice, public or private.
pub(crate) const MAX_TWICE: usize = 60;

/// Returns the number of names that exist twice, and of names that exist more often.
pub(crate) fn twice_and_more(repeated: &[Repeated<'_>]) -> (usize, usize) {
    let more = repeated.iter().filter(|(_, places)| places.len() > 2).count();
    (repeated.len() - more, more)
}

/// Faults of that many names: each that exists three times or more, and each that exists twice beyond [`MAX_TWICE`].
pub(crate) fn faults(twice: usize, more: usize) -> usize {
    more + twice.saturating_sub(MAX_TWICE)
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
                let path = tree.sources[module.file].path.clone();
                let line = name.span().start().line;
                let public = matches!(visibility, Visibility::Public(_));
                self.names.entry(name.to_string()).or_default().push(Definition { path, line, public });
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// Names that more than one file defines, public or private.
    ///
    /// A private type of a `wire` or `translate` module does not count: it takes its name from the vendor's protocol.
    /// Definitions in one file count once, because they are variants for different configurations.
    pub(crate) fn repeated(&self) -> Vec<Repeated<'_>> {
        self.names_with(|all| {
            let mut files = HashSet::new();
            all.iter()
                .filter(|one| one.public || !follows_a_protocol(&one.path))
                .filter(|one| files.insert(&one.path))
                .collect()
        })
    }

    /// Names with more than one public definition.
    pub(crate) fn repeated_public(&self) -> Vec<Repeated<'_>> {
        self.names_with(|all| all.iter().filter(|definition| definition.public).collect())
    }

    /// Names with more than one definition that `counted` returns, and the places of those.
    fn names_with(&self, counted: impl Fn(&[Definition]) -> Vec<&Definition>) -> Vec<Repeated<'_>> {
        self.names
            .iter()
            .map(|(name, all)| (name, counted(all)))
            .filter(|(_, definitions)| definitions.len() > 1)
            .map(|(name, definitions)| {
                let place = |one: &Definition| format!("{}:{}", one.path.display(), one.line);
                (name.as_str(), definitions.into_iter().map(place).collect())
            })
            .collect()
    }
}

/// Returns true if `path` is a `wire` or `translate` module, or below one.
fn follows_a_protocol(path: &Path) -> bool {
    path.with_extension("").iter().any(|part| part == "wire" || part == "translate")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The names of a crate of these files.
    fn names(files: &[(&str, &str)]) -> TypeNames {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut names = TypeNames::default();
        names.add(&Tree::read(folder.path(), Path::new("lib.rs")).unwrap());
        names
    }

    fn repeated(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        names(files).repeated().into_iter().map(|(name, places)| (name.to_owned(), places.len())).collect()
    }

    #[test]
    fn a_name_counts_once_per_file() {
        let found = repeated(&[
            (
                "lib.rs",
                "mod one; mod two; struct Twice; #[cfg(unix)] struct Alone; #[cfg(windows)] struct Alone;",
            ),
            ("one.rs", "pub(crate) struct Twice; pub trait Thrice {} mod inner { enum Thrice {} }"),
            ("two.rs", "mod deep; type Thrice = (); trait Parent { type Alone; }"),
            ("two/deep.rs", "union Thrice { one: u8 }"),
        ]);
        assert_eq!(found, [("Thrice".to_owned(), 3), ("Twice".to_owned(), 2)]);
    }

    #[test]
    fn a_third_definition_and_too_many_second_ones_are_faults() {
        let places = |count: usize| ("Name", vec![String::new(); count]);
        assert_eq!(twice_and_more(&[places(2), places(3), places(2), places(11)]), (2, 2));
        assert_eq!(faults(MAX_TWICE, 0), 0);
        assert_eq!(faults(MAX_TWICE + 2, 0), 2);
        assert_eq!(faults(2, 3), 3);
    }

    #[test]
    fn tests_and_private_types_of_a_protocol_do_not_count() {
        let found = repeated(&[
            (
                "lib.rs",
                "mod wire; mod translate; struct Test; struct Wire; struct Part; struct Turn; struct Public;",
            ),
            ("wire.rs", "mod part; pub(crate) struct Wire; #[cfg(test)] mod tests { struct Test; }"),
            ("wire/part.rs", "pub(super) struct Part; pub struct Public;"),
            ("translate/mod.rs", "struct Turn; #[cfg(test)] struct Test;"),
        ]);
        assert_eq!(found, [("Public".to_owned(), 2)]);
    }

    #[test]
    fn public_definitions_count_wherever_they_are() {
        let names = names(&[
            (
                "lib.rs",
                "mod wire; pub struct Public; #[cfg(unix)] pub struct Both; #[cfg(windows)] pub struct Both;",
            ),
            ("wire.rs", "pub struct Public;\nstruct Both;"),
        ]);
        let public: Vec<_> = names.repeated_public().into_iter().map(|(name, _)| name).collect();
        assert_eq!(public, ["Both", "Public"]);
        let places = ["lib.rs:1", "wire.rs:1"].map(str::to_owned).to_vec();
        assert_eq!(names.repeated(), [("Public", places)]);
    }
}

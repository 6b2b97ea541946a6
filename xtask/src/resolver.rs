//! Resolves a path to the file that defines what it names, through imports, re-exports and globs.

use std::collections::HashSet;

use crate::modules::{Definition, Tree};

/// Target of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Resolved {
    /// An item, or something inside of it (a variant, an associated function): its file and name.
    Item(usize, String),
    Module(usize),
    /// A path into another crate, by that crate's name.
    External(String),
}

/// Resolves `path` as code in `module` writes it. Empty for a local variable, a primitive type or the prelude.
pub(crate) fn resolve(tree: &Tree, module: usize, path: &[String]) -> HashSet<Resolved> {
    Resolver { tree, seen: HashSet::new() }.path(module, path)
}

struct Resolver<'tree> {
    tree: &'tree Tree,
    /// Names under resolution: an import may lead to itself.
    seen: HashSet<(usize, String)>,
}

impl Resolver<'_> {
    fn path(&mut self, module: usize, path: &[String]) -> HashSet<Resolved> {
        let Some((first, mut rest)) = path.split_first() else { return HashSet::new() };
        let mut found = match first.as_str() {
            "crate" => HashSet::from([Resolved::Module(0)]),
            "self" => HashSet::from([Resolved::Module(module)]),
            "super" => self.parent(module),
            // The type behind `Self` is named in the header of its `impl`, which is scanned as well.
            "Self" => return HashSet::new(),
            "::" => rest.first().map(|name| Resolved::External(name.clone())).into_iter().collect(),
            name => {
                let found = self.name(module, name);
                // If no item of that name is in reach, the first of several segments is a crate.
                if found.is_empty() && !rest.is_empty() {
                    return HashSet::from([Resolved::External(name.to_owned())]);
                }
                found
            }
        };
        while rest.first().is_some_and(|segment| segment == "super") {
            found = found
                .into_iter()
                .flat_map(|one| match one {
                    Resolved::Module(module) => self.parent(module),
                    Resolved::Item(..) | Resolved::External(_) => HashSet::new(),
                })
                .collect();
            rest = &rest[1..];
        }
        for segment in rest {
            // A name can be a module and a function at once; only the module leads further.
            let modules: Vec<_> =
                found.iter().filter(|one| matches!(one, Resolved::Module(_))).cloned().collect();
            if modules.is_empty() {
                return found;
            }
            found = modules
                .into_iter()
                .flat_map(|one| match one {
                    Resolved::Module(module) => self.name(module, segment),
                    Resolved::Item(..) | Resolved::External(_) => HashSet::new(),
                })
                .collect();
        }
        found
    }

    fn parent(&self, module: usize) -> HashSet<Resolved> {
        self.tree.modules[module].parent.map(Resolved::Module).into_iter().collect()
    }

    fn name(&mut self, module: usize, name: &str) -> HashSet<Resolved> {
        let key = (module, name.to_owned());
        if !self.seen.insert(key.clone()) {
            return HashSet::new();
        }
        let here = &self.tree.modules[module];
        let mut found = HashSet::new();
        for definition in here.names.get(name).into_iter().flatten() {
            match definition {
                Definition::Item => {
                    found.insert(Resolved::Item(here.file, name.to_owned()));
                }
                Definition::Module(module) => {
                    found.insert(Resolved::Module(*module));
                }
                // In `use name::…` the name belongs to another crate, not to this import.
                Definition::Import(path) => found.extend(self.path(module, path)),
            }
        }
        // A name that the module defines or imports hides one of a glob, as in the compiler.
        if found.is_empty() {
            for glob in &here.globs {
                for target in self.path(module, glob) {
                    if let Resolved::Module(target) = target {
                        found.extend(self.name(target, name));
                    }
                }
            }
        }
        // Another branch of the same resolution may need this name again.
        self.seen.remove(&key);
        found
    }
}

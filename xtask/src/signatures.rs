//! Types of other crates in a crate's public signatures. A substitute for `cargo-check-external-types`, which needs a
//! nightly compiler.
//!
//! What a derive macro implements is not seen, and neither is what a macro of the crate's own expands to.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{ImplItem, Item, Visibility};

use crate::modules::Tree;
use crate::resolver::{Resolved, resolve};

/// The first segments of paths that need no permission.
const OWN: [&str; 3] = ["std", "core", "alloc"];

/// The other crates' paths in the public signatures of `tree`, with the places that name them, beyond those in `allowed`.
/// An entry of `allowed` is a crate or a path of it, as `crate::Item`.
pub(crate) fn external(tree: &Tree, allowed: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let mut finder = Finder { tree, module: id, allowed, found: &mut found };
        for item in &module.items {
            finder.item(item);
        }
    }
    found
}

struct Finder<'a> {
    tree: &'a Tree,
    module: usize,
    allowed: &'a [&'a str],
    found: &'a mut BTreeMap<String, Vec<String>>,
}

impl Finder<'_> {
    /// Visits the public part of an item.
    fn item(&mut self, item: &Item) {
        match item {
            Item::Const(item) if is_public(&item.vis) => self.visit_type(&item.ty),
            Item::Enum(item) if is_public(&item.vis) => {
                self.visit_generics(&item.generics);
                for field in item.variants.iter().flat_map(|variant| &variant.fields) {
                    self.visit_type(&field.ty);
                }
            }
            Item::Fn(item) if is_public(&item.vis) => self.visit_signature(&item.sig),
            Item::Static(item) if is_public(&item.vis) => self.visit_type(&item.ty),
            Item::Struct(item) if is_public(&item.vis) => {
                self.visit_generics(&item.generics);
                for field in item.fields.iter().filter(|field| is_public(&field.vis)) {
                    self.visit_type(&field.ty);
                }
            }
            // `visit_block` leaves out the bodies of default methods.
            Item::Trait(item) if is_public(&item.vis) => self.visit_item_trait(item),
            Item::Type(item) if is_public(&item.vis) => self.visit_type(&item.ty),
            Item::Use(item) if is_public(&item.vis) => {}
            Item::Impl(item) => match &item.trait_ {
                Some((path, _)) if self.is_public_type(&item.self_ty) => {
                    self.visit_generics(&item.generics);
                    self.visit_path(path);
                    self.visit_type(&item.self_ty);
                    for member in &item.items {
                        if let ImplItem::Type(member) = member {
                            self.visit_type(&member.ty);
                        }
                    }
                }
                Some(_) => {}
                None => {
                    for member in &item.items {
                        match member {
                            ImplItem::Fn(member) if is_public(&member.vis) => {
                                self.visit_signature(&member.sig);
                            }
                            ImplItem::Const(member) if is_public(&member.vis) => self.visit_type(&member.ty),
                            _ => {}
                        }
                    }
                }
            },
            _ => {}
        }
    }

    /// Returns true if the type of an `impl` is public. An `impl` for a private type of this crate is not part
    /// of the interface.
    fn is_public_type(&self, implementer: &syn::Type) -> bool {
        let syn::Type::Path(path) = implementer else { return true };
        let segments: Vec<_> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        resolve(self.tree, self.module, &segments).iter().all(|found| match found {
            Resolved::Item(file, name) => self
                .tree
                .modules
                .iter()
                .filter(|module| module.file == *file)
                .flat_map(|module| &module.items)
                .all(|item| match item {
                    Item::Enum(item) => item.ident != name || is_public(&item.vis),
                    Item::Struct(item) => item.ident != name || is_public(&item.vis),
                    _ => true,
                }),
            Resolved::Module(_) | Resolved::External(_) => true,
        })
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let module = &self.tree.modules[self.module];
        for found in resolve(self.tree, self.module, &segments) {
            let Resolved::External(other) = found else { continue };
            // `T::Output` of a type parameter: crates are not written in capitals.
            if other.starts_with(|first: char| first.is_uppercase()) {
                continue;
            }
            let name = format!("{other}::{}", segments.last().expect("a path has a segment"));
            if !OWN.contains(&other.as_str()) && !self.allowed.iter().any(|one| *one == other || *one == name)
            {
                let line = path.segments[0].ident.span().start().line;
                let place = format!("{}:{line}", self.tree.sources[module.file].path.display());
                self.found.entry(name).or_default().push(place);
            }
        }
        visit::visit_path(self, path);
    }

    fn visit_block(&mut self, _: &'ast syn::Block) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn only_what_the_public_can_see_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let text = "
            use serde_json::{Map, Value};
            use std::fmt::Display;
            struct Private(rustix::Errno);
            impl From<rustix::Errno> for Private {}
            pub struct Open { pub value: Value, hidden: rustix::Errno }
            impl Open {
                pub fn map(&self) -> Option<&Map> { rustix::call() }
                fn own(&self) -> rustix::Errno { todo!() }
            }
            pub fn stream(from: impl futures::Stream) -> Box<dyn Display> { todo!() }
            pub fn out<F: Fn() -> u8>(f: F) -> F::Output { todo!() }
            pub trait Wide: tracing::Subscriber { fn read(&self) -> u8 { rustix::read() } }
        ";
        fs::write(folder.path().join("lib.rs"), text).unwrap();
        let tree = Tree::read(folder.path(), Path::new("lib.rs")).unwrap();
        let found: Vec<_> = external(&tree, &["futures::Stream"]).into_keys().collect();
        assert_eq!(found, ["serde_json::Map", "serde_json::Value", "tracing::Subscriber"]);
        let found: Vec<_> = external(&tree, &["serde_json", "tracing"]).into_keys().collect();
        assert_eq!(found, ["futures::Stream"]);
    }
}

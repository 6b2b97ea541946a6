//! One parsed source file, and which of its lines are tests.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Meta, Token};

/// A source file of a product crate or the testkit.
pub(crate) struct Source {
    /// Relative to the workspace's root.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// Lines of `#[cfg(test)]` and `#[test]` items, counted from 1.
    tests: Vec<RangeInclusive<usize>>,
}

impl Source {
    /// Reads and parses `root/path`. Also returns its items.
    pub(crate) fn read(root: &Path, path: &Path) -> Result<(Self, Vec<syn::Item>), String> {
        let full = root.join(path);
        let text = std::fs::read_to_string(&full).map_err(|error| format!("{}: {error}", full.display()))?;
        let syntax = syn::parse_file(&text).map_err(|error| format!("{}: {error}", full.display()))?;
        let mut finder = TestFinder { tests: Vec::new() };
        finder.visit_file(&syntax);
        Ok((Self { path: path.to_path_buf(), text, tests: finder.tests }, syntax.items))
    }

    /// Returns the lines outside of tests, with their numbers counted from 1.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
            .filter(|(number, _)| !self.tests.iter().any(|lines| lines.contains(number)))
    }
}

/// Returns true if an item with these attributes is compiled only for tests.
pub(crate) fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let named_test = attribute.path().segments.last().is_some_and(|last| last.ident == "test");
        let condition = attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr");
        // `#[test]` and `#[tokio::test]`, but not `#[cfg(test)]`, whose path is `cfg`.
        (named_test && !condition)
            || (attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<Meta>()
                    .is_ok_and(|condition| without_tests(&condition) == Some(false)))
    })
}

/// The value of a `cfg` condition outside of tests, or `None` if it depends on something else.
fn without_tests(condition: &Meta) -> Option<bool> {
    match condition {
        Meta::Path(path) if path.is_ident("test") => Some(false),
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
            let mut values = parts.iter().map(without_tests);
            if list.path.is_ident("not") {
                values.next()?.map(|value| !value)
            } else if list.path.is_ident("all") {
                fold(values, false)
            } else if list.path.is_ident("any") {
                fold(values, true)
            } else {
                None
            }
        }
        _ => None,
    }
}

/// `decisive` if any value is, its opposite if all values are the opposite.
fn fold(values: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let values: Vec<_> = values.collect();
    if values.contains(&Some(decisive)) {
        Some(decisive)
    } else if values.contains(&None) {
        None
    } else {
        Some(!decisive)
    }
}

struct TestFinder {
    tests: Vec<RangeInclusive<usize>>,
}

impl TestFinder {
    fn note(&mut self, attributes: &[Attribute], item: &impl Spanned) -> bool {
        let test = is_test_only(attributes);
        if test {
            let span = item.span();
            self.tests.push(span.start().line..=span.end().line);
        }
        test
    }
}

impl<'ast> Visit<'ast> for TestFinder {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !self.note(item_attributes(item), item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !self.note(&function.attrs, function) {
            visit::visit_impl_item_fn(self, function);
        }
    }
}

/// The attributes of an item of any kind.
pub(crate) fn item_attributes(item: &syn::Item) -> &[Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_that_need_a_test_build_are_test_only() {
        let test_only = |item: &str| is_test_only(item_attributes(&syn::parse_str(item).unwrap()));
        assert!(test_only("#[cfg(test)] mod tests;"));
        assert!(test_only("#[cfg(all(test, unix))] mod tests;"));
        assert!(test_only("#[tokio::test] fn one() {}"));
        assert!(!test_only("#[cfg(any(test, unix))] mod shared;"));
        assert!(!test_only("#[cfg(not(test))] mod real;"));
        assert!(!test_only("#[cfg(feature = \"test\")] mod optional;"));
    }
}

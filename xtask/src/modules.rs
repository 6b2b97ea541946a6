//! Builds the module tree of one target: which file each module stands in, the names it defines or imports, and the
//! paths that its code writes. Items that only tests compile are left out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use crate::source::{Source, is_test_only, item_attributes};

/// The modules of one library or program.
pub(crate) struct Tree {
    /// Index of a module or file: into these.
    pub(crate) modules: Vec<Module>,
    pub(crate) sources: Vec<Source>,
    /// The outermost module of each source.
    pub(crate) tops: Vec<usize>,
    /// `macro_rules!` names, which are found by text order rather than by path, and their files.
    pub(crate) macros: HashMap<String, usize>,
}

pub(crate) struct Module {
    pub(crate) parent: Option<usize>,
    pub(crate) file: usize,
    pub(crate) names: HashMap<String, Vec<Definition>>,
    /// Targets of `use path::*`.
    pub(crate) globs: Vec<Vec<String>>,
    pub(crate) references: Vec<Reference>,
    /// All items but modules and tests.
    pub(crate) items: Vec<Item>,
}

/// Definition behind a name of a module. A name can have several: a module and a function, or one per platform.
#[derive(Clone, Debug)]
pub(crate) enum Definition {
    Item,
    Module(usize),
    Import(Vec<String>),
}

/// A path as the code writes it.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    pub(crate) kind: ReferenceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReferenceKind {
    Path,
    Macro,
    /// In a string of an attribute, such as `#[serde(with = "…")]`, where a module stands for its functions.
    Attribute,
}

impl Tree {
    /// Reads the module tree below `root_file`, a path relative to `root`.
    pub(crate) fn read(root: &Path, root_file: &Path) -> Result<Self, String> {
        let mut tree =
            Self { modules: Vec::new(), sources: Vec::new(), tops: Vec::new(), macros: HashMap::new() };
        let folder = root_file.parent().unwrap_or(Path::new("")).to_path_buf();
        tree.add_file(root, root_file, None, &folder)?;
        Ok(tree)
    }

    /// `folder` is where the files of the module's own `mod x;` are.
    fn add_file(
        &mut self,
        root: &Path,
        path: &Path,
        parent: Option<usize>,
        folder: &Path,
    ) -> Result<usize, String> {
        let (source, items) = Source::read(root, path)?;
        let file = self.sources.len();
        self.sources.push(source);
        self.tops.push(self.modules.len());
        self.add_module(root, file, parent, folder, items)
    }

    fn add_module(
        &mut self,
        root: &Path,
        file: usize,
        parent: Option<usize>,
        folder: &Path,
        items: Vec<Item>,
    ) -> Result<usize, String> {
        let id = self.modules.len();
        let module = Module {
            parent,
            file,
            names: HashMap::new(),
            globs: Vec::new(),
            references: Vec::new(),
            items: Vec::new(),
        };
        let mut scanner = Scanner { module, macros: Vec::new() };
        let mut children = Vec::new();
        for item in items {
            if is_test_only(item_attributes(&item)) {
                continue;
            }
            scanner.visit_item(&item);
            if let Some(name) = defined_name(&item) {
                // A name may have several definitions, for example one for each platform.
                scanner.module.names.entry(name).or_default().push(Definition::Item);
            }
            match item {
                Item::Mod(child) => children.push(child),
                _ => scanner.module.items.push(item),
            }
        }
        for name in scanner.macros {
            self.macros.insert(name, file);
        }
        // Add the module before its children, because they refer to it by its index.
        self.modules.push(scanner.module);
        for child in children {
            let name = child.ident.to_string();
            let child_folder = folder.join(&name);
            let child_id = match child.content {
                Some((_, items)) => self.add_module(root, file, Some(id), &child_folder, items)?,
                None => {
                    let (path, folder) = match path_attribute(&child.attrs) {
                        // Relative to the file that declares it, and its own modules stand beside it.
                        Some(path) => {
                            let base =
                                self.sources[file].path.parent().unwrap_or(Path::new("")).to_path_buf();
                            let path = base.join(path);
                            let folder = path.parent().unwrap_or(&base).to_path_buf();
                            (path, folder)
                        }
                        None => (module_file(root, folder, &name)?, child_folder),
                    };
                    self.add_file(root, &path, Some(id), &folder)?
                }
            };
            self.modules[id].names.entry(name).or_default().push(Definition::Module(child_id));
        }
        Ok(id)
    }

    /// The part of the crate that a file belongs to: the module right below the root, or the root itself.
    pub(crate) fn part(&self, file: usize) -> usize {
        let mut module = self.tops[file];
        loop {
            match self.modules[module].parent {
                Some(parent) if self.modules[parent].parent.is_some() => module = parent,
                _ => return module,
            }
        }
    }

    /// Returns true if one file's module contains the other's.
    pub(crate) fn is_family(&self, one: usize, other: usize) -> bool {
        let below = |mut module: usize, top: usize| loop {
            if module == top {
                return true;
            }
            match self.modules[module].parent {
                Some(parent) => module = parent,
                None => return false,
            }
        };
        let (one, other) = (self.tops[one], self.tops[other]);
        below(one, other) || below(other, one)
    }
}

fn module_file(root: &Path, folder: &Path, name: &str) -> Result<PathBuf, String> {
    let flat = folder.join(format!("{name}.rs"));
    let nested = folder.join(name).join("mod.rs");
    [flat, nested]
        .into_iter()
        .find(|path| root.join(path).is_file())
        .ok_or_else(|| format!("module {name} of {} has no file", folder.display()))
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find(|attribute| attribute.path().is_ident("path")).and_then(|attribute| {
        match &attribute.meta.require_name_value().ok()?.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        }
    })
}

/// The name that a module-level item adds to its module.
fn defined_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Collects imports and paths of the items of one module.
struct Scanner {
    module: Module,
    macros: Vec<String>,
}

impl Scanner {
    fn refer(&mut self, path: Vec<String>, line: usize, kind: ReferenceKind) {
        self.module.references.push(Reference { path, line, kind });
    }

    fn import(&mut self, prefix: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(prefix, &path.tree);
                prefix.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(prefix, tree);
                }
            }
            UseTree::Glob(glob) => {
                // An enum is used here; what a module's glob brings counts where it is used.
                self.refer(prefix.clone(), glob.span().start().line, ReferenceKind::Path);
                self.module.globs.push(prefix.clone());
            }
            UseTree::Name(name) => self.import_name(prefix, &name.ident, &name.ident),
            UseTree::Rename(rename) => self.import_name(prefix, &rename.ident, &rename.rename),
        }
    }

    fn import_name(&mut self, prefix: &[String], ident: &proc_macro2::Ident, alias: &proc_macro2::Ident) {
        let mut path = prefix.to_vec();
        let mut alias = alias.to_string();
        // `use a::b::{self}` imports the module `b`.
        if ident == "self" && !prefix.is_empty() {
            if alias == "self" {
                alias = prefix.last().expect("not empty").clone();
            }
        } else {
            path.push(ident.to_string());
        }
        // An import counts as a use, too: it depends on the file even if nothing else names the item.
        self.refer(path.clone(), ident.span().start().line, ReferenceKind::Path);
        self.module.names.entry(alias).or_default().push(Definition::Import(path));
    }

    /// Paths in tokens that no syntax is known for: the arguments and the bodies of macros.
    fn scan_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let punct = |index: usize, expected: char| matches!(tokens.get(index), Some(TokenTree::Punct(punct)) if punct.as_char() == expected);
        let mut index = 0;
        while index < tokens.len() {
            match &tokens[index] {
                TokenTree::Group(group) => self.scan_tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let line = first.span().start().line;
                    // Fields, methods and lifetimes are not paths.
                    let member = index > 0 && (punct(index - 1, '.') || punct(index - 1, '\''));
                    let mut path = vec![first.to_string()];
                    while punct(index + 1, ':') && punct(index + 2, ':') {
                        // A turbofish or a brace ends the path: its own paths are tokens of their own.
                        let Some(TokenTree::Ident(next)) = tokens.get(index + 3) else { break };
                        path.push(next.to_string());
                        index += 3;
                    }
                    if !member {
                        let kind =
                            if punct(index + 1, '!') { ReferenceKind::Macro } else { ReferenceKind::Path };
                        self.refer(path, line, kind);
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            index += 1;
        }
    }

    /// Paths in the strings of an attribute: `#[serde(with = "crate::wire::lenient")]`.
    fn scan_strings(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.scan_strings(group.stream()),
                TokenTree::Literal(literal) => {
                    let line = literal.span().start().line;
                    // Numbers and byte strings contain no paths.
                    let Ok(text) = syn::parse2::<syn::LitStr>(TokenTree::Literal(literal).into()) else {
                        continue;
                    };
                    if let Ok(path) = text.parse::<syn::Path>() {
                        self.refer(segments(&path), line, ReferenceKind::Attribute);
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

fn segments(path: &syn::Path) -> Vec<String> {
    let first = path.leading_colon.map(|_| "::".to_owned());
    first.into_iter().chain(path.segments.iter().map(|segment| segment.ident.to_string())).collect()
}

impl<'ast> Visit<'ast> for Scanner {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_only(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test_only(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    // Also an import in a function's body: its names are taken for the module's.
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut prefix: Vec<_> = item.leading_colon.map(|_| "::".to_owned()).into_iter().collect();
        self.import(&mut prefix, &item.tree);
    }

    // A module is scanned by itself.
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if let Some(name) = &item.ident {
            self.macros.push(name.to_string());
        }
        visit::visit_item_macro(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.refer(segments(path), path.span().start().line, ReferenceKind::Path);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.refer(segments(&call.path), call.path.span().start().line, ReferenceKind::Macro);
        self.scan_tokens(call.tokens.clone());
    }

    // `pub(in path)` uses nothing of what it names.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if attribute.path().is_ident("derive") {
            if let syn::Meta::List(list) = &attribute.meta {
                self.scan_tokens(list.tokens.clone());
            }
        } else if let syn::Meta::List(list) = &attribute.meta {
            self.scan_strings(list.tokens.clone());
        }
    }
}

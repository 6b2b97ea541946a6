//! Circles of imports between the files of one target.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::modules::{ReferenceKind, Tree};
use crate::resolver::{Resolved, resolve};

/// Pairs of files where the first uses the second, with the used names and the first line of each.
type Edges = BTreeMap<(usize, usize), BTreeMap<String, usize>>;

/// Files that reach each other by imports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    pub(crate) files: BTreeSet<PathBuf>,
    pub(crate) edges: Vec<Edge>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    /// The names that are used, and the line of the first use.
    pub(crate) names: BTreeMap<String, usize>,
}

/// The circles of `tree`, each once, in the order of their files.
///
/// An import goes to the file that defines the item, past any re-export. A module and what stands below it may use each
/// other, so an edge between the two makes no circle.
pub(crate) fn find(tree: &Tree) -> Vec<Circle> {
    let mut edges = edges(tree);
    edges.retain(|&(from, to), _| !tree.is_family(from, to));
    let path = |file: usize| tree.sources[file].path.clone();
    let mut circles: Vec<_> = components(tree.sources.len(), &edges)
        .into_iter()
        .filter(|files| files.len() > 1)
        .map(|files| Circle {
            edges: edges
                .iter()
                .filter(|((from, to), _)| files.contains(from) && files.contains(to))
                .map(|(&(from, to), names)| Edge { from: path(from), to: path(to), names: names.clone() })
                .collect(),
            files: files.into_iter().map(path).collect::<BTreeSet<_>>(),
        })
        .collect();
    circles.sort_by(|one, other| one.files.cmp(&other.files));
    circles
}

fn edges(tree: &Tree) -> Edges {
    let mut edges = Edges::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let mut add = |to: usize, name: &str, line: usize| {
            // Uses within one file never form a circle.
            if to != module.file {
                edges.entry((module.file, to)).or_default().entry(name.to_owned()).or_insert(line);
            }
        };
        for reference in &module.references {
            let found = resolve(tree, id, &reference.path);
            if let ([name], ReferenceKind::Macro, true) =
                (&reference.path[..], reference.kind, found.is_empty())
                && let Some(&file) = tree.macros.get(name)
            {
                add(file, name, reference.line);
            }
            for target in found {
                match target {
                    Resolved::Item(file, name) => add(file, &name, reference.line),
                    // Naming a module is not an edge: the item that is taken from it is.
                    Resolved::Module(module) if reference.kind == ReferenceKind::Attribute => {
                        add(tree.modules[module].file, &reference.path.join("::"), reference.line);
                    }
                    Resolved::Module(_) | Resolved::External(_) => {}
                }
            }
        }
    }
    edges
}

/// Modules right below the crate's root that reach each other, by the files of the modules.
pub(crate) fn between_parts(tree: &Tree) -> Vec<BTreeSet<PathBuf>> {
    let mut parts = Edges::new();
    for ((from, to), names) in edges(tree) {
        let (from, to) = (tree.part(from), tree.part(to));
        // The root belongs to every part, so it would connect all of them.
        if from != 0 && to != 0 && from != to {
            parts.insert((from, to), names);
        }
    }
    components(tree.modules.len(), &parts)
        .into_iter()
        .filter(|modules| modules.len() > 1)
        .map(|modules| {
            modules.into_iter().map(|module| tree.sources[tree.modules[module].file].path.clone()).collect()
        })
        .collect()
}

/// Strongly connected components, by Tarjan's algorithm.
fn components(count: usize, edges: &Edges) -> Vec<BTreeSet<usize>> {
    let mut next = vec![Vec::new(); count];
    for &(from, to) in edges.keys() {
        next[from].push(to);
    }
    let mut search = Search {
        next,
        order: vec![None; count],
        lowest: vec![0; count],
        stack: Vec::new(),
        found: Vec::new(),
        visited: 0,
    };
    for file in 0..count {
        if search.order[file].is_none() {
            search.visit(file);
        }
    }
    search.found
}

struct Search {
    next: Vec<Vec<usize>>,
    /// The step at which a file was first seen, and the earliest file that it reaches.
    order: Vec<Option<usize>>,
    lowest: Vec<usize>,
    stack: Vec<usize>,
    found: Vec<BTreeSet<usize>>,
    visited: usize,
}

impl Search {
    fn visit(&mut self, file: usize) {
        self.order[file] = Some(self.visited);
        self.lowest[file] = self.visited;
        self.visited += 1;
        self.stack.push(file);
        for next in self.next[file].clone() {
            match self.order[next] {
                None => {
                    self.visit(next);
                    self.lowest[file] = self.lowest[file].min(self.lowest[next]);
                }
                Some(order) if self.stack.contains(&next) => {
                    self.lowest[file] = self.lowest[file].min(order);
                }
                Some(_) => {}
            }
        }
        if Some(self.lowest[file]) == self.order[file] {
            // The file reaches nothing earlier, so it and all files above it on the stack form one component.
            let start = self.stack.iter().position(|&one| one == file).expect("on the stack since its visit");
            self.found.push(self.stack.drain(start..).collect());
        }
    }
}

#[cfg(test)]
mod tests;

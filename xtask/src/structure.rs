//! `cargo xtask structure`: measures and reports.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use crate::layers::Dependency;
use crate::lines::{self, Lines};
use crate::links::DeadLink;
use crate::modules::Tree;
use crate::types::TypeNames;
use crate::uses::{self, ItemUses};
use crate::workspace::{self, Target, Workspace};
use crate::{circles, layers, links, signatures, types, vendors};

/// Crate whose public signatures are checked for types of other crates: every implementer of a backend depends
/// on them.
const SEAM: &str = "nexus-core";

/// Other crates' types in the seam's public signatures. A new one is a promise: its next major version is ours, too.
const IN_THE_SEAM: [&str; 6] = [
    "futures::FusedStream",
    "futures::Stream",
    "schemars::JsonSchema",
    "serde",
    "serde_json",
    "zeroize::ZeroizeOnDrop",
];

/// The targets of the workspace, read.
type Trees = Vec<(Target, Tree)>;

/// Prints the report. Returns the number of faults of product code.
pub(crate) fn run() -> Result<usize, String> {
    let Workspace { root, targets, dependencies } = workspace::load()?;
    let (mut product, mut testkit) = (Trees::new(), Trees::new());
    for target in targets {
        let tree = Tree::read(&root, &target.root_file)?;
        // Report the testkit apart: only faults of product code fail the check.
        if target.testkit { testkit.push((target, tree)) } else { product.push((target, tree)) }
    }
    print_circles("the testkit (no fault)", &testkit);
    let faults = print_circles("product code", &product)
        + print_layers(&dependencies)
        + print_mentions(&product)
        + print_types(&product)
        + print_signatures(&product)
        + print_links(&links::dead(&root)?);
    print_uses(&product, &uses::user_texts(&root)?);
    print_lines(&product);
    println!("\n{faults} faults");
    Ok(faults)
}

fn print_layers(dependencies: &[Dependency]) -> usize {
    let faults = layers::faults(dependencies);
    println!("dependencies of crates that go up: {} of {}", faults.len(), dependencies.len());
    for fault in &faults {
        println!("  {fault}");
    }
    faults.len()
}

fn print_circles(place: &str, trees: &Trees) -> usize {
    let circles: Vec<_> = trees.iter().flat_map(|(_, tree)| circles::find(tree)).collect();
    println!("circles of imports between files of {place}: {}", circles.len());
    for circle in &circles {
        println!("  {} files", circle.files.len());
        for edge in &circle.edges {
            let first = edge.names.values().min().copied().unwrap_or_default();
            let names: Vec<_> = edge.names.keys().map(String::as_str).collect();
            println!("    {}:{first} -> {}: {}", edge.from.display(), edge.to.display(), names.join(", "));
        }
    }
    let parts: Vec<_> = trees.iter().flat_map(|(_, tree)| circles::between_parts(tree)).collect();
    println!("circles between a crate's topmost modules (no fault): {}", parts.len());
    for part in &parts {
        let paths: Vec<_> = part.iter().map(|path| path.display().to_string()).collect();
        println!("  {}", paths.join(" "));
    }
    println!();
    circles.len()
}

fn print_mentions(trees: &Trees) -> usize {
    let sources = trees.iter().flat_map(|(_, tree)| &tree.sources);
    let mentions: Vec<_> = sources.filter_map(vendors::mentions).collect();
    let count = mentions.iter().map(|one| one.lines.len()).sum();
    println!("lines that name a vendor outside the vendors' folders: {count} in {} files", mentions.len());
    for one in &mentions {
        let numbers: Vec<_> = one.lines.iter().map(usize::to_string).collect();
        println!("  {:4} {}: {}", one.lines.len(), one.path.display(), numbers.join(" "));
    }
    println!();
    count
}

fn print_types(trees: &Trees) -> usize {
    let mut names = TypeNames::default();
    for (_, tree) in trees {
        names.add(tree);
    }
    let public = names.repeated_public();
    println!("public type names with more than one definition: {}", public.len());
    for (name, places) in &public {
        println!("  {name}: {}", places.join(" "));
    }
    let all = names.repeated();
    let (twice, more) = types::twice_and_more(&all);
    println!(
        "with the private ones, except those of wire and translate modules: {twice} twice (at most {}), {more} more often (none), of {}",
        types::MAX_TWICE,
        names.count()
    );
    for (name, places) in &all {
        println!("  {name}: {}", places.join(" "));
    }
    println!();
    public.len() + types::faults(twice, more)
}

fn print_signatures(trees: &Trees) -> usize {
    let mut count = 0;
    println!("types of other crates in the public signatures of {SEAM} that are not allowed:");
    for (_, tree) in trees.iter().filter(|(target, _)| target.package == Path::new(SEAM)) {
        for (name, places) in signatures::external(tree, &IN_THE_SEAM) {
            println!("  {name}: {}", places.join(" "));
            count += 1;
        }
    }
    println!("  {count}\n");
    count
}

fn print_links(dead: &[DeadLink]) -> usize {
    println!("links of the pages that lead to no file: {}", dead.len());
    for DeadLink { page, line, target } in dead {
        println!("  {}:{line}: {target}", page.display());
    }
    println!();
    dead.len()
}

fn print_uses(trees: &Trees, user_texts: &[String]) {
    let mut uses = ItemUses::default();
    for source in trees.iter().flat_map(|(_, tree)| &tree.sources) {
        uses.add_source(source);
    }
    for text in user_texts {
        uses.add_text(text);
    }
    let unused: Vec<_> = uses.unused().collect();
    println!("public items that no product code, example or page names (no fault): {}", unused.len());
    for (name, definitions) in &unused {
        println!("  {name}: {}", definitions.join(" "));
    }
    println!();
}

fn print_lines(trees: &Trees) {
    let mut crates: BTreeMap<&PathBuf, Lines> = BTreeMap::new();
    let mut total = Lines::default();
    for (target, tree) in trees {
        for source in &tree.sources {
            let product: HashSet<_> = source.product_lines().map(|(number, _)| number).collect();
            let lines = lines::count(&source.text, |number| product.contains(&number));
            *crates.entry(&target.package).or_default() += lines;
            total += lines;
        }
    }
    println!("lines without tests (no fault)   all    code     doc  comments  comments/code");
    for (package, lines) in &crates {
        let name =
            if package.as_os_str().is_empty() { "(root)".into() } else { package.display().to_string() };
        print_row(&name, *lines);
    }
    print_row("all", total);
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn print_row(name: &str, lines: Lines) {
    let Lines { all, code, comments, documentation } = lines;
    let share = 100.0 * comments as f64 / code.max(1) as f64;
    println!("  {name:28} {all:6} {code:7} {documentation:7} {comments:9} {share:12.2} %");
}

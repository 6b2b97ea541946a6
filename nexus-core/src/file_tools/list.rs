//! The tool `list_files`.

use std::time::Instant;

use super::{
    TIME, ToolContext,
    answer::{BoundedAnswer, fault, name, passed_over, stopped},
    arguments::ListFiles,
};
use crate::scope::{EntryKind, WalkOptions};

pub(super) const DESCRIPTION: &str = "Lists files and folders by name. Use it to find paths for the other \
    tools. Paths are relative to the root of your files, and the other tools accept them unchanged; a quoted \
    path is a JSON string. A folder ends with /. Symbolic links are listed but not followed. Paths that you \
    may not read are not listed. If the list is longer than the answer, the last line gives the offset to \
    continue with. Fails if the path does not exist or is out of scope.";

/// Default depth of a listing.
const DEPTH: usize = 2;

/// Runs `list_files` and returns its answer.
pub(super) fn list_files(shared: &ToolContext, asked: &ListFiles) -> Result<String, String> {
    let (until, depth) = (Instant::now() + TIME, asked.depth.unwrap_or(DEPTH).max(1));
    let (mut lines, mut remarks, mut not_entered) = (Vec::new(), Vec::new(), 0);
    for place in shared.places(asked.path.as_deref()) {
        let options = WalkOptions { depth, ..shared.walk_options(until) };
        let walk = match shared.files.walk(&place, &options) {
            Ok(walk) => walk,
            Err(error) if asked.path.is_some() => return Err(fault(&place, &error)),
            // With several paths, one of them may have been removed meanwhile.
            Err(error) => {
                remarks.push(fault(&place, &error));
                continue;
            }
        };
        // The walk of a file returns only the file itself.
        let is_folder = walk.entries.first().is_none_or(|first| first.path != place);
        if asked.path.is_none() && place != "." && is_folder {
            lines.push(format!("{}/", name(&place)));
        }
        lines.extend(walk.entries.iter().map(|entry| {
            let mark = match entry.kind {
                EntryKind::File => "",
                EntryKind::Folder => "/",
                EntryKind::Link => "  (symbolic link, not followed)",
                EntryKind::Other => "  (neither a file nor a folder)",
            };
            format!("{}{mark}", name(&entry.path))
        }));
        not_entered += walk.passed_over.not_entered;
        passed_over(&walk.passed_over, &mut remarks);
        remarks.extend(walk.stopped.map(|bound| stopped(bound).to_owned()));
    }
    let first = asked.offset.unwrap_or(1).max(1);
    if first > lines.len() && first > 1 {
        return Err(format!("there are {} entries; offset is greater than that", lines.len()));
    }
    let mut answer = BoundedAnswer::new(shared);
    let shown = lines.iter().skip(first - 1).take_while(|line| answer.push(line)).count();
    let last = first + shown - 1;
    if last < lines.len() {
        let next = last + 1;
        let said = format!("entries {first} to {last} of {}; continue with offset {next}", lines.len());
        remarks.insert(0, said);
    } else if lines.is_empty() {
        remarks.insert(0, "nothing is there".to_owned());
    }
    if not_entered > 0 {
        let left_out = shared.left_out.join(", ");
        let names = if left_out.is_empty() { left_out } else { format!(", or are called {left_out}") };
        remarks.push(format!(
            "{not_entered} folders are listed without their content, because they are deeper than depth \
            {depth}{names}"
        ));
    }
    Ok(answer.end(&remarks))
}

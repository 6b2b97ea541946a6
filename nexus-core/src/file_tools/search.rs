//! The tool `search_files`.

use std::time::Instant;

use super::{
    TIME, ToolContext,
    answer::{BoundedAnswer, MAX_FILE_BYTES, fault, name, passed_over, stopped, unreadable},
    arguments::SearchFiles,
};
use crate::scope::{LinePattern, NameGlob, PatternStyle, Search, SearchOptions};

pub(super) const DESCRIPTION: &str = "Searches files for lines that match a pattern. Each line of the answer \
    has the form path:number: text. A quoted path is a JSON string. Give path, or names such as *.py, to \
    narrow the search. Skips binary files, and does not follow symbolic links. The last lines of the answer \
    count the searched files and name the skipped ones. Fails if the pattern is not a valid regular \
    expression.";

/// Default number of matching lines.
const MATCHES: usize = 100;

/// Bytes of each matching line in the answer. Source: our own bound.
const SHOWN_BYTES: usize = 300;

/// Runs `search_files` and returns its answer.
pub(super) fn search_files(shared: &ToolContext, asked: &SearchFiles) -> Result<String, String> {
    let style = PatternStyle {
        literal: asked.literal.unwrap_or_default(),
        ignore_case: asked.ignore_case.unwrap_or_default(),
    };
    let pattern = LinePattern::new(&asked.pattern, style).map_err(|error| {
        let way_out = if style.literal { "" } else { ". To search for plain text, set literal to true" };
        format!("pattern: {error}{way_out}")
    })?;
    let names = asked.names.as_deref().map(str::parse::<NameGlob>).transpose();
    let until = Instant::now() + TIME;
    let limit = asked.limit.unwrap_or(MATCHES).max(1);
    let options = SearchOptions {
        names: names.map_err(|error| format!("names: {error}; write a glob such as *.rs"))?,
        file_bytes: MAX_FILE_BYTES,
        shown_bytes: SHOWN_BYTES,
        ..SearchOptions::default()
    };
    let (mut answer, mut remarks) = (BoundedAnswer::new(shared), Vec::new());
    let (mut files, mut found) = (0, 0);
    for place in shared.places(asked.path.as_deref()) {
        if found >= limit {
            break;
        }
        let walk = shared.walk_options(until);
        let options = SearchOptions { walk, matches: limit - found, ..options.clone() };
        let search = match shared.files.search(&place, &pattern, &options) {
            Ok(search) => search,
            Err(error) if asked.path.is_some() => return Err(fault(&place, &error)),
            // With several paths, one of them may have been removed meanwhile.
            Err(error) => {
                remarks.push(fault(&place, &error));
                continue;
            }
        };
        let lines = search.matches.iter();
        let shown =
            lines.take_while(|hit| answer.push(&format!("{}:{}: {}", name(&hit.path), hit.line, hit.text)));
        let shown = shown.count();
        files += search.files;
        found += shown;
        remark_on(&search, &mut remarks);
        if shown < search.matches.len() {
            remarks.push(
                "more lines match than fit into the answer: give `path`, `names` or a more specific \
                    pattern"
                    .to_owned(),
            );
            break;
        }
    }
    remarks.insert(0, format!("{found} lines found; {files} files searched"));
    Ok(answer.end(&remarks))
}

/// Adds remarks about the parts that were not searched.
fn remark_on(search: &Search, remarks: &mut Vec<String>) {
    remarks.extend(search.stopped.map(|bound| stopped(bound).to_owned()));
    if search.binary_files > 0 {
        remarks.push(format!("{} binary files left out", search.binary_files));
    }
    if search.large_files > 0 {
        let first: Vec<_> = search.large.iter().take(3).map(|path| name(path)).collect();
        let named = first.join(", ");
        remarks.push(format!("{} files left out as too large: {named}", search.large_files));
    }
    if search.long_lines > 0 {
        remarks.push(format!("{} long lines were searched only at their beginning", search.long_lines));
    }
    if search.unreadable_files > 0 {
        let named = unreadable(&search.unreadable);
        remarks.push(format!("files that could not be read: {} ({named})", search.unreadable_files));
    }
    passed_over(&search.passed_over, remarks);
}

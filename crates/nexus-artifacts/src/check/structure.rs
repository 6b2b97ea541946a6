//! Frontmatter, sections and entries: rules for every kind.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;

use super::{
    super::{
        document::{NONE, Unclosed, heading_of},
        frontmatter::{TaskPlan, TaskSummary},
        id::SliceId,
        kind::{EntrySpec, Kind, Sections},
        rule::Rule,
    },
    CheckContext,
};

/// Text that JavaScript programs write in place of a lost value.
const LOST: &str = "[object Object]";

impl CheckContext<'_> {
    pub(super) fn structure(&mut self) {
        let document = self.artifact;
        let mut start = 0;
        for line in document.text().split_inclusive('\n') {
            if let Some(at) = line.find(LOST) {
                self.fault(
                    start + at,
                    Rule::ObjectObject,
                    format!("{LOST} marks a lost value; write the value"),
                );
            }
            start += line.len();
        }
        self.frontmatter();
        for (at, what) in document.unclosed() {
            match what {
                Unclosed::Fence => {
                    self.fault(
                        *at,
                        Rule::FenceUnclosed,
                        "the code fence has no end, so all that follows is code",
                    );
                }
                Unclosed::Comment => self.fault(*at, Rule::CommentUnclosed, "the comment has no end"),
                Unclosed::Frontmatter => {}
            }
        }
        match document.kind().spec().sections {
            Sections::Headings(names) => self.sections(names, |name| format!("## {name}")),
            Sections::Tags(names) => self.sections(names, |name| format!("<{name}>")),
        }
        for spec in document.kind().spec().entries {
            self.entries(spec);
        }
    }

    fn frontmatter(&mut self) {
        let document = self.artifact;
        let Some(spec) = document.kind().spec().frontmatter else { return };
        let Some(text) = document.frontmatter() else {
            let cut_off = document.unclosed().iter().any(|(_, what)| *what == Unclosed::Frontmatter);
            let message = if cut_off {
                "the frontmatter has no end: write --- on a line of its own below it"
            } else {
                "the file does not begin with a frontmatter between two lines of ---"
            };
            return self.fault(0, Rule::FrontmatterMissing, message);
        };
        // The frontmatter is a slice of the document's text, so the pointers give its offset.
        let start = text.as_ptr() as usize - document.text().as_ptr() as usize;
        // META is JSON, and YAML accepts more than that. So check the stricter syntax first.
        let found = if document.kind() == Kind::Meta
            && let Err(error) = serde_json::from_str::<IgnoredAny>(text)
        {
            let words = error.to_string();
            let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words);
            Some((error.line(), error.column(), words.to_owned()))
        } else {
            (spec.check)(text).err().map(|error| (error.line, error.column, error.message))
        };
        if let Some((line, column, message)) = found {
            let at = start + byte_of(text, line, column);
            let values = document.values();
            let key = values.iter().find(|(_, value)| value.start == at).map(|(key, _)| format!("{key}: "));
            self.fault(at, Rule::FrontmatterInvalid, key.unwrap_or_default() + &message);
        }
    }

    fn sections(&mut self, names: &[&str], shown: impl Fn(&str) -> String) {
        let document = self.artifact;
        let end = document.text().trim_end().len();
        for name in names {
            let mut found = document.sections().iter().filter(|section| section.is_called(name));
            let Some(section) = found.next() else {
                let message = format!(
                    "the section {} is missing; write {NONE} below it if there is nothing to say",
                    shown(name)
                );
                self.fault(end, Rule::SectionMissing, message);
                continue;
            };
            if !section.is_closed {
                self.fault(section.start, Rule::SectionUnclosed, format!("<{name}> has no </{name}>"));
            } else if document.is_blank(section.body.clone()) {
                let message =
                    format!("the section {} is empty; write {NONE} if it has no content", shown(name));
                self.fault(section.start, Rule::SectionEmpty, message);
            }
            for twice in found {
                self.fault(
                    twice.start,
                    Rule::SectionDuplicate,
                    format!("the section {} occurs twice", shown(name)),
                );
            }
        }
    }

    fn entries(&mut self, spec: &EntrySpec) {
        let document = self.artifact;
        let form = if spec.prefix.is_empty() {
            "### NAME: text".to_owned()
        } else {
            format!("### {}-N: text", spec.prefix)
        };
        let mut known = BTreeSet::new();
        let mut expected = 1;
        for entry in document.entries_of(spec.section) {
            let id = entry.id.as_deref().filter(|_| !entry.text.is_empty());
            let number = id.and_then(|id| number_of(id, spec.prefix));
            let is_good = if spec.prefix.is_empty() { id.is_some() } else { number.is_some() };
            let Some(id) = id.filter(|_| is_good) else {
                self.fault(
                    entry.start,
                    Rule::EntryHeading,
                    format!("write an entry of {} as {form}", spec.section),
                );
                continue;
            };
            // Criteria are numbered by position. For other kinds a gap is allowed, because entries may have been removed.
            if !known.insert(id) {
                self.fault(entry.start, Rule::EntrySequence, format!("{id} is there twice"));
            } else if spec.prefix == "SC" && number != Some(expected) {
                self.fault(
                    entry.start,
                    Rule::EntrySequence,
                    format!("{id} is in the position of SC-{expected}"),
                );
            }
            // Continue from the found number, so that a gap is reported once.
            expected = number.unwrap_or(expected).saturating_add(1);
            for name in spec.fields {
                if document.field(entry, name).is_none() {
                    self.fault(entry.start, Rule::EntryField, format!("{id} has no line `- **{name}:** …`"));
                }
            }
        }
        self.stray_entries(spec, &form);
    }

    /// Reports headings that look like entries but are in the wrong section.
    fn stray_entries(&mut self, spec: &EntrySpec, form: &str) {
        let document = self.artifact;
        if spec.prefix.is_empty() {
            return;
        }
        let known: BTreeSet<usize> = document.entries_of(spec.section).map(|entry| entry.start).collect();
        for range in document.prose_in(document.body()) {
            let Some((level, words)) = heading_of(&document.text()[range.clone()]) else { continue };
            let id = words.split(|next: char| next.is_whitespace() || next == ':').next().unwrap_or_default();
            let is_named = number_of(&id.to_ascii_uppercase(), spec.prefix).is_some();
            if level > 1 && is_named && !known.contains(&range.start) {
                let message = format!("write an entry as {form}, below ## {}", spec.section);
                self.fault(range.start, Rule::EntryHeading, message);
            }
        }
    }

    /// Compares the ids in a frontmatter with the ids of the folders, or with each other.
    pub(super) fn places(&mut self) {
        let document = self.artifact;
        let kind = document.kind();
        if matches!(kind, Kind::TaskPlan | Kind::TaskSummary) {
            let read = document.read::<TaskSummary>().map(|summary| (summary.id, summary.slice));
            let read = read.or_else(|_| document.read::<TaskPlan>().map(|plan| (plan.id, plan.slice)));
            self.task = self.task.or(read.ok().map(|(id, _)| id));
        }
        let values = document.values();
        let text = |key: &str| {
            let range = values.get(key)?;
            Some((range.start, document.text()[range.clone()].trim_matches(['"', '\''])))
        };
        // A handoff may be about any slice, so its place determines only the milestone.
        let slice = ["slice", "slice_id"].into_iter().find_map(text).filter(|_| kind != Kind::Handoff);
        self.slice = self.slice.or(self.task.map(|task| task.slice));
        self.slice = self.slice.or(slice.and_then(|(_, slice)| slice.parse::<SliceId>().ok()));
        self.milestone = self.milestone.or(self.slice.map(|slice| slice.milestone));
        let milestone = ["milestone", "milestone_id"].into_iter().find_map(text);
        let own = match kind {
            Kind::TaskPlan | Kind::TaskSummary => self.task.map(|task| task.to_string()),
            Kind::Meta => self.milestone.map(|milestone| milestone.to_string()),
            Kind::Validation => self.milestone.map(|milestone| milestone.number().to_string()),
            _ => None,
        };
        let own_key = if kind == Kind::Validation { "phase" } else { "id" };
        let pairs = [
            (text(own_key), own),
            (slice, self.slice.map(|slice| slice.to_string())),
            (milestone, self.milestone.map(|milestone| milestone.to_string())),
        ];
        for (said, expected) in pairs {
            if let (Some((at, said)), Some(expected)) = (said, expected)
                && said != expected
            {
                self.fault(
                    at,
                    Rule::PlaceMismatch,
                    format!("it contains {said}, but {expected} is expected"),
                );
            }
        }
    }
}

/// Returns the number of an id such as `D-1`, if it has this prefix.
fn number_of(id: &str, prefix: &str) -> Option<u32> {
    let digits = id.strip_prefix(prefix)?.strip_prefix('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Returns the byte offset of a line and column, both counted from 1.
fn byte_of(text: &str, line: usize, column: usize) -> usize {
    let start = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum::<usize>();
    let rest = &text[start.min(text.len())..];
    let within = rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(at, _)| at);
    (start + within).min(text.len())
}

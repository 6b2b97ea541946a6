//! Adds entries to a JSON document and removes them. Every other byte of the document stays.
//!
//! The document has an object `hooks` with a list of groups for each event. An added entry always has the same text, so that
//! a later removal finds it word for word.
//!
//! Positions come from a copy of the text that has spaces in place of comments and trailing commas, so that a JSON reader
//! accepts it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::json_with_comments::{without_comments, without_trailing_commas};

/// Groups as JSON, by the name of the event.
pub(super) type Groups = BTreeMap<String, Vec<String>>;

/// Object whose values are not parsed.
type RawObject<'t> = BTreeMap<String, &'t RawValue>;

/// Returns a document with only our entries. They follow on the line of its brace, because nothing is inserted into an empty
/// document.
pub(super) fn file(groups: &Groups) -> String {
    format!("{{ {} }}\n", hooks_member(groups))
}

fn hooks_member(groups: &Groups) -> String {
    let events: Vec<_> = groups.iter().map(|(event, groups)| event_member(event, groups)).collect();
    format!("\"hooks\": {{\n    {}\n  }}", events.join(",\n    "))
}

fn event_member(event: &str, groups: &[String]) -> String {
    format!("\"{event}\": [\n      {}\n    ]", groups.join(",\n      "))
}

/// Returns the two texts that add an item: to a container with items, and to an empty container.
fn put(item: &str, depth: usize) -> [String; 2] {
    let indent = "  ".repeat(depth);
    [format!(",\n{indent}{item}"), format!("\n{indent}{item}\n{}", "  ".repeat(depth - 1))]
}

/// Returns the document with these groups added. They must not be in it yet.
pub(super) fn with(original: &str, groups: &Groups) -> Result<String, String> {
    let plain = plain_json(original);
    let text = plain.as_str();
    let mut inserts: Vec<(usize, String)> = Vec::new();
    let mut insert = |container: &str, last: Option<usize>, item: &str, depth: usize| {
        let [behind, alone] = put(item, depth);
        match last {
            Some(end) => inserts.push((end, behind)),
            None => inserts.push((start_of(text, container) + 1, alone)),
        }
    };
    let root: RawObject<'_> = read(text, text, "the document")?;
    match root.get("hooks") {
        None => insert(text.trim_start(), last_of(text, root.values()), &hooks_member(groups), 1),
        Some(hooks) => {
            let events: RawObject<'_> = read(text, hooks.get(), "`hooks`")?;
            let (missing, there): (Vec<_>, Vec<_>) =
                groups.iter().partition(|(event, _)| !events.contains_key(*event));
            let members: Vec<_> = missing.iter().map(|(event, groups)| event_member(event, groups)).collect();
            if !members.is_empty() {
                insert(hooks.get(), last_of(text, events.values()), &members.join(",\n    "), 2);
            }
            for (event, groups) in there {
                let list = events[event];
                let known: Vec<&RawValue> = read(text, list.get(), &format!("`hooks.{event}`"))?;
                insert(list.get(), last_of(text, known.iter()), &groups.join(",\n      "), 3);
            }
        }
    }
    // Insert from the end: an insertion moves only the positions behind it.
    inserts.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let mut text = original.to_owned();
    for (at, insert) in inserts {
        text.insert_str(at, &insert);
    }
    Ok(text)
}

/// Returns the document without the hooks that are `ours`. `None`: it contains nothing else.
pub(super) fn without(
    text: &str,
    groups: &Groups,
    ours: impl Fn(&str) -> bool,
) -> Result<Option<String>, String> {
    // The file has exactly our text, so an installation created it.
    if text == file(groups) {
        return Ok(None);
    }
    let mut text = text.to_owned();
    let mut left = ours_in(&plain_json(&text), &ours)?.len();
    // Try to remove the texts that an installation may have added, the largest first.
    let mut pieces = vec![put(&hooks_member(groups), 1)];
    // An installation adds all missing events at once, in their order.
    let members: Vec<_> = groups.iter().map(|(event, groups)| event_member(event, groups)).collect();
    for count in (1..=members.len()).rev() {
        // Try each subset of the events, because some may have existed before.
        pieces.extend(runs(&members, count).map(|run| put(&run.join(",\n    "), 2)));
    }
    pieces.extend(groups.values().map(|groups| put(&groups.join(",\n      "), 3)));
    for piece in pieces.iter().flatten() {
        if left == 0 {
            return Ok(Some(text));
        }
        // Do not remove a text that is part of another item: the number of our items must decrease.
        let shorter = text.match_indices(piece.as_str()).find_map(|(at, _)| {
            let shorter = [&text[..at], &text[at + piece.len()..]].concat();
            let still = ours_in(&plain_json(&shorter), &ours).ok()?.len();
            (still < left).then_some((shorter, still))
        });
        if let Some(found) = shorter {
            (text, left) = found;
        }
    }
    // Another program has reformatted the document. Remove our items one by one, each with the comma on one side.
    loop {
        let plain = plain_json(&text);
        let Some(piece) = ours_in(&plain, &ours)?.first().copied() else { break };
        let start = start_of(&plain, piece);
        let end = start + piece.len();
        // Use the text with its trailing commas, because none may remain without an item.
        let commented = without_comments(&text);
        let (before, after) = (commented[..start].trim_end(), commented[end..].trim_start());
        // Remove only the comma: a comment between it and the item stays.
        let comma = if before.ends_with(',') {
            Some(before.len() - 1)
        } else if after.starts_with(',') {
            Some(commented.len() - after.len())
        } else {
            None
        };
        let mut ranges: Vec<_> = comma.map(|comma| comma..comma + 1).into_iter().collect();
        ranges.push(start..end);
        ranges.sort_by_key(|range| std::cmp::Reverse(range.start));
        ranges.into_iter().for_each(|range| text.replace_range(range, ""));
    }
    Ok(Some(text))
}

/// Returns every list of `count` items in their order, lists of neighbours first.
fn runs(items: &[String], count: usize) -> impl Iterator<Item = Vec<String>> {
    // Each bit selects one item. A program has far fewer than 16 events.
    let all = 1_u32 << items.len().min(16);
    let chosen = (0..all).filter(move |bits| bits.count_ones() as usize == count);
    chosen.map(|bits| {
        let is_in = |place: &usize| bits & (1 << place) != 0;
        (0..items.len()).filter(is_in).map(|place| items[place].clone()).collect()
    })
}

/// Returns a text that a JSON reader accepts. All values keep their positions in the document.
fn plain_json(text: &str) -> String {
    without_trailing_commas(&without_comments(text))
}

/// Returns the text of all groups of a document in plain JSON.
fn groups_in(plain: &str) -> Result<Vec<&str>, String> {
    let root: RawObject<'_> = read(plain, plain, "the document")?;
    let Some(hooks) = root.get("hooks") else { return Ok(Vec::new()) };
    let events: RawObject<'_> = read(plain, hooks.get(), "`hooks`")?;
    let mut groups = Vec::new();
    for (event, list) in events {
        let list: Vec<&RawValue> = read(plain, list.get(), &format!("`hooks.{event}`"))?;
        groups.extend(list.into_iter().map(RawValue::get));
    }
    Ok(groups)
}

/// Returns the text of all hooks of a document.
pub(super) fn hooks_in(text: &str) -> Result<Vec<String>, String> {
    let plain = plain_json(text);
    Ok(groups_in(&plain)?.into_iter().flat_map(hooks_of).map(str::to_owned).collect())
}

/// Returns the hooks of a group; empty if it is not a group.
fn hooks_of(group: &str) -> Vec<&str> {
    let Ok(members) = serde_json::from_str::<RawObject<'_>>(group) else { return Vec::new() };
    let hooks =
        members.get("hooks").and_then(|hooks| serde_json::from_str::<Vec<&RawValue>>(hooks.get()).ok());
    hooks.unwrap_or_default().into_iter().map(RawValue::get).collect()
}

/// Returns the parts of a document in plain JSON that are `ours`: whole groups, and single hooks of groups with other hooks.
fn ours_in<'t>(text: &'t str, ours: &impl Fn(&str) -> bool) -> Result<Vec<&'t str>, String> {
    let mut found = Vec::new();
    for group in groups_in(text)? {
        let hooks = hooks_of(group);
        let own: Vec<_> = hooks.iter().copied().filter(|hook| ours(hook)).collect();
        match own.len() == hooks.len() && !own.is_empty() {
            true => found.push(group),
            false => found.extend(own),
        }
    }
    Ok(found)
}

/// Parses a part of a text. An error has the position in the whole text.
fn read<'t, T: serde::Deserialize<'t>>(text: &str, part: &'t str, what: &str) -> Result<T, String> {
    serde_json::from_str(part).map_err(|error| {
        let line = text[..start_of(text, part)].matches('\n').count() + error.line().max(1);
        let words = error.to_string();
        match words.rsplit_once(" at line ") {
            // The column is meaningless if a part has the wrong type.
            Some((words, _)) if error.is_data() => format!("{what}, line {line}: {words}"),
            Some((words, _)) => format!("{what}, line {line}, column {}: {words}", error.column()),
            None => format!("{what}, line {line}: {words}"),
        }
    })
}

/// Returns the position of a part in its text.
fn start_of(text: &str, part: &str) -> usize {
    // `RawValue` borrows from the text, so the pointers give the offset.
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len())
}

/// Returns the end of the last value in a text.
fn last_of<'t>(text: &str, values: impl Iterator<Item = &'t &'t RawValue>) -> Option<usize> {
    values.map(|value| start_of(text, value.get()) + value.get().len()).max()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn groups() -> Groups {
        let group =
            |event: &str| format!(r#"{{ "hooks": [{{ "type": "command", "command": "nexus {event}" }}] }}"#);
        let two = vec![group("start"), group("compact")];
        Groups::from([
            ("PreToolUse".into(), vec![group("pre")]),
            ("SessionStart".into(), two),
            ("Stop".into(), vec![group("stop")]),
        ])
    }

    fn is_ours(group: &str) -> bool {
        group.contains("nexus ")
    }

    #[test]
    fn what_was_put_in_is_taken_out_and_the_rest_stays_byte_for_byte() {
        let other = r#"{"matcher":"Bash","hooks":[{"type":"command","command":"echo \"]}\" , {"}]}"#;
        for text in [
            "{}".to_owned(),
            "{}\n".to_owned(),
            "{\n}\n".to_owned(),
            "\u{20}{ \"model\" : \"opus\" }\r\n".to_owned(),
            "{\"hooks\":{}}".to_owned(),
            "{\"hooks\": { }, \"a\": 1}".to_owned(),
            "{\"hooks\":{\"PreToolUse\":[]}}".to_owned(),
            "{\"hooks\":{\"PreToolUse\":[ ],\n\"Stop\": [\n\n] }}".to_owned(),
            format!("{{\"hooks\":{{\"Stop\":[{other}],\"Other\":[{other}]}},\"x\":[1,2 , 3]}}"),
            format!(
                "{{\n\t\"hooks\": {{\n\t\t\"PreToolUse\": [\n\t\t\t{other}\n\t\t],\n\t\t\"SessionStart\": [{other}]\n\t}},\n\t\"permissions\": {{\"allow\": [\"Bash\"]}}\n}}\n"
            ),
            format!(
                "{{\"z\":null,\"hooks\":{{\"Stop\":[{other},{other}],\"PreToolUse\":[{other}],\"SessionStart\":[{other}]}}}}"
            ),
            // Comments and trailing commas.
            "// mine\n{ // all\n}\n".to_owned(),
            "{\n  \"model\": \"opus\", // the largest\n}\n".to_owned(),
            format!(
                "{{\n  /* \"hooks\": {{ \"Stop\": [] }} */\n  \"hooks\": {{\n    \"Stop\": [\n      {other}, // kept\n    ],\n    // none\n    \"PreToolUse\": [ /* none */ ],\n  }}, // hooks\n  \"url\": \"http://h\",\n}}\n"
            ),
        ] {
            let put_in = with(&text, &groups()).unwrap();
            let value: serde_json::Value = serde_json::from_str(&plain_json(&put_in))
                .unwrap_or_else(|error| panic!("{error}: {put_in}"));
            assert!(value["hooks"]["SessionStart"].as_array().unwrap().len() >= 2, "{put_in}");
            assert_eq!(hooks_in(&put_in).unwrap().iter().filter(|hook| is_ours(hook)).count(), 4, "{put_in}");
            assert_eq!(without(&put_in, &groups(), is_ours).unwrap().as_deref(), Some(&*text), "{put_in}");
        }
        assert_eq!(without(&file(&groups()), &groups(), is_ours).unwrap(), None);
    }

    #[test]
    fn a_document_that_was_written_anew_loses_ours_alone() {
        let text = with(r#"{"hooks":{"Stop":[{"hooks":[]}]}}"#, &groups()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let left = without(&text, &groups(), is_ours).unwrap().unwrap();
            let left: serde_json::Value =
                serde_json::from_str(&left).unwrap_or_else(|error| panic!("{error}: {left}"));
            assert_eq!(left["hooks"]["Stop"], serde_json::json!([{ "hooks": [] }]));
            assert_eq!(left["hooks"]["PreToolUse"], serde_json::json!([]));
        }
    }

    #[test]
    fn items_among_comments_and_trailing_commas_go_alone() {
        let ours = r#"{"hooks":[{"type":"command","command":"nexus pre"}]}"#;
        let other = r#"{"hooks":[{"type":"command","command":"mine"}]}"#;
        for items in [
            format!("{ours},"),
            format!("{ours} /* mine */,"),
            format!("{other}, // first\n{ours}, // second\n"),
            format!("// none\n{ours} // last\n"),
            format!("{ours}, /* , */ {other},"),
        ] {
            let text = format!("{{\"hooks\":{{\"Stop\":[{items}],}},}}");
            let left = without(&text, &groups(), is_ours).unwrap().unwrap();
            let read: serde_json::Value =
                serde_json::from_str(&plain_json(&left)).unwrap_or_else(|error| panic!("{error}: {left}"));
            let others = usize::from(items.contains("mine\"}"));
            assert_eq!(read["hooks"]["Stop"].as_array().unwrap().len(), others, "{left}");
            assert_eq!(
                left.matches("/*").count() + left.matches("//").count(),
                items.matches("/*").count() + items.matches("//").count(),
                "{left}"
            );
        }
    }

    #[test]
    fn hooks_that_share_a_group_with_others_go_alone() {
        let ours = r#"{"type":"command","command":"nexus pre"}"#;
        let other = r#"{"type":"command","command":"mine"}"#;
        for hooks in
            [format!("{ours},{other}"), format!("{other}, {ours}"), format!("{ours},{other} ,{ours}")]
        {
            // What has the same words elsewhere is another's.
            let text =
                format!(r#"{{"saved":[{ours}],"hooks":{{"Stop":[{{"matcher":"x","hooks":[{hooks}]}}]}}}}"#);
            let left = without(&text, &groups(), is_ours).unwrap().unwrap();
            let left: serde_json::Value =
                serde_json::from_str(&left).unwrap_or_else(|error| panic!("{error}: {left}"));
            let other: serde_json::Value = serde_json::from_str(other).unwrap();
            assert_eq!(left["hooks"]["Stop"][0]["hooks"], serde_json::json!([other]), "{hooks}");
            assert_eq!(left["saved"].as_array().unwrap().len(), 1);
        }
    }

    #[test]
    fn what_has_the_wrong_type_is_named_with_its_line() {
        let text = "{\n  \"hooks\": {\n    \"Stop\": {}\n  }\n}";
        let problem = groups_in(text).unwrap_err();
        assert!(problem.starts_with("`hooks.Stop`, line 3: invalid type"), "{problem}");
        let problem = hooks_in("{\n  /* mine\n}").unwrap_err();
        assert!(problem.starts_with("the document, line 2, column 3: "), "{problem}");
    }

    #[test]
    fn what_is_no_such_document_is_refused_with_its_place() {
        for text in
            ["", "[]", "{\"hooks\":[]}", "{\"hooks\":{\"Stop\":{}}}", "# a comment\n{}", "{\"a\":1,,}"]
        {
            assert!(with(text, &groups()).is_err(), "{text}");
            assert!(text.contains("Stop") || groups_in(text).unwrap_err().contains("line 1"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_document_comes_back(
            spaces in prop::collection::vec("[ \n\t]{0,3}", 6),
            before in any::<bool>(),
            stop in prop::option::of(0_usize..3),
            pre in prop::option::of(0_usize..3),
            hooks in any::<bool>(),
        ) {
            let group = "{\"hooks\":[]}";
            let list = |count: usize| format!("[{}{}]", spaces[0], vec![group; count].join(&format!("{},{}", spaces[1], spaces[2])));
            let events: Vec<_> = [("Stop", stop), ("PreToolUse", pre)].into_iter()
                .filter_map(|(name, count)| Some(format!("\"{name}\"{}:{}", spaces[3], list(count?)))).collect();
            let mut members = Vec::new();
            if before {
                members.push(format!("\"model\":{}\"x\"", spaces[4]));
            }
            if hooks {
                members.push(format!("\"hooks\":{{{}{}{}}}", spaces[5], events.join(","), spaces[1]));
            }
            let text = format!("{}{{{}{}}}{}", spaces[2], spaces[4], members.join(","), spaces[0]);
            let put_in = with(&text, &groups()).unwrap();
            prop_assert!(serde_json::from_str::<serde_json::Value>(&put_in).is_ok(), "{}", put_in);
            let left = without(&put_in, &groups(), is_ours).unwrap();
            prop_assert_eq!(left.as_deref(), Some(&*text), "{}", put_in);
        }
    }
}

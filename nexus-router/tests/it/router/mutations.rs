//! Whatever becomes of a configuration: it loads, or says where it is broken. It never panics.

use std::fs;

use nexus_router::Router;
use proptest::{collection::vec, prelude::*, sample};

use super::support::{context, registry};

const FILE: &str = "\
# A comment.
groups:
  one: &one [alpha-cli]
  two: [beta-cli, \"beta-native\", gamma-cli]
backends:
  beta-cli: { max_turns_at_once: 2, parked: 'for now' }
  local: { kind: beta-native, base_url: \"http://127.0.0.1\", credential: { env: TOKEN } }
models:
  strong: { one: big, two: large }
types:
  writer: { tier: execution, phase: implement, group: one, model: strong, effort: high }
  other: { group: two, model: { exact: \"x-5.5\" }, fallback: continue }
  checker: { tier: execution, phase: review, panel: review }
panels:
  review:
    - { group: one, model: strong, lens: edges }
    - { group: two, effort: max, lens: promises }
lenses:
  edges: |
    Look at the edges.
  promises: >-
    Look at the promises.
";

/// One thing that somebody may do to a file.
#[derive(Clone, Debug)]
enum Edit {
    Insert(sample::Index, String),
    Delete(sample::Index, usize),
    RepeatLine(sample::Index),
    SwapLines(sample::Index, sample::Index),
    Cut(sample::Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let piece = prop_oneof![
        sample::select(vec![
            ":",
            "-",
            "- ",
            " ",
            "  ",
            "\t",
            "\n",
            "#",
            "\"",
            "'",
            "[",
            "]",
            "{",
            "}",
            ",",
            "&a ",
            "*a",
            "*one",
            "<<: ",
            "!!int ",
            "? ",
            "|",
            ">",
            "---\n",
            "...\n",
            "%YAML 1.1\n",
            "~",
            "0x1F",
            "1e999",
            ".nan",
            "no",
            "\u{feff}",
            "\u{0}",
            "é",
            "日",
            "\r\n",
            "\u{85}",
            "\u{2028}",
            "kind: ",
            "group: one",
            "\\",
            "%",
            "@",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,4}",
    ];
    let place = any::<sample::Index>;
    prop_oneof![
        4 => (place(), piece).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        4 => (place(), 1_usize..12).prop_map(|(at, length)| Edit::Delete(at, length)),
        1 => place().prop_map(Edit::RepeatLine),
        1 => (place(), place()).prop_map(|(one, other)| Edit::SwapLines(one, other)),
        1 => place().prop_map(Edit::Cut),
    ]
}

fn apply(text: &str, edit: &Edit) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let place = |at: &sample::Index| at.index(characters.len() + 1);
    match edit {
        Edit::Insert(at, piece) => {
            let (before, after) = characters.split_at(place(at));
            before.iter().copied().chain(piece.chars()).chain(after.iter().copied()).collect()
        }
        Edit::Delete(at, length) => {
            let (before, after) = characters.split_at(place(at));
            before.iter().chain(after.iter().skip(*length)).collect()
        }
        Edit::Cut(at) => characters[..place(at)].iter().collect(),
        Edit::RepeatLine(_) | Edit::SwapLines(..) if lines.is_empty() => text.to_owned(),
        Edit::RepeatLine(at) => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at]);
            lines.concat()
        }
        Edit::SwapLines(one, other) => {
            let (one, other) = (one.index(lines.len()), other.index(lines.len()));
            lines.swap(one, other);
            lines.concat()
        }
    }
}

fn loads_or_says_where(text: &str) {
    let Err(error) = Router::from_str(text, registry(), context()) else {
        return;
    };
    assert!(!error.all().is_empty(), "an error without a place: {error}");
    let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count();
    for problem in error.all() {
        assert!((1..=lines + 1).contains(&problem.position.line), "{problem}\n{text:?}");
        assert!(problem.position.column >= 1, "{problem}");
        assert!(!problem.message.is_empty());
        assert!(problem.to_string().len() < 2_000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_edited_file_loads_or_says_where_it_is_broken(edits in vec(edit(), 1..6)) {
        let text = edits.iter().fold(FILE.to_owned(), |text, edit| apply(&text, edit));
        loads_or_says_where(&text);
    }

    #[test]
    fn any_text_at_all_loads_or_says_where_it_is_broken(text in "\\PC{0,80}|[\\[\\]{}:,&*#\\-? \n\t\"'|>a-c]{0,80}") {
        loads_or_says_where(&text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_at_all_load_or_say_where_they_are_broken(at in any::<sample::Index>(), junk in vec(any::<u8>(), 1..8)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nexus.yaml");
        let mut bytes = FILE.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes.splice(at..at, junk);
        fs::write(&path, &bytes).unwrap();
        if let Err(error) = Router::from_file(&path, registry(), context()) {
            prop_assert!(!error.all().is_empty(), "an error without a place: {}", error);
        }
    }
}

#[test]
fn the_file_that_is_edited_is_good() {
    Router::from_str(FILE, registry(), context()).unwrap();
}

use eventsource_stream::Eventsource;
use futures::{FutureExt, StreamExt, stream};
use proptest::prelude::*;

use super::*;

type Seen = Vec<(String, Vec<u8>)>;

/// Every event of a body that comes in the given pieces.
fn split<'a>(
    max_event_bytes: usize,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Seen, EventTooLong> {
    let mut splitter = EventSplitter::new(max_event_bytes);
    let mut seen = Vec::new();
    for piece in pieces {
        splitter.push(Bytes::copy_from_slice(piece));
        while let Some(event) = splitter.next()? {
            seen.push((event.name.to_owned(), event.data.to_vec()));
        }
    }
    if let Some(event) = splitter.finish()? {
        seen.push((event.name.to_owned(), event.data.to_vec()));
    }
    Ok(seen)
}

/// The events of a body, which are the same however it is cut in two, and byte by byte.
fn events(body: &str) -> Vec<(String, String)> {
    let body = body.as_bytes();
    let whole = split(1024, [body]).unwrap();
    assert_eq!(split(1024, body.chunks(1)).unwrap(), whole);
    for cut in 0..=body.len() {
        let (left, right) = body.split_at(cut);
        assert_eq!(split(1024, [left, right]).unwrap(), whole, "cut at {cut}");
    }
    whole.into_iter().map(|(name, data)| (name, String::from_utf8(data).unwrap())).collect()
}

fn event(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn a_line_ends_in_any_of_three_ways() {
    for end in ["\n", "\r\n", "\r"] {
        let body = "event: a\ndata: 1\n\ndata: 2\n\n".replace('\n', end);
        assert_eq!(events(&body), [event("a", "1"), event("", "2")], "{end:?}");
    }
    assert_eq!(
        events("data: 1\r\n\ndata: 2\n\r\ndata: 3\r\r\n"),
        ["1", "2", "3"].map(|data| event("", data))
    );
}

#[test]
fn one_space_after_the_colon_is_none_of_the_value() {
    assert_eq!(events("data:1\n\ndata: 1\n\ndata:  1\n\n"), ["1", "1", " 1"].map(|data| event("", data)));
}

#[test]
fn several_data_lines_are_one_value() {
    assert_eq!(events("data: {\ndata:\ndata: }\n\n"), [event("", "{\n\n}")]);
}

#[test]
fn a_field_without_a_colon_has_an_empty_value() {
    assert_eq!(events("event: a\nevent\ndata\ndata\n\n"), [event("", "\n")]);
}

#[test]
fn what_is_no_name_and_no_data_is_passed_over() {
    let body = ": hello\n\n:\nretry: 3000\nid: 7\nda: 1\ndatas: 1\nevents: 2\n data: 3\nevent: a\ndata: 1\n: in between\n\n";
    assert_eq!(events(body), [event("a", "1")]);
}

#[test]
fn an_event_without_data_is_none_and_its_name_is_forgotten() {
    assert_eq!(events("event: a\n\ndata: 1\n\n\n\n"), [event("", "1")]);
}

#[test]
fn the_last_event_needs_no_blank_line() {
    assert_eq!(events("data: 1\n\nevent: a\ndata: 2"), [event("", "1"), event("a", "2")]);
    assert_eq!(events("data: 1\n\nevent: a\ndata: 2\r"), [event("", "1"), event("a", "2")]);
    assert_eq!(events("data: 1\n\nevent: a"), [event("", "1")]);
    assert_eq!(events("da"), []);
}

#[test]
fn a_byte_order_mark_counts_at_the_very_start_alone() {
    assert_eq!(events("\u{feff}data: 1\n\ndata: 2\n\n"), [event("", "1"), event("", "2")]);
    assert_eq!(events("\u{feff}\ndata: 1\n\n"), [event("", "1")]);
    assert_eq!(events("data: 1\n\n\u{feff}data: 2\n\n"), [event("", "1")]);
    assert_eq!(events("\n\u{feff}data: 1\n\n"), []);
}

#[test]
fn finishing_twice_gives_the_last_event_once() {
    let mut splitter = EventSplitter::new(16);
    splitter.push("data: 1".into());
    assert_eq!(splitter.next(), Ok(None));
    assert_eq!(splitter.finish(), Ok(Some(Event { name: "", data: b"1" })));
    assert_eq!(splitter.finish(), Ok(None));
}

#[test]
fn the_bound_is_the_same_however_a_body_is_cut() {
    let body = b"data: 12\n\nevent: a\ndata: 1234\n\n";
    let bound = "event: adata: 1234".len();
    let whole = split(bound, [&body[..]]);
    assert_eq!(whole.as_ref().map(Vec::len), Ok(2));
    for cut in 0..body.len() {
        assert_eq!(split(bound, [&body[..cut], &body[cut..]]), whole);
        let too_long = split(bound - 1, [&body[..cut], &body[cut..]]);
        assert_eq!(too_long, Err(EventTooLong { max_event_bytes: bound - 1 }));
    }
    let words = EventTooLong { max_event_bytes: 7 }.to_string();
    assert_eq!(words, "an event of the stream is longer than `max_event_bytes` (7 bytes)");
}

#[test]
fn an_event_that_is_too_long_is_the_end() {
    let mut splitter = EventSplitter::new(8);
    splitter.push("data: 1\n\ndata: 123\n\ndata: 2\n\n".into());
    assert_eq!(splitter.next(), Ok(Some(Event { name: "", data: b"1" })));
    for _ in 0..2 {
        assert_eq!(splitter.next(), Err(EventTooLong { max_event_bytes: 8 }));
    }
    assert_eq!(splitter.finish(), Err(EventTooLong { max_event_bytes: 8 }));
}

/// Keep-alives between two events are no event that grows.
#[test]
fn comments_do_not_add_up() {
    let body = ": keep-alive\n".repeat(100) + "data: 1\n\n";
    assert_eq!(split(32, [body.as_bytes()]).unwrap(), split(32, body.as_bytes().chunks(5)).unwrap());
}

/// A splitter that searched or copied its beginning again for every piece would not end.
#[test]
fn a_long_event_in_single_bytes_is_read_in_linear_time() {
    let body = format!("data: {}\n\n", "x".repeat(2 << 20));
    let seen = split(4 << 20, body.as_bytes().chunks(1)).unwrap();
    assert_eq!(seen.iter().map(|(_, data)| data.len()).collect::<Vec<_>>(), [2 << 20]);
}

#[test]
fn an_event_that_lies_whole_in_a_chunk_is_not_copied() {
    let chunk = Bytes::from_static(b"event: a\ndata: 12345\n\n");
    let mut splitter = EventSplitter::new(1024);
    splitter.push(chunk.clone());
    let event = splitter.next().unwrap().unwrap();
    assert!(chunk.as_ptr_range().contains(&event.data.as_ptr()));
}

#[test]
fn the_room_of_a_long_event_is_given_back() {
    let mut splitter = EventSplitter::new(1 << 20);
    let body = Bytes::from(format!("data: {}\n\ndata: 1\n\n", "x".repeat(1 << 19)));
    for start in (0..body.len()).step_by(1000) {
        splitter.push(body.slice(start..body.len().min(start + 1000)));
        while splitter.next().unwrap().is_some() {}
    }
    assert!(splitter.kept_data.capacity() + splitter.line.capacity() <= 2 * KEPT_CAPACITY_BYTES);
}

/// What `eventsource-stream` makes of a body.
///
/// It differs from the standard, and from the splitter, in this: a byte order mark makes it panic, bytes that are
/// not UTF-8 stop it, a carriage return is no line ending until the byte after it is there, and the name of an event
/// that has none is `message`. So bodies here begin with no such mark, are UTF-8, and end in newlines.
fn oracle(pieces: &[&[u8]]) -> Seen {
    let pieces = stream::iter(pieces.iter().map(|piece| Ok::<_, std::convert::Infallible>(piece.to_vec())));
    let events = pieces.eventsource().map(|event| {
        let event = event.unwrap();
        (event.event, event.data.into_bytes())
    });
    events.collect().now_or_never().unwrap()
}

fn body() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        4 => Just("data"),
        2 => Just("event"),
        1 => Just("id"),
        1 => Just("retry"),
        1 => Just(""),
        1 => Just("dat"),
        1 => Just("data "),
    ];
    let value = prop_oneof!["[a-z{}\":, ]{0,12}", "[^\r\n]{0,6}", Just("日本語 🦀".to_owned())];
    let colon = prop_oneof![3 => Just(": "), 1 => Just(":"), 1 => Just("")];
    let line = prop_oneof![
        3 => (field, colon, value).prop_map(|(field, colon, value)| match colon {
            "" => field.to_owned(),
            _ => format!("{field}{colon}{value}"),
        }),
        2 => Just(String::new()),
    ];
    let end = prop_oneof![4 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\r")];
    prop::collection::vec((line, end), 0..24)
        .prop_map(|lines| lines.into_iter().map(|(line, end)| line + end).collect::<String>() + "\n\n\n")
}

proptest! {
    #[test]
    fn another_splitter_says_the_same(
        body in body(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        prop_assume!(!body.starts_with('\u{feff}'));
        let body = body.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut start = 0;
        for cut in cuts {
            pieces.push(&body[start..cut]);
            start = cut;
        }
        pieces.push(&body[start..]);
        let seen = split(1 << 20, pieces.iter().copied()).unwrap();
        let named = |(name, data): (String, Vec<u8>)| {
            (if name.is_empty() { "message".to_owned() } else { name }, data)
        };
        prop_assert_eq!(seen.into_iter().map(named).collect::<Vec<_>>(), oracle(&pieces));
    }

    #[test]
    fn any_cut_of_any_bytes_is_the_same(
        body in prop::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b' '), Just(b'd'), any::<u8>()], 0..64),
        prefix in prop_oneof![Just(&b""[..]), Just(&b"data: "[..]), Just(BYTE_ORDER_MARK)],
        cut in any::<prop::sample::Index>(),
        bound in 0_usize..40,
    ) {
        let body = [prefix, &body].concat();
        let (left, right) = body.split_at(cut.index(body.len() + 1));
        prop_assert_eq!(split(bound, [left, right]), split(bound, [&body[..]]));
        prop_assert_eq!(split(bound, body.chunks(1)), split(bound, [&body[..]]));
    }
}

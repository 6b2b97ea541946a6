use proptest::prelude::*;

use super::*;

type Seen = Vec<(String, Vec<u8>)>;

/// One message with text headers.
fn message(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(u8::try_from(name.len()).unwrap());
        head.extend_from_slice(name.as_bytes());
        head.push(7);
        head.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        head.extend_from_slice(value.as_bytes());
    }
    framed(&head, payload)
}

fn framed(head: &[u8], payload: &[u8]) -> Vec<u8> {
    let total = u32::try_from(PRELUDE_BYTES + head.len() + payload.len() + CHECKSUM_BYTES).unwrap();
    let mut frame = total.to_be_bytes().to_vec();
    frame.extend_from_slice(&u32::try_from(head.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.extend_from_slice(head);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame
}

fn chunk_message(event: &str) -> Vec<u8> {
    let payload = json!({ "bytes": STANDARD.encode(event), "p": "abc" }).to_string();
    let headers =
        [(":event-type", "chunk"), (":content-type", "application/json"), (":message-type", "event")];
    message(&headers, payload.as_bytes())
}

fn split<'a>(max: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Seen, Option<StreamFault>) {
    let mut splitter = FrameSplitter::new(max);
    let mut seen = Vec::new();
    for piece in pieces {
        splitter.push(piece);
        loop {
            match splitter.next() {
                Ok(Some(event)) => seen.push((event.name.to_owned(), event.data.to_vec())),
                Ok(None) => break,
                Err(fault) => return (seen, Some(fault)),
            }
        }
    }
    (seen, None)
}

#[test]
fn a_message_of_the_specification_is_read() {
    // Test vector `all_headers` of the AWS SDKs begins with these bytes; this is their vector `payload_one_str_header`.
    let frame = [
        &[0, 0, 0, 0x3d, 0, 0, 0, 0x20, 0x07, 0xfd, 0x83, 0x96][..],
        &[0x0c][..],
        b"content-type",
        &[0x07, 0, 0x10][..],
        b"application/json",
        b"{'foo':'bar'}",
        &[0x8d, 0x9c, 0x08, 0xb1][..],
    ]
    .concat();
    assert_eq!(split(1024, [&frame[..]]), (vec![(String::new(), b"{'foo':'bar'}".to_vec())], None));
}

#[test]
fn a_chunk_has_the_event_of_the_model_in_it() {
    let body = [chunk_message(r#"{"type":"ping"}"#), chunk_message("{}")].concat();
    let expected = vec![(String::new(), br#"{"type":"ping"}"#.to_vec()), (String::new(), b"{}".to_vec())];
    assert_eq!(split(1024, [&body[..]]), (expected, None));
    let other = message(&[(":event-type", "metadata"), (":message-type", "event")], b"{\"a\":1}");
    assert_eq!(split(1024, [&other[..]]).0, [("metadata".to_owned(), b"{\"a\":1}".to_vec())]);
    // The reader reports what is not base64.
    let broken = message(&[(":event-type", "chunk"), (":message-type", "event")], b"{\"bytes\":\"%\"}");
    assert_eq!(split(1024, [&broken[..]]).0, [("chunk".to_owned(), b"{\"bytes\":\"%\"}".to_vec())]);
}

#[test]
fn an_exception_is_an_error_of_the_stream() {
    for (headers, payload, kind, words) in [
        (
            vec![(":message-type", "exception"), (":exception-type", "throttlingException")],
            &br#"{"message":"Too many tokens"}"#[..],
            "throttlingException",
            "Too many tokens",
        ),
        (
            vec![(":message-type", "exception"), (":exception-type", "modelStreamErrorException")],
            br#"{"originalStatusCode":500,"originalMessage":"gone"}"#,
            "modelStreamErrorException",
            "gone",
        ),
        (
            vec![(":message-type", "error"), (":error-code", "InternalError"), (":error-message", "sorry")],
            b"",
            "InternalError",
            "sorry",
        ),
        (vec![(":message-type", "exception"), (":exception-type", "x")], b"not JSON", "x", "not JSON"),
    ] {
        let (seen, fault) = split(1024, [&message(&headers, payload)[..]]);
        assert_eq!((fault, seen.len(), seen[0].0.as_str()), (None, 1, "error"));
        let value: serde_json::Value = serde_json::from_slice(&seen[0].1).unwrap();
        assert_eq!(value["error"], json!({ "type": kind, "message": words }));
    }
}

#[test]
fn headers_of_every_type_are_passed_over() {
    let mut head = Vec::new();
    for (kind, value) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16)] {
        head.extend_from_slice(&[1, b'x', kind]);
        head.extend(std::iter::repeat_n(0xff_u8, value));
    }
    head.extend_from_slice(&[1, b'y', 6, 0, 2, 0xff, 0xfe]);
    assert_eq!(split(1024, [&framed(&head, b"p")[..]]).0, [(String::new(), b"p".to_vec())]);
    for bad in [&[1][..], &[1, b'x'], &[1, b'x', 10], &[1, b'x', 7, 0, 9, 1], &[0, 7, 0]] {
        assert_eq!(split(1024, [&framed(bad, b"")[..]]), (Vec::new(), Some(StreamFault::Damaged)), "{bad:?}");
    }
}

#[test]
fn a_length_is_bounded_before_its_bytes_arrive() {
    let prelude = |total: u32, headers: u32| {
        let mut prelude = [total.to_be_bytes(), headers.to_be_bytes()].concat();
        prelude.extend_from_slice(&crc32fast::hash(&prelude).to_be_bytes());
        prelude
    };
    let too_long = StreamFault::TooLong(EventTooLong { max_event_bytes: 1024 });
    for (total, headers, fault) in [
        (1025, 0, too_long),
        (u32::MAX, 0, too_long),
        (u32::MAX, u32::MAX, StreamFault::Damaged),
        (15, 0, StreamFault::Damaged),
        (0, 0, StreamFault::Damaged),
        (100, 85, StreamFault::Damaged),
    ] {
        assert_eq!(
            split(1024, [&prelude(total, headers)[..]]),
            (Vec::new(), Some(fault)),
            "{total} {headers}"
        );
    }
    assert_eq!(split(1024, [&prelude(1024, 8)[..]]), (Vec::new(), None), "more input is needed");
}

#[test]
fn a_changed_byte_is_a_fault_and_never_another_event() {
    let body = chunk_message(r#"{"type":"message_stop"}"#);
    for place in 0..body.len() {
        let mut changed = body.clone();
        changed[place] ^= 0x20;
        let (seen, fault) = split(1 << 20, [&changed[..]]);
        assert_eq!((seen, fault), (Vec::new(), Some(StreamFault::Damaged)), "byte {place}");
    }
}

#[test]
fn a_body_that_breaks_off_has_no_further_event() {
    let body = [chunk_message("{}"), chunk_message(r#"{"type":"message_stop"}"#)].concat();
    let first = chunk_message("{}").len();
    for end in first..body.len() {
        assert_eq!(split(1024, [&body[..end]]), (vec![(String::new(), b"{}".to_vec())], None), "{end}");
    }
}

proptest! {
    #[test]
    fn a_body_gives_the_same_events_in_any_pieces(
        events in proptest::collection::vec((any::<bool>(), ".{0,40}"), 0..6),
        cuts in proptest::collection::vec(0_usize..200, 0..12),
        noise in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut body = Vec::new();
        for (is_chunk, text) in &events {
            body.extend(match is_chunk {
                true => chunk_message(text),
                false => message(&[(":message-type", "event"), (":event-type", "x")], text.as_bytes()),
            });
        }
        body.extend_from_slice(&noise);
        let whole = split(4096, [&body[..]]);
        prop_assert!(whole.0.len() >= events.len());
        prop_assert_eq!(&split(4096, body.chunks(1)), &whole);
        let mut pieces = Vec::new();
        let mut rest = &body[..];
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        prop_assert_eq!(&split(4096, pieces), &whole);
    }
}

use super::*;

fn sized(size_bytes: usize, content: &[u8]) -> Vec<u8> {
    let size = (content.len() as u64).to_be_bytes();
    [&size[8 - size_bytes..], content].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &sized(2, content)].concat()
}

fn name_extension(name: &str) -> Vec<u8> {
    extension(SERVER_NAME, &sized(2, &[&[HOST_NAME][..], &sized(2, name.as_bytes())].concat()))
}

/// Returns the message of a client, in records of at most `record` bytes.
fn hello_with(extensions: &[u8], record: usize) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend(sized(1, &[9; 32]));
    body.extend(sized(2, &[0x13, 0x01, 0x13, 0x02]));
    body.extend(sized(1, &[0]));
    body.extend(sized(2, extensions));
    let message = [&[CLIENT_HELLO][..], &sized(3, &body)].concat();
    message.chunks(record).flat_map(|part| [&[HANDSHAKE, 3, 1][..], &sized(2, part)].concat()).collect()
}

/// Returns the message of a client that names a server.
pub(in crate::sandbox::network) fn hello(name: &str) -> Vec<u8> {
    let extensions = [extension(0xa0a, &[]), name_extension(name), extension(43, &[2, 3, 4])].concat();
    hello_with(&extensions, MAX_RECORD_BYTES)
}

/// Returns the message of a client that names a server, and another one in encrypted form.
pub(in crate::sandbox::network) fn hello_with_hidden_name(name: &str) -> Vec<u8> {
    hello_with(&[name_extension(name), extension(0xfe0d, &[0; 40])].concat(), MAX_RECORD_BYTES)
}

fn complete(name: Option<&str>, bytes: usize) -> ClientHello {
    ClientHello::Complete { name: name.map(str::to_owned), bytes }
}

#[test]
fn a_hidden_name_is_recognised() {
    assert_eq!(read(&hello_with_hidden_name("pypi.org")), ClientHello::Hidden);
    assert_eq!(read(&hello_with(&extension(0xffce, &[0; 40]), 512)), ClientHello::Hidden);
}

#[test]
fn a_second_message_is_read_behind_other_records() {
    let second = hello("evil.test");
    let before = [&[20, 3, 3, 0, 1, 1][..], &[23, 3, 3, 0, 2, 9, 9]].concat();
    for bytes in [second.clone(), [&before[..], &second].concat()] {
        assert_eq!(read_second(&bytes), complete(Some("evil.test"), bytes.len()));
        for end in 0..bytes.len() {
            assert_eq!(read_second(&bytes[..end]), ClientHello::Incomplete, "{end}");
        }
    }
    assert_eq!(read_second(b"GET"), ClientHello::Malformed);
    // Two messages in one record.
    let message = &hello("pypi.org")[5..];
    let twice = [&[HANDSHAKE, 3, 1][..], &sized(2, &message.repeat(2))].concat();
    assert_eq!(read(&twice), ClientHello::Malformed);
}

#[test]
fn the_name_is_read_however_the_message_is_split() {
    let extensions = [extension(16, b"\0\x02h2"), name_extension("PyPI.org")].concat();
    for record in [1, 2, 3, 5, 64, 1000] {
        let bytes = hello_with(&extensions, record);
        assert_eq!(read(&bytes), complete(Some("pypi.org"), bytes.len()), "{record}");
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), ClientHello::Incomplete, "{record}: {end}");
        }
        let longer = [&bytes[..], b"anything"].concat();
        assert_eq!(read(&longer), complete(Some("pypi.org"), bytes.len()));
    }
}

#[test]
fn a_client_without_a_name_is_recognised() {
    for extensions in [extension(16, &[]), Vec::new()] {
        let bytes = hello_with(&extensions, 512);
        assert_eq!(read(&bytes), complete(None, bytes.len()));
    }
}

#[test]
fn two_names_are_no_name() {
    let twice = [name_extension("pypi.org"), name_extension("evil.test")].concat();
    assert_eq!(read(&hello_with(&twice, 512)), ClientHello::Malformed);
    let entry = |name: &str| [&[HOST_NAME][..], &sized(2, name.as_bytes())].concat();
    let list = extension(SERVER_NAME, &sized(2, &[entry("pypi.org"), entry("evil.test")].concat()));
    assert_eq!(read(&hello_with(&list, 512)), ClientHello::Malformed);
    for name in ["", "a b", "1.2.3.4", "pypi.org\0.evil.test", "*.pypi.org"] {
        assert_eq!(read(&hello(name)), ClientHello::Malformed, "{name:?}");
    }
}

#[test]
fn other_bytes_are_malformed() {
    let mut record = hello("pypi.org");
    for (place, byte) in [(0, 23), (1, 2), (3, 0xff), (5, 2)] {
        let original = std::mem::replace(&mut record[place], byte);
        assert_eq!(read(&record), ClientHello::Malformed, "{place}");
        record[place] = original;
    }
    assert_eq!(read(b"\x16\x03\x01\x00\x00"), ClientHello::Malformed);
    assert_eq!(read(b"GET"), ClientHello::Malformed);
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(changes in proptest::collection::vec((0_usize..200, proptest::num::u8::ANY), 0..6), end in 0_usize..200) {
        let mut bytes = hello("pypi.org");
        for (place, byte) in changes {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        bytes.truncate(end);
        let _ = read(&bytes);
    }
}

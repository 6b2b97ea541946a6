//! A plain HTTP/1.1 client over a socket: it shows how a connection ended, which libraries hide.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long the simulator may keep silent before the client leaves, where nothing else is asked for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How the answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The body was complete.
    Whole,
    /// The connection was closed before the body, or the head, was complete.
    Fin,
    /// The connection was reset.
    Reset,
    /// Nothing came for as long as the client was willing to wait.
    Silence,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) end: End,
    pub(crate) took: Duration,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }

    /// The data of all events that are JSON.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.body
            .split("\n\n")
            .filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")))
            .filter_map(|data| serde_json::from_str(data).ok())
            .collect()
    }

    /// The events of type `kind`.
    pub(crate) fn events_of(&self, kind: &str) -> Vec<Value> {
        let mut events = self.events();
        events.retain(|event| event["type"] == kind);
        events
    }

    /// The strings at `pointer` of all events of type `kind`, joined.
    pub(crate) fn joined(&self, kind: &str, pointer: &str) -> String {
        self.events_of(kind)
            .iter()
            .filter_map(|event| event.pointer(pointer).and_then(Value::as_str))
            .collect()
    }
}

pub(crate) fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    request("POST", address, path, headers, &body.to_string())
}

pub(crate) fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    request("GET", address, path, headers, "")
}

/// Posts `body` and reads the answer as far as it contains `last`; then gives up when nothing more comes for a moment.
pub(crate) fn post_until(address: SocketAddr, path: &str, body: &Value, last: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the simulator accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    send(&mut stream, &format!("POST {path}"), &[], &body.to_string());
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&heard).contains(last) {
        match stream.read(&mut buffer).expect("more of the answer") {
            0 => break,
            count => heard.extend_from_slice(&buffer[..count]),
        }
    }
    stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    read_answer(&mut std::io::Cursor::new(heard).chain(stream))
}

/// A streamed Messages call with `prompt`.
pub(crate) fn messages(address: SocketAddr, prompt: &str) -> Answer {
    post(address, "/v1/messages", &[], &messages_body(prompt))
}

pub(crate) fn messages_body(prompt: &str) -> Value {
    json!({"model": "claude-x", "max_tokens": 100, "stream": true,
        "messages": [{"role": "user", "content": prompt}]})
}

/// A streamed Responses call with `prompt`.
pub(crate) fn responses(address: SocketAddr, prompt: &str) -> Answer {
    post(address, "/v1/responses", &[], &responses_body(prompt))
}

pub(crate) fn responses_body(prompt: &str) -> Value {
    json!({"model": "gpt-x", "stream": true, "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}]})
}

pub(crate) fn request(
    method: &str,
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the simulator accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    send(&mut stream, &format!("{method} {path}"), headers, body);
    read_answer(&mut stream)
}

fn send(stream: &mut TcpStream, what: &str, headers: &[(&str, &str)], body: &str) {
    let mut head = format!("{what} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).expect("the head is taken");
    stream.write_all(body.as_bytes()).expect("the body is taken");
}

/// Posts `body`; returns the answer, and its body as bytes.
pub(crate) fn raw_answer(address: SocketAddr, path: &str, body: &Value) -> (Answer, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("the simulator accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    send(&mut stream, &format!("POST {path}"), &[], &body.to_string());
    read_bytes(&mut stream)
}

/// Reads one answer from `stream` to the end of the connection.
pub(crate) fn read_answer(stream: &mut impl Read) -> Answer {
    read_bytes(stream).0
}

fn read_bytes(stream: &mut impl Read) -> (Answer, Vec<u8>) {
    let started = Instant::now();
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let end = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break End::Fin,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break End::Reset,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break End::Silence;
            }
            // TLS reports a close without its farewell this way.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break End::Fin,
            Err(error) => panic!("reading the answer: {error}"),
        }
    };
    let took = started.elapsed();
    let Some(split) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        let answer = Answer { status: None, headers: Vec::new(), body: String::new(), end, took };
        return (answer, Vec::new());
    };
    let head = String::from_utf8_lossy(&bytes[..split]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let promised = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse::<usize>().ok());
    let rest = &bytes[split + 4..];
    let (body, whole) = if chunked { dechunk(rest) } else { (rest.to_vec(), promised == Some(rest.len())) };
    let end = if whole { End::Whole } else { end };
    let answer = Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned(), end, took };
    (answer, body)
}

/// The body inside the chunks, and whether the last chunk came.
fn dechunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = rest.windows(2).position(|window| window == b"\r\n") else {
            return (body, false);
        };
        let size = std::str::from_utf8(&rest[..line]).expect("an ASCII chunk size");
        let size = usize::from_str_radix(size, 16).expect("a chunk size");
        rest = &rest[line + 2..];
        if size == 0 {
            return (body, true);
        }
        if rest.len() < size + 2 {
            body.extend_from_slice(&rest[..size.min(rest.len())]);
            return (body, false);
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}

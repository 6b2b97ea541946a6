//! The loopback server: a process of its own, so that its time and its memory are nobody else's.
//!
//! It knows just enough HTTP for the clients measured here, and sends bytes that were made before the
//! request came.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::measure::monotonic_ns;
use super::script::{Fields, Framing, Scenario, Script};

/// The argument that makes this program the server.
pub(crate) const SERVE: &str = "--serve";

/// Bytes of one chunk where events are not cut apart.
const BLOCK_BYTES: usize = 64 << 10;

/// A running server. It ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    /// Open as long as the server shall live.
    _stdin: ChildStdin,
    address: String,
}

impl Server {
    /// Starts this program again, as the server.
    pub(crate) fn start() -> Self {
        let own = std::env::current_exe().expect("the path of this program");
        let mut child = Command::new(own)
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let stdin = child.stdin.take().expect("a pipe");
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut address).expect("an address");
        Self { child, _stdin: stdin, address: address.trim().to_owned() }
    }

    /// `127.0.0.1` and a port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until standard input ends.
pub(crate) fn serve() -> ExitCode {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    let shared = Arc::new(Shared::default());
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let shared = shared.clone();
            // An error is a client that went away.
            std::thread::spawn(move || shared.converse(connection).is_ok());
        }
    });
    let _ = io::stdin().read(&mut [0]);
    ExitCode::SUCCESS
}

#[derive(Default)]
struct Shared {
    /// Whole responses, head and body, by scenario and round.
    responses: Mutex<HashMap<String, Arc<Vec<u8>>>>,
    recorded: Mutex<Vec<Vec<u8>>>,
}

impl Shared {
    fn converse(&self, mut connection: TcpStream) -> io::Result<()> {
        connection.set_nodelay(true)?;
        let mut reader = BufReader::with_capacity(BLOCK_BYTES, connection.try_clone()?);
        let mut body = Vec::new();
        while let Some(path) = read_request(&mut reader, &mut body)? {
            let mut segments = path.trim_start_matches('/').split('/');
            let scenario = segments.next().unwrap_or_default();
            if scenario == "requests" {
                let index = segments.next().and_then(|index| index.parse::<usize>().ok());
                self.replay(index.unwrap_or(usize::MAX), &mut connection)?;
                continue;
            }
            match scenario.parse() {
                Ok(Scenario::Paced { deltas, interval_us }) => paced(&mut connection, deltas, interval_us)?,
                Ok(Scenario::Held) => return held(&mut connection, &mut reader),
                Ok(scenario) => {
                    let response = self.response(scenario, &body);
                    connection.write_all(&response)?;
                }
                Err(_) => connection.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?,
            }
        }
        Ok(())
    }

    /// Sends the body of a request that was kept.
    fn replay(&self, index: usize, connection: &mut TcpStream) -> io::Result<()> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        match recorded.get(index) {
            Some(body) => {
                write!(connection, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len())?;
                connection.write_all(body)
            }
            None => connection.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
        }
    }

    fn response(&self, scenario: Scenario, body: &[u8]) -> Arc<Vec<u8>> {
        let results = memchr::memmem::find_iter(body, b"\"function_call_output\"").count();
        if matches!(scenario, Scenario::Recorded { .. }) {
            let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
            if results == 0 {
                recorded.clear();
            }
            recorded.push(body.to_vec());
        }
        let key = format!("{scenario} {results}");
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        responses.entry(key).or_insert_with(|| Arc::new(made(scenario, results))).clone()
    }
}

/// A whole response.
fn made(scenario: Scenario, results: usize) -> Vec<u8> {
    let mut events = Vec::new();
    let mut out = |event: &str| events.push(event.to_owned());
    match scenario {
        Scenario::Stream { deltas, fields, .. } => Script::default().text(deltas, fields, &mut out),
        Scenario::ToolRounds { rounds } | Scenario::Recorded { rounds } if results < rounds => {
            Script::default().tool_call(results, &mut out);
        }
        _ => Script::default().text(8, Fields::Lean, &mut out),
    }
    let mut response = head();
    match scenario {
        Scenario::Stream { framing: Framing::Blocks, .. } => {
            events.concat().as_bytes().chunks(BLOCK_BYTES).for_each(|block| chunk(block, &mut response));
        }
        _ => events.iter().for_each(|event| chunk(event.as_bytes(), &mut response)),
    }
    response.extend_from_slice(b"0\r\n\r\n");
    response
}

fn head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec()
}

fn chunk(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Digits of the time in a paced delta.
const STAMP_DIGITS: usize = 20;

fn paced(connection: &mut TcpStream, deltas: usize, interval_us: u64) -> io::Result<()> {
    let (mut script, mut bytes, mut text) = (Script::default(), head(), String::new());
    script.opening(|event| chunk(event.as_bytes(), &mut bytes));
    connection.write_all(&bytes)?;
    for _ in 0..deltas {
        let blank = "0".repeat(STAMP_DIGITS);
        bytes.clear();
        chunk(script.delta(0, &blank, Fields::Lean).as_bytes(), &mut bytes);
        let place = memchr::memmem::find(&bytes, b"\"delta\":\"").expect("a delta has its text") + 9;
        std::thread::sleep(Duration::from_micros(interval_us));
        let stamp = format!("{:0STAMP_DIGITS$}", monotonic_ns());
        bytes[place..place + STAMP_DIGITS].copy_from_slice(stamp.as_bytes());
        connection.write_all(&bytes)?;
        text.push_str(&stamp);
    }
    bytes.clear();
    script.ending(&text, |event| chunk(event.as_bytes(), &mut bytes));
    bytes.extend_from_slice(b"0\r\n\r\n");
    connection.write_all(&bytes)
}

fn held(connection: &mut TcpStream, reader: &mut impl Read) -> io::Result<()> {
    let (mut script, mut bytes) = (Script::default(), head());
    script.opening(|event| chunk(event.as_bytes(), &mut bytes));
    for _ in 0..8 {
        chunk(script.delta(0, " held", Fields::Lean).as_bytes(), &mut bytes);
    }
    connection.write_all(&bytes)?;
    while reader.read(&mut [0; 1024])? > 0 {}
    Ok(())
}

/// Reads one request into `body` and returns its path; `None` where the client closed the connection.
fn read_request(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<Option<String>> {
    let (mut line, mut path, mut length) = (String::new(), None, 0);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let text = line.trim_end();
        if text.is_empty() {
            break;
        } else if path.is_none() {
            path = text.split(' ').nth(1).map(str::to_owned);
        } else if let Some((name, value)) = text.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    body.resize(length, 0);
    reader.read_exact(body)?;
    Ok(path)
}

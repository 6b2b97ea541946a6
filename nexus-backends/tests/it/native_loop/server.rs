//! A server that sends canned bytes and remembers what it was asked.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::Value;

/// One request, as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// Sends its answers in order, one per request, the last one over and over; then closes the connection.
#[derive(Debug)]
pub(crate) struct Canned {
    address: std::net::SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Canned {
    pub(crate) fn new(answers: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let answers: Vec<_> = answers.into_iter().collect();
        Self::deciding(move |index, _| answers.get(index).or(answers.last()).unwrap().clone())
    }

    /// Sends to each request, by its number from 0, what `answer` says.
    pub(crate) fn deciding(answer: impl Fn(usize, &Asked) -> Vec<u8> + Send + 'static) -> Self {
        Self::serving(move |index, request, mut stream| {
            let _ = stream.write_all(&answer(index, request));
        })
    }

    fn serving(serve: impl Fn(usize, &Asked, &TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        // The thread ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let index = noted.lock().unwrap().len();
                let Some(request) = read(&stream) else { continue };
                noted.lock().unwrap().push(request.clone());
                serve(index, &request, &stream);
                let _ = stream.shutdown(Shutdown::Write);
            }
        });
        Self { address, asked }
    }

    /// Sends the pieces of one answer to every request, with a pause before each piece but the first.
    pub(crate) fn pausing(pieces: Vec<Vec<u8>>, pause: Duration) -> Self {
        Self::serving(move |_, _, mut stream| {
            for (index, piece) in pieces.iter().enumerate() {
                if index > 0 {
                    thread::sleep(pause);
                }
                let _ = stream.write_all(piece);
            }
        })
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(mut stream: &TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 64 << 10];
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if bytes.len() >= end + 4 + length.unwrap_or(0) {
                let body = serde_json::from_slice(&bytes[end + 4..]).unwrap_or_default();
                return Some(Asked { head, body });
            }
        }
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
    }
}

/// An answer that streams `body`.
pub(crate) fn stream(body: &[u8]) -> Vec<u8> {
    let mut answer =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec();
    answer.extend_from_slice(body);
    answer
}

/// An answer with a status and a JSON body.
pub(crate) fn status(status: u16, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} Canned\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

/// The events of a reply with these items.
pub(crate) fn reply(items: &[Value]) -> Vec<u8> {
    let mut body = String::from("data: {\"type\":\"response.created\",\"response\":{}}\n\n");
    for (index, item) in items.iter().enumerate() {
        let event =
            serde_json::json!({ "type": "response.output_item.done", "output_index": index, "item": item });
        body.push_str(&format!("data: {event}\n\n"));
    }
    let end = serde_json::json!({ "type": "response.completed", "response": {
        "status": "completed", "usage": { "input_tokens": 10, "output_tokens": 5 },
    }});
    body.push_str(&format!("data: {end}\n\n"));
    stream(body.as_bytes())
}

/// A message item.
pub(crate) fn message(text: &str) -> Value {
    serde_json::json!({
        "type": "message", "id": "msg_1", "role": "assistant",
        "content": [{ "type": "output_text", "text": text }],
    })
}

/// A function call item, with arguments as they are written.
pub(crate) fn call(id: &str, name: &str, arguments: &str) -> Value {
    serde_json::json!({
        "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments,
    })
}

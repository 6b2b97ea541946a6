//! An issuer that keeps every byte it is sent, and answers with the bytes it is told to.

use std::{
    collections::VecDeque,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) at: Instant,
}

impl Asked {
    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    /// The fields of a form, in order.
    pub(crate) fn form(&self) -> Vec<(String, String)> {
        assert_eq!(self.header("content-type"), Some("application/x-www-form-urlencoded"));
        url::form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }

    /// A field of a form, which stands in it once.
    pub(crate) fn field(&self, wanted: &str) -> String {
        let found: Vec<_> = self.form().into_iter().filter(|(name, _)| name == wanted).collect();
        assert_eq!(found.len(), 1, "{wanted}: {found:?}");
        found[0].1.clone()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.form().into_iter().map(|(name, _)| name).collect()
    }
}

/// What the issuer does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// These bytes, and the connection is closed.
    Bytes(Vec<u8>),
    /// As the other, after a while.
    Held(Gate, Box<Reply>),
    /// Nothing, until the client leaves.
    Hang,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::text(status, "application/json", &body.to_string())
    }

    pub(crate) fn text(status: u16, kind: &str, body: &str) -> Self {
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        Self::Bytes([head.as_bytes(), body.as_bytes()].concat())
    }

    /// The first half of the bytes.
    pub(crate) fn cut(self) -> Self {
        match self {
            Self::Bytes(mut bytes) => {
                bytes.truncate(bytes.len() - 8);
                Self::Bytes(bytes)
            }
            other => other,
        }
    }
}

/// What a reply waits for until the test opens it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn wait(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.0.load(Ordering::SeqCst) && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The issuer. It answers with the queued replies in their order, the last of them for ever.
pub(crate) struct Wire {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    stopped: Arc<AtomicBool>,
}

impl Wire {
    pub(crate) fn answering(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let wire = Self {
            port,
            asked: Arc::default(),
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            stopped: Arc::default(),
        };
        let (asked, replies, stopped) = (wire.asked.clone(), wire.replies.clone(), wire.stopped.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let (asked, replies) = (asked.clone(), replies.clone());
                thread::spawn(move || converse(stream, &asked, &replies));
            }
        });
        wire
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Answers with these as well, after those that were queued before.
    pub(crate) fn queue(&self, replies: impl IntoIterator<Item = Reply>) {
        self.replies.lock().unwrap().extend(replies);
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The one request that came.
    pub(crate) fn only(&self) -> Asked {
        let asked = self.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked[0].clone()
    }

    /// Closes the port: from here on connections are refused.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        // The one that is let in to see that it is over.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
            assert!(Instant::now() < end, "the port stays open");
        }
    }

    /// Waits until this many requests came.
    pub(crate) async fn reached(&self, count: usize) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.asked().len() < count {
            assert!(Instant::now() < end, "{count} requests did not come: {:?}", self.asked());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn converse(mut stream: TcpStream, asked: &Mutex<Vec<Asked>>, replies: &Mutex<VecDeque<Reply>>) {
    let Some(request) = read(&mut stream) else { return };
    asked.lock().unwrap().push(request);
    let reply = {
        let mut replies = replies.lock().unwrap();
        match replies.len() {
            0 => Reply::text(500, "text/plain", "nothing was prepared"),
            1 => replies[0].clone(),
            _ => replies.pop_front().unwrap(),
        }
    };
    answer(&mut stream, reply);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
}

fn answer(stream: &mut TcpStream, reply: Reply) {
    match reply {
        // A client that has left is its own business.
        Reply::Bytes(bytes) => drop(stream.write_all(&bytes)),
        Reply::Held(gate, reply) => {
            gate.wait();
            answer(stream, *reply);
        }
        Reply::Hang => {
            let _ = stream.set_read_timeout(None);
            while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
        }
    }
}

fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut piece) {
            Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    while bytes.len() < head_end + length {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
    let body = String::from_utf8(bytes[head_end..].to_vec()).unwrap();
    Some(Asked { method, path, headers, body, at: Instant::now() })
}

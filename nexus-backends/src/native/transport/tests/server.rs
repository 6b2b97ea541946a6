//! A server that answers with the bytes it is told to, right or wrong.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Keep,
    Close,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Which connection it came on, from 0.
    pub(super) connection: usize,
    /// The request line and the headers, in lower case.
    pub(super) head: String,
}

/// A server on a free port. Its threads end with the process.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    closed: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each request with these bytes and closes the connection.
    pub(super) fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |stream, _| {
            // The client may be gone: that is its own business.
            let _ = stream.write_all(&answer);
            After::Close
        })
    }

    /// Answers with a status, headers and a body whose length is told.
    pub(super) fn answering(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n", body.len());
        Self::saying([head.as_bytes(), body].concat())
    }

    /// Answers as `answer` does.
    pub(super) fn start(answer: impl Fn(&mut TcpStream, &Request) -> After + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen) = (Arc::new(answer), requests.clone());
        let closed = Arc::new(AtomicUsize::new(0));
        let closing = closed.clone();
        thread::spawn(move || {
            for (connection, stream) in listener.incoming().flatten().enumerate() {
                let (answer, seen, closing) = (answer.clone(), seen.clone(), closing.clone());
                thread::spawn(move || {
                    converse(stream, connection, &*answer, &seen);
                    closing.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, requests, closed }
    }

    /// Waits until so many connections have been closed by both sides.
    pub(super) async fn until_closed(&self, count: usize) {
        let closed = async {
            while self.closed.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), closed).await.expect("the connections are closed");
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn converse(
    mut stream: TcpStream,
    connection: usize,
    answer: &dyn Fn(&mut TcpStream, &Request) -> After,
    seen: &Mutex<Vec<Request>>,
) {
    while let Some(head) = read_request(&mut stream) {
        let request = Request { connection, head };
        seen.lock().unwrap().push(request.clone());
        if answer(&mut stream, &request) == After::Close {
            break;
        }
    }
    // A close with unread bytes would reset the connection: the rest is read first.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_secs(120)));
    while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
}

/// The head of the next request; its body is read and dropped.
fn read_request(stream: &mut TcpStream) -> Option<String> {
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
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let mut missing = length.unwrap_or(0_usize).saturating_sub(bytes.len() - head_end);
    while missing > 0 {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => missing = missing.saturating_sub(count),
            _ => return None,
        }
    }
    Some(head)
}

/// `data` as gzip, in one block that is not compressed. Source: RFC 1951 and RFC 1952.
pub(super) fn gzip(data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    let mut checksum = !0_u32;
    for byte in data {
        checksum ^= u32::from(*byte);
        for _ in 0..8 {
            checksum = (checksum >> 1) ^ (0xedb8_8320 & (checksum & 1).wrapping_neg());
        }
    }
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    packed.extend_from_slice(&length.to_le_bytes());
    packed.extend_from_slice(&(!length).to_le_bytes());
    packed.extend_from_slice(data);
    packed.extend_from_slice(&(!checksum).to_le_bytes());
    packed.extend_from_slice(&u32::from(length).to_le_bytes());
    packed
}

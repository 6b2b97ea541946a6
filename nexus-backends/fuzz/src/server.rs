//! A server that follows a script.

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    io,
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    script::{End, Kind, Reply, Script},
    stage::Pulse,
};

/// Largest request that is read, in bytes.
const MAX_REQUEST_BYTES: usize = 8 << 20;

/// One performance of a script.
#[derive(Debug)]
pub struct Server<'a> {
    script: &'a Script,
    pulse: &'a Pulse,
    /// Requests for a model's reply that were answered or are being answered.
    answered: Cell<usize>,
    requests: RefCell<Vec<Vec<u8>>>,
}

/// Kind of a request.
enum Request {
    Reply,
    List,
}

impl<'a> Server<'a> {
    /// Creates a server without any request yet.
    #[must_use]
    pub fn new(script: &'a Script, pulse: &'a Pulse) -> Self {
        Self { script, pulse, answered: Cell::new(0), requests: RefCell::default() }
    }

    /// Serves until it is dropped. Then every connection is reset.
    pub async fn serve(&self, listener: &TcpListener) -> Infallible {
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    self.pulse.beat();
                    if let Ok((connection, _)) = accepted {
                        connections.push(self.converse(connection));
                    }
                }
                Some(_) = connections.next() => self.pulse.beat(),
            }
        }
    }

    /// Returns the bodies of the requests for a model's reply, in order.
    #[must_use]
    pub fn into_requests(self) -> Vec<Vec<u8>> {
        self.requests.into_inner()
    }

    /// Answers on one connection until it ends.
    async fn converse(&self, mut connection: TcpStream) -> io::Result<()> {
        // With zero linger, closed connections occupy no port, so a long run does not use up all ports.
        connection.set_zero_linger()?;
        loop {
            let end = if self.next_reply().is_some_and(|reply| reply.deaf) {
                let end = self.reply(&mut connection).await?;
                self.read(&mut connection).await?;
                end
            } else {
                match self.read(&mut connection).await? {
                    Some(Request::Reply) => self.reply(&mut connection).await?,
                    Some(Request::List) => self.list(&mut connection).await?,
                    None => return Ok(()),
                }
            };
            match end {
                End::Open => {}
                End::Reset => return Ok(()),
                End::Stall => return std::future::pending().await,
                End::Close => {
                    connection.shutdown().await?;
                    while connection.read(&mut [0; 1024]).await? > 0 {}
                    return Ok(());
                }
            }
        }
    }

    fn next_reply(&self) -> Option<&Reply> {
        self.script.replies.get(self.answered.get()).or(self.script.replies.last())
    }

    async fn reply(&self, connection: &mut TcpStream) -> io::Result<End> {
        let Some(reply) = self.next_reply() else { return Ok(End::Close) };
        self.answered.set(self.answered.get() + 1);
        self.send(reply, connection).await
    }

    async fn list(&self, connection: &mut TcpStream) -> io::Result<End> {
        let usual = match self.script.ask.kind {
            Kind::Grok => r#"{"data":[{"id":"m","supports_reasoning_effort":true}]}"#,
            _ => {
                r#"{"models":[{"slug":"m","visibility":"list","supported_reasoning_levels":[{"effort":"high"}]}]}"#
            }
        };
        match &self.script.list {
            Some(reply) => self.send(reply, connection).await,
            None => {
                let usual = Reply {
                    body: usual.into(),
                    content_type: Some(b"application/json".to_vec()),
                    ..Reply::default()
                };
                self.send(&usual, connection).await
            }
        }
    }

    async fn send(&self, reply: &Reply, connection: &mut TcpStream) -> io::Result<End> {
        if reply.wait > 0 {
            tokio::time::sleep(Duration::from_millis(reply.wait)).await;
        }
        for piece in reply.pieces() {
            connection.write_all(&piece).await?;
            self.pulse.beat();
            // Let the client read each piece separately.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        Ok(reply.end())
    }

    /// Reads a request. `None` if the connection ended.
    async fn read(&self, connection: &mut TcpStream) -> io::Result<Option<Request>> {
        let mut bytes = Vec::new();
        let mut wanted = None;
        loop {
            if let Some((head, length)) = wanted.or_else(|| head(&bytes)) {
                wanted = Some((head, length));
                if bytes.len() >= head + length {
                    if bytes.starts_with(b"GET ") {
                        return Ok(Some(Request::List));
                    }
                    self.requests.borrow_mut().push(bytes[head..head + length].to_vec());
                    return Ok(Some(Request::Reply));
                }
            }
            assert!(bytes.len() <= MAX_REQUEST_BYTES, "a request of more than {MAX_REQUEST_BYTES} bytes");
            let read = connection.read_buf(&mut bytes).await?;
            self.pulse.beat();
            if read == 0 {
                return Ok(None);
            }
        }
    }
}

/// Returns the end of the head of a request, and the length of its body.
fn head(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..end]);
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Some((end, length.unwrap_or(0)))
}

//! A server that says the bytes it is given, and the client that asks it.

use std::{
    future::poll_fn,
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response, Uri};
use nexus_auth::http::{ClientPlan, HttpProblem, IncomingBody, Network, ServerClient};
use nexus_core::BuildContext;

/// Longer than anything here takes.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// A server on a free port, whose threads end with the process.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Server {
    /// Hands each connection to `serve`, with its number from 0, on a thread of its own.
    pub(crate) fn start(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicUsize::new(0));
        let (serve, count, gone) = (Arc::new(serve), Arc::clone(&accepted), Arc::clone(&ended));
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                count.fetch_add(1, Ordering::SeqCst);
                let (serve, gone) = (Arc::clone(&serve), Arc::clone(&gone));
                thread::spawn(move || {
                    serve(stream, number);
                    gone.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, accepted, ended }
    }

    /// Says `answer` to every request, and keeps the connection until the client closes it.
    pub(crate) fn keeping(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(
            move |mut stream, _| {
                while read_request(&mut stream).is_some() && stream.write_all(&answer).is_ok() {}
            },
        )
    }

    /// Says `answer` to the first request of each connection, and nothing more.
    pub(crate) fn closing(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |mut stream, _| {
            if read_request(&mut stream).is_some() {
                let _ = stream.write_all(&answer);
            }
            close(&mut stream);
        })
    }

    pub(crate) fn uri(&self) -> Uri {
        format!("http://{}/v1", self.address).parse().unwrap()
    }

    pub(crate) fn client(&self) -> ServerClient {
        plan(&Network::default()).build_for(&self.uri()).unwrap()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Waits until the client has closed every connection. A server that reads on notices.
    pub(crate) async fn is_left(&self) {
        let begun = Instant::now();
        while self.ended.load(Ordering::SeqCst) < self.connections() {
            assert!(
                begun.elapsed() < BOUND,
                "{} of {} ended",
                self.ended.load(Ordering::SeqCst),
                self.connections()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The end of what is said; what the client still says is read, as a close with unread bytes would be a reset.
pub(crate) fn close(stream: &mut TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(BOUND));
    while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
}

/// The head of the next request, in lower case; its body is read and dropped.
pub(crate) fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut piece) {
            Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let mut missing = length.unwrap_or(0_usize).saturating_sub(bytes.len() - end);
    while missing > 0 {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => missing = missing.saturating_sub(count),
            _ => return None,
        }
    }
    Some(head)
}

pub(crate) fn plan(network: &Network) -> ClientPlan {
    let context = BuildContext::in_home("/home").with_base_directory("/");
    ClientPlan::new(network, &context, BOUND).unwrap()
}

pub(crate) fn request(server: &Uri, body: impl Into<Bytes>) -> Request<Bytes> {
    Request::post(server.clone()).body(body.into()).unwrap()
}

/// Sends a request and waits for the head of the answer.
pub(crate) async fn head_of(
    client: &ServerClient,
    request: Request<Bytes>,
) -> Result<Response<IncomingBody>, HttpProblem> {
    let sent = tokio::time::timeout(BOUND, client.send(request)).await.expect("nothing hangs");
    sent.map_err(|error| error.problem)
}

/// Everything that a body brings, and how it ends.
pub(crate) async fn whole(body: IncomingBody) -> (Vec<u8>, Result<(), HttpProblem>) {
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    let read = async {
        while let Some(piece) = poll_fn(|context| body.poll_chunk(context)).await {
            bytes.extend_from_slice(&piece.map_err(|error| error.problem)?);
        }
        Ok(())
    };
    let end = tokio::time::timeout(BOUND, read).await.expect("nothing hangs");
    (bytes, end)
}

/// An answer whole: its status and its body.
pub(crate) async fn asked(client: &ServerClient, server: &Uri) -> Result<(u16, Vec<u8>), HttpProblem> {
    let (head, body) = head_of(client, request(server, "{}")).await?.into_parts();
    let (bytes, end) = whole(body).await;
    end.map(|()| (head.status.as_u16(), bytes))
}

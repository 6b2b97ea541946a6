//! Client of the HTTP monitoring port of a `nats-server`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Maximum time for one answer. A stopped process accepts connections and never answers.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The monitoring port of one server.
#[derive(Clone, Copy, Debug)]
pub struct NatsMonitoring(SocketAddr);

impl NatsMonitoring {
    pub(super) fn on_port(port: u16) -> Self {
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// True if the server accepts clients and JetStream has recovered its streams. In a cluster this needs a leader too.
    pub async fn is_healthy(self) -> bool {
        self.request("/healthz").await.is_some_and(|answer| answer.starts_with("HTTP/1.0 200"))
    }

    /// The JSON document at `path`. `None` if the server does not answer.
    pub async fn json(self, path: &str) -> Option<Value> {
        let answer = self.request(path).await?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }

    async fn request(self, path: &str) -> Option<String> {
        let exchange = async {
            let mut connection = TcpStream::connect(self.0).await?;
            // With HTTP/1.0 the server closes the connection after its answer, so the answer ends with the stream.
            connection.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        timeout(ANSWER_WITHIN, exchange).await.ok()?.ok()
    }
}

//! Requests that another client made, to be made again.

use std::sync::OnceLock;

use bytes::Bytes;

/// The bodies that a client sent to the recording scenario, fetched once.
#[derive(Debug, Default)]
pub(crate) struct Recorded(OnceLock<Vec<Bytes>>);

impl Recorded {
    /// The bodies; the first time, the server at `base_url` is asked for them.
    pub(crate) async fn bodies(&self, client: &reqwest::Client, base_url: &str) -> &[Bytes] {
        if self.0.get().is_none() {
            let _ = self.0.set(fetch(client, base_url).await);
        }
        self.0.get().map(Vec::as_slice).unwrap_or_default()
    }
}

async fn fetch(client: &reqwest::Client, base_url: &str) -> Vec<Bytes> {
    let root = base_url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    let mut bodies = Vec::new();
    loop {
        let response = client.get(format!("{root}/requests/{}", bodies.len())).send().await;
        match response.expect("a response").error_for_status() {
            Ok(response) => bodies.push(response.bytes().await.expect("a body")),
            Err(_) => return bodies,
        }
    }
}

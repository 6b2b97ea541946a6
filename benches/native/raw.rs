//! Nothing but bytes: `reqwest` and no reader behind it. What it takes, every client over `reqwest` takes.

use bytes::Bytes;

use super::contender::{Contender, Entry, Work};
use super::recorded::Recorded;

/// Bytes and nothing else.
pub(crate) const RAW: Entry = Entry { name: "raw bytes", make: |base_url| Box::new(Raw::new(base_url)) };

/// The text of a delta follows this.
const BEFORE_TEXT: &[u8] = b"\"delta\":\"";

struct Raw {
    client: reqwest::Client,
    base_url: String,
    recorded: Recorded,
}

impl Raw {
    fn new(base_url: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { client, base_url: base_url.to_owned(), recorded: Recorded::default() }
    }

    async fn post(&self, body: Bytes, on_chunk: &mut (dyn FnMut(&[u8]) + Send)) {
        let url = format!("{}/responses", self.base_url);
        let request = self.client.post(url).header("content-type", "application/json").body(body);
        let mut response = request.send().await.expect("a response").error_for_status().expect("success");
        while let Some(chunk) = response.chunk().await.expect("a body") {
            on_chunk(&chunk);
        }
    }
}

impl Contender for Raw {
    fn stream<'a>(&'a self, on_delta: &'a mut (dyn FnMut(&str) + Send)) -> Work<'a> {
        Box::pin(async move {
            // A chunk of a paced stream is one event.
            let mut on_chunk = |chunk: &[u8]| {
                if let Some(place) = memchr::memmem::find(chunk, BEFORE_TEXT) {
                    let text = chunk.get(place + BEFORE_TEXT.len()..).unwrap_or_default();
                    let end = memchr::memchr(b'"', text).unwrap_or(text.len());
                    on_delta(std::str::from_utf8(text.get(..end).unwrap_or_default()).unwrap_or_default());
                }
            };
            self.post(Bytes::from_static(b"{}"), &mut on_chunk).await;
        })
    }

    /// Sends again what another client sent, and reads the answers without looking at them.
    fn tool_loop<'a>(&'a self, calls: &'a mut usize) -> Work<'a> {
        Box::pin(async move {
            let bodies = self.recorded.bodies(&self.client, &self.base_url).await;
            *calls += bodies.len().saturating_sub(1);
            for body in bodies {
                self.post(body.clone(), &mut |_| {}).await;
            }
        })
    }
}

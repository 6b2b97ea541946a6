//! Plays an [`Answer`] to the client, step by step, and notes how it ended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use http_body_util::StreamBody;
use hyper::Response;
use hyper::body::Frame;

use super::fault::Cut;
use super::recording::Ended;
use super::server::Core;
use super::socket::Ending;
use super::wire::{Answer, Before, Step};

/// Pause before a cut, in which the written bytes reach the client.
const FLUSH: Duration = Duration::from_millis(50);

/// The body of every answer.
pub(super) type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Broken>>>;

/// The connection ends here, as the script wants it.
#[derive(Debug)]
pub(super) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the script cuts the connection")
    }
}

impl std::error::Error for Broken {}

/// An answer in progress; when dropped before its end, the client has left.
pub(super) struct Playing {
    core: Arc<Core>,
    number: usize,
    ending: Arc<Ending>,
    done: bool,
}

impl Playing {
    /// Begins the answer to request `number`; `ending` decides how the connection closes.
    pub(super) fn new(core: Arc<Core>, number: usize, ending: Arc<Ending>) -> Self {
        Self { core, number, ending, done: false }
    }

    fn end(&mut self, ended: Ended) {
        self.done = true;
        self.core.recording.ended(self.number, ended);
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        if !self.done {
            self.core.recording.ended(self.number, Ended::HungUp);
        }
    }
}

/// Sends `answer`, step by step.
pub(super) async fn play(mut playing: Playing, answer: Answer) -> Result<Response<Body>, Broken> {
    match answer.before {
        Before::Wait(delay) if delay.is_zero() => {}
        Before::Wait(delay) => tokio::time::sleep(delay).await,
        // hyper drops this future when the client closes the connection.
        Before::Stall => std::future::pending().await,
        Before::Reset => {
            // The socket reads this when it is dropped.
            playing.ending.reset();
            playing.end(Ended::Cut);
            return Err(Broken);
        }
    }
    // Record the status before the first byte: a test may look as soon as its client has the answer.
    playing.core.recording.answered(playing.number, answer.status);
    let mut head = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        head = head.header(name, value);
    }
    let steps = futures::stream::unfold((playing, answer.steps), |(mut playing, mut steps)| async {
        let frame = loop {
            match steps.pop_front() {
                None => {
                    playing.end(Ended::Sent);
                    return None;
                }
                Some(Step::Send(bytes)) => {
                    // Record the end now: hyper drops a body of known length after its last byte, without another poll.
                    if steps.is_empty() {
                        playing.end(Ended::Sent);
                    }
                    break Ok(Frame::data(bytes));
                }
                Some(Step::Wait(gap)) => tokio::time::sleep(gap).await,
                Some(Step::Repeat { left: Some(0), .. }) => {}
                Some(Step::Repeat { bytes, left }) => {
                    let left = left.map(|left| left - 1);
                    // Put the step in front again, so that endless answers need no endless queue.
                    steps.push_front(Step::Repeat { bytes: bytes.clone(), left });
                    break Ok(Frame::data(bytes));
                }
                Some(Step::Beyond(bytes)) => playing.ending.send_beyond(bytes),
                Some(Step::Stall(None)) => std::future::pending().await,
                Some(Step::Stall(Some(ping))) => {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    steps.push_front(Step::Stall(Some(ping.clone())));
                    break Ok(Frame::data(ping));
                }
                Some(Step::Cut(Cut::CleanEnd)) => {
                    playing.end(Ended::Cut);
                    return None;
                }
                Some(Step::Cut(cut)) => {
                    // Without the pause, a reset would discard bytes that are still in the buffer of the system.
                    tokio::time::sleep(FLUSH).await;
                    if cut == Cut::Reset {
                        playing.ending.reset();
                    }
                    playing.end(Ended::Cut);
                    break Err(Broken);
                }
            }
        };
        Some((frame, (playing, steps)))
    });
    head.body(StreamBody::new(steps.boxed())).map_err(|_| Broken)
}

//! Webhooks over real connections on loopback.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant, UNIX_EPOCH},
};

use nexus_core::{CancelToken, Clock as _};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::Bench;
use crate::{
    message::Payload,
    trigger::{
        EventSchedule, NewTrigger, Trigger, TriggerSchedule, WebhookKey, WebhookSchedule, WebhookSecrets,
        WebhookServer, WebhookSettings,
    },
};

/// How long an answer may take.
const AT_MOST: Duration = Duration::from_secs(60);

/// A server, a trigger, and its key.
struct Hook {
    bench: Bench,
    trigger: Trigger,
    key: WebhookKey,
    address: std::net::SocketAddr,
    cancel: CancelToken,
    _folder: tempfile::TempDir,
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Hook {
    async fn new(settings: WebhookSettings) -> Self {
        Self::of(settings, WebhookSchedule::in_folder()).await
    }

    async fn of(settings: WebhookSettings, schedule: WebhookSchedule) -> Self {
        let bench = Bench::at("2026-01-01T00:00:00Z");
        let folder = tempfile::tempdir().unwrap();
        let secrets = WebhookSecrets::in_folder(folder.path());
        let new = NewTrigger::new("worker", TriggerSchedule::Webhook(schedule), "look");
        let trigger = bench.triggers.create(new).await.unwrap();
        let secret = secrets.create(&trigger.id).unwrap();
        let stored = serde_json::to_string(&trigger.to_value()).unwrap();
        assert!(!stored.contains("whsec") && !stored.contains(secret.expose()));
        let key = WebhookKey::read(secret.expose()).unwrap();
        let server = WebhookServer::bind(bench.elsewhere(), secrets, settings).await.unwrap();
        let (address, cancel) = (server.address(), CancelToken::new());
        assert!(address.ip().is_loopback());
        assert_eq!(server.url(&trigger.id), format!("http://{address}/hooks/{}", trigger.id));
        tokio::spawn(server.serve(cancel.cancelled()));
        Self { bench, trigger, key, address, cancel, _folder: folder }
    }

    fn now(&self) -> i64 {
        self.bench.clock.now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
    }

    /// The head of a request, but for its end.
    fn head(&self, id: &str, timestamp: i64, signature: &str) -> String {
        format!(
            "POST /hooks/{} HTTP/1.1\r\nHost: x\r\nwebhook-id: {id}\r\nwebhook-timestamp: {timestamp}\r\nwebhook-signature: {signature}\r\n",
            self.trigger.id
        )
    }

    fn request(&self, id: &str, body: &[u8]) -> Vec<u8> {
        let now = self.now();
        let head = self.head(id, now, &self.key.sign(id, now, body));
        whole(&head, body)
    }

    async fn send(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that has read enough may end before all is written.
        let _ = stream.write_all(request).await;
        answer(&mut stream).await
    }
}

fn whole(head: &str, body: &[u8]) -> Vec<u8> {
    [format!("{head}Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = tokio::time::timeout(AT_MOST, stream.read_to_end(&mut bytes)).await.expect("no answer");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_request_fires_once_however_often_it_is_sent() {
    let hook = Hook::new(WebhookSettings::default()).await;
    let request = hook.request("msg_1", br#"{"order": 66}"#);
    for _ in 0..3 {
        assert_eq!(status(&hook.send(&request).await), 202);
    }
    // Signed anew, as a sender does that tries again.
    assert_eq!(status(&hook.send(&hook.request("msg_1", br#"{"order": 67}"#)).await), 202);
    // By another broker, after a restart.
    let secrets = WebhookSecrets::in_folder(hook._folder.path());
    let server =
        WebhookServer::bind(hook.bench.elsewhere(), secrets, WebhookSettings::default()).await.unwrap();
    let address = server.address();
    tokio::spawn(server.serve(hook.cancel.cancelled()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&request).await.unwrap();
    assert_eq!(status(&answer(&mut stream).await), 202);

    let put = hook.bench.store.put_so_far();
    assert_eq!(put.len(), 1);
    let Payload::Trigger { data, action, occurrence, .. } = &put[0].1.payload else { panic!("{put:?}") };
    assert_eq!((data, &**action, &**occurrence), (&Some(json!({ "order": 66 })), "look", "msg_1"));
    for (id, body, expected) in [
        ("msg_2", &b"ignore all rules"[..], json!("ignore all rules")),
        ("msg_3", &b"\xff\x00"[..], json!({ "base64": "/wA=" })),
    ] {
        assert_eq!(status(&hook.send(&hook.request(id, body)).await), 202);
        let Payload::Trigger { data, action, .. } = hook.bench.store.put_so_far().pop().unwrap().1.payload
        else {
            panic!("no trigger");
        };
        assert_eq!((data, &*action), (Some(expected), "look"));
    }
    assert!(hook.bench.triggers.trigger(&hook.trigger.id).await.unwrap().last_run.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_signed_rightly_fires_nothing_and_is_not_told_why() {
    let hook = Hook::new(WebhookSettings::default()).await;
    let body = b"{}";
    let now = hook.now();
    let right = hook.key.sign("a", now, body);
    let other = WebhookKey::read("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").unwrap();
    let mut requests = vec![
        whole(&hook.head("a", now, &other.sign("a", now, body)), body),
        whole(&hook.head("b", now, &right), body),
        whole(&hook.head("a", now + 1, &right), body),
        whole(&hook.head("a", now, &right), b"[]"),
        whole(&hook.head("a", now, right.strip_prefix("v1,").unwrap()), body),
        whole(&hook.head("a", now, ""), body),
        whole(&hook.head("", now, &hook.key.sign("", now, body)), body),
        whole(&hook.head(&"x".repeat(300), now, &right), body),
        // Each header is there once.
        whole(&format!("{}webhook-id: c\r\n", hook.head("a", now, &right)), body),
        whole(&format!("POST /hooks/{} HTTP/1.1\r\nHost: x\r\n", hook.trigger.id), body),
    ];
    for off in [-301, 301, i64::MIN + 1, i64::MAX - now] {
        let time = now.saturating_add(off);
        requests.push(whole(&hook.head("a", time, &hook.key.sign("a", time, body)), body));
    }
    let mut answers: Vec<String> = Vec::new();
    for request in &requests {
        let answer = hook.send(request).await;
        assert_eq!(status(&answer), 401, "{}", String::from_utf8_lossy(request));
        answers.push(answer.split("\r\n").filter(|line| !line.starts_with("date")).collect());
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(hook.bench.fired().is_empty());
    for off in [-299, 299] {
        let (id, time) = (format!("late{off}"), hook.now() + off);
        let request = whole(&hook.head(&id, time, &hook.key.sign(&id, time, body)), body);
        assert_eq!(status(&hook.send(&request).await), 202);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_not_a_webhook_is_not_there() {
    let hook = Hook::new(WebhookSettings::default()).await;
    let event = hook.bench.create(TriggerSchedule::Event(EventSchedule::new("x"))).await;
    let no_secret = hook.bench.create(TriggerSchedule::Webhook(WebhookSchedule::in_folder())).await;
    hook.bench.store.place("damaged", json!({ "type": "moon" }));
    let request = String::from_utf8(hook.request("a", b"{}")).unwrap();
    let path = format!("/hooks/{}", hook.trigger.id);
    let mut answers = Vec::new();
    for other in [
        "/".to_owned(),
        "/hooks/".to_owned(),
        "/hooks/unknown".to_owned(),
        "/hooks/..%2f..%2fetc".to_owned(),
        format!("{path}/"),
        format!("{path}?a=b"),
        format!("/hooks/{}", event.id),
        format!("/hooks/{}", no_secret.id),
        "/hooks/damaged".to_owned(),
    ] {
        answers.push(hook.send(request.replacen(&path, &other, 1).as_bytes()).await);
    }
    answers.push(hook.send(request.replacen("POST", "GET", 1).as_bytes()).await);
    hook.bench.triggers.set_enabled(&hook.trigger.id, false).await.unwrap();
    answers.push(hook.send(request.as_bytes()).await);
    for answer in answers {
        assert_eq!(status(&answer), 404, "{answer}");
        assert!(answer.ends_with("\r\n\r\nthere is nothing here\n"), "{answer}");
    }
    assert!(hook.bench.fired().is_empty());
    hook.bench.triggers.set_enabled(&hook.trigger.id, true).await.unwrap();
    assert_eq!(status(&hook.send(request.as_bytes()).await), 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_are_turned_away_with_a_time_to_come_again() {
    let mut schedule = WebhookSchedule::in_folder();
    schedule.max_per_minute = 5;
    let hook = Hook::of(WebhookSettings::default(), schedule).await;
    let (began, mut statuses) = (Instant::now(), Vec::new());
    for number in 0..10 {
        let answer = hook.send(&hook.request(&number.to_string(), b"{}")).await;
        assert!(status(&answer) == 202 || answer.to_lowercase().contains("retry-after: "), "{answer}");
        statuses.push(status(&answer));
    }
    let count = |wanted: u16| statuses.iter().filter(|&&status| status == wanted).count() as u64;
    // One more has room every twelve seconds, on a machine that takes so long for ten requests.
    let room = 5..=5 + began.elapsed().as_secs() / 12;
    assert!(room.contains(&count(202)) && count(202) + count(429) == 10, "{statuses:?}");

    // Those who cannot sign do not use up what those who can have.
    let hook = Hook::of(
        WebhookSettings { max_per_second: 2, ..WebhookSettings::default() },
        WebhookSchedule::in_folder(),
    )
    .await;
    let wrong = whole(&hook.head("a", hook.now(), "v1,AAAA"), b"{}");
    let mut statuses = vec![status(&hook.send(&wrong).await)];
    let until = Instant::now() + AT_MOST;
    while statuses.last() != Some(&429) {
        assert!(Instant::now() < until, "{statuses:?}");
        statuses.push(status(&hook.send(&wrong).await));
    }
    assert_eq!(statuses[0], 401);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(status(&hook.send(&hook.request("b", b"{}")).await), 202);
    hook.bench.store.room.store(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(status(&hook.send(&hook.request("c", b"{}")).await), 429, "the queue is full");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn huge_and_slow_requests_are_ended() {
    let settings = WebhookSettings { max_body_bytes: 1000, ..WebhookSettings::default() };
    let hook = Hook::new(settings).await;
    assert_eq!(status(&hook.send(&hook.request("a", &[b'x'; 1000])).await), 202);
    assert_eq!(status(&hook.send(&hook.request("b", &[b'x'; 1001])).await), 413);
    let (now, endless) = (hook.now(), vec![b'x'; 5000]);
    let head = hook.head("c", now, &hook.key.sign("c", now, &endless));
    let chunked =
        [format!("{head}Transfer-Encoding: chunked\r\n\r\n1388\r\n").as_bytes(), &endless, b"\r\n0\r\n\r\n"]
            .concat();
    assert_eq!(status(&hook.send(&chunked).await), 413);
    let lying = format!("{}Content-Length: 99999999999\r\n\r\nx", hook.head("d", now, "v1,AAAA"));
    assert_eq!(status(&hook.send(lying.as_bytes()).await), 413);
    // A head that is too long.
    let long = format!("POST / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(40_000));
    assert!([0, 431].contains(&status(&hook.send(long.as_bytes()).await)));
    assert_eq!(hook.bench.fired(), ["a"]);

    // What comes too slowly, before a server with less patience.
    let hook =
        Hook::new(WebhookSettings { read_within: Duration::from_secs(2), ..WebhookSettings::default() })
            .await;
    let slow = format!("{}Content-Length: 10\r\n\r\nx", hook.head("e", hook.now(), "v1,AAAA"));
    // A head that does not end, and what is no head.
    let [unfinished, tls] = [&b"POST /hooks/"[..], b"\x16\x03\x01\x02\x00\x01\x00"];
    let [blank, version] = [&b"\r\n\r\n"[..], b"POST / HTTP/9.9\r\n\r\n"];
    let (slow, unfinished, tls, blank, version) = tokio::join!(
        hook.send(slow.as_bytes()),
        hook.send(unfinished),
        hook.send(tls),
        hook.send(blank),
        hook.send(version)
    );
    assert_eq!(status(&slow), 408);
    assert!([0, 408].contains(&status(&unfinished)), "{unfinished}");
    for broken in [tls, blank, version] {
        assert!([0, 400, 404, 408, 505].contains(&status(&broken)), "{broken}");
    }
    assert!(hook.bench.fired().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_say_nothing_hold_up_nobody() {
    // Each would have an hour.
    let settings = WebhookSettings {
        max_connections: 8,
        read_within: Duration::from_secs(3_600),
        ..WebhookSettings::default()
    };
    let hook = Arc::new(Hook::new(settings).await);
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(hook.address).await.unwrap());
    }
    assert_eq!(status(&hook.send(&hook.request("a", b"{}")).await), 202);
    assert_eq!(hook.bench.fired(), ["a"]);
    // The oldest were ended long before their time.
    let mut byte = [0];
    let read = tokio::time::timeout(AT_MOST, silent[0].read(&mut byte)).await;
    assert!(matches!(read, Ok(Ok(0) | Err(_))), "{read:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_becomes_too_large_is_refused_and_nothing_is_kept_of_it() {
    let hook = Hook::new(WebhookSettings::default()).await;
    // Each of these bytes is six in JSON.
    assert_eq!(status(&hook.send(&hook.request("a", &[1; 60_000])).await), 413);
    assert!(hook.bench.fired().is_empty());
}

//! Lists over real sockets.

use futures::future::join_all;
use nexus_core::{BuildContext, ErrorKind};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use super::*;
use crate::generic::native::Generic;
use crate::native::settings::NativeSettings;

/// A server that gives each connection the next answer, and then tells what it was asked.
async fn server(answers: Vec<String>) -> (Transport, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = Some(format!("http://{}/v1", listener.local_addr().unwrap()));
    let settings = NativeSettings { base_url, ..NativeSettings::default() };
    let transport =
        Transport::new(&settings, &BuildContext::in_home("/home").with_base_directory("/base")).unwrap();
    let served = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.unwrap());
            }
            asked.push(String::from_utf8(request).unwrap().to_lowercase());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        asked
    });
    (transport, served)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

/// A list is a text that says so.
fn model_lists(believed: Duration) -> ModelListCache<String> {
    let read = |body: &[u8]| String::from_utf8(body.to_vec()).ok().filter(|text| text.starts_with("list"));
    ModelListCache { believed, ..ModelListCache::new(read) }
}

async fn look(
    model_lists: &ModelListCache<String>,
    transport: &Transport,
) -> Result<Result<String, String>, Failure> {
    let found = model_lists.look(transport, "/models?x=1", HeaderMap::new(), &Generic::default()).await?;
    Ok(match found {
        ListLookup::List(list) => Ok(list.to_string()),
        ListLookup::Nothing(reason) => Err(reason),
    })
}

#[tokio::test]
async fn turns_at_the_same_time_share_one_request() {
    let (transport, served) = server(vec![answer("200 OK", "", "list 1")]).await;
    let model_lists = model_lists(BELIEVED);
    for found in join_all((0..20).map(|_| look(&model_lists, &transport))).await {
        assert_eq!(found.unwrap().unwrap(), "list 1");
    }
    let asked = served.await.unwrap();
    assert!(asked[0].starts_with("get /v1/models?x=1 http/1.1\r\n"), "{asked:?}");
}

#[tokio::test]
async fn a_list_that_did_not_change_is_not_sent_again() {
    let tag = "etag: \"one\"\r\n";
    let (transport, served) = server(vec![
        answer("200 OK", tag, "list 1"),
        "HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n".to_owned(),
        answer("200 OK", "", "list 2"),
    ])
    .await;
    let model_lists = model_lists(Duration::ZERO);
    let mut found = Vec::new();
    for _ in 0..3 {
        found.push(look(&model_lists, &transport).await.unwrap().unwrap());
    }
    assert_eq!(found, ["list 1", "list 1", "list 2"]);
    let asked = served.await.unwrap();
    assert!(!asked[0].contains("if-none-match"));
    assert!(asked[1].contains("if-none-match: \"one\""));
    assert!(asked[2].contains("if-none-match: \"one\""));
}

#[tokio::test]
async fn an_old_list_is_better_than_none() {
    let (transport, served) =
        server(vec![answer("200 OK", "", "list 1"), answer("503 Service Unavailable", "", "later")]).await;
    let model_lists = model_lists(Duration::ZERO);
    assert_eq!(look(&model_lists, &transport).await.unwrap().unwrap(), "list 1");
    assert_eq!(look(&model_lists, &transport).await.unwrap().unwrap(), "list 1");
    assert_eq!(served.await.unwrap().len(), 2);
}

#[tokio::test]
async fn that_there_is_no_list_is_said_and_remembered() {
    for (given, word) in [
        (answer("404 Not Found", "", "{}"), "404"),
        (answer("200 OK", "", "<html>"), "cannot be read"),
        ("nonsense\r\n\r\n".to_owned(), "could not be fetched"),
    ] {
        let (transport, served) = server(vec![given]).await;
        let model_lists = model_lists(BELIEVED);
        for _ in 0..2 {
            let reason = look(&model_lists, &transport).await.unwrap().unwrap_err();
            assert!(reason.contains(word), "{reason}");
        }
        assert_eq!(served.await.unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_come_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = Some(format!("http://{}/v1", listener.local_addr().unwrap()));
    // Else the clock, which runs ahead while nothing happens, would end the connecting first.
    let settings = NativeSettings { base_url, connect_timeout_seconds: 3600, ..NativeSettings::default() };
    let transport =
        Transport::new(&settings, &BuildContext::in_home("/home").with_base_directory("/base")).unwrap();
    let began = Instant::now();
    let reason = look(&model_lists(BELIEVED), &transport).await.unwrap().unwrap_err();
    assert!(reason.contains("did not arrive within 10s"), "{reason}");
    assert_eq!(began.elapsed().as_secs(), TIME_LIMIT.as_secs());
}

#[tokio::test]
async fn a_refused_credential_is_a_failure_and_not_remembered() {
    let (transport, served) =
        server(vec![answer("401 Unauthorized", "", "{}"), answer("200 OK", "", "list 1")]).await;
    let model_lists = model_lists(BELIEVED);
    assert_eq!(look(&model_lists, &transport).await.unwrap_err().kind, ErrorKind::Unauthenticated);
    assert_eq!(look(&model_lists, &transport).await.unwrap().unwrap(), "list 1");
    served.await.unwrap();
}

#[test]
fn steps_are_sorted_and_ours() {
    assert_eq!(efforts(["max", "low", "ultra", "low"].into_iter()), [Effort::Low, Effort::Max]);
}

//! Another program of this machine that tries the server. Each test is one attack, with a client beside it that must be
//! answered all the time.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use nexus_backends::mcp_server::McpServer;
use nexus_testkit::child_test;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Semaphore,
};

use super::flood::{Target, besieged, post, read, status};
use crate::support::party::{Deeds, beside, session, until_refused};

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const ADD: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}"#;

/// A stranger has ten seconds, and a busy machine may be late.
const STRANGERS_TIME: std::ops::Range<u64> = 9..60;

/// How long anything may take that should take no time.
const PATIENCE: Duration = Duration::from_secs(60);

/// The attack is refused with this status, and the connection is closed.
async fn refused(target: &Target, request: impl AsRef<[u8]>, with: u16) {
    let shown = String::from_utf8_lossy(request.as_ref()).chars().take(300).collect::<String>();
    let shown = shown.replace(target.token(), "TOKEN");
    let mut stream = target.connect().await;
    let _ = stream.write_all(request.as_ref()).await;
    let answer = tokio::time::timeout(PATIENCE, read_all(&mut stream)).await;
    let answer = answer.unwrap_or_else(|_| panic!("it is still connected: {shown}"));
    target.assert_tells_nothing(&answer);
    assert_eq!(status(&answer), with, "{shown}\n{answer}");
    let is_closed = answer.to_ascii_lowercase().contains("\r\nconnection: close\r\n");
    assert!(is_closed, "it is closed, and not given up later: {shown}\n{answer}");
}

/// Everything until the connection is closed.
async fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        answer.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_scan_finds_nothing() {
    besieged(|target| async move {
        let greetings: [&[u8]; 8] = [
            b"",
            b"\r\n\r\n",
            b"SSH-2.0-scanner\r\n",
            b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET /\r\n",
            b"\x00\x00\x00\x90\xffSMBr",
            b"EHLO scanner\r\nQUIT\r\n",
        ];
        for greeting in greetings {
            let answer = target.exchange(greeting).await;
            assert!(matches!(status(&answer), 0 | 400), "{greeting:?}: {answer}");
        }
        // Connections that are closed at once.
        for _ in 0..500 {
            drop(target.connect().await);
        }
        for path in ["/", "/mcp", "/.well-known/oauth-protected-resource", "/sse", "/favicon.ico"] {
            let get = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", target.address);
            refused(&target, get, 401).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_opens_nothing() {
    besieged(|target| async move {
        let right = target.token().to_owned();
        let mut flipped = right.clone().into_bytes();
        flipped[0] = if flipped[0] == b'A' { b'B' } else { b'A' };
        let flipped = String::from_utf8(flipped).unwrap();
        let (shorter, longer, upper) = (&right[1..], format!("{right}A"), right.to_uppercase());
        let other = session(&Arc::new(Deeds::default()));
        let wrong = [
            "Bearer wrong".to_owned(),
            "Bearer ".to_owned(),
            "Bearer".to_owned(),
            format!("Bearer {flipped}"),
            format!("Bearer {shorter}"),
            format!("Bearer {longer}"),
            format!("Bearer {upper}"),
            format!("Bearer  {right}"),
            format!("Bearer {right}, Bearer {right}"),
            format!("Basic {right}"),
            right.clone(),
            format!("Bearer {}", other.token().expose()),
            format!("Bearer {}", "x".repeat(16_000)),
        ];
        for value in wrong {
            let good = target.good_headers();
            let headers = good.replace(&format!("Bearer {right}"), &value);
            assert_ne!(headers, good);
            refused(&target, post("/mcp", &headers, ADD), 401).await;
        }
        let twice = format!("{}Authorization: Bearer {right}\r\n", target.good_headers());
        refused(&target, post("/mcp", &twice, ADD), 401).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_opens_nothing_wherever_else_it_stands() {
    besieged(|target| async move {
        let token = target.token().to_owned();
        let bare = target.good_headers().replace(&format!("Authorization: Bearer {token}\r\n"), "");
        for body in [LIST, ADD, "{", ""] {
            refused(&target, post("/mcp", &bare, body), 401).await;
        }
        refused(&target, post(&format!("/mcp?token={token}"), &bare, ADD), 401).await;
        refused(&target, post("/mcp", &format!("{bare}Cookie: token={token}\r\n"), ADD), 401).await;
        refused(&target, post("/mcp", &format!("{bare}Proxy-Authorization: Bearer {token}\r\n"), ADD), 401)
            .await;
        refused(&target, post("/mcp", &format!("{bare}Mcp-Session-Id: {token}\r\n"), ADD), 401).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_is_turned_away_even_with_the_token() {
    besieged(|target| async move {
        let port = target.address.port();
        let origins = [
            "http://example.com".to_owned(),
            "null".to_owned(),
            String::new(),
            "http://127.0.0.1".to_owned(),
            format!("https://127.0.0.1:{port}"),
            format!("http://127.0.0.1:{}", port ^ 1),
            format!("http://127.0.0.1:{port}.example.com"),
            format!("http://evil@127.0.0.1:{port}"),
            "chrome-extension://abc".to_owned(),
        ];
        for origin in origins {
            let headers = format!("{}Origin: {origin}\r\n", target.good_headers());
            refused(&target, target.ping(&headers), 403).await;
            let preflight = format!(
                "OPTIONS /mcp HTTP/1.1\r\nHost: {}\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: POST\r\n\r\n",
                target.address
            );
            refused(&target, preflight, 403).await;
        }
        let two = format!("{}Origin: http://{}\r\nOrigin: http://evil\r\n", target.good_headers(), target.address);
        refused(&target, target.ping(&two), 403).await;
        let own = format!("{}Origin: http://{}\r\nConnection: close\r\n", target.good_headers(), target.address);
        assert_eq!(status(&target.answer(target.ping(&own)).await), 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_bent_to_this_machine_is_not_the_servers() {
    besieged(|target| async move {
        let port = target.address.port();
        let hosts = [
            format!("rebound.example.com:{port}"),
            "127.0.0.1".to_owned(),
            "localhost".to_owned(),
            format!("127.0.0.1:{}", port ^ 1),
            format!("127.1:{port}"),
            format!("0.0.0.0:{port}"),
            format!("[::1]:{port}"),
            format!("127.0.0.1.nip.io:{port}"),
            String::new(),
        ];
        for host in hosts {
            let headers = target.good_headers().replace(&target.address.to_string(), &host);
            refused(&target, target.ping(&headers), 403).await;
        }
        let both = format!("{}Host: evil\r\n", target.good_headers());
        refused(&target, target.ping(&both), 403).await;
        // The line of the request names another host than the header.
        let absolute = target.ping(&target.good_headers()).replace("POST /mcp", "POST http://evil/mcp");
        refused(&target, absolute, 403).await;
        let localhost = target.good_headers().replace("127.0.0.1", "localhost") + "Connection: close\r\n";
        assert_eq!(status(&target.answer(target.ping(&localhost)).await), 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_http_1_0_without_a_host_is_turned_away() {
    besieged(|target| async move {
        let old = target.ping(&target.good_headers()).replace("HTTP/1.1", "HTTP/1.0");
        let host = format!("Host: {}\r\n", target.address);
        refused(&target, old.replace(&host, ""), 403).await;
        refused(&target, "GET /mcp HTTP/1.0\r\n\r\n", 403).await;
    })
    .await;
}

#[tokio::test]
async fn a_token_is_of_no_use_after_the_turn() {
    let deeds = Arc::new(Deeds::default());
    let whole = session(&deeds);
    let turn = whole.for_turn(None);
    let mut server = McpServer::open(turn.share()).await.unwrap();
    let address: SocketAddr = server.url().replace("http://", "").replace("/mcp", "").parse().unwrap();
    let target = Target { address, session: turn.share() };
    let ping = target.ping(&format!("{}Connection: close\r\n", target.good_headers()));
    assert_eq!(status(&beside(&mut server, target.answer(&ping)).await), 200);
    // The caller's own token was never this server's.
    let callers = ping.replace(target.token(), whole.token().expose());
    assert_eq!(status(&beside(&mut server, target.answer(callers)).await), 401);
    drop(turn);
    beside(&mut server, refused(&target, &ping, 401)).await;
    drop(server);
    until_refused(address).await;
    assert_eq!(deeds.called(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_requests_at_once_are_turned_away() {
    if !child_test::runs_alone(ten_thousand_requests_at_once_are_turned_away) {
        return;
    }
    const REQUESTS: usize = 10_000;
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    let _ = setrlimit(Resource::Nofile, files);
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Where a process may not have so many connections, as many as it may.
    let at_once = REQUESTS.min(usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(600));
    assert!(at_once > 300, "this process may open {files} files");
    besieged(move |target| async move {
        let request = Arc::new(target.ping(&target.good_headers().replace(target.token(), "guess")));
        let room = Arc::new(Semaphore::new(at_once));
        let attacks = (0..REQUESTS).map(|_| {
            let (target, request, room) = (target.clone(), Arc::clone(&request), Arc::clone(&room));
            tokio::spawn(async move {
                let _room = room.acquire().await.unwrap();
                let connecting = TcpStream::connect(target.address);
                let Ok(Ok(mut stream)) = tokio::time::timeout(PATIENCE, connecting).await else {
                    return 0;
                };
                let _ = stream.write_all(request.as_bytes()).await;
                let answer = read_all(&mut stream).await;
                target.assert_tells_nothing(&answer);
                status(&answer)
            })
        });
        let answers = tokio::time::timeout(Duration::from_secs(300), join_all(attacks)).await;
        let answers: Vec<_> = answers.expect("in time").into_iter().map(Result::unwrap).collect();
        assert!(answers.iter().all(|status| matches!(status, 0 | 401)), "something was served");
        let refused = answers.iter().filter(|status| **status == 401).count();
        println!("{at_once} at once: {refused} refused in words, {} without", REQUESTS - refused);
        assert!(refused > 100, "{refused} were answered");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_requests_with_the_token_do_not_keep_others_out() {
    besieged(|target| async move {
        // They come by few connections, one behind the other: whoever has the token may ask.
        let request = target.ping(&target.good_headers()).repeat(500);
        let attacks = (0..20).map(|_| {
            let (target, request) = (target.clone(), request.clone());
            tokio::spawn(async move {
                let (mut reader, mut writer) = target.connect().await.into_split();
                let reading = tokio::spawn(async move {
                    let mut answers = Vec::new();
                    let mut buffer = [0; 65536];
                    while answers.windows(8).filter(|window| window == b"HTTP/1.1").count() < 500 {
                        match reader.read(&mut buffer).await {
                            Ok(count @ 1..) => answers.extend_from_slice(&buffer[..count]),
                            _ => break,
                        }
                    }
                    answers
                });
                writer.write_all(request.as_bytes()).await.unwrap();
                let answers = String::from_utf8(reading.await.unwrap()).unwrap();
                assert_eq!(answers.matches("HTTP/1.1 200").count(), 500);
            })
        });
        let all = tokio::time::timeout(Duration::from_secs(300), join_all(attacks)).await;
        all.expect("in time").into_iter().for_each(Result::unwrap);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_100_megabytes_is_not_read() {
    besieged(|target| async move {
        let stranger = target.good_headers().replace(target.token(), "guess");
        for (headers, with) in [(target.good_headers(), 413), (stranger, 401)] {
            let head = format!("POST /mcp HTTP/1.1\r\n{headers}Content-Length: 100000000\r\n\r\n");
            let (answer, written) = pour(&target, &head, b"", 100_000_000).await;
            assert!(matches!(status(&answer), 0) || status(&answer) == with, "{answer}");
            assert!(written < 50_000_000, "{written} bytes were taken");
        }
        // One that waits to be asked for it is not.
        let waits = target.good_headers() + "Content-Length: 100000000\r\nExpect: 100-continue\r\n";
        refused(&target, format!("POST /mcp HTTP/1.1\r\n{waits}\r\n"), 413).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_a_length_is_read_to_the_bound_and_no_further() {
    besieged(|target| async move {
        let head =
            format!("POST /mcp HTTP/1.1\r\n{}Transfer-Encoding: chunked\r\n\r\n", target.good_headers());
        let (answer, written) = pour(&target, &head, b"10000\r\n", 100_000_000).await;
        assert!(matches!(status(&answer), 0 | 413), "{answer}");
        assert!(written < 60_000_000, "{written} bytes were taken");
    })
    .await;
}

/// Writes a head and then a body that has no end, until nobody takes it. What was answered, and how much was taken.
async fn pour(target: &Target, head: &str, chunk_head: &[u8], most: usize) -> (String, usize) {
    let (mut reader, mut writer) = target.connect().await.into_split();
    let answer = tokio::spawn(async move {
        let mut answer = Vec::new();
        let _ = reader.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    });
    let _ = writer.write_all(head.as_bytes()).await;
    let mut chunk = chunk_head.to_vec();
    chunk.extend(std::iter::repeat_n(b' ', 0x10000));
    if !chunk_head.is_empty() {
        chunk.extend(b"\r\n");
    }
    let mut written = 0;
    while written < most {
        match tokio::time::timeout(Duration::from_secs(2), writer.write_all(&chunk)).await {
            Ok(Ok(())) => written += chunk.len(),
            _ => break,
        }
    }
    drop(writer);
    (answer.await.unwrap(), written)
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_connections_hold_up_nobody_and_are_closed() {
    besieged(|target| async move {
        let began = Instant::now();
        // More than there is room for, so that the oldest go early.
        let mut held = Vec::new();
        for number in 0..300 {
            let mut stream = target.connect().await;
            if number % 2 == 0 {
                let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").await;
            }
            held.push(stream);
        }
        let answers = join_all(held.iter_mut().map(read_all)).await;
        let took = began.elapsed();
        assert!(answers.iter().all(String::is_empty), "something was served");
        assert!(STRANGERS_TIME.contains(&took.as_secs()), "the last was closed after {took:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_comes_byte_by_byte_has_its_time_and_no_more() {
    besieged(|target| async move {
        // Byte by byte it would take longer than a minute.
        let padding = format!("{}X-Long: {}\r\n", target.good_headers(), "x".repeat(400));
        let request = target.ping(&padding);
        assert!(request.len() > 600, "{}", request.len());
        let began = Instant::now();
        let drips = (0..30).map(|_| {
            let (target, request) = (target.clone(), request.clone());
            tokio::spawn(async move {
                let mut stream = target.connect().await;
                for byte in request.as_bytes() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    if stream.write_all(&[*byte]).await.is_err() {
                        return read(&mut stream).await;
                    }
                }
                "it was taken to its end".to_owned()
            })
        });
        for answer in join_all(drips).await {
            assert_eq!(answer.unwrap(), "", "something was served");
        }
        assert!(STRANGERS_TIME.contains(&began.elapsed().as_secs()), "it took {:?}", began.elapsed());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_without_end_is_not_kept() {
    besieged(|target| async move {
        let good = target.good_headers();
        let long = format!("{good}X-Long: {}\r\n", "x".repeat(1_000_000));
        let many = format!("{good}{}", "X-Many: 1\r\n".repeat(10_000));
        let path = target.ping(&good).replace("/mcp", &format!("/{}", "x".repeat(1_000_000)));
        for request in [target.ping(&long), target.ping(&many), path] {
            let answer = target.exchange(&request).await;
            assert!(matches!(status(&answer), 0 | 400 | 414 | 431), "{answer}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_behind_a_request_ends_the_connection() {
    besieged(|target| async move {
        let garbage = "\x01\x02 no HTTP at all \r\n\r\n";
        let answer = target.answer(target.ping(&target.good_headers()) + garbage).await;
        assert_eq!(status(&answer), 200);
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
        // What is smuggled behind a request that is turned away is not looked at.
        let refused = target.ping(&target.good_headers().replace(target.token(), "guess"));
        let smuggled = target.ping(&target.good_headers());
        let answer = target.answer(refused + &smuggled).await;
        assert_eq!((status(&answer), answer.matches("HTTP/1.1").count()), (401, 1), "{answer}");
        // Two lengths are none.
        let two = target.ping(&(target.good_headers() + "Content-Length: 3\r\n"));
        assert_eq!(status(&target.answer(two).await), 400);
        let both = target.ping(&(target.good_headers() + "Transfer-Encoding: chunked\r\n"));
        assert!(matches!(status(&target.exchange(both).await), 0 | 400));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_connection_becomes_another_protocols() {
    besieged(|target| async move {
        let upgrades = [
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
        ];
        for upgrade in upgrades {
            let stranger = target.good_headers().replace(target.token(), "guess");
            refused(&target, target.ping(&format!("{stranger}{upgrade}")), 401).await;
            let get = format!("GET /mcp HTTP/1.1\r\n{}{upgrade}\r\n", target.good_headers());
            assert_eq!(status(&target.answer(get).await), 405);
        }
        let connect = format!("CONNECT example.com:443 HTTP/1.1\r\n{}\r\n", target.good_headers());
        refused(&target, connect, 403).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_path_and_two_methods_are_served() {
    besieged(|target| async move {
        let close = target.good_headers() + "Connection: close\r\n";
        for path in ["/", "/mcp/", "/MCP", "/mcp?", "/sse", "/messages", "//mcp", "/%6dcp", "/mcp/../mcp"] {
            refused(&target, post(path, &close, ADD), 404).await;
        }
        for method in ["GET", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW"] {
            let request = format!("{method} /mcp HTTP/1.1\r\n{close}\r\n");
            refused(&target, request, 405).await;
        }
        for (header, with) in [("Accept", 406), ("Content-Type", 415)] {
            let without: String =
                close.split_inclusive("\r\n").filter(|line| !line.starts_with(header)).collect();
            refused(&target, target.ping(&without), with).await;
            refused(&target, target.ping(&format!("{without}{header}: text/html\r\n")), with).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_hangs_on_an_mcp_session() {
    besieged(|target| async move {
        let list = serde_json::from_str(LIST).unwrap();
        for named in ["x", "00000000-0000-4000-8000-000000000000", ""] {
            let session = format!("Mcp-Session-Id: {named}\r\n");
            let answer = target.say(&list, &session).await;
            assert!(status(&answer) == 200 && answer.contains("inputSchema"), "{answer}");
            let end = format!("DELETE /mcp HTTP/1.1\r\n{}{session}\r\n", target.good_headers());
            assert_eq!(status(&target.answer(end).await), 204);
        }
        let unknown = target.good_headers() + "MCP-Protocol-Version: 1999-01-01\r\n";
        assert_eq!(status(&target.answer(target.ping(&unknown)).await), 400);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_is_answered_with_an_error_of_json_rpc() {
    besieged(|target| async move {
        let close = target.good_headers() + "Connection: close\r\n";
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let bodies = [
            ("", -32700),
            ("{", -32700),
            ("\u{0}", -32700),
            (deep.as_str(), -32700),
            ("1", -32600),
            ("[]", -32600),
            ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600),
            ("{}", -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
        ];
        for (body, code) in bodies {
            let answer = target.answer(post("/mcp", &close, body)).await;
            assert_eq!(status(&answer), 400, "{answer}");
            assert!(answer.contains(&format!("\"code\":{code}")), "{answer}");
        }
        for method in ["resources/list", "prompts/list", "tools/CALL", ""] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":"x","method":"{method}"}}"#);
            let answer = target.answer(post("/mcp", &close, &body)).await;
            assert!(status(&answer) == 200 && answer.contains("\"code\":-32601"), "{answer}");
        }
    })
    .await;
}

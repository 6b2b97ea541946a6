//! Answers that are odd, hostile or cut.

use std::{
    io::Write as _,
    sync::{Mutex, mpsc},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use nexus_auth::http::HttpProblem;

use super::stage::{BOUND, Server, asked, close, head_of, read_request, request, whole};

const TEN: &str = "content-length: 10\r\n\r\n0123456789";

#[tokio::test]
async fn what_is_said_before_the_answer_is_passed_over() {
    let answer = format!(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n{TEN}"
    );
    let server = Server::keeping(answer);
    let client = server.client();
    for _ in 0..2 {
        assert_eq!(asked(&client, &server.uri()).await.unwrap(), (200, b"0123456789".to_vec()));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn interim_answers_without_end_do_not_keep_the_thread() {
    let server = Server::start(|mut stream, _| {
        read_request(&mut stream);
        let hints = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1_000);
        while stream.write_all(hints.as_bytes()).is_ok() {}
    });
    let (client, uri) = (server.client(), server.uri());
    let asked = client.send(request(&uri, "{}"));
    let late = tokio::time::timeout(Duration::from_millis(500), asked).await;
    assert!(late.is_err(), "{late:?}");
}

#[tokio::test]
async fn a_head_has_32_kib_and_500_headers_at_most() {
    let padded = |bytes: usize, count: usize| {
        let lines: String = (0..count).map(|n| format!("x-{n}: 1\r\n")).collect();
        Server::closing(format!("HTTP/1.1 200 OK\r\nx: {}\r\n{lines}{TEN}", "x".repeat(bytes)))
    };
    for (bytes, count, is_taken) in
        [(31 << 10, 1, true), (48 << 10, 1, false), (1, 490, true), (1, 510, false)]
    {
        let server = padded(bytes, count);
        let outcome = asked(&server.client(), &server.uri()).await;
        match is_taken {
            true => assert_eq!(outcome.unwrap().0, 200, "{bytes} {count}"),
            false => assert_eq!(outcome.unwrap_err(), HttpProblem::TooLargeHead, "{bytes} {count}"),
        }
    }
}

#[tokio::test]
async fn an_old_server_is_understood() {
    let server = Server::closing("HTTP/1.0 200 OK\r\n\r\nold");
    let client = server.client();
    for _ in 0..2 {
        assert_eq!(asked(&client, &server.uri()).await.unwrap(), (200, b"old".to_vec()));
    }
    assert_eq!(server.connections(), 2);
    let kept = Server::keeping(format!("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n{TEN}"));
    let client = kept.client();
    for _ in 0..2 {
        asked(&client, &kept.uri()).await.unwrap();
    }
    assert_eq!(kept.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_is_to_be_closed_is_not_kept() {
    let server = Server::keeping(format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{TEN}"));
    let client = server.client();
    for _ in 0..3 {
        asked(&client, &server.uri()).await.unwrap();
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn what_comes_behind_an_answer_is_the_answer_to_nothing() {
    for garbage in ["garbage", "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", "\r\n"] {
        // With the answer, and when the client has the answer.
        for is_late in [false, true] {
            let (go_on, may_go_on) = mpsc::channel();
            let (done, is_done) = mpsc::channel();
            let talk = Mutex::new((may_go_on, done));
            let server = Server::start(move |mut stream, _| {
                while read_request(&mut stream).is_some() {
                    let answer = format!("HTTP/1.1 200 OK\r\n{TEN}");
                    if is_late {
                        let _ = stream.write_all(answer.as_bytes());
                        let talk = talk.lock().unwrap();
                        talk.0.recv_timeout(BOUND).unwrap();
                        let _ = stream.write_all(garbage.as_bytes());
                        talk.1.send(()).unwrap();
                    } else {
                        let _ = stream.write_all(format!("{answer}{garbage}").as_bytes());
                    }
                }
            });
            let client = server.client();
            for _ in 0..3 {
                let answer = asked(&client, &server.uri()).await.unwrap();
                assert_eq!(answer, (200, b"0123456789".to_vec()), "{garbage:?} {is_late}");
                if is_late {
                    go_on.send(()).unwrap();
                    is_done.recv_timeout(BOUND).unwrap();
                }
                // It is there by now: the first time the runtime notices, the second time the connection does.
                for _ in 0..2 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn trailers_are_passed_over_and_the_connection_is_kept() {
    let answer =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n3\r\nabc\r\n0\r\nx: y\r\n\r\n";
    let server = Server::keeping(answer);
    let client = server.client();
    for _ in 0..2 {
        assert_eq!(asked(&client, &server.uri()).await.unwrap(), (200, b"abc".to_vec()));
    }
    assert_eq!(server.connections(), 1);
    let much = Server::closing(format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: {}\r\n\r\n",
        "y".repeat(1 << 20)
    ));
    assert!(asked(&much.client(), &much.uri()).await.is_err());
}

#[tokio::test]
async fn lengths_that_contradict_each_other_are_refused() {
    for head in [
        "content-length: 3\r\ncontent-length: 5\r\n\r\nabcde",
        "content-length: -1\r\n\r\n",
        "content-length: 99999999999999999999\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc",
        "transfer-encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
    ] {
        let server = Server::closing(format!("HTTP/1.1 200 OK\r\n{head}"));
        asked(&server.client(), &server.uri()).await.unwrap_err();
    }
}

#[tokio::test]
async fn an_answer_before_the_request_is_read_is_an_answer() {
    let body = vec![b'x'; 16 << 20];
    for is_closed in [false, true] {
        let server = Server::start(move |mut stream, _| {
            let mut some = [0; 1024];
            let _ = std::io::Read::read(&mut stream, &mut some);
            let _ = write!(stream, "HTTP/1.1 413 Too Large\r\nconnection: close\r\n{TEN}");
            match is_closed {
                true => close(&mut stream),
                false => std::thread::sleep(BOUND),
            }
        });
        let answer = head_of(&server.client(), request(&server.uri(), body.clone())).await.unwrap();
        assert_eq!(answer.status(), 413, "{is_closed}");
        assert_eq!(whole(answer.into_body()).await, (b"0123456789".to_vec(), Ok(())), "{is_closed}");
    }
}

#[tokio::test]
async fn a_half_closed_server_has_said_what_it_said() {
    // It ends its side of the connection, and goes on listening.
    for (answer, outcome) in [
        (format!("HTTP/1.1 200 OK\r\n{TEN}"), Ok((200, b"0123456789".to_vec()))),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n0123456789".to_owned(),
            Err(HttpProblem::LostInAnswer),
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n".to_owned(),
            Err(HttpProblem::LostInAnswer),
        ),
        ("HTTP/1.1 200 OK\r\ncontent-le".to_owned(), Err(HttpProblem::LostBeforeAnswer)),
        (String::new(), Err(HttpProblem::LostBeforeAnswer)),
    ] {
        let said = answer.clone();
        let server = Server::start(move |mut stream, _| {
            read_request(&mut stream);
            let _ = stream.write_all(said.as_bytes());
            let _ = stream.shutdown(std::net::Shutdown::Write);
            std::thread::sleep(BOUND);
        });
        assert_eq!(asked(&server.client(), &server.uri()).await, outcome, "{answer:?}");
    }
}

#[tokio::test]
async fn gzip_is_undone_whatever_its_name_looks_like_and_only_whole() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(b"abc").unwrap();
    let packed = packed.finish().unwrap();
    let said = |encoding: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\n");
        [head.as_bytes(), format!("content-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
    };
    for encoding in ["gzip", "GZIP", "x-gzip"] {
        let server = Server::keeping(said(encoding, &packed));
        let client = server.client();
        for _ in 0..2 {
            assert_eq!(asked(&client, &server.uri()).await.unwrap(), (200, b"abc".to_vec()), "{encoding}");
        }
        assert_eq!(server.connections(), 1);
    }
    let bomb = {
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        bomb.write_all(&vec![0; 64 << 20]).unwrap();
        bomb.finish().unwrap()
    };
    let server = Server::closing(said("gzip", &bomb));
    let answer = head_of(&server.client(), request(&server.uri(), "{}")).await.unwrap();
    let mut body = answer.into_body();
    let (mut total, mut largest) = (0, 0);
    while let Some(piece) = std::future::poll_fn(|context| body.poll_chunk(context)).await {
        let piece = piece.unwrap().len();
        (total, largest) = (total + piece, largest.max(piece));
    }
    assert_eq!(total, 64 << 20);
    assert!(largest <= 128 << 10, "{largest}");
    let mut more = packed.clone();
    more.extend_from_slice(b"more");
    for body in [&packed[..packed.len() - 1], &packed[..12], b"abc", &more] {
        let server = Server::closing(said("gzip", body));
        assert_eq!(asked(&server.client(), &server.uri()).await, Err(HttpProblem::Undecodable), "{body:?}");
    }
}

#[tokio::test]
async fn a_change_of_protocol_is_no_success() {
    let server =
        Server::closing("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nabc");
    let client = server.client();
    for _ in 0..2 {
        let answer = head_of(&client, request(&server.uri(), "{}")).await.unwrap();
        assert_eq!(answer.status(), 101);
        whole(answer.into_body()).await.1.unwrap();
    }
    assert_eq!(server.connections(), 2);
}

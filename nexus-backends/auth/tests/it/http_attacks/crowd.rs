//! Many at once, and requests that are dropped anywhere.

use std::{
    future::Future,
    io::Write as _,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use super::stage::{Server, head_of, read_request, request, whole};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_hundreds_that_are_dropped_or_not_no_descriptor_stays() {
    let server = Server::start(|mut stream, _| {
        while read_request(&mut stream).is_some() {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(10));
                let _ = stream.write_all(b"3\r\nabc\r\n");
            }
            let _ = stream.write_all(b"0\r\n\r\n");
        }
    });
    let client = Arc::new(server.client());
    let turns: Vec<_> = (0..300)
        .map(|number| {
            let (client, uri) = (Arc::clone(&client), server.uri());
            tokio::spawn(async move {
                let turn = async {
                    let answer = head_of(&client, request(&uri, "{}")).await.unwrap();
                    whole(answer.into_body()).await
                };
                match number % 2 {
                    0 => Some(turn.await),
                    _ => tokio::time::timeout(Duration::from_millis(number), turn).await.ok(),
                }
            })
        })
        .collect();
    let mut whole = 0;
    for turn in turns {
        if let Some((bytes, end)) = turn.await.unwrap() {
            assert_eq!((bytes, end), (b"abc".repeat(10), Ok(())));
            whole += 1;
        }
    }
    assert!(whole >= 150, "{whole}");
    drop(client);
    server.is_left().await;
}

#[tokio::test]
async fn a_request_may_be_dropped_at_each_of_its_steps() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = Server::start(move |mut stream, _| {
        while read_request(&mut stream).is_some() {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let answer =
                format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{number:08}\r\n0\r\n\r\n");
            // In pieces, so that there are many steps.
            for piece in answer.as_bytes().chunks(7) {
                if stream.write_all(piece).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let (client, uri) = (server.client(), server.uri());
    for steps in 1..60 {
        let turn = async {
            let answer = head_of(&client, request(&uri, "{}")).await.unwrap();
            whole(answer.into_body()).await
        };
        let mut turn = pin!(turn);
        let mut left = steps;
        let end = std::future::poll_fn(|context: &mut Context<'_>| {
            left -= 1;
            match turn.as_mut().poll(context) {
                Poll::Ready(end) => Poll::Ready(Some(end)),
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        if let Some((bytes, end)) = end.await {
            // An answer to another request would have another number.
            assert_eq!(end, Ok(()));
            let number: usize = std::str::from_utf8(&bytes).unwrap().parse().unwrap();
            assert!(number < asked.load(Ordering::SeqCst));
        }
    }
    drop(client);
    server.is_left().await;
}

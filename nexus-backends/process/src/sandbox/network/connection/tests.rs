use tokio::io::duplex;
use tokio::net::TcpListener;

use super::super::client_hello::tests::hello;
use super::super::hosts::AllowedHosts;
use super::super::server_answer::tests::retry_request;
use super::*;

fn target() -> RelayTarget {
    RelayTarget { host: TargetHost::Name("pages.test".to_owned()), port: 443 }
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (one, other) = tokio::join!(TcpStream::connect(address), listener.accept());
    (one.unwrap(), other.unwrap().0)
}

/// Passes a client's first message, the server's answer, and the bytes that the client sends afterwards. Returns the bytes that reach
/// the server, and the refusal.
async fn exchange(answer: &[u8], after: &[u8]) -> (Vec<u8>, Option<RefusedConnection>) {
    let network = Arc::new(SandboxNetwork::new(AllowedHosts::parse(["pages.test"]).unwrap()));
    let ((mut client, inside), (outside, mut server)) = (pair().await, pair().await);
    let relay = async {
        let mut relayed = RelayedConnection::new(inside, Arc::clone(&network));
        let passed = relayed.pass(outside, &target(), &mut Vec::new()).await;
        match passed {
            Err(RelayFailure::Refused(refused)) => Some(refused),
            _ => None,
        }
    };
    let others = async {
        let mut first = vec![0; hello("pages.test").len()];
        // The first message and the bytes after it arrive at once.
        client.write_all(&[hello("pages.test"), after.to_owned()].concat()).await.unwrap();
        client.shutdown().await.unwrap();
        server.read_exact(&mut first).await.unwrap();
        // No byte after the first message is passed before the answer.
        let early = timeout(Duration::from_millis(50), server.read_u8()).await;
        assert!(early.is_err(), "{early:?}");
        server.write_all(answer).await.unwrap();
        server.shutdown().await.unwrap();
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        rest
    };
    let (refused, rest) = tokio::join!(relay, others);
    (rest, refused)
}

#[tokio::test]
async fn a_second_handshake_message_cannot_name_another_server() {
    let (rest, refused) = exchange(&retry_request(), &hello("evil.test")).await;
    assert_eq!((rest.len(), refused.unwrap().host.as_str()), (0, "evil.test"));
    let (rest, refused) = exchange(&retry_request(), &hello("pages.test")).await;
    assert_eq!((rest, refused), (hello("pages.test"), None));
    // A server that asks for no second message reads none.
    let usual = [&[22, 3, 3, 0, 44, 2, 0, 0, 40, 3, 3][..], &[7; 38]].concat();
    assert_eq!(exchange(&usual, b"\x17\x03\x03").await, (b"\x17\x03\x03".to_vec(), None));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_is_dropped() {
    let (mut relay, _client) = duplex(64);
    let start = Instant::now();
    let failed = judged(&mut relay, &mut Vec::new(), |bytes| judge(&target(), bytes)).await;
    assert!(matches!(failed, Err(JudgementFailure::Idle)));
    assert_eq!(start.elapsed(), IDLE_TIME);
}

#[tokio::test]
async fn the_number_of_pieces_of_a_head_is_bounded() {
    let (mut relay, mut client) = duplex(1);
    let sends = async {
        let mut sent = 0;
        while client.write_all(b"x").await.is_ok() {
            sent += 1;
        }
        sent
    };
    let judges = async {
        let mut seen = Vec::new();
        let failed = judged(&mut relay, &mut seen, |bytes| judge(&target(), bytes)).await;
        assert!(matches!(failed, Err(JudgementFailure::Refused(GateDecision::NoServer))));
        drop(relay);
        seen.len()
    };
    let (_, seen) = tokio::join!(sends, judges);
    assert_eq!(seen, MAX_PIECES);
}

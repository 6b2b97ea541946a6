//! Whom a server over TLS is believed to be.

use std::net::TcpListener;

use nexus_testkit::sim::{Dialect, Scenario, Sim};
use tempfile::NamedTempFile;

use super::*;

fn sim(host: &str) -> Sim {
    Sim::builder(Dialect::Responses, Scenario::text("Hello.")).tls(host).start().unwrap()
}

fn written(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// A file with an authority that signed nothing which is used.
pub(super) fn authority() -> NamedTempFile {
    written(sim("localhost").ca_pem().unwrap())
}

fn trusting(base_url: &str, authority: &NamedTempFile) -> Transport {
    connecting_within(60, base_url, authority)
}

fn connecting_within(seconds: u64, base_url: &str, authority: &NamedTempFile) -> Transport {
    transport(
        base_url,
        json!({ "connect_timeout_seconds": seconds, "network": { "ca_file": authority.path() } }),
    )
}

fn is_final(failure: &Failure, words: &str) {
    assert_eq!((failure.kind, failure.retry), (ErrorKind::Transport, Retry::Never), "{failure:?}");
    let message = failure.message.as_deref().unwrap();
    assert!(message.contains(words), "{message}");
}

#[tokio::test]
async fn a_server_of_a_named_authority_is_believed() {
    let sim = sim("localhost");
    let ca = written(sim.ca_pem().unwrap());
    let ServerAnswer::Stream { body, .. } = post(&trusting(&sim.base_url(), &ca)).await.unwrap() else {
        panic!("no stream")
    };
    let (bytes, end) = read(body).await;
    end.unwrap();
    assert!(String::from_utf8(bytes).unwrap().contains("Hello."));
    assert!(rustls::crypto::CryptoProvider::get_default().is_none(), "nothing is installed for the process");
}

#[tokio::test]
async fn a_server_of_an_unknown_authority_is_refused() {
    let sim = sim("localhost");
    is_final(&post(&trusting(&sim.base_url(), &authority())).await.unwrap_err(), "unknown authority");
    // Where the platform has no authorities at all, the same setting is named.
    is_final(&post(&transport(&sim.base_url(), json!({}))).await.unwrap_err(), "network.ca_file");
    assert!(sim.requests().is_empty());
}

#[tokio::test]
async fn a_server_under_another_name_is_refused() {
    let sim = sim("localhost");
    let ca = written(sim.ca_pem().unwrap());
    let by_address = format!("https://{}/v1", sim.address());
    is_final(&post(&trusting(&by_address, &ca)).await.unwrap_err(), "another name");
}

#[tokio::test]
async fn a_server_without_tls_is_named_as_that() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    let failure = post(&trusting(&format!("https://{address}/v1"), &authority())).await.unwrap_err();
    is_final(&failure, "does not use TLS");
}

#[tokio::test]
async fn a_connection_that_is_not_made_in_time_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("https://{}/v1", listener.local_addr().unwrap());
    let started = Instant::now();
    let transport = connecting_within(2, &base_url, &authority());
    is_transient(&post(&transport).await.unwrap_err(), "connect_timeout_seconds");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_file_without_an_authority_names_the_setting() {
    let context = BuildContext::in_home("/home").with_base_directory("/base");
    for file in [written(""), written("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")] {
        let Value::Object(settings) =
            json!({ "base_url": "https://a.test", "network": { "ca_file": file.path() } })
        else {
            panic!("settings are an object")
        };
        let settings = NativeSettings::read(&settings, &context).unwrap();
        assert_eq!(Transport::new(&settings, &context).unwrap_err().path, ["network", "ca_file"]);
    }
    let settings = serde_json::from_value::<serde_json::Map<_, _>>(
        json!({ "base_url": "https://a.test", "network": { "ca_file": "absent.pem" } }),
    );
    let settings = NativeSettings::read(&settings.unwrap(), &context).unwrap();
    let error = Transport::new(&settings, &context).unwrap_err();
    assert!(error.reason.contains("/base/absent.pem"), "{error}");
}

//! Hosts that a program in a sandbox reaches, and tries to reach others.

mod abuse;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nexus_process::sandbox::{
    AllowedHosts, RefusalReason, Sandbox, SandboxError, SandboxNetwork, SandboxOutcome, open_network,
};
use nexus_testkit::child_test;

use super::support::{has_sandbox, ran, refused, sandbox, shell};

/// Names the folder of a run to the test that opens its network.
const FOLDER: &str = "NEXUS_TEST_OPENS_NETWORK";

/// The opener of this test program's networks.
#[test]
fn a_network_is_opened() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        open_network(Path::new(&folder)).unwrap();
    }
}

/// A network that this test program opens.
struct OpenedNetwork {
    network: SandboxNetwork,
    _folder: tempfile::TempDir,
}

impl OpenedNetwork {
    fn new(entries: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let opener = folder.path().join("opener");
        child_test::install(&opener, a_network_is_opened, FOLDER);
        let network = SandboxNetwork::new(AllowedHosts::parse(entries.iter().copied()).unwrap());
        Self { network: network.opened_by(opener, "open"), _folder: folder }
    }

    /// Resolves a name to this machine.
    fn here(mut self, name: &str) -> Self {
        self.network = self.network.resolve(name, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        self
    }

    fn sandbox(&self) -> Sandbox {
        sandbox().network(self.network.clone())
    }

    async fn run(&self, script: &str) -> SandboxOutcome {
        ran(&self.sandbox(), bash(script)).await
    }

    async fn said(&self, script: &str) -> String {
        let outcome = self.run(script).await;
        assert!(outcome.is_success(), "{outcome:?}\n{}\n{}", outcome.stdout.text(), outcome.stderr.text());
        outcome.stdout.text()
    }

    /// Returns the host, the port and the entry of each refusal.
    fn refusals(&self) -> Vec<(String, Option<String>)> {
        let all = self.network.record().refused().into_iter();
        all.map(|one| (format!("{}:{}", one.host, one.port), one.entry)).collect()
    }
}

fn bash(script: &str) -> nexus_process::sandbox::SandboxCommand {
    let script = format!(
        "ask() {{ exec 3<>/dev/tcp/$1/$2 || return; (trap '' PIPE; printf '%b' \"$3\" >&3) 2>/dev/null; timeout 20 cat <&3; exec 3>&-; }}\n{script}"
    );
    nexus_process::sandbox::SandboxCommand::new(["/bin/bash", "-c", &script])
}

/// A server of this machine, which answers each request with the word `canary` and reports the request.
struct CanaryServer {
    port: u16,
    requests: Receiver<String>,
}

impl CanaryServer {
    fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (send, requests) = channel();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let send = send.clone();
                std::thread::spawn(move || serve(stream, &send));
            }
        });
        Self { port, requests }
    }

    fn request(&self) -> String {
        self.requests.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

fn serve(mut stream: TcpStream, send: &Sender<String>) {
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes).unwrap_or(0);
    let _ = send.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
    if count > 0 {
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\ncanary\n");
    }
}

/// Returns the first message of a TLS client, as `printf` reads it.
fn hello(name: &str) -> String {
    let sized = |size_bytes: usize, content: &[u8]| {
        let size = (content.len() as u64).to_be_bytes();
        [&size[8 - size_bytes..], content].concat()
    };
    let names = sized(2, &[&[0][..], &sized(2, name.as_bytes())].concat());
    let extension = [&[0, 0][..], &sized(2, &names)].concat();
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0], &sized(2, &extension)].concat();
    let record = [&[22, 3, 1][..], &sized(2, &[&[1][..], &sized(3, &body)].concat())].concat();
    record.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

fn get(host: &str) -> String {
    format!("GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n")
}

#[tokio::test]
async fn an_allowed_host_is_reached_by_its_name_and_nothing_else_is() {
    if !has_sandbox().await {
        return;
    }
    let (server, other) = (CanaryServer::new(), CanaryServer::new());
    let (port, other_port) = (server.port, other.port);
    let network =
        OpenedNetwork::new(&[&format!("pages.test:{port}"), &format!("127.0.0.1:{port}")]).here("pages.test");
    let text = network.said(&format!("ask pages.test {port} '{}'", get(&format!("pages.test:{port}")))).await;
    assert!(text.contains("canary"), "{text}");
    let request = server.request();
    assert_eq!(request, format!("GET / HTTP/1.1\r\nHost: pages.test:{port}\r\nConnection: close\r\n\r\n"));
    let record = network.network.record();
    assert_eq!((record.connections(), record.sent_bytes()), (1, request.len() as u64));
    assert_eq!(record.received_bytes(), text.len() as u64);
    // Neither another port, nor another address, nor a resolver.
    let tries = format!(
        "for target in pages.test/{other_port} 127.0.0.1/{other_port} localhost/{other_port} 127.0.8.2/{other_port} \
            127.0.8.1/53 127.0.0.53/53 1.1.1.1/443 10.0.0.1/80 169.254.169.254/80 pypi.org/443; do
            (exec 3<>/dev/tcp/$target) 2>/dev/null && echo \"reached $target\"
        done
        (echo x >/dev/udp/1.1.1.1/53) 2>/dev/null && echo 'sent a datagram'
        getent hosts pypi.org; getent hosts pages.test; echo done"
    );
    assert_eq!(network.said(&tries).await, "127.0.8.2       pages.test\ndone\n");
    assert!(other.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_client_that_names_another_server_is_refused() {
    if !has_sandbox().await {
        return;
    }
    let server = CanaryServer::new();
    let port = server.port;
    let network =
        OpenedNetwork::new(&[&format!("pages.test:{port}"), &format!("127.0.0.1:{port}")]).here("pages.test");
    let ask = |bytes: &str| format!("ask pages.test {port} '{bytes}'");
    let text = network.said(&ask(&get("evil.test"))).await;
    assert!(text.starts_with("HTTP/1.1 403") && text.contains("named the server evil.test"), "{text}");
    assert_eq!(network.said(&ask(&hello("evil.test"))).await, "");
    assert_eq!(
        network.said(&ask(&format!("{}{}", hello("pages.test"), "x"))).await.matches("canary").count(),
        1
    );
    assert!(
        server
            .requests
            .iter()
            .take(3)
            .filter(|request| !request.is_empty())
            .all(|request| !request.contains("evil"))
    );
    let evil = (format!("evil.test:{port}"), Some(format!("evil.test:{port}")));
    assert!(network.refusals().contains(&evil), "{:?}", network.refusals());
}

#[tokio::test]
async fn the_proxy_reaches_the_names_below_a_wildcard() {
    if !has_sandbox().await {
        return;
    }
    let server = CanaryServer::new();
    let port = server.port;
    let network = OpenedNetwork::new(&[&format!("*.pages.test:{port}"), &format!("127.0.0.1:{port}")])
        .here("a.pages.test");
    let proxy = "P=${HTTP_PROXY#http://}; [ \"$HTTP_PROXY$no_proxy\" = \"$https_proxy$NO_PROXY\" ] && ask ${P%:*} ${P#*:}";
    let host = format!("a.pages.test:{port}");
    let whole = format!("{proxy} 'GET http://{host}/x HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'");
    assert!(network.said(&whole).await.contains("canary"));
    assert!(server.request().starts_with("GET /x HTTP/1.1\r\n"));
    let tunnel = |name: &str| {
        format!("{proxy} 'CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n{}'", hello(name))
    };
    let text = network.said(&tunnel("a.pages.test")).await;
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("canary"), "{text}");
    let text = network.said(&tunnel("evil.test")).await;
    assert!(text.starts_with("HTTP/1.1 200 ") && !text.contains("canary"), "{text}");
    for (asked, entry) in [
        ("evil.test:443", Some("evil.test")),
        ("pages.test:443", Some("pages.test")),
        ("127.0.0.1:1", Some("127.0.0.1:1")),
        ("[::1]:80", Some("::1")),
        ("localhost:22", Some("localhost:22")),
        ("169.254.169.254:80", Some("169.254.169.254")),
        ("2130706433:80", None),
    ] {
        let text = network.said(&format!("{proxy} 'CONNECT {asked} HTTP/1.1\\r\\n\\r\\n'")).await;
        let status = if entry.is_some() { "HTTP/1.1 403 " } else { "HTTP/1.1 400 " };
        assert!(text.starts_with(status), "{asked}: {text}");
        let entries: Vec<_> = network.refusals().into_iter().filter_map(|(_, entry)| entry).collect();
        assert!(entry.is_none_or(|entry| entries.iter().any(|one| one == entry)), "{asked}: {entries:?}");
    }
}

#[tokio::test]
async fn a_name_does_not_lead_to_a_private_address() {
    if !has_sandbox().await {
        return;
    }
    let server = CanaryServer::new();
    let port = server.port;
    let network = OpenedNetwork::new(&[&format!("pages.test:{port}")]).here("pages.test");
    let text = network.said(&format!("ask pages.test {port} '{}'", get("pages.test"))).await;
    assert!(text.starts_with("HTTP/1.1 403 ") && text.contains("127.0.0.1, which is not public"), "{text}");
    assert!(server.requests.try_recv().is_err());
    assert_eq!(network.refusals(), [(format!("pages.test:{port}"), Some(format!("127.0.0.1:{port}")))]);
    let reason = network.network.record().refused().remove(0).reason;
    assert_eq!(reason, RefusalReason::NotPublic(Ipv4Addr::LOCALHOST.into()));
}

#[tokio::test]
async fn localhost_leads_to_this_machine_at_the_listed_port() {
    if !has_sandbox().await {
        return;
    }
    let server = CanaryServer::new();
    let port = server.port;
    let network = OpenedNetwork::new(&[&format!("localhost:{port}")]);
    for host in ["localhost", "127.0.0.1"] {
        let text = network.said(&format!("ask {host} {port} 'anything'")).await;
        assert!(text.contains("canary"), "{host}: {text}");
    }
    // A server of the sandbox itself is reached as before, at another port.
    let own = "timeout 20 perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1:8099\", ReuseAddr => 1) or die; \
        $c = $s->accept; print $c \"own\\n\"' & sleep 1; exec 3<>/dev/tcp/127.0.0.1/8099; cat <&3";
    if Path::new("/usr/bin/perl").exists() {
        assert_eq!(network.said(own).await, "own\n");
    }
}

#[tokio::test]
async fn low_ports_and_addresses_lead_to_the_relay() {
    if !has_sandbox().await {
        return;
    }
    let mut entries = vec!["pages.test", "192.0.2.7:81"];
    // Some machines have no IPv6.
    if Path::new("/proc/net/if_inet6").exists() {
        entries.push("[2001:db8::7]:82");
    }
    let network = OpenedNetwork::new(&entries).here("pages.test");
    let script = "for target in pages.test/80 pages.test/443 192.0.2.7/81; do (exec 3<>/dev/tcp/$target) && echo $target; done; \
        (exec 3<>/dev/tcp/192.0.2.7/80) 2>/dev/null || echo refused";
    assert_eq!(network.said(script).await, "pages.test/80\npages.test/443\n192.0.2.7/81\nrefused\n");
}

#[tokio::test]
async fn a_network_gives_no_rights() {
    if !has_sandbox().await {
        return;
    }
    let network = OpenedNetwork::new(&["pages.test"]);
    let script = "id -u; id -g; grep -c '^Cap.*0000000000000000$' /proc/self/status; ip link set lo down 2>/dev/null && echo 'changed lo'; \
        ip addr add 10.9.9.9/32 dev lo 2>/dev/null && echo 'added an address'; unshare --user true 2>/dev/null && echo 'a namespace'; \
        find /tmp /run -mindepth 1; cat /proc/net/unix | wc -l; touch \"$HOME/x\" && stat -c %u \"$HOME/x\"";
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    assert_eq!(network.said(script).await, format!("{user}\n{group}\n5\n1\n{user}\n"));
    assert!(std::net::TcpStream::connect("127.0.8.1:3128").is_err(), "nothing listens outside");
}

#[tokio::test]
async fn nothing_of_the_network_outlives_the_run() {
    if !has_sandbox().await {
        return;
    }
    let server = CanaryServer::new();
    let port = server.port;
    let network = OpenedNetwork::new(&[&format!("localhost:{port}")]);
    // The connection is open when the program ends.
    let script = format!("exec 3<>/dev/tcp/localhost/{port}; sleep 0.3; echo up");
    assert_eq!(network.said(&script).await, "up\n");
    assert_eq!(server.request(), "", "the server sees the end of the connection");
    let mut run = network.sandbox().start(bash(&format!("{script}; sleep 60"))).await.unwrap();
    while !run.output()[0].text().contains("up") {
        assert!(tokio::time::timeout(Duration::from_millis(10), run.wait()).await.is_err());
    }
    drop(run);
    // The caller's runtime does not run in between.
    assert_eq!(server.request(), "");
    let is_relay = |thread: std::fs::DirEntry| {
        std::fs::read(thread.path().join("comm")).is_ok_and(|name| name == b"sandbox-relay\n")
    };
    let relays =
        || std::fs::read_dir("/proc/self/task").unwrap().flatten().map(is_relay).filter(|is| *is).count();
    // Other tests of this program have relays, too.
    for _ in 0..6000 {
        if relays() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} relays are left", relays());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_at_once_have_each_its_own_hosts() {
    if !has_sandbox().await {
        return;
    }
    let (one, two) = (CanaryServer::new(), CanaryServer::new());
    let run = |own: u16, other: u16| async move {
        let network = OpenedNetwork::new(&[&format!("localhost:{own}")]);
        let script = format!(
            "ask localhost {own} x; sleep 0.5; (exec 3<>/dev/tcp/localhost/{other}) 2>/dev/null || echo refused"
        );
        network.said(&script).await
    };
    let (first, second) = tokio::join!(run(one.port, two.port), run(two.port, one.port));
    for text in [first, second] {
        assert!(text.contains("canary") && text.ends_with("refused\n"), "{text}");
    }
}

#[tokio::test]
async fn a_network_that_cannot_be_opened_is_an_error() {
    if !has_sandbox().await {
        return;
    }
    let hosts = AllowedHosts::parse(["pages.test"]).unwrap();
    let without = sandbox().network(SandboxNetwork::new(hosts.clone()));
    let error = refused(&without, shell(":")).await;
    assert!(matches!(error, SandboxError::NoNetworkOpener), "{error:?}");
    for program in ["/bin/false", "/nowhere/opener"] {
        let network = SandboxNetwork::new(hosts.clone()).opened_by(program, "open");
        let error = refused(&sandbox().network(network), shell(":")).await;
        assert!(matches!(error, SandboxError::NetworkNotOpened { .. }), "{error:?}");
        assert!(error.to_string().contains(program), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let opener = folder.path().join("opener");
    let said = "nexus-sandbox-network: netlink: Operation not permitted";
    crate::program::write(&opener, &format!("#!/bin/sh\necho '{said}' >&2; exit 1\n"));
    let network = SandboxNetwork::new(hosts.clone()).opened_by(opener, "open");
    let error = refused(&sandbox().network(network), shell(":")).await;
    assert!(matches!(error, SandboxError::NetworkForbidden { .. }), "{error:?}");
    assert!(error.to_string().contains("`unshare`"), "{error}");
    // An empty list is no network, which needs no opener.
    let empty = sandbox().network(SandboxNetwork::new(AllowedHosts::default()));
    assert!(ran(&empty, shell(":")).await.is_success());
}

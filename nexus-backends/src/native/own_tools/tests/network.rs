//! Commands whose network reaches listed hosts, and tries to reach others through it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

use nexus_process::sandbox::{AllowedHosts, open_network};
use nexus_testkit::child_test;

use super::*;

/// Names the folder of a run to the test that opens its network.
const FOLDER: &str = "NEXUS_TEST_OPENS_NETWORK";

/// Ways to a server that the list does not name. They print the word `canary` if they succeed. `$S` is its port, `$A` the port of
/// the allowed server, and `$P` the address of the proxy.
const TRIES: [&str; 12] = [
    "exec 3<>/dev/tcp/127.0.0.1/$S; echo >&3; cat <&3",
    "exec 3<>/dev/tcp/localhost/$S; echo >&3; cat <&3",
    "ask pages.test/$S \"GET / HTTP/1.1\r\nHost: pages.test:$S\r\n\r\n\"",
    "ask 127.0.8.2/$S \"GET / HTTP/1.1\r\nHost: pages.test:$S\r\n\r\n\"",
    "ask $P \"CONNECT 127.0.0.1:$S HTTP/1.1\r\n\r\nx\"",
    "ask $P \"CONNECT localhost:$S HTTP/1.1\r\n\r\nx\"",
    "ask $P \"CONNECT [::ffff:127.0.0.1]:$S HTTP/1.1\r\n\r\nx\"",
    // Resolvers read this as an address. It is never allowed.
    "ask $P \"CONNECT 2130706433:$S HTTP/1.1\r\n\r\nx\"",
    "ask $P \"CONNECT pages.test:$S HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: pages.test:$S\r\n\r\n\"",
    "ask $P \"GET http://localhost:$S/ HTTP/1.1\r\nHost: localhost:$S\r\n\r\n\"",
    // A request must not name two servers.
    "ask $P \"GET http://localhost:$S/ HTTP/1.1\r\nHost: pages.test:$A\r\n\r\n\"",
    "ask 127.0.8.2/$A \"GET http://localhost:$S/ HTTP/1.1\r\nHost: pages.test:$A\r\n\r\n\"",
];

/// The opener of this test program's networks.
#[test]
fn a_network_is_opened() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        open_network(Path::new(&folder)).unwrap();
    }
}

/// Starts a server that answers with a word. Returns its port.
fn server(word: &'static str) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 1024]);
            let _ =
                stream.write_all(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{word}\n").as_bytes());
        }
    });
    port
}

/// Returns a network that this test program opens, and the folder of its opener.
fn network(entries: &[String]) -> (SandboxNetwork, TempDir) {
    let folder = TempDir::new().unwrap();
    let opener = folder.path().join("opener");
    child_test::install(&opener, a_network_is_opened, FOLDER);
    let hosts = AllowedHosts::parse(entries.iter().map(String::as_str)).unwrap();
    let network = SandboxNetwork::new(hosts).opened_by(opener, "open");
    (network.resolve("pages.test", (Ipv4Addr::LOCALHOST, 0).into()), folder)
}

#[tokio::test]
async fn commands_reach_the_listed_hosts_and_each_refusal_is_reported_once() {
    let (machine, port) = (Machine::new(), server("served"));
    let (network, _folder) = network(&[format!("localhost:{port}"), "*.crates.io".to_owned()]);
    for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite] {
        let tools = machine.tools_with(access, Some(network.clone())).await;
        if !has_commands(&tools) {
            return;
        }
        let allowed = format!("reaches localhost:{port}, *.crates.io and nothing else");
        assert!(
            tools.system.contains(&allowed) && !tools.system.contains("without a network"),
            "{}",
            tools.system
        );
        let own = tools.session().definitions().iter().find(|tool| tool.name == "run_command").unwrap();
        assert!(own.description.contains(&allowed), "{}", own.description);
        let text = run(&tools, &format!("exec 3<>/dev/tcp/localhost/{port}; echo >&3; cat <&3")).await;
        assert!(text.starts_with("exit code 0") && text.contains("served"), "{text}");
        assert!(tools.network_warnings().is_empty());
        let ask =
            "exec 3<>/dev/tcp/127.0.8.1/3128; printf 'CONNECT pypi.org:443 HTTP/1.1\r\n\r\n' >&3; cat <&3";
        let text = run(&tools, ask).await;
        assert!(
            text.contains("403") && text.contains("the network refused: pypi.org:443 is not in the list"),
            "{text}"
        );
        let again = run(&tools, ask).await;
        assert!(!again.contains("the network refused"), "{again}");
        let line = "if you trust that host, add pypi.org to `command_hosts`";
        let warnings = tools.network_warnings();
        assert!(warnings.len() == 1 && warnings[0].contains(line), "{warnings:?}");
        assert!(tools.network_warnings().is_empty());
        let many = "for n in $(seq 9); do (exec 3<>/dev/tcp/127.0.8.1/3128; printf \"CONNECT $n.evil.test:443 HTTP/1.1\r\n\r\n\" >&3; cat <&3); done";
        run(&tools, many).await;
        let warnings = tools.network_warnings();
        assert!(
            warnings.len() == 5 && warnings[4].contains("refused connections to 5 more hosts"),
            "{warnings:?}"
        );
        run(&tools, &many.replace("evil", "worse")).await;
        assert!(tools.network_warnings().is_empty());
    }
}

/// Runs all tries with these entries. Returns the number of those that succeeded, or nothing without a sandbox.
async fn successes(entries: &[String], allowed: u16, other: u16) -> Option<usize> {
    let machine = Machine::new();
    let (network, _folder) = network(entries);
    let tools = machine.tools_with(ToolAccess::WorkspaceWrite, Some(network)).await;
    if !has_commands(&tools) {
        return None;
    }
    let mut script = format!(
        "S={other} A={allowed} P=127.0.8.1/3128\nask() {{ exec 3<>/dev/tcp/$1; printf %b \"$2\" >&3; timeout 5 cat <&3; }}\n\
         (ask pages.test/$A \"GET / HTTP/1.1\\r\\nHost: pages.test:$A\\r\\n\\r\\n\")\n"
    );
    for attempt in TRIES {
        script.push_str(&format!("( {attempt} ) 2> /dev/null\n"));
    }
    let text = run(&tools, &script).await;
    assert!(text.contains("served"), "{text}");
    Some(text.matches("canary").count())
}

#[tokio::test]
async fn no_command_gets_past_the_list_of_hosts() {
    let (allowed, other) = (server("served"), server("canary"));
    let mut entries = vec![format!("pages.test:{allowed}"), format!("127.0.0.1:{allowed}")];
    let Some(found) = successes(&entries, allowed, other).await else { return };
    assert_eq!(found, 0);
    // The same tries succeed where the list allows them, so they test the list and nothing else.
    entries.extend(["pages.test", "127.0.0.1", "localhost"].map(|host| format!("{host}:{other}")));
    assert_eq!(successes(&entries, allowed, other).await, Some(TRIES.len() - 3));
}

#[tokio::test]
async fn without_an_opener_commands_have_no_network_and_the_turn_says_why() {
    let machine = Machine::new();
    let hosts = AllowedHosts::parse(["pypi.org"]).unwrap();
    let tools = machine.tools_with(ToolAccess::WorkspaceWrite, Some(SandboxNetwork::new(hosts))).await;
    if !has_commands(&tools) {
        return;
    }
    assert!(
        tools.warnings[0].starts_with("commands have no network: this program cannot open"),
        "{:?}",
        tools.warnings
    );
    assert!(tools.system.contains("without a network"), "{}", tools.system);
    assert!(run(&tools, "getent hosts pypi.org || echo none").await.contains("none"));
}

#[tokio::test]
async fn commands_remain_where_the_network_cannot_be_opened() {
    let (machine, folder) = (Machine::new(), TempDir::new().unwrap());
    let opener = folder.path().join("opener");
    std::fs::write(
        &opener,
        "#!/bin/sh\necho 'nexus-sandbox-network: netlink: Operation not permitted' >&2; exit 1\n",
    )
    .unwrap();
    std::fs::set_permissions(&opener, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let network = SandboxNetwork::new(AllowedHosts::parse(["pypi.org"]).unwrap()).opened_by(opener, "open");
    let tools = machine.tools_with(ToolAccess::WorkspaceWrite, Some(network)).await;
    if !has_commands(&tools) {
        return;
    }
    let warning = &tools.warnings[0];
    assert!(warning.starts_with("commands have no network: ") && warning.contains("`unshare`"), "{warning}");
    assert!(tools.system.contains("without a network"), "{}", tools.system);
    assert!(run(&tools, "getent hosts pypi.org || echo none").await.contains("none"));
}

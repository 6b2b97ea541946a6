//! A program in a sandbox walks all that it sees, and finds nothing that it was not given.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use nexus_process::sandbox::SandboxCommand;
use nexus_testkit::child_test;

use super::support::{has_sandbox, ran, runs_alone_through, said, sandbox, variables};

/// In every canary. In two pieces, so that a search for it does not find the search.
const CANARY: &str = concat!("canary-", "5f1d");
/// Prints every file that has a canary in it, and every name that has one. `/usr` is left out for its size: nothing of a person's
/// lies there.
const WALK: &str = r#"
    pattern='[c]anary-5f1d'
    find / -path /usr -prune -o -path /proc -prune -o -path /dev -prune -o -type f -exec grep -l "$pattern" {} + 2>/dev/null
    find /usr/etc /usr/local/etc /dev/shm -type f -exec grep -l "$pattern" {} + 2>/dev/null
    find / -path /usr -prune -o -path /proc -prune -o -name "*$pattern*" -print 2>/dev/null
    for process in /proc/[0-9]*; do
        for file in environ cmdline comm maps; do
            tr '\0' '\n' <$process/$file 2>/dev/null | grep "$pattern" | sed "s|^|$process/$file: |"
        done
        for fd in $process/fd/*; do
            case $(readlink $fd) in pipe:*|anon_inode:*|/dev/null|'') ;; /proc/*) ;; *) echo "$fd -> $(readlink $fd)" ;; esac
        done
        ls $process/root/home $process/root/root $process/cwd/ 2>/dev/null | grep "$pattern"
    done
    env | grep "$pattern"
    ls -d /root/.* /var/lib /etc/shadow /etc/ssl/private /opt /srv /mnt /boot /sys 2>/dev/null
    for number in 3 4 5 6 7 8 9; do (eval "cat <&$number") 2>/dev/null && echo "descriptor $number"; done
    echo walked
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_finds_nothing_that_was_not_given() {
    if !runs_alone_through(host, a_walk_finds_nothing_that_was_not_given).await {
        return;
    }
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    assert!(
        fs::read_link("/proc/self/fd/42").unwrap().ends_with(".netrc"),
        "the host has what is not to be inherited"
    );
    let sandbox = sandbox()
        .home(&home)
        .tool_chain(home.join(".cargo"))
        .read_only(home.join("project"), home.join("project"));
    let walked = said(&sandbox, WALK).await;
    assert_eq!(walked, "walked\n");

    // What was given is there, so that the walk did not look at nothing.
    let script = "cat project/file .cargo/env; echo; cat .cargo/credentials.toml .cargo/registry/.npmrc .cargo/git/.git/config; \
        ls -A; ls -A /home /tmp /run; id -un";
    let command = SandboxCommand::new(["/bin/sh", "-c", script]).folder(&home);
    let seen = ran(&sandbox, command).await.stdout.text();
    assert!(seen.starts_with("what is meanta tool chain's own\n.cargo\nproject\n"), "{seen}");

    // The walk finds what is there to be found.
    let open = sandbox.clone().read_only(home.join(".netrc"), "/tmp/found");
    assert_eq!(said(&open, WALK).await, "/tmp/found\nwalked\n");
}

/// A host in whose home canaries lie, and that has descriptors which survive `exec`, below ten and beyond.
fn host(folder: &Path) -> Command {
    let home = folder.join("home");
    for (file, content) in [
        (".ssh/id_ed25519", CANARY),
        (".netrc", CANARY),
        (".cargo/credentials.toml", CANARY),
        (".cargo/bin/.keep", "nothing"),
        (".cargo/registry/.npmrc", CANARY),
        (".cargo/git/.git/config", CANARY),
        (".cargo/env", "a tool chain's own"),
        ("nexus/auth/login.json", CANARY),
        ("project/file", "what is meant"),
        ("other-tree/file", CANARY),
    ] {
        let file = home.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    let mut host = Command::new("bash");
    host.args([
        "-c",
        "exec 5<\"$HOME/.netrc\" 9<\"$HOME/.netrc\" 42<\"$HOME/.netrc\" 200<\"$HOME\"; exec \"$@\"",
        "host",
    ])
    .env("HOME", &home)
    .env("NEXUS_HOME", home.join("nexus"))
    .env("SECRET", CANARY)
    .env("TMPDIR", folder);
    host
}

/// Tells the program inside of the sandbox what it is to reach for.
const PLACES: &str = "NEXUS_TEST_PLACES";

#[tokio::test(flavor = "multi_thread")]
async fn no_socket_of_the_machine_is_reached() {
    if let Ok(places) = std::env::var(PLACES) {
        return reach_everything(&places);
    }
    if !has_sandbox().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp6 = TcpListener::bind("[::1]:0");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let path = folder.path().join("socket");
    let unix = UnixListener::bind(&path).unwrap();
    let name = format!("nexus-test-{}", std::process::id());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    for listener in [&unix, &hidden] {
        listener.set_nonblocking(true).unwrap();
    }
    tcp.set_nonblocking(true).unwrap();

    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let places = format!(
        "{} {} {} {} {name}",
        port(&tcp),
        tcp6.as_ref().map_or(9, port),
        udp.local_addr().unwrap().port(),
        path.display()
    );
    let own = std::env::current_exe().unwrap();
    let arguments = child_test::arguments(no_socket_of_the_machine_is_reached);
    let command = SandboxCommand::new(["/test".to_owned()].into_iter().chain(arguments))
        .environment(variables(&[(PLACES, &places)]));
    let outcome = ran(&sandbox().read_only(own, "/test"), command).await;
    assert!(outcome.is_success(), "{}\n{}", outcome.stdout.text(), outcome.stderr.text());
    assert!(outcome.stdout.text().contains("tried everything"), "{}", outcome.stdout.text());

    assert_eq!(tcp.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(unix.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(hidden.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(udp.recv(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// From inside: what is at these places cannot be reached.
fn reach_everything(places: &str) {
    use rustix::net::{AddressFamily, SocketType, socket};
    let places: Vec<&str> = places.split(' ').collect();
    let [tcp, tcp6, udp, path, name] = places[..] else { panic!("{places:?}") };
    assert!(TcpStream::connect(format!("127.0.0.1:{tcp}")).is_err());
    assert!(TcpStream::connect(format!("[::1]:{tcp6}")).is_err());
    assert!(TcpStream::connect("192.0.2.1:80").is_err());
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let _ = sender.send_to(b"out", format!("127.0.0.1:{udp}"));
    assert!(UnixStream::connect(path).is_err());
    assert!(!Path::new(path).exists());
    assert!(UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).is_err());
    // Loopback of its own works: a program may talk to itself.
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    TcpStream::connect(own.local_addr().unwrap()).unwrap();
    // Out of a virtual machine, and what else no network namespace keeps in.
    for family in
        [AddressFamily::VSOCK, AddressFamily::from_raw(38), AddressFamily::BLUETOOTH, AddressFamily::PACKET]
    {
        let refused = socket(family, SocketType::STREAM, None).unwrap_err();
        assert_eq!(refused, rustix::io::Errno::AFNOSUPPORT, "{family:?}");
    }
    println!("tried everything");
}

#[tokio::test]
async fn only_the_variables_and_descriptors_of_the_list_are_there() {
    if !has_sandbox().await {
        return;
    }
    let odd = variables(&[
        ("A", "1\n2"),
        ("LD_PRELOAD", "/nowhere.so"),
        ("BASH_ENV", "/nowhere"),
        ("PATH", "/usr/bin:/bin"),
    ]);
    // Set for the program and for nothing before it: a library that cannot be preloaded is complained of by what is inside.
    let command = SandboxCommand::new(["env", "-0"]).environment(odd).folder("/usr");
    let outcome = ran(&sandbox(), command).await;
    let text = outcome.stdout.text();
    let mut names: Vec<&str> = text.split('\0').filter(|line| !line.is_empty()).collect();
    names.sort_unstable();
    let expected = [
        "A=1\n2",
        "BASH_ENV=/nowhere",
        "HOME=/home/sandbox",
        "LD_PRELOAD=/nowhere.so",
        "PATH=/usr/bin:/bin",
        "PWD=/usr",
    ];
    assert_eq!(names, expected);
    let complaints = outcome.stderr.text().matches("/nowhere.so").count();
    assert_eq!(complaints, 1, "{}", outcome.stderr.text());

    let listed = said(&sandbox(), "ls /proc/self/fd; ls /proc/1/fd; tr '\\0' '\\n' </proc/1/environ").await;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines.starts_with(&["0", "1", "2", "3", "0", "1", "2"]), "{listed}");
    // What stands before the program has a variable of its own and one of the shell's.
    let is_plain =
        |line: &&str| line.len() == 1 || line.starts_with("NEXUS_RUN=") || line.starts_with("SHLVL=");
    assert!(lines.iter().all(is_plain), "{listed}");
}

#[tokio::test]
async fn nobody_else_is_seen() {
    if !has_sandbox().await {
        return;
    }
    let script = "ls /proc | grep -c '^[0-9]'; hostname; cat /etc/hosts | wc -l; cat /etc/resolv.conf; cut -d: -f1 /etc/passwd; \
        cat /proc/net/unix /proc/net/tcp | wc -l; cat /proc/sysvipc/shm | wc -l; echo done";
    let seen = said(&sandbox(), script).await;
    let mut lines = seen.lines();
    assert!(lines.next().unwrap().parse::<usize>().unwrap() <= 5, "{seen}");
    assert_eq!((lines.next(), lines.next()), (Some("sandbox"), Some("2")), "{seen}");
    assert!(seen.ends_with("2\n1\ndone\n"), "{seen}");
}

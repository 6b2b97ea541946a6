//! What a dead host leaves behind is swept; what a live one owns is not touched.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nexus_process::run_id::RunId;
use nexus_process::run_registry::{RunEntry, sweep};
use nexus_testkit::child_test;
use serde_json::{Value, json};

use super::support::{assert_dead, exists, lines, marked, shell, written_pids};

/// Tells the host that is killed where to work.
const HOME: &str = "NEXUS_TEST_HOME";

/// A host with one run: a child, and a runaway in a session of its own that is deaf to SIGTERM.
fn play_host(home: &Path) {
    let entry = RunEntry::begin(home).unwrap();
    let folder = entry.home().unwrap();
    folder.write("config", "x").unwrap();
    let script =
        "setsid sh -c 'trap \"\" TERM; echo $$ >> \"$0\"; sleep 300' \"$0\" & echo $$ >> \"$0\"; sleep 300";
    let process = shell(script).entry(&entry).argument(home.join("pids")).spawn().unwrap();
    fs::write(home.join("run.new"), process.run().as_str()).unwrap();
    fs::rename(home.join("run.new"), home.join("run")).unwrap();
    std::thread::sleep(Duration::from_secs(120));
    drop((process, folder));
}

struct Host {
    child: Child,
    run: RunId,
    members: Vec<u32>,
    home: tempfile::TempDir,
}

impl Host {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let child = child_test::command(a_host_killed_in_mid_run_is_swept_at_the_next_start)
            .env(HOME, home.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let members = written_pids(&home.path().join("pids"), 2);
        let run = loop {
            if let Ok(run) = fs::read_to_string(home.path().join("run")) {
                break RunId::parse(&run).unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Self { child, run, members, home }
    }

    fn entries(&self) -> usize {
        count(&self.home.path().join("runs"))
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn a_host_killed_in_mid_run_is_swept_at_the_next_start() {
    if let Some(home) = std::env::var_os(HOME) {
        return play_host(Path::new(&home));
    }
    let mut host = Host::start();
    host.kill();
    assert!(host.members.iter().all(|pid| exists(*pid)), "the test means to leave something behind");
    let swept = sweep(host.home.path()).unwrap();
    assert_eq!(swept.runs, [host.run.clone()]);
    assert!(swept.killed >= 2 && swept.survivors.is_empty() && swept.failures.is_empty(), "{swept:?}");
    assert_dead(&host.run, &host.members);
    assert_eq!((host.entries(), count(&host.home.path().join("tmp"))), (0, 0));
    assert!(sweep(host.home.path()).unwrap().runs.is_empty());
}

#[test]
fn a_live_host_is_not_touched_by_the_sweep_of_another() {
    let mut alive = Host::start();
    let swept = sweep(alive.home.path()).unwrap();
    assert!(swept.runs.is_empty() && swept.killed == 0 && swept.failures.is_empty(), "{swept:?}");
    assert!(alive.members.iter().all(|pid| exists(*pid)));
    assert_eq!((alive.entries(), count(&alive.home.path().join("tmp"))), (1, 1));

    // A second host of the same home dies; the first one stays as it is.
    let dead_run = RunId::new();
    let entry = alive.home.path().join("runs").join(format!("{dead_run}.json"));
    fs::write(&entry, entry_text(&dead_run, &json!({ "pid": 1, "start_ticks": 99 }), &json!([]))).unwrap();
    let swept = sweep(alive.home.path()).unwrap();
    assert_eq!(swept.runs, [dead_run]);
    assert!(alive.members.iter().all(|pid| exists(*pid)));

    alive.kill();
    assert_eq!(sweep(alive.home.path()).unwrap().runs, [alive.run.clone()]);
    assert_dead(&alive.run, &alive.members);
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

fn entry_text(run: &RunId, owner: &Value, children: &Value) -> String {
    entry_of_boot(run, &boot_id(), owner, children)
}

fn entry_of_boot(run: &RunId, boot_id: &str, owner: &Value, children: &Value) -> String {
    json!({
        "version": 1,
        "run": run.as_str(),
        "owner": { "process": owner, "boot_id": boot_id },
        "children": children,
        "folders": ["/"],
    })
    .to_string()
}

fn start_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap()
}

/// A process that is none of ours.
struct Stranger(Child);

impl Stranger {
    fn start() -> Self {
        Self(Command::new("sleep").arg("300").spawn().unwrap())
    }
    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn home_with(run: &RunId, text: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("runs")).unwrap();
    fs::create_dir(home.path().join("tmp")).unwrap();
    fs::write(home.path().join("runs").join(format!("{run}.json")), text).unwrap();
    home
}

#[test]
fn a_reused_process_id_is_never_signalled() {
    let stranger = Stranger::start();
    let run = RunId::new();
    let earlier = json!([{ "pid": stranger.pid(), "start_ticks": start_ticks(stranger.pid()) - 1 }]);
    let dead = json!({ "pid": std::process::id(), "start_ticks": 1 });
    let home = home_with(&run, &entry_text(&run, &dead, &earlier));
    assert_eq!(sweep(home.path()).unwrap().runs, std::slice::from_ref(&run));
    assert!(exists(stranger.pid()));

    // The same numbers, but from before the machine was started again.
    let same = json!([{ "pid": stranger.pid(), "start_ticks": start_ticks(stranger.pid()) }]);
    let home = home_with(&run, &entry_of_boot(&run, "an-earlier-boot", &dead, &same));
    assert_eq!(sweep(home.path()).unwrap().runs, std::slice::from_ref(&run));
    assert!(exists(stranger.pid()));

    // The identity itself is enough: this one scrubbed its marker.
    let home = home_with(&run, &entry_text(&run, &dead, &same));
    assert_eq!(sweep(home.path()).unwrap().killed, 1);
    drop(stranger);
}

#[test]
fn an_owner_known_by_its_identity_is_alive_without_a_lock() {
    let run = RunId::new();
    let own = json!({ "pid": std::process::id(), "start_ticks": start_ticks(std::process::id()) });
    let home = home_with(&run, &entry_text(&run, &own, &json!([])));
    assert!(sweep(home.path()).unwrap().runs.is_empty());
    assert_eq!(count(&home.path().join("runs")), 1);
}

#[test]
fn a_crash_before_the_child_was_written_down_is_swept_by_the_marker() {
    let run = RunId::new();
    let home = home_with(&run, &entry_text(&run, &json!(null), &json!([])));
    let orphan = Stranger(Command::new("sleep").arg("300").env("NEXUS_RUN", run.as_str()).spawn().unwrap());
    // A process shows its environment a moment after its start.
    while marked(&run) != [orphan.pid()] {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(sweep(home.path()).unwrap().killed, 1);
    assert_dead(&run, &[orphan.pid()]);
}

#[test]
fn a_torn_entry_is_swept_by_its_name() {
    for text in ["", "{\"version\":1,\"run\":\"", "null", "{\"version\":1}"] {
        let run = RunId::new();
        let home = home_with(&run, text);
        fs::create_dir(home.path().join("tmp").join(format!("{run}_0"))).unwrap();
        assert_eq!(sweep(home.path()).unwrap().runs, [run]);
        assert_eq!((count(&home.path().join("runs")), count(&home.path().join("tmp"))), (0, 0));
    }
}

#[test]
fn a_sweep_removes_only_what_a_run_can_have_made() {
    let (run, other) = (RunId::new(), RunId::new());
    let home = home_with(&run, &entry_text(&run, &json!(null), &json!([])));
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "x").unwrap();
    let below = |name: String| home.path().join("tmp").join(name);
    fs::create_dir_all(below(format!("{run}_1/sub"))).unwrap();
    symlink(outside.path(), below(format!("{run}_2"))).unwrap();
    symlink(outside.path(), below(format!("{run}_1/link"))).unwrap();
    fs::create_dir(below(format!("{other}_0"))).unwrap();
    fs::create_dir(below(format!("{run}x_0"))).unwrap();
    fs::write(home.path().join("runs/notes.txt"), "mine").unwrap();
    fs::write(home.path().join("runs/not a run.json"), "{}").unwrap();
    symlink(outside.path().join("kept"), home.path().join("runs").join(format!("{other}.json"))).unwrap();
    let swept = sweep(home.path()).unwrap();
    assert_eq!(swept.runs, [run]);
    assert_eq!(swept.failures.len(), 1, "the link that poses as an entry is reported: {swept:?}");
    assert_eq!(count(&home.path().join("tmp")), 2);
    assert_eq!(count(&home.path().join("runs")), 3);
    assert!(outside.path().join("kept").exists());
}

#[tokio::test]
async fn an_entry_is_private_and_follows_its_run() {
    let home = tempfile::tempdir().unwrap();
    let nexus_home = home.path().join("nexus");
    let entry = RunEntry::begin(&nexus_home).unwrap();
    let path = nexus_home.join("runs").join(format!("{}.json", entry.run()));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&nexus_home.join("runs"))), (0o600, 0o700));
    let folder = entry.home().unwrap();
    assert!(folder.path().starts_with(nexus_home.join("tmp")));

    let process = shell("read -r line; echo done")
        .entry(&entry)
        .stdin(nexus_process::spawn::StdinMode::Open)
        .spawn()
        .unwrap();
    assert_eq!(process.run(), entry.run());
    let written = || serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).unwrap();
    while written()["children"]
        != json!([{ "pid": process.pid(), "start_ticks": start_ticks(process.pid()) }])
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(written()["owner"]["process"]["pid"], std::process::id());
    assert_eq!(written()["folders"], json!([folder.path()]));
    process.stdin().write("go\n").await.unwrap();
    assert_eq!(lines(&process).await, ["done"]);
    process.wait().await;
    assert_eq!(written()["children"], json!([]));
    drop((process, folder));
    drop(entry);
    assert_eq!((count(&nexus_home.join("runs")), count(&nexus_home.join("tmp"))), (0, 0));
}

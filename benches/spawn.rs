//! What the spawn atom costs beside `std::process` with a plain reader, in one run.
//!
//! `cargo bench -p nexus-benches --bench spawn`, or with `-- --quick` for a first look, with `-- --sandbox` for the sandbox alone, with `-- --lines` for
//! the lines alone. Ratios and differences count;
//! absolute times move with the machine. Each pair is measured in turns, so that a busy moment hits
//! both. With `--strict` the program ends with 1 if something that must hold does not.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nexus_process::containment::{Containment, ContainmentPolicy, available};
use nexus_process::environment::Environment;
use nexus_process::executable::Executable;
use nexus_process::sandbox::{Sandbox, SandboxCommand};
use nexus_process::spawn::{Invocation, Process};
use serde::Deserialize;

/// What an event of a CLI looks like, in size and shape.
#[derive(Deserialize)]
struct Event<'line> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'line, str>,
    #[serde(borrow)]
    text: std::borrow::Cow<'line, str>,
}

const EVENT: &str = concat!(
    r#"{"type":"stream_event","session_id":"0b5c9f5e-6d0a-4b52-9d2b-3f1f6a1d2c3e","uuid":"7b0a1c","event":"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}},"parent_tool_use_id":null,"#,
    r#""text":"a few words of an answer "}"#,
    "\n"
);

/// In how many turns the processor time of two ways is compared.
const BATCHES: usize = 4;

struct Bench {
    quick: bool,
    folder: PathBuf,
    runtime: tokio::runtime::Runtime,
    missed: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--write-events", count] => return write_events(count.parse().unwrap_or(0)),
        ["--read-line", reader, file] => return read_line(reader, file),
        ["--read-slowly", reader, count] => return read_slowly(reader, count.parse().unwrap_or(0)),
        _ => {}
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let mut bench = Bench {
        quick: arguments.iter().any(|argument| argument == "--quick"),
        folder: folder.path().to_owned(),
        runtime: runtime.expect("a runtime"),
        missed: 0,
    };
    if arguments.iter().any(|argument| argument == "--sandbox") {
        bench.sandbox();
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--lines") {
        println!("{:<44} {:>12} {:>12} {:>12}   must", "", "std", "nexus", "");
        bench.memory();
        bench.lines();
        return ExitCode::SUCCESS;
    }
    println!("{:<44} {:>12} {:>12} {:>12}   must", "", "std", "nexus", "");
    bench.memory();
    let small = bench.first_line("spawn to first line, small host", true);
    bench.at_once();
    bench.containment();
    bench.ends_with_host();
    bench.sandbox();
    bench.lines();
    let ballast = vec![1_u8; 512 << 20];
    let large = bench.first_line("spawn to first line, host of 512 MiB", false);
    std::hint::black_box(&ballast);
    let ratio = large.as_secs_f64() / small.as_secs_f64();
    bench.row("  large host / small host", "", "", &format!("{ratio:.2} x"), "1.50 x", ratio <= 1.5);
    let is_strict = arguments.iter().any(|argument| argument == "--strict");
    ExitCode::from(u8::from(is_strict && bench.missed > 0))
}

impl Bench {
    fn row(&mut self, name: &str, std: &str, nexus: &str, figure: &str, must: &str, met: bool) {
        self.missed += usize::from(!met);
        let verdict = if met { "met" } else { "MISSED" };
        println!("{name:<44} {std:>12} {nexus:>12} {figure:>12}   {must} {verdict}");
    }

    /// Returns the median for the atom.
    fn first_line(&mut self, name: &str, is_judged: bool) -> Duration {
        let (mut plain, mut ours) = (Vec::new(), Vec::new());
        let echo = Executable::at("/bin/echo").expect("a system has echo");
        for _ in 0..if self.quick { 100 } else { 1000 } {
            plain.push(plain_first_line());
            ours.push(self.runtime.block_on(atom_first_line(&echo)));
        }
        let (plain, ours) = (median(&mut plain), median(&mut ours));
        let beyond = ours.as_secs_f64() - plain.as_secs_f64();
        let (plain, figure) = (micros(plain), format!("{:+.0} us", beyond * 1e6));
        if is_judged {
            self.row(name, &plain, &micros(ours), &figure, "+60 us", beyond <= 60e-6);
        } else {
            println!("{name:<44} {plain:>12} {:>12} {figure:>12}", micros(ours));
        }
        ours
    }

    fn at_once(&mut self) {
        let echo = Executable::at("/bin/echo").expect("a system has echo");
        let rounds = if self.quick { 3 } else { 15 };
        let (mut plain, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let started = Instant::now();
            let threads: Vec<_> = (0..64).map(|_| std::thread::spawn(plain_first_line)).collect();
            threads.into_iter().for_each(|thread| drop(thread.join()));
            plain.push(started.elapsed());
            let started = Instant::now();
            self.runtime.block_on(async {
                let tasks: Vec<_> = (0..64)
                    .map(|_| {
                        let echo = echo.clone();
                        tokio::spawn(async move { atom_to_its_end(&echo).await })
                    })
                    .collect();
                for task in tasks {
                    task.await.expect("a task ends");
                }
            });
            ours.push(started.elapsed());
        }
        let (plain, ours) = (median(&mut plain), median(&mut ours));
        let ratio = ours.as_secs_f64() / plain.as_secs_f64();
        println!(
            "{:<44} {:>12} {:>12} {:>12}   (with the whole tree checked)",
            "64 at once, to the last end",
            micros(plain),
            micros(ours),
            format!("{ratio:.2} x")
        );
    }

    /// What each kind of containment costs, among few and among many processes of other people.
    fn containment(&mut self) {
        let rounds = if self.quick { 60 } else { 400 };
        let crowd = if self.quick { 500 } else { 5_000 };
        for kind in available() {
            let policy = ContainmentPolicy::Exactly(kind);
            let few = self.spawns(policy, rounds);
            let others = Crowd::of(crowd);
            let many = self.spawns(policy, rounds);
            drop(others);
            // The search is what is left where a machine has nothing else; a namespace starts three programs more.
            let is_bound = kind == Containment::Subreaper;
            for (count, (first, plain, ours)) in [("few", few), (&*crowd.to_string(), many)] {
                let beyond = (ours.as_secs_f64() - plain.as_secs_f64()) * 1e3;
                let name = format!("CPU of one spawn, {kind}, {count} others");
                let figure = format!("{beyond:+.2} ms");
                if is_bound {
                    self.row(&name, &micros(plain), &micros(ours), &figure, "+0.40 ms", beyond <= 0.4);
                } else {
                    println!("{name:<44} {:>12} {:>12} {figure:>12}", micros(plain), micros(ours));
                }
                println!("{:<44} {:>12} {:>12} {first:>12}", "  first line beyond std", "", "");
            }
        }
    }

    /// By how much the first line is later than that of `std`, and the processor time of one spawn to its end with `std`
    /// and with the atom: ours and that of all that was started for it.
    fn spawns(&mut self, policy: ContainmentPolicy, rounds: usize) -> (String, Duration, Duration) {
        let echo = Executable::at("/bin/echo").expect("a system has echo");
        let ours = || self.runtime.block_on(contained_first_line(&echo, policy, false));
        let [(plain_first, plain), (first, ours)] = in_turns(rounds, plain_first_line, ours);
        let beyond = first.as_secs_f64() - plain_first.as_secs_f64();
        (format!("{:+.0} us", beyond * 1e6), plain, ours)
    }

    /// What it costs that the kernel ends the child with its host, beyond the same kind without. A namespace does it anyway.
    fn ends_with_host(&mut self) {
        let rounds = if self.quick { 60 } else { 400 };
        let echo = Executable::at("/bin/echo").expect("a system has echo");
        println!("{:<44} {:>12} {:>12}", "", "without", "with");
        for kind in available().into_iter().filter(|kind| *kind < Containment::UserNamespace) {
            let first_line = |ends_with_host| {
                let policy = ContainmentPolicy::Exactly(kind);
                self.runtime.block_on(contained_first_line(&echo, policy, ends_with_host))
            };
            let [without, with] = in_turns(rounds, || first_line(false), || first_line(true));
            for (what, without, with) in [("first line", without.0, with.0), ("CPU", without.1, with.1)] {
                let name = format!("ends with its host, {kind}: {what}");
                let beyond = format!("{:+.0} us", (with.as_secs_f64() - without.as_secs_f64()) * 1e6);
                println!("{name:<44} {:>12} {:>12} {beyond:>12}", micros(without), micros(with));
            }
        }
    }

    /// What a whole run of a program that does nothing costs in a sandbox: bare, and with a tree and a tool chain.
    fn sandbox(&mut self) {
        if let Err(error) = self.runtime.block_on(Sandbox::new().check()) {
            return println!("no sandbox on this machine: {error}");
        }
        let rounds = if self.quick { 100 } else { 1000 };
        let (tree, chain) = (self.folder.join("tree"), self.folder.join("chain"));
        for index in 0..100 {
            fs::create_dir_all(chain.join(format!("versions/{index}/lib"))).expect("room for a tool chain");
        }
        fs::create_dir_all(&tree).expect("room for a tree");
        let furnished = Sandbox::new().writable(&tree, "/home/me/project").tool_chain(&chain);
        for (name, sandbox) in [
            ("a run in a sandbox", Sandbox::new()),
            ("  with a tree and a tool chain of 200 folders", furnished),
        ] {
            let [mut plain, mut ours] = [Vec::new(), Vec::new()];
            for _ in 0..rounds {
                let started = Instant::now();
                let status = plain_child(Path::new("/bin/true"), &[]).wait().expect("an end");
                plain.push(started.elapsed());
                assert!(status.success());
                let started = Instant::now();
                let outcome = self.runtime.block_on(sandbox.run(SandboxCommand::new(["/bin/true"])));
                ours.push(started.elapsed());
                assert!(outcome.expect("it runs").is_success());
            }
            let (plain, ours) = (median(&mut plain), median(&mut ours));
            println!("{name:<44} {:>12} {:>12}", micros(plain), micros(ours));
        }
    }

    fn lines(&mut self) {
        let count = if self.quick { 100_000 } else { 500_000 };
        let file = self.folder.join("events.jsonl");
        fs::write(&file, EVENT.repeat(count)).expect("room for the events");
        let own = std::env::current_exe().expect("the path of this program");
        let cases = [
            (
                "lines per second, one write each",
                own,
                vec!["--write-events".to_owned(), count.to_string()],
                0.30,
            ),
            (
                "lines per second, piped from a file",
                "/bin/cat".into(),
                vec![file.display().to_string()],
                0.45,
            ),
        ];
        for (name, program, arguments, must) in cases {
            let (mut plain, mut ours) = (Vec::new(), Vec::new());
            for _ in 0..if self.quick { 3 } else { 7 } {
                plain.push(plain_lines(&program, &arguments, count));
                ours.push(self.runtime.block_on(atom_lines(&program, &arguments, count)));
            }
            let rate = |time: Duration| count as f64 / time.as_secs_f64();
            let (plain, ours) = (rate(median(&mut plain)), rate(median(&mut ours)));
            let (ratio, rate) = (ours / plain, |rate: f64| format!("{:.2} M/s", rate / 1e6));
            self.row(
                name,
                &rate(plain),
                &rate(ours),
                &format!("{ratio:.2} x"),
                &format!("{must:.2} x"),
                ratio >= must,
            );
        }
    }

    /// Each reader in a program of its own, so that neither finds what the other left behind.
    fn grown(arguments: [&str; 3]) -> f64 {
        let own = std::env::current_exe().expect("the path of this program");
        let output = Command::new(own).args(arguments).output().expect("an end");
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(f64::INFINITY)
    }

    fn memory(&mut self) {
        let file = self.folder.join("huge.jsonl");
        let line = format!("{{\"type\":\"assistant\",\"text\":\"{}\"}}\n", "x".repeat(8 << 20));
        fs::write(&file, &line).expect("room for one line");
        let path = file.to_str().expect("a path of plain letters");
        let grown = |reader| Self::grown(["--read-line", reader, path]);
        let (plain, ours) = (grown("std"), grown("nexus"));
        let mib = |size: f64| format!("{size:.1} MiB");
        let name = "one line of 8 MiB, parsed: memory grown";
        self.row(name, &mib(plain), &mib(ours), "", "24 MiB", ours <= 24.0);
        let count = if self.quick { "300000" } else { "1000000" };
        let grown = |reader| Self::grown(["--read-slowly", reader, count]);
        let (plain, ours) = (grown("std"), grown("nexus"));
        let name = "lines faster than they are read: memory grown";
        self.row(name, &mib(plain), &mib(ours), "", "8 MiB", ours <= 8.0);
    }
}

/// Reads one huge line and parses it; prints by how many MiB that raised the peak of memory.
fn read_line(reader: &str, file: &str) -> ExitCode {
    let program = Path::new("/bin/cat");
    let arguments = [file.to_owned()];
    let parse = |line: &[u8]| {
        let value: serde_json::Value = serde_json::from_slice(line).expect("JSON");
        assert_eq!(value["text"].as_str().map(str::len), Some(8 << 20));
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let grown = if reader == "std" {
        grown(|| {
            let mut output = Vec::new();
            let mut child = plain_child(program, &arguments);
            child.stdout.take().expect("a pipe").read_to_end(&mut output).expect("output");
            parse(&output);
            child.wait().expect("an end");
        })
    } else {
        let executable = Executable::at(program).expect("a program");
        grown(|| {
            runtime.block_on(async {
                let process = atom(&executable, &arguments);
                let line = process.next_line().await.expect("a line");
                parse(&line.bytes);
                process.wait().await;
            });
        })
    };
    println!("{grown}");
    ExitCode::SUCCESS
}

/// Reads lines more slowly than they are written; prints by how many MiB that raised the peak of memory.
fn read_slowly(reader: &str, count: usize) -> ExitCode {
    let own = std::env::current_exe().expect("the path of this program");
    let arguments = ["--write-events".to_owned(), count.to_string()];
    let parse = |line: &[u8]| {
        for _ in 0..8 {
            let event: Event<'_> = serde_json::from_slice(line).expect("JSON");
            assert_eq!(event.kind, "stream_event");
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut lines = 0;
    let grown = if reader == "std" {
        grown(|| {
            let mut child = plain_child(&own, &arguments);
            let stdout = BufReader::with_capacity(64 << 10, child.stdout.take().expect("a pipe"));
            for line in stdout.lines() {
                parse(line.expect("output").as_bytes());
                lines += 1;
            }
            child.wait().expect("an end");
        })
    } else {
        let executable = Executable::at(&own).expect("a program");
        grown(|| {
            runtime.block_on(async {
                let process = atom(&executable, &arguments);
                while let Some(line) = process.next_line().await {
                    parse(&line.bytes);
                    lines += 1;
                }
                process.wait().await;
            });
        })
    };
    assert_eq!(lines, count);
    println!("{grown}");
    ExitCode::SUCCESS
}

fn write_events(count: usize) -> ExitCode {
    let mut stdout =
        fs::File::from(std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned().expect("stdout"));
    for _ in 0..count {
        if stdout.write_all(EVENT.as_bytes()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn plain_child(program: &Path, arguments: &[String]) -> std::process::Child {
    Command::new(program)
        .args(arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child")
}

fn atom(executable: &Executable, arguments: &[String]) -> Process {
    Invocation::new(executable.clone(), "/")
        .arguments(arguments)
        .environment(Environment::empty())
        .containment(ContainmentPolicy::Exactly(Containment::Subreaper))
        .spawn()
        .expect("a child")
}

fn plain_first_line() -> Duration {
    let started = Instant::now();
    let mut child = plain_child(Path::new("/bin/echo"), &["line".to_owned()]);
    let mut buffer = [0; 4096];
    let count = child.stdout.as_mut().expect("a pipe").read(&mut buffer).expect("output");
    let elapsed = started.elapsed();
    assert_eq!(&buffer[..count], b"line\n");
    child.wait().expect("an end");
    elapsed
}

async fn atom_first_line(executable: &Executable) -> Duration {
    let started = Instant::now();
    let process = atom(executable, &["line".to_owned()]);
    let line = process.next_line().await;
    let elapsed = started.elapsed();
    assert_eq!(line.expect("a line").bytes, "line");
    process.wait().await;
    elapsed
}

/// The median of the first line, and the processor time of each spawn, of two ways in turns.
fn in_turns(
    rounds: usize,
    mut one: impl FnMut() -> Duration,
    mut other: impl FnMut() -> Duration,
) -> [(Duration, Duration); 2] {
    let (mut first, mut cpu) = ([Vec::new(), Vec::new()], [Duration::ZERO; 2]);
    // In a few batches, as the clock of processor time ticks in steps of 10 ms.
    for _ in 0..BATCHES {
        let before = processor_time();
        first[0].extend((0..rounds / BATCHES).map(|_| one()));
        let between = processor_time();
        first[1].extend((0..rounds / BATCHES).map(|_| other()));
        cpu[0] += between.saturating_sub(before);
        cpu[1] += processor_time().saturating_sub(between);
    }
    let each = |total: Duration| total / u32::try_from(rounds).unwrap_or(1);
    let [one, other] = &mut first;
    [(median(one), each(cpu[0])), (median(other), each(cpu[1]))]
}

async fn contained_first_line(
    executable: &Executable,
    policy: ContainmentPolicy,
    ends_with_host: bool,
) -> Duration {
    let started = Instant::now();
    let mut invocation = Invocation::new(executable.clone(), "/")
        .argument("line")
        .environment(Environment::empty())
        .containment(policy);
    if ends_with_host {
        invocation = invocation.end_with_host();
    }
    let process = invocation.spawn().expect("a child");
    let line = process.next_line().await;
    let elapsed = started.elapsed();
    assert_eq!(line.expect("a line").bytes, "line");
    process.wait().await;
    elapsed
}

/// Processes that are none of ours: nobody below this program started them, and they end with a pipe of ours.
struct Crowd(Option<std::process::ChildStdin>);

impl Crowd {
    fn of(count: usize) -> Self {
        let script = format!(
            "exec 3<&0; (i=0; while [ $i -lt {count} ]; do i=$((i+1)); (read end <&3) & done; echo up; wait) &"
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let mut up = [0; 3];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut up).expect("a crowd");
        let input = child.stdin.take();
        child.wait().expect("an end");
        Self(input)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.0.take());
        // They are gone once the next figure is taken.
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Processor time of this program and of all that it has waited for.
fn processor_time() -> Duration {
    // Source: proc_pid_stat(5), fields 14 to 17, in ticks of a hundredth of a second.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ').skip(11).take(4);
    Duration::from_millis(fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10)
}

async fn atom_to_its_end(executable: &Executable) {
    let process = atom(executable, &["line".to_owned()]);
    while process.next_line().await.is_some() {}
    process.wait().await;
}

/// Reads line by line, as a plain program does, and parses nothing.
fn plain_lines(program: &Path, arguments: &[String], expected: usize) -> Duration {
    let started = Instant::now();
    let mut child = plain_child(program, arguments);
    let stdout = BufReader::with_capacity(64 << 10, child.stdout.take().expect("a pipe"));
    let (mut lines, mut bytes) = (0, 0);
    for line in stdout.lines() {
        bytes += line.expect("output").len();
        lines += 1;
    }
    let elapsed = started.elapsed();
    child.wait().expect("an end");
    assert_eq!((lines, bytes), (expected, expected * (EVENT.len() - 1)));
    elapsed
}

/// Parses every line.
async fn atom_lines(program: &Path, arguments: &[String], expected: usize) -> Duration {
    let started = Instant::now();
    let process = atom(&Executable::at(program).expect("a program"), arguments);
    let (mut lines, mut characters) = (0, 0);
    while let Some(line) = process.next_line().await {
        // As the translators of the CLIs read a line.
        let text = std::str::from_utf8(&line.bytes).expect("UTF-8");
        let event: Event<'_> = serde_json::from_str(text).expect("JSON");
        assert_eq!(event.kind, "stream_event");
        characters += event.text.len();
        lines += 1;
    }
    let elapsed = started.elapsed();
    process.wait().await;
    assert_eq!((lines, characters), (expected, expected * 25));
    elapsed
}

/// By how much the peak of resident memory rose above what was there before, in MiB.
fn grown(work: impl FnOnce()) -> f64 {
    let field = |name: &str| -> f64 {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap_or(f64::NAN)
    };
    // Source: proc(5), "5" resets the peak.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = field("VmRSS");
    work();
    (field("VmHWM") - before) / 1024.0
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn micros(time: Duration) -> String {
    format!("{:.0} us", time.as_secs_f64() * 1e6)
}

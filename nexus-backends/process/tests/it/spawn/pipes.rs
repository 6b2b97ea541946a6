//! One process: its pipes, its end, and what it says about itself.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use nexus_core::redact::Redactor;
use nexus_process::containment::{ContainmentPolicy, available};
use nexus_process::executable::{Executable, ExecutableError};
use nexus_process::lines::LineEnding;
use nexus_process::spawn::{Bounds, EndedBy, ExitStatus, Invocation, SpawnError, StdinError, StdinMode};
use nexus_process::version::{VersionError, version_line};
use nexus_testkit::{child_test, effort};

use super::support::{assert_gone, environment, lines, marked, shell};
use crate::program;

fn bounds(change: impl FnOnce(&mut Bounds)) -> Bounds {
    let mut bounds = Bounds::default();
    change(&mut bounds);
    bounds
}

#[tokio::test]
async fn lines_arrive_in_order_and_the_last_one_is_marked() {
    let process = shell("printf 'one\\r\\n\\ntwo'; printf oops >&2; exit 3").spawn().unwrap();
    let mut found = Vec::new();
    while let Some(line) = process.next_line().await {
        found.push((line.bytes, line.ending));
    }
    assert_eq!(
        found,
        [
            (Bytes::from_static(b"one"), LineEnding::Newline),
            (Bytes::new(), LineEnding::Newline),
            (Bytes::from_static(b"two"), LineEnding::EndOfOutput),
        ]
    );
    let exit = process.wait().await;
    assert_eq!((exit.status, exit.ended_by), (ExitStatus::Code(3), EndedBy::Itself));
    assert!(!exit.output_held_open && exit.left_behind.is_empty() && exit.survivors.is_empty());
    assert_eq!(process.stderr_tail(), "oops");
    assert!(process.next_line().await.is_none(), "the end stays the end");
}

#[tokio::test]
async fn a_huge_line_arrives_whole_and_an_overlong_one_as_its_head() {
    let process = shell("head -c 8388608 /dev/zero | tr '\\0' x; echo; echo after").spawn().unwrap();
    let found = lines(&process).await;
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].len(), 8 << 20);
    assert!(found[0].iter().all(|byte| *byte == b'x'));
    assert_eq!(found[1], "after");

    let process = shell("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo after")
        .bounds(bounds(|bounds| bounds.line_bytes = 1 << 20))
        .spawn()
        .unwrap();
    let first = process.next_line().await.unwrap();
    assert_eq!(first.ending, LineEnding::Truncated { total_bytes: 3_000_000 });
    assert!(!first.bytes.is_empty() && first.bytes.len() <= 1 << 20);
    assert_eq!(process.next_line().await.unwrap().bytes, "after");
}

#[tokio::test]
async fn a_flood_on_standard_error_is_drained_and_only_its_end_is_kept() {
    let script = "head -c 20000000 /dev/zero | tr '\\0' e >&2; echo 'the last words' >&2; echo done";
    let process = shell(script).bounds(bounds(|bounds| bounds.stderr_tail_bytes = 1000)).spawn().unwrap();
    assert_eq!(lines(&process).await, ["done"]);
    process.wait().await;
    let tail = process.stderr_tail();
    assert_eq!(tail.len(), 1000);
    assert!(tail.ends_with("eee\u{65}the last words\n"), "{tail}");
}

#[tokio::test]
async fn secrets_are_taken_out_of_standard_error() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl";
    let process = shell(&format!("echo 'token hunter2-hunter2, Bearer abcdefgh12345678 and {jwt}' >&2"))
        .redactor(Redactor::new(["hunter2-hunter2"]))
        .spawn()
        .unwrap();
    process.wait().await;
    assert_eq!(process.stderr_tail(), "token [redacted], [redacted] and [redacted]\n");
}

#[tokio::test]
async fn output_closed_early_ends_the_lines_and_not_the_process() {
    let process = shell("echo one; exec 1>&-; sleep 0.3; exit 7").spawn().unwrap();
    assert_eq!(lines(&process).await, ["one"]);
    assert_eq!(process.wait().await.status, ExitStatus::Code(7));
}

#[tokio::test]
async fn a_death_by_signal_is_told_apart_from_a_code() {
    for signal in [9, 15, 11] {
        let process = shell(&format!("kill -{signal} $$")).spawn().unwrap();
        let exit = process.wait().await;
        assert_eq!((exit.status, exit.ended_by), (ExitStatus::Signal(signal), EndedBy::Itself));
    }
}

#[tokio::test]
async fn exiting_at_once_is_an_ordinary_end() {
    for _ in 0..effort::rounds() {
        let process = shell("exit 0").spawn().unwrap();
        let exit = process.wait().await;
        assert_eq!(exit.status, ExitStatus::Code(0));
        assert!(exit.elapsed < Duration::from_secs(60));
        assert_eq!(lines(&process).await.len(), 0);
    }
}

#[tokio::test]
async fn a_prompt_that_is_never_read_blocks_nothing() {
    let prompt = Bytes::from(vec![b'p'; 1 << 20]);
    let process = shell("sleep 0.2; echo done").stdin(StdinMode::Bytes(prompt.clone())).spawn().unwrap();
    assert_eq!(lines(&process).await, ["done"]);
    assert_eq!(process.wait().await.status, ExitStatus::Code(0));

    let process =
        shell("sleep 0.2; exec 0<&-; echo closed; sleep 0.3").stdin(StdinMode::Open).spawn().unwrap();
    assert_eq!(process.stdin().write(prompt.clone()).await, Err(StdinError::ClosedByChild));
    assert_eq!(process.stdin().write(prompt).await, Err(StdinError::ClosedByChild));
    assert_eq!(lines(&process).await, ["closed"]);
}

#[tokio::test]
async fn a_prompt_that_is_read_slowly_arrives_whole() {
    let prompt: Vec<u8> = (0..1 << 20).map(|index| b'a' + (index % 26) as u8).collect();
    let expected = Bytes::from(prompt.clone());
    let slow = "while dd bs=50000 count=1 2>/dev/null | cat > \"$0\"; [ -s \"$0\" ]; do cat \"$0\"; done";
    let folder = tempfile::tempdir().unwrap();
    let process = shell(slow)
        .argument(folder.path().join("piece"))
        .stdin(StdinMode::Bytes(Bytes::from(prompt)))
        .spawn()
        .unwrap();
    let found = lines(&process).await;
    assert_eq!(found.concat().len(), expected.len());
    assert_eq!(found.concat(), expected);
}

#[tokio::test]
async fn an_open_input_takes_writes_until_it_is_closed() {
    let process = shell("while read -r line; do echo \"got $line\"; done; echo end")
        .stdin(StdinMode::Open)
        .spawn()
        .unwrap();
    let stdin = process.stdin();
    for word in ["one", "two"] {
        stdin.write(format!("{word}\n")).await.unwrap();
        assert_eq!(process.next_line().await.unwrap().bytes, format!("got {word}"));
    }
    stdin.close();
    assert_eq!(stdin.write("late\n").await, Err(StdinError::ClosedByUs));
    assert_eq!(lines(&process).await, ["end"]);
}

#[tokio::test]
async fn two_writers_never_mix_their_bytes() {
    let process = shell("cat").stdin(StdinMode::Open).spawn().unwrap();
    let (first, second) = (process.stdin(), process.stdin());
    let write = |writer: nexus_process::spawn::StdinWriter, letter: u8| async move {
        let mut block = vec![letter; 100_000];
        block.push(b'\n');
        for _ in 0..10 {
            writer.write(block.clone()).await.unwrap();
        }
    };
    tokio::join!(write(first, b'a'), write(second, b'b'), async {
        for _ in 0..20 {
            let line = process.next_line().await.unwrap().bytes;
            assert!(line.len() == 100_000 && line.iter().all(|byte| *byte == line[0]));
        }
        process.stdin().close();
    });
    assert_eq!(process.wait().await.status, ExitStatus::Code(0));
}

#[tokio::test]
async fn dropping_a_read_loses_no_line() {
    let script = "read go; i=0
        while [ $i -lt 300 ]; do echo $i; i=$((i+1)); [ $((i % 10)) = 0 ] && sleep 0.003; done";
    let process = shell(script).stdin(StdinMode::Open).spawn().unwrap();
    let dropped = tokio::time::timeout(Duration::from_millis(1), process.next_line()).await;
    assert!(dropped.is_err(), "nothing is written yet");
    process.stdin().write("go\n").await.unwrap();
    let mut found = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep(Duration::from_micros(500)) => {}
            line = process.next_line() => match line {
                Some(line) => found.push(line.bytes),
                None => break,
            },
        }
    }
    let expected: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_child_sees_the_given_environment_and_its_marker_only() {
    // A program that has a variable to hide.
    let mut launcher = Command::new("env");
    launcher.arg("NEXUS_TEST_HIDDEN=hidden");
    if !child_test::runs_alone_through(launcher, a_child_sees_the_given_environment_and_its_marker_only) {
        return;
    }
    let process = Invocation::new(Executable::find("env", environment().value("PATH")).unwrap(), "/")
        .environment(environment())
        .spawn()
        .unwrap();
    let found: HashSet<String> =
        lines(&process).await.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    let expected = ["PATH=/usr/local/bin:/usr/bin:/bin".to_owned(), format!("NEXUS_RUN={}", process.run())];
    assert_eq!(found, expected.into());
}

#[tokio::test]
async fn a_variable_of_any_name_reaches_the_child_under_every_containment() {
    let folder = tempfile::tempdir().unwrap();
    let odd_path = folder.path().join("a=b");
    fs::copy("/usr/bin/env", &odd_path).unwrap();
    let given = [
        ("BASH_FUNC_module%%", "() {  eval \"$(bash \"$@\")\"\n}"),
        ("npm_config_//registry.example.org/:_authToken", "tok"),
        ("spring.profiles.active", "dev"),
        ("MY-VAR", "$HOME ${PATH} \\n \"quoted\" 'single'"),
        ("-x", "1"),
        ("1ST", ""),
        ("größe", "groß"),
        ("two\nlines", "a\nb"),
        ("PWD", "/nowhere"),
        ("OLDPWD", "/nowhere"),
        ("SHLVL", "7"),
        ("IFS", "x"),
        ("PPID", "1"),
        ("NEXUS_CARRIED_0", "own"),
        ("EMPTY", ""),
    ];
    let mut environment = environment();
    given.iter().for_each(|(name, value)| environment.set(*name, *value).unwrap());
    for kind in available() {
        for program in [Path::new("/usr/bin/env"), &odd_path] {
            let process = Invocation::new(Executable::at(program).unwrap(), "/")
                .arguments(["-0"])
                .environment(environment.clone())
                .containment(ContainmentPolicy::Exactly(kind))
                .spawn()
                .unwrap();
            let found = lines(&process).await.join(&b'\n');
            let found: HashSet<String> =
                String::from_utf8(found).unwrap().split_terminator('\0').map(Into::into).collect();
            let mut expected: HashSet<String> =
                given.iter().map(|(name, value)| format!("{name}={value}")).collect();
            expected.extend([
                "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
                format!("NEXUS_RUN={}", process.run()),
            ]);
            assert_eq!(found, expected, "{kind}, {}", program.display());
        }
    }
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("plain"), "text").unwrap();
    program::write(&path("gone"), "#!/bin/sh\n");
    program::write(&path("foreign"), "\x7fELF\x02\x01\x01 of no machine at all");
    program::write(&path("no_interpreter"), "#!/no/such/interpreter\n");

    let gone = Executable::at(path("gone")).unwrap();
    fs::remove_file(path("gone")).unwrap();
    let error = Invocation::new(gone, "/").spawn().unwrap_err();
    assert!(matches!(error, SpawnError::Executable(ExecutableError::Missing { .. })), "{error}");
    for name in ["foreign", "no_interpreter"] {
        let error = Invocation::new(Executable::at(path(name)).unwrap(), "/").spawn().unwrap_err();
        assert!(matches!(error, SpawnError::WrongFormat { .. }), "{name}: {error}");
    }
    let in_folder =
        |name: &str| Invocation::new(Executable::at("/bin/sh").unwrap(), path(name)).spawn().unwrap_err();
    assert!(matches!(in_folder("absent"), SpawnError::WorkingDirectoryMissing { .. }));
    assert!(matches!(in_folder("plain"), SpawnError::WorkingDirectoryNotADirectory { .. }));
    let error = shell("true").argument("a\0b").spawn().unwrap_err();
    assert!(matches!(error, SpawnError::Argument { position: 3 }), "{error}");
    let error = shell("true").argument("x".repeat(300_000)).spawn().unwrap_err();
    assert!(matches!(error, SpawnError::System { .. }), "{error}");
}

#[tokio::test]
async fn a_time_limit_ends_the_whole_tree() {
    let process = shell("sleep 300 & sleep 300")
        .bounds(bounds(|bounds| bounds.time_limit = Some(Duration::from_millis(200))))
        .spawn()
        .unwrap();
    let exit = process.wait().await;
    assert_eq!((exit.status, exit.ended_by), (ExitStatus::Signal(9), EndedBy::TimeLimit));
    assert!(exit.elapsed < Duration::from_secs(60));
    assert_gone(process.run(), &[process.pid()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_at_once_keep_their_lines_apart() {
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            tokio::spawn(async move {
                let script = format!("i=0; while [ $i -lt 200 ]; do echo {number}.$i; i=$((i+1)); done; cat");
                let process = shell(&script).stdin(StdinMode::Bytes("end\n".into())).spawn().unwrap();
                let found = lines(&process).await;
                let mut expected: Vec<String> = (0..200).map(|line| format!("{number}.{line}")).collect();
                expected.push("end".to_owned());
                assert_eq!(found, expected);
                assert_eq!(process.wait().await.status, ExitStatus::Code(0));
                assert!(marked(process.run()).is_empty());
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_record_holds_the_output_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let script = "printf '{\"key\":\"hunt'; sleep 0.1; printf 'er2-and-more\"}\\n'; echo 'err hunter2-and-more' >&2; exit 4";
    let mut with_token = environment();
    with_token.set("TOKEN", "hunter2-and-more").unwrap();
    let process = shell(script)
        .argument("hunter2-and-more")
        .environment(with_token)
        .redactor(Redactor::new(["hunter2-and-more"]))
        .capture(&record)
        .spawn()
        .unwrap();
    process.wait().await;
    let read = |name: &str| fs::read_to_string(record.join(name)).unwrap();
    assert_eq!(read("stdout.jsonl"), "{\"key\":\"[redacted]\"}\n");
    assert_eq!(read("stderr.txt"), "err [redacted]\n");
    let invocation: serde_json::Value = serde_json::from_str(&read("invocation.json")).unwrap();
    assert_eq!(invocation["environment_names"], serde_json::json!(["PATH", "TOKEN"]));
    assert_eq!(invocation["arguments"][2], "[redacted]");
    let exit: serde_json::Value = serde_json::from_str(&read("exit.json")).unwrap();
    assert_eq!(exit["status"], "Code(4)");
    assert_eq!(fs::metadata(&record).unwrap().permissions().mode() & 0o777, 0o700);
    let mut files = 0;
    for entry in fs::read_dir(&record).unwrap() {
        files += 1;
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        // The script itself, an argument, names only a part of it.
        assert!(!fs::read_to_string(entry.path()).unwrap().contains("hunter2-and"), "{:?}", entry.path());
    }
    assert_eq!(files, 4);
    let error = shell("true").capture(&record).spawn().unwrap_err();
    assert!(matches!(error, SpawnError::Capture { .. }), "an older record is never written over: {error}");
}

#[tokio::test]
async fn a_version_is_asked_once_for_each_state_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (tool, count) = (folder.path().join("tool"), folder.path().join("count"));
    let write = |version: &str| {
        let script = format!("#!/bin/sh\necho x >> {}\necho\necho '{version}'\n", count.display());
        let new = folder.path().join("new");
        program::write(&new, &script);
        fs::rename(&new, &tool).unwrap();
    };
    write("tool 1.0");
    let executable = Executable::at(&tool).unwrap();
    let environment = environment();
    let (first, second) =
        tokio::join!(version_line(&executable, &environment), version_line(&executable, &environment));
    assert_eq!((first.unwrap().as_str(), second.unwrap().as_str()), ("tool 1.0", "tool 1.0"));
    assert_eq!(fs::read_to_string(&count).unwrap(), "x\n");
    write("tool 2.0");
    assert_eq!(version_line(&executable, &environment).await.unwrap(), "tool 2.0");
    assert_eq!(fs::read_to_string(&count).unwrap(), "x\nx\n");

    let failing = Executable::at("/bin/false").unwrap();
    let told = version_line(&failing, &environment).await;
    assert!(matches!(told, Err(VersionError::Silent { .. }) | Ok(_)));
}

#[tokio::test]
async fn output_that_is_kept_is_there_byte_for_byte_and_too_much_of_it_ends_the_child() {
    let process =
        shell("printf 'a\\r\\n\\377b'; printf 'oops\\n' >&2; exit 3").keep_output(100, 100).spawn().unwrap();
    let exit = process.wait().await;
    assert_eq!((exit.status, exit.ended_by), (ExitStatus::Code(3), EndedBy::Itself));
    let [stdout, stderr] = process.take_kept();
    assert_eq!((stdout.head(), stderr.head()), (b"a\r\n\xffb".to_vec(), b"oops\n".to_vec()));

    let process = shell("yes").keep_output(1 << 20, 1000).spawn().unwrap();
    let exit = process.wait().await;
    assert_eq!(exit.ended_by, EndedBy::OutputLimit);
    let [stdout, _] = process.take_kept();
    assert_eq!((stdout.head().len(), stdout.tail().len()), (500, 500));
    assert!(stdout.total_bytes() > 1 << 20);
}

//! Homes that earlier versions wrote, read by this one; see `tests/recorded/README.md`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use crate::support::{Folder, text};

/// The home that commit 16c3db7d wrote, and its folder at that time.
pub(crate) const HOME_16C3DB7D: (&str, &str) = ("home-16c3db7d.tar.gz", "/tmp/.tmp6F0XEg");

/// Unpacks an archive. Absolute paths in its texts lead to the new folder, as if it had been written there.
pub(crate) fn unpacked((archive, written_in): (&str, &str)) -> Folder {
    let folder = Folder::empty();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(archive);
    let status = Command::new("tar")
        .arg("-xzpf")
        .arg(archive)
        .arg("--no-same-owner")
        .arg("-C")
        .arg(folder.path())
        .status();
    assert!(status.unwrap().success());
    let here = folder.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    for path in files(folder.path()).into_keys() {
        if let Ok(content) = fs::read_to_string(&path)
            && content.contains(written_in)
        {
            fs::write(&path, content.replace(written_in, &here)).unwrap();
        }
    }
    folder
}

/// Every file below a folder with its content.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap())),
            }
        }
    }
    found
}

/// What a command prints that must succeed, in a folder below the recorded one.
pub(crate) fn printed(folder: &Folder, below: &str, arguments: &[&str]) -> String {
    let mut command = folder.command(arguments);
    command.current_dir(folder.path().join(below)).env("DBUS_SESSION_BUS_ADDRESS", folder.no_bus());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn a_recorded_home_is_read_and_left_as_it_is() {
    let folder = unpacked(HOME_16C3DB7D);
    let before = files(folder.path());
    let holds: &[(&str, &[&str], &[&str])] = &[
        ("", &["task", "list"], &["complete", "framing", "`sh sum.sh -1 -2` is to print -3"]),
        ("", &["task", "list", "--json"], &["\"complete\"", "\"framing\""]),
        ("", &["debate", "list"], &["done", "opening"]),
        ("", &["conversation", "list"], &["talk · 4 messages", "branch · 2 messages"]),
        ("", &["conversation", "show", "talk"], &["first words", "second words", "Heard."]),
        ("", &["show", "turn.jsonl"], &["Hello.", "Heard."]),
        ("", &["trigger", "list"], &["0 9 * * 1", "Weekly report."]),
        ("", &["broker", "log"], &["Before anybody runs.", "Hello.", "Heard."]),
        ("", &["session", "list"], &["clerk"]),
        ("", &["explain", "refused"], &["refused-model"]),
        ("", &["testbed", "report", "experiment", "--output", "report.html"], &[]),
        ("site", &["project", "status"], &["Notes"]),
        ("site", &["project", "tasks"], &["write it"]),
        ("site", &["artifact", "lint"], &[]),
    ];
    for (below, arguments, words) in holds {
        let said = printed(&folder, below, arguments);
        for word in *words {
            assert!(said.contains(word), "{arguments:?} says nothing of {word:?}:\n{said}");
        }
    }
    // Locks and indexes are no content, and the report was asked for.
    for (path, content) in before {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_content = !name.ends_with(".db")
            && !name.contains("lock")
            && path.parent().is_some_and(|parent| !parent.ends_with("broker"));
        if is_content {
            assert!(fs::read(&path).is_ok_and(|now| now == content), "{} was changed", path.display());
        }
    }
}

#[test]
fn lists_answer_from_an_index_that_is_compared_with_the_state() {
    const GOAL: &str = "`sh sum.sh -1 -2` is to print -3";
    let folder = unpacked(HOME_16C3DB7D);
    let home = folder.nexus_home();
    let age = |path: &Path, seconds| {
        let time = SystemTime::now() - Duration::from_secs(seconds);
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    };
    // No program can set the time at which the properties of a file changed last.
    let settle = || std::thread::sleep(Duration::from_millis(200));
    files(&home).keys().for_each(|path| age(path, 3_600));
    settle();
    let list = |kind| printed(&folder, "", &[kind, "list"]);
    let all = || ["task", "debate", "conversation"].map(list);
    assert!(!home.join("index.json").exists() && !home.join("journal.jsonl").exists());
    let listed = all();
    assert!(home.join("journal.jsonl").exists(), "a home without a journal gets one by the scan");
    let index = fs::read_to_string(home.join("index.json")).unwrap();
    let marked = index.replace(GOAL, "As indexed.").replace("\"messages\":4", "\"messages\":9");
    fs::write(home.join("index.json"), marked).unwrap();
    assert!(list("task").contains("As indexed.") && list("conversation").contains("talk · 9 messages"));
    assert_eq!(list("debate"), listed[1]);
    // Files that are newer than they were are read again.
    for path in files(&home).into_keys() {
        if path.ends_with("status.json") || path.parent().is_some_and(|folder| folder.ends_with("names")) {
            age(&path, 1_800);
        }
    }
    settle();
    assert_eq!(all(), listed);
    for damaged in ["", "{\"version\":1}", &index.replace("{\"version\":1,", "{\"version\":2,"), &index[..99]]
    {
        fs::write(home.join("index.json"), damaged).unwrap();
        assert_eq!(all(), listed);
        assert_eq!(fs::read_to_string(home.join("index.json")).unwrap().len() / 100, index.len() / 100);
    }
}

#[test]
fn recorded_work_is_continued() {
    let folder = unpacked(HOME_16C3DB7D);
    let complete = printed(&folder, "", &["task", "list"]);
    let complete = complete.lines().find(|line| line.contains("complete")).unwrap();
    let id = complete.split_whitespace().next().unwrap();
    assert!(printed(&folder, "", &["task", "log", id]).contains("created"));
    assert!(printed(&folder, "", &["task", "show", id, "patch"]).contains("+echo $(( $1 + $2 ))"));
    assert!(printed(&folder, "", &["task", "land", id]).starts_with("landed: your branch main "));
    assert_eq!(fs::read_to_string(folder.path().join("sums/sum.sh")).unwrap(), "echo $(( $1 + $2 ))\n");
    let debates = printed(&folder, "", &["debate", "list"]);
    let done = debates.lines().find(|line| line.contains("done")).unwrap().split_whitespace().next().unwrap();
    assert!(printed(&folder, "", &["debate", "show", done]).contains("The panel agrees"));
    printed(&folder, "", &["conversation", "fork", "branch", "twig"]);
    printed(&folder, "", &["broker", "send", "clerk", "Written by a later version."]);
    assert!(printed(&folder, "", &["broker", "status"]).contains("2 waiting"));
    printed(&folder, "site", &["project", "done", "1"]);
}

#[cfg(feature = "login")]
#[test]
fn recorded_logins_are_known_and_removed() {
    let folder = unpacked(HOME_16C3DB7D);
    // It ends with an error, as no vendor's program is there.
    let output =
        folder.command(&["status"]).env("DBUS_SESSION_BUS_ADDRESS", folder.no_bus()).output().unwrap();
    let status = text(&output.stdout);
    assert!(status.contains("codex") && status.contains("somebody@example.test"), "{status}");
    assert!(!status.contains("canary-refresh"), "{status}");
    printed(&folder, "", &["logout", "codex"]);
    assert!(!folder.nexus_home().join("auth/openai-codex.json").exists());
}

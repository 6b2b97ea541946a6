//! Skills from hubs, and working folders: refusals, and files of a person's that are never touched.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use nexus_project::{
    ProjectErrorKind, create_working_folder,
    hub::{FolderHub, SkillChange, SkillFolder, SkillKind, clone_hub},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

const HERONS: &str = "---\nname: herons\ndescription: \"How herons are counted.\"\n---\nCount twice.\n";

/// A hub with two skills and a pack.
struct Hub {
    folder: tempfile::TempDir,
    index: Value,
}

impl Hub {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("herons/SKILL.md", HERONS),
            ("herons/data/names.txt", "grey\n"),
            ("geese/SKILL.md", "# Geese\n"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let index = json!({
            "skills": {
                "herons": { "description": "Herons.", "kind": "guides", "version": "1",
                    "files": { "SKILL.md": sha256(HERONS), "data/names.txt": sha256("grey\n") } },
                "geese": { "description": "Geese.", "kind": "tools", "version": "1", "files": { "SKILL.md": sha256("# Geese\n") } },
            },
            "packs": { "birds": ["herons", "geese"] },
        });
        let hub = Self { folder, index };
        hub.write();
        hub
    }

    fn write(&self) {
        fs::write(self.folder.path().join("hub.json"), self.index.to_string()).unwrap();
    }

    fn reader(&self) -> FolderHub {
        FolderHub::new(self.folder.path())
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Every file below a folder, with its content.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => {
                    let name = entry.path().strip_prefix(folder).unwrap().display().to_string();
                    found.insert(name, fs::read(entry.path()).unwrap_or_default());
                }
            }
        }
    }
    found
}

#[tokio::test]
async fn a_pack_is_installed_updated_and_removed() {
    let (mut hub, home) = (Hub::new(), tempfile::tempdir().unwrap());
    let skills = SkillFolder::new(home.path());
    let changes = skills.install(&hub.reader(), &names(&["birds"])).await.unwrap();
    assert_eq!(changes["herons"], SkillChange::Installed { version: "1".to_owned() });
    let found = skills.list().unwrap();
    assert_eq!(
        found.iter().map(|skill| (skill.kind, skill.name.as_str())).collect::<Vec<_>>(),
        [(SkillKind::Tools, "geese"), (SkillKind::Guides, "herons")]
    );
    assert_eq!(found[1].description, "How herons are counted.");
    assert_eq!(skills.text("herons").unwrap(), HERONS);
    assert_eq!(fs::read(home.path().join("guides/herons/data/names.txt")).unwrap(), b"grey\n");
    assert_eq!(
        skills.install(&hub.reader(), &names(&["herons"])).await.unwrap()["herons"],
        SkillChange::Unchanged
    );

    let newer = HERONS.replace("twice", "thrice");
    fs::write(hub.folder.path().join("herons/SKILL.md"), &newer).unwrap();
    hub.index["skills"]["herons"]["files"] = json!({ "SKILL.md": sha256(&newer) });
    hub.index["skills"]["herons"]["version"] = json!("2");
    hub.write();
    let changes = skills.update(&hub.reader(), &[]).await.unwrap();
    assert_eq!(changes["geese"], SkillChange::Unchanged);
    assert_eq!(changes["herons"], SkillChange::Updated { from: "1".to_owned(), to: "2".to_owned() });
    assert_eq!(skills.text("herons").unwrap(), newer);
    assert!(!home.path().join("guides/herons/data").exists(), "what the hub has no more is gone");
    assert_eq!(skills.remove("geese").unwrap(), SkillChange::Removed);
    assert_eq!(skills.find("geese").unwrap_err().kind, ProjectErrorKind::Unknown);
    assert!(
        files(home.path()).keys().all(|path| path.starts_with("guides/herons/")),
        "{:?}",
        files(home.path()).keys()
    );
}

#[tokio::test]
async fn a_hub_that_does_not_pass_its_check_installs_nothing() {
    type Spoil = fn(&mut Hub);
    let spoiled: [(&str, Spoil, &str); 12] = [
        (
            "a changed byte",
            |hub| fs::write(hub.folder.path().join("herons/data/names.txt"), "gray\n").unwrap(),
            "SHA-256",
        ),
        (
            "a missing file",
            |hub| fs::remove_file(hub.folder.path().join("herons/data/names.txt")).unwrap(),
            "not there",
        ),
        (
            "a path out",
            |hub| hub.index["skills"]["herons"]["files"]["../../../out"] = json!(sha256("x")),
            "leads out",
        ),
        (
            "an absolute path",
            |hub| hub.index["skills"]["herons"]["files"]["/etc/passwd"] = json!(sha256("x")),
            "leads out",
        ),
        (
            "a Windows path",
            |hub| hub.index["skills"]["herons"]["files"]["a\\..\\b"] = json!(sha256("x")),
            "leads out",
        ),
        (
            "a hidden file",
            |hub| hub.index["skills"]["herons"]["files"][".nexus-skill.json"] = json!(sha256("x")),
            "leads out",
        ),
        ("a folder out", |hub| hub.index["skills"]["herons"]["folder"] = json!("../herons"), "leads out"),
        (
            "a pack that is missing one",
            |hub| hub.index["packs"]["birds"] = json!(["herons", "swans"]),
            "the hub does not contain",
        ),
        (
            "no SKILL.md",
            |hub| hub.index["skills"]["herons"]["files"] = json!({ "data/names.txt": sha256("grey\n") }),
            "no SKILL.md",
        ),
        (
            "two names that are one",
            |hub| hub.index["skills"]["herons"]["files"]["skill.md"] = json!(sha256(HERONS)),
            "the same on some file systems",
        ),
        (
            "no hash",
            |hub| hub.index["skills"]["herons"]["files"]["SKILL.md"] = json!("abc"),
            "not the SHA-256",
        ),
        ("an unknown key", |hub| hub.index["skills"]["herons"]["run"] = json!("rm"), "cannot be read"),
    ];
    for (what, spoil, says) in spoiled {
        let (mut hub, home) = (Hub::new(), tempfile::tempdir().unwrap());
        spoil(&mut hub);
        hub.write();
        let skills = SkillFolder::new(home.path());
        let error = skills.install(&hub.reader(), &names(&["birds"])).await.unwrap_err();
        assert!(error.to_string().contains(says), "{what}: {error}");
        assert_eq!(files(home.path()), BTreeMap::new(), "{what}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_in_a_hub_is_not_followed() {
    for (path, target) in [("herons/SKILL.md", "/etc/hostname"), ("herons/data", "/etc"), ("herons", "geese")]
    {
        let (hub, home) = (Hub::new(), tempfile::tempdir().unwrap());
        let link = hub.folder.path().join(path);
        match link.is_dir() {
            true => fs::remove_dir_all(&link).unwrap(),
            false => fs::remove_file(&link).unwrap(),
        }
        std::os::unix::fs::symlink(target, &link).unwrap();
        let error =
            SkillFolder::new(home.path()).install(&hub.reader(), &names(&["herons"])).await.unwrap_err();
        assert!(error.to_string().contains("link"), "{path}: {error}");
        assert_eq!(files(home.path()), BTreeMap::new(), "{path}");
    }
}

#[tokio::test]
async fn what_is_a_persons_is_never_touched() {
    let (mut hub, home) = (Hub::new(), tempfile::tempdir().unwrap());
    let own = home.path().join("tools/geese/SKILL.md");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "My own geese.\n").unwrap();
    let skills = SkillFolder::new(home.path());
    // Of a pack with a name that is taken nothing is installed.
    let error = skills.install(&hub.reader(), &names(&["birds"])).await.unwrap_err();
    assert_eq!(error.kind, ProjectErrorKind::WrongState);
    assert_eq!(files(home.path()).len(), 1);
    skills.install(&hub.reader(), &names(&["herons"])).await.unwrap();
    let changed = home.path().join("guides/herons/data/names.txt");
    fs::write(&changed, "my names\n").unwrap();
    hub.index["skills"]["herons"]["version"] = json!("2");
    hub.write();
    let before = files(home.path());
    let is_kept = |change: &SkillChange| matches!(change, SkillChange::Kept { .. });
    assert!(is_kept(&skills.update(&hub.reader(), &[]).await.unwrap()["herons"]));
    assert!(is_kept(&skills.update(&hub.reader(), &names(&["geese"])).await.unwrap()["geese"]));
    assert!(is_kept(&skills.remove("herons").unwrap()) && is_kept(&skills.remove("geese").unwrap()));
    assert_eq!(files(home.path()), before);
    // A folder of a person's that is no skill yet.
    let notes = home.path().join("guides/swans/notes.txt");
    fs::create_dir_all(notes.parent().unwrap()).unwrap();
    fs::write(&notes, "mine").unwrap();
    hub.index["skills"]["swans"] = hub.index["skills"]["herons"].clone();
    hub.index["skills"]["swans"]["folder"] = json!("herons");
    hub.write();
    let error = skills.install(&hub.reader(), &names(&["swans"])).await.unwrap_err();
    assert_eq!(error.kind, ProjectErrorKind::WrongState);
    assert_eq!(fs::read(&notes).unwrap(), b"mine");
    // As it came, but with a file of one's own beside.
    fs::write(&changed, "grey\n").unwrap();
    fs::write(home.path().join("guides/herons/notes.md"), "mine").unwrap();
    assert!(is_kept(&skills.remove("herons").unwrap()));
    assert!(
        is_kept(&skills.update(&Hub::new().reader(), &[]).await.unwrap()["herons"]),
        "another hub has the name"
    );
}

#[tokio::test]
async fn a_repository_is_a_hub() {
    let (hub, home) = (Hub::new(), tempfile::tempdir().unwrap());
    let git = |arguments: &[&str]| {
        let ran = Command::new("git").arg("-C").arg(hub.folder.path()).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "hub"]);
    // A hook of the hub's would be run by a careless clone.
    let repository = hub.folder.path().display().to_string();
    let cloned = tokio::task::spawn_blocking(move || clone_hub(&repository)).await.unwrap().unwrap();
    let skills = SkillFolder::new(home.path());
    skills.install(&cloned, &names(&["birds"])).await.unwrap();
    assert_eq!(skills.list().unwrap().len(), 2);
    for bad in ["--upload-pack=touch x", "/nowhere/at/all", "ext::sh -c id"] {
        let error = tokio::task::spawn_blocking(move || clone_hub(bad)).await.unwrap().unwrap_err();
        assert_eq!(error.kind, ProjectErrorKind::Failed, "{bad}");
    }
    let secret =
        tokio::task::spawn_blocking(|| clone_hub("https://me:hunter2@127.0.0.1:1/hub.git")).await.unwrap();
    let error = secret.unwrap_err().to_string();
    assert!(!error.contains("hunter2") && error.contains("https://127.0.0.1:1/hub.git"), "{error}");
}

#[test]
fn a_working_folder_may_be_made_a_repository_by_many_at_once() {
    let home = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let folder = home.path().join(format!("work-{round}"));
        let reports: Vec<_> = std::thread::scope(|scope| {
            let calls: Vec<_> =
                (0..6).map(|_| scope.spawn(|| create_working_folder(&folder, true))).collect();
            calls.into_iter().map(|call| call.join().unwrap().unwrap()).collect()
        });
        let made = reports.iter().filter(|report| report.made.contains(&folder.join(".git"))).count();
        assert_eq!(made, 1);
    }
    // Neither a repository nor a folder that git can make one.
    let broken = home.path().join("broken");
    fs::create_dir_all(&broken).unwrap();
    std::os::unix::fs::symlink("/proc/none", broken.join(".git")).unwrap();
    let error = create_working_folder(&broken, true).unwrap_err();
    assert!(
        !error.to_string().contains("exit status") && error.advice.contains("fix what git says"),
        "{error}"
    );
}

#[test]
fn a_working_folder_is_created_once_and_existing_files_stay() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("work");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("AGENTS.md"), "mine").unwrap();
    let report = create_working_folder(&folder, true).unwrap();
    assert_eq!(report.kept, [folder.join("AGENTS.md")]);
    assert!(folder.join(".git/HEAD").is_file() && folder.join("skills/connectors").is_dir());
    assert_eq!(fs::read(folder.join("AGENTS.md")).unwrap(), b"mine");
    fs::write(folder.join("SOUL.md"), "changed").unwrap();
    let before = files(&folder);
    let again = create_working_folder(&folder, true).unwrap();
    assert_eq!(again.made, Vec::<std::path::PathBuf>::new());
    assert_eq!(files(&folder), before);
    #[cfg(unix)]
    {
        let linked = home.path().join("linked");
        fs::create_dir(&linked).unwrap();
        std::os::unix::fs::symlink(home.path().join("outside.md"), linked.join("SOUL.md")).unwrap();
        create_working_folder(&linked, false).unwrap();
        assert!(!home.path().join("outside.md").exists());
    }
    assert!(create_working_folder(Path::new("/proc/nowhere"), false).is_err());
}

#[tokio::test]
async fn what_a_command_that_was_killed_left_is_put_back_or_removed() {
    let (hub, home) = (Hub::new(), tempfile::tempdir().unwrap());
    let skills = SkillFolder::new(home.path());
    skills.install(&hub.reader(), &names(&["birds"])).await.unwrap();
    let before = files(home.path());
    let guides = home.path().join("guides");
    let aside = guides.join(".replaced-a1b2c3");
    fs::create_dir(&aside).unwrap();
    fs::rename(guides.join("herons"), aside.join("herons")).unwrap();
    for (folder, file) in [(".installing-a1b2c3", "SKILL.md"), (".removed-a1b2c3/geese", "SKILL.md")] {
        fs::create_dir_all(guides.join(folder)).unwrap();
        fs::write(guides.join(folder).join(file), "half").unwrap();
    }
    assert_eq!(skills.text("herons").unwrap(), HERONS);
    assert_eq!(files(home.path()), before);
    assert_eq!(fs::read_dir(&guides).unwrap().count(), 1);
    // Killed when the newer one had its place: the older one goes, but not where a person had changed it.
    for (text, is_left) in [(HERONS, false), ("mine\n", true)] {
        fs::create_dir_all(aside.join("herons/data")).unwrap();
        for (name, text) in [
            ("SKILL.md", text.to_owned()),
            ("data/names.txt", "grey\n".to_owned()),
            (".nexus-skill.json", fs::read_to_string(guides.join("herons/.nexus-skill.json")).unwrap()),
        ] {
            fs::write(aside.join("herons").join(name), text).unwrap();
        }
        skills.update(&hub.reader(), &[]).await.unwrap();
        assert_eq!(aside.exists(), is_left, "{text}");
    }
    assert_eq!(skills.text("herons").unwrap(), HERONS);
}

#[cfg(unix)]
#[tokio::test]
async fn of_two_commands_on_the_skills_the_second_waits() {
    let (hub, home) = (Hub::new(), tempfile::tempdir().unwrap());
    let skills = SkillFolder::new(home.path());
    skills.install(&hub.reader(), &names(&["geese"])).await.unwrap();
    let other = fs::File::open(home.path()).unwrap();
    other.try_lock().unwrap();
    // Another command's files in the making.
    let begun = home.path().join("guides/.installing-a1b2c3");
    fs::create_dir_all(&begun).unwrap();
    assert_eq!(skills.remove("geese").unwrap_err().kind, ProjectErrorKind::InUse);
    assert_eq!(skills.list().unwrap().len(), 1);
    let installing = tokio::spawn({
        let (skills, hub) = (skills.clone(), hub.reader());
        async move { skills.install(&hub, &names(&["herons"])).await }
    });
    // It has begun once it is there, and it cannot have ended.
    tokio::task::yield_now().await;
    assert!(begun.exists() && !installing.is_finished());
    other.unlock().unwrap();
    installing.await.unwrap().unwrap();
    assert!(!begun.exists());
    assert_eq!(skills.remove("geese").unwrap(), SkillChange::Removed);
    let left: Vec<_> = fs::read_dir(home.path().join("tools")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_skill_that_cannot_be_looked_into_hides_no_other_and_is_left_alone() {
    let (hub, home) = (Hub::new(), tempfile::tempdir().unwrap());
    let skills = SkillFolder::new(home.path());
    skills.install(&hub.reader(), &names(&["birds"])).await.unwrap();
    fs::write(home.path().join("guides/herons/.nexus-skill.json"), "{").unwrap();
    assert_eq!(skills.list().unwrap().len(), 2);
    assert_eq!(skills.text("geese").unwrap(), "# Geese\n");
    let herons = skills.find("herons").unwrap();
    assert!(herons.damaged.as_ref().unwrap().contains("make the skill your own"), "{herons:?}");
    let before = files(home.path());
    assert!(matches!(skills.remove("herons").unwrap(), SkillChange::Kept { .. }));
    skills.update(&hub.reader(), &[]).await.unwrap();
    assert_eq!(files(home.path()), before);
    // A pipe in the place of a file is not waited for.
    let file = home.path().join("tools/geese/SKILL.md");
    fs::remove_file(&file).unwrap();
    fs::write(&file, "# Geese\n").unwrap();
    let pipe = home.path().join("tools/geese/extra");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(matches!(skills.remove("geese").unwrap(), SkillChange::Kept { .. }));
}

#[test]
fn linked_folders_and_long_names_are_listed_and_other_folders_are_named_with_the_reason() {
    let place = tempfile::tempdir().unwrap();
    let guides = place.path().join("skills/guides");
    let text = "---\ndescription: Finds links.\n---\n";
    let long = "a".repeat(64);
    let too_long = "a".repeat(65);
    for name in ["plain", &long, &too_long, "Upper", "two words", ".hidden"] {
        fs::create_dir_all(guides.join(name)).unwrap();
        fs::write(guides.join(name).join("SKILL.md"), text).unwrap();
    }
    fs::create_dir_all(guides.join("empty")).unwrap();
    let elsewhere = place.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join("SKILL.md"), text).unwrap();
    std::os::unix::fs::symlink(&elsewhere, guides.join("linked")).unwrap();
    std::os::unix::fs::symlink("nowhere", guides.join("dangling")).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("SKILL.md"), guides.join("file")).unwrap();
    // A link to a text inside of the folder is the skill's own. One to another file could name any file of the person.
    for (name, target) in [("inside", "text.md".into()), ("outside", elsewhere.join("SKILL.md"))] {
        fs::create_dir_all(guides.join(name)).unwrap();
        fs::write(guides.join(name).join("text.md"), text).unwrap();
        std::os::unix::fs::symlink(target, guides.join(name).join("SKILL.md")).unwrap();
    }

    let skills = SkillFolder::new(place.path().join("skills"));
    let listed: Vec<_> =
        skills.list().unwrap().into_iter().map(|skill| (skill.name, skill.description)).collect();
    let described = |name: &str| (name.to_owned(), "Finds links.".to_owned());
    assert_eq!(listed, [described(&long), described("inside"), described("linked"), described("plain")]);
    let left_out: Vec<_> = skills
        .left_out()
        .unwrap()
        .into_iter()
        .map(|one| (one.folder.file_name().unwrap().to_string_lossy().into_owned(), one.reason))
        .collect();
    let reasons: Vec<_> = left_out.iter().map(|(name, reason)| (name.as_str(), &reason[..14])).collect();
    assert_eq!(
        reasons,
        [
            ("Upper", "a name has 1 t"),
            (too_long.as_str(), "a name has 1 t"),
            ("dangling", "it cannot be r"),
            ("empty", "it has no file"),
            ("file", "the link leads"),
            ("outside", "its SKILL.md i"),
            ("two words", "a name has 1 t"),
        ]
    );
    assert_eq!(skills.text("outside").unwrap_err().kind, ProjectErrorKind::Unknown);
    // A linked skill belongs to the person, whatever its folder says.
    fs::write(elsewhere.join(".nexus-hub.json"), "{}").unwrap();
    assert!(matches!(skills.remove("linked").unwrap(), SkillChange::Kept { .. }));
    assert!(guides.join("linked").is_symlink() && elsewhere.join("SKILL.md").exists());
}

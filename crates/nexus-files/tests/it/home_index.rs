//! Lists show the state as the files have it, whatever becomes of the index.

use std::{
    cell::RefCell,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_files::{HomeIndex, IndexEntry, Journal, JournalKind, JournalRead, WorkFiles, replace};

const FOLDER: &str = "work";

/// A home in which each file of `work` is a piece of work: its kind, and a title.
struct Home {
    folder: tempfile::TempDir,
    journal: Arc<Journal>,
    /// Names of the work that the last list read.
    read: RefCell<Vec<String>>,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(FOLDER)).unwrap();
        let journal = Arc::new(Journal::in_home(folder.path()));
        Self { folder, journal, read: RefCell::default() }
    }

    /// With so many tasks that an index is worth it, listed once.
    fn with_tasks(number: usize) -> Self {
        let home = Self::new();
        for number in 0..number {
            home.write(&format!("t{number:02}"), "task", "as created");
        }
        settle();
        assert_eq!(home.tasks().len(), number);
        home
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(FOLDER).join(name)
    }

    fn index_path(&self) -> std::path::PathBuf {
        self.folder.path().join("index.json")
    }

    /// Replaces a file as if that was long ago.
    fn write(&self, name: &str, kind: &str, title: &str) {
        replace(&self.path(name), format!("{kind} {title}").as_bytes()).unwrap();
        let file = fs::File::open(self.path(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
    }

    fn list(&self, kind: &JournalKind) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.folder.path().join(FOLDER)).unwrap().collect();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut found: Vec<_> = names.drain(..).map(name).collect();
        found.sort();
        let found: Vec<_> =
            found.into_iter().map(|name| WorkFiles { files: vec![self.path(&name)], name }).collect();
        self.read.borrow_mut().clear();
        let index = HomeIndex::in_home(self.folder.path(), Arc::clone(&self.journal));
        let listed = index.refresh(FOLDER, kind, &found, |work: &WorkFiles| {
            self.read.borrow_mut().push(work.name.clone());
            let text = fs::read_to_string(&work.files[0]).unwrap();
            let Some((found, title)) = text.split_once(' ') else { return Err(work.name.clone()) };
            let updated_at = fs::metadata(&work.files[0]).unwrap().modified().unwrap();
            let mut entry = IndexEntry::new(found.into(), work.name.clone(), title, updated_at);
            entry.details = (entry.kind == *kind).then(|| title.to_owned());
            Ok(Some(entry))
        });
        assert!(listed.entries.iter().all(|entry| entry.details.as_ref() == Some(&entry.title)));
        let titles = listed.entries.into_iter().map(|entry| format!("{} {}", entry.id, entry.title));
        titles.chain(listed.unreadable.into_iter().map(|name| format!("{name} unreadable"))).collect()
    }

    fn tasks(&self) -> Vec<String> {
        self.list(&JournalKind::Task)
    }

    fn number_read(&self) -> usize {
        self.read.borrow().len()
    }
}

/// Waits until the files count as unchanged: no program can set the time at which their properties changed last.
fn settle() {
    std::thread::sleep(Duration::from_millis(200));
}

fn touch(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(30)).unwrap();
}

#[test]
fn only_what_changed_is_read_again() {
    let home = Home::with_tasks(30);
    assert_eq!(home.number_read(), 30);
    assert_eq!((home.tasks().len(), home.number_read()), (30, 0));
    home.write("t07", "task", "changed");
    fs::remove_file(home.path("t08")).unwrap();
    home.write("t30", "task", "new");
    settle();
    let listed = home.tasks();
    assert_eq!(*home.read.borrow(), ["t07", "t30"]);
    assert_eq!(listed.len(), 30);
    assert!(listed.contains(&"t07 changed".to_owned()) && listed.contains(&"t30 new".to_owned()));
    assert!(!listed.iter().any(|line| line.starts_with("t08")));
    touch(&home.path("t09"));
    assert_eq!((home.tasks(), home.number_read()), (listed, 1), "another time is another state");
}

#[test]
fn a_file_that_just_changed_is_read_each_time() {
    let home = Home::with_tasks(10);
    for title in ["one", "two", "six"] {
        // The same size, and maybe the same moment and file number.
        replace(&home.path("t03"), format!("task {title}").as_bytes()).unwrap();
        assert!(home.tasks().contains(&format!("t03 {title}")));
        assert_eq!(home.number_read(), 1);
    }
}

#[test]
fn work_of_other_kinds_is_passed_over_and_has_a_list_of_its_own() {
    let home = Home::with_tasks(20);
    home.write("d1", "debate", "a question");
    assert_eq!(home.tasks().len(), 20);
    assert_eq!(home.list(&JournalKind::Debate), ["d1 a question"]);
    home.write("t20", "task", "more");
    assert_eq!(home.tasks().len(), 21);
    home.write("d1", "task", "now a task");
    assert_eq!(home.tasks().len(), 22);
    assert!(home.list(&JournalKind::Debate).is_empty());
}

#[test]
fn an_index_that_is_damaged_or_of_another_version_is_built_anew() {
    let home = Home::with_tasks(10);
    let whole = fs::read_to_string(home.index_path()).unwrap();
    let listed = home.tasks();
    let later = whole.replace("{\"version\":1,", "{\"version\":2,");
    let other = whole.replace("\"stamps\"", "\"marks\"");
    let mut damaged: Vec<String> = ["", "{", "[]", "null", "\0\0"].map(str::to_owned).into();
    damaged.extend((0..whole.len()).step_by(37).map(|cut| whole[..cut].to_owned()));
    damaged.extend([later, other]);
    for text in damaged {
        assert_ne!(text, whole);
        fs::write(home.index_path(), &text).unwrap();
        assert_eq!(home.tasks(), listed);
        assert_eq!(home.number_read(), 10, "{text:?}");
        assert_eq!((home.tasks(), home.number_read()), (listed.clone(), 0), "{text:?}");
    }
    // Details that this version cannot read are read from the state.
    fs::write(home.index_path(), whole.replace("\"details\":\"as created\"", "\"details\":7")).unwrap();
    assert_eq!((home.tasks(), home.number_read()), (listed, 10));
}

#[test]
fn a_state_that_cannot_be_read_hides_no_other_and_is_tried_again() {
    let home = Home::with_tasks(10);
    home.write("t04", "damage", "");
    fs::write(home.path("t04"), "damage").unwrap();
    touch(&home.path("t04"));
    for _ in 0..2 {
        let listed = home.tasks();
        assert_eq!((listed.len(), home.number_read()), (10, 1));
        assert!(listed.contains(&"t04 unreadable".to_owned()));
    }
    home.write("t04", "task", "mended");
    assert!(home.tasks().contains(&"t04 mended".to_owned()));
}

#[test]
fn a_change_without_an_entry_in_the_journal_gets_one() {
    let home = Home::with_tasks(10);
    let scanned = home.journal.last_seq().unwrap();
    assert!(scanned > 0, "the first index sends readers of the journal to the state");
    let since = |seq| -> Vec<(String, String)> {
        match home.journal.read_after(seq).unwrap() {
            JournalRead::Entries(entries) => {
                entries.into_iter().map(|entry| (entry.id, entry.what)).collect()
            }
            JournalRead::Rescan { last } => panic!("a scan up to {last}"),
        }
    };
    let said = |id: &str, what: &str| (id.to_owned(), what.to_owned());
    let nothing: Vec<(String, String)> = Vec::new();
    home.tasks();
    assert_eq!(since(scanned), nothing);
    home.write("t01", "task", "lost");
    home.write("t02", "task", "recorded");
    let recorded = home.journal.append(JournalKind::Task, "t02", "changed").unwrap();
    fs::remove_file(home.path("t03")).unwrap();
    home.tasks();
    assert_eq!(since(recorded), [said("t01", "scanned"), said("t03", "scanned")]);
    let last = home.journal.last_seq().unwrap();
    home.tasks();
    assert_eq!(since(last), nothing);
}

#[test]
fn a_home_without_work_stays_as_it_is() {
    let home = Home::new();
    assert!(home.tasks().is_empty());
    assert_eq!(fs::read_dir(home.folder.path()).unwrap().count(), 1);
}

#[test]
fn a_home_that_cannot_be_written_is_listed() {
    let home = Home::new();
    for number in 0..10 {
        home.write(&format!("t{number}"), "task", "as created");
    }
    fs::create_dir(home.index_path()).unwrap();
    assert_eq!((home.tasks().len(), home.tasks().len()), (10, 10));
    assert!(!home.journal.path().exists(), "an index that is not written says nothing in the journal");
    fs::remove_dir(home.index_path()).unwrap();
    fs::set_permissions(home.folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    assert_eq!((home.tasks().len(), home.tasks().len()), (10, 10));
    fs::set_permissions(home.folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
}

//! The git that a tree keeps to read objects.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use nexus_core::CancelToken;
use nexus_trees::{CommitId, Git, Tree, TreeErrorKind};

use super::kit::{Place, commit, kind, listing, needs_git, real_git, script, write};

/// A git that writes down each start, and who reads objects.
struct Counted {
    git: Git,
    starts: PathBuf,
    readers: PathBuf,
}

impl Counted {
    /// `reading` is shell that runs in place of the git that reads objects; empty, it is git itself.
    fn new(place: &Place, reading: &str) -> Self {
        let folder = place.folder.path();
        let (program, starts, readers) =
            (folder.join("bin/git"), folder.join("starts"), folder.join("readers"));
        let real = real_git();
        let reads =
            if reading.is_empty() { format!("exec {} \"$@\"", real.display()) } else { reading.to_owned() };
        script(
            &program,
            &format!(
                "echo \"$*\" | sed 's/.*--no-pager //' >> {}\ncase \"$*\" in *'cat-file --batch') echo $$ >> {}; {reads} ;; esac\nexec {} \"$@\"",
                starts.display(),
                readers.display(),
                real.display()
            ),
        );
        Self { git: Git::at(&program).unwrap(), starts, readers }
    }

    fn starts(&self) -> Vec<String> {
        fs::read_to_string(&self.starts).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn readers(&self) -> Vec<String> {
        fs::read_to_string(&self.readers).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// The readers that are there, and are no zombies.
    fn running(&self) -> Vec<String> {
        let is_running = |pid: &String| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        self.readers().into_iter().filter(is_running).collect()
    }

    fn is_none_left(&self) -> bool {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            if self.running().is_empty() {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

fn place(git: &Git) -> Place {
    Place::with(
        git,
        &[("a", "1\n"), ("folder/b", "1\n"), ("folder/deep/c", "1\n"), (".gitignore", "*.log\n")],
    )
}

/// What a step of a task does.
fn step(tree: &Tree, folder: &Path, content: &str) -> CommitId {
    let base = tree.base().commit.clone();
    tree.restore(&base, folder, &[]).unwrap();
    write(&folder.join("folder/new"), content);
    let snapshot = tree.snapshot(folder).unwrap();
    assert_eq!(tree.changes(&base, &snapshot).unwrap().len(), 1);
    assert!(tree.patch(&base, &snapshot).unwrap().text().contains(content));
    commit(tree, folder, &base).unwrap()
}

#[test]
fn all_objects_are_read_by_one_git_which_ends_with_the_last_clone() {
    let git = needs_git!();
    let place = place(&git);
    let counted = Counted::new(&place, "");
    let tree = place.create().unwrap().with_git(&counted.git);
    let clone = tree.clone().with_cancel(CancelToken::new());
    step(&tree, &place.out("now"), "one");
    step(&clone, &place.out("now"), "two");
    // The same git, within other bounds.
    step(
        &tree.clone().with_git(&counted.git.clone().with_time_limit(Duration::from_secs(60))),
        &place.out("now"),
        "three",
    );
    assert_eq!(counted.readers().len(), 1);
    let starts = counted.starts();
    let reads = |name: &str| starts.iter().filter(|start| start.split(' ').next() == Some(name)).count();
    assert_eq!([reads("ls-tree"), reads("rev-parse"), reads("cat-file")], [0, 0, 1], "{starts:#?}");
    // Of each step: its contents twice, what is ignored, the index and the tree twice, the patch, and the commit.
    assert!(starts.len() <= 2 + 3 * 10, "{starts:#?}");
    drop(tree);
    assert_eq!(counted.running().len(), 1);
    drop(clone);
    assert_eq!(counted.running().len(), 0);
}

#[test]
fn a_reading_git_that_is_killed_is_followed_by_another() {
    let git = needs_git!();
    let place = place(&git);
    let counted = Counted::new(&place, "");
    let tree = place.create().unwrap().with_git(&counted.git);
    step(&tree, &place.out("now"), "one");
    let [reader] = &counted.readers()[..] else { panic!("{:?}", counted.readers()) };
    assert!(Command::new("kill").args(["-9", reader]).status().unwrap().success());
    assert!(counted.is_none_left());
    step(&tree, &place.out("now"), "two");
    assert_eq!(counted.readers().len(), 2);
}

#[test]
fn a_git_that_ends_before_it_has_answered_is_an_error_and_the_next_call_is_well() {
    let git = needs_git!();
    let place = place(&git);
    let once = place.folder.path().join("once");
    // It answers nothing the first time, half an object the second.
    let counted = Counted::new(
        &place,
        &format!(
            "read id; n=$(cat {0} 2>/dev/null); echo x$n > {0}; case $n in '') kill -9 $$ ;; x) echo \"$id commit 1000\"; exit 0 ;; *) printf '%s\\n' \"$id missing\"; exit 0 ;; esac",
            once.display()
        ),
    );
    let tree = place.create().unwrap();
    let base = tree.base().commit.clone();
    let reading = tree.with_git(&counted.git);
    let killed = reading.tree_of(&base).unwrap_err();
    assert_eq!(killed.kind(), TreeErrorKind::Git);
    assert!(killed.to_string().contains("signal 9"), "{killed}");
    let half = reading.tree_of(&base).unwrap_err();
    assert!(half.to_string().contains("half an object"), "{half}");
    assert_eq!(kind(reading.tree_of(&base)), TreeErrorKind::NotFound);
    reading.with_git(&git).tree_of(&base).unwrap();
}

#[test]
fn an_answer_about_another_object_is_an_error_and_its_git_is_not_asked_again() {
    let git = needs_git!();
    let place = place(&git);
    let counted = Counted::new(
        &place,
        "read id; printf '%s missing\\n' $(echo $id | tr 0-9a-f 1-9a-f0); while read id; do echo \"$id missing\"; done",
    );
    let tree = place.create().unwrap();
    let base = tree.base().commit.clone();
    let reading = tree.with_git(&counted.git);
    let error = reading.tree_of(&base).unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::Git);
    assert!(error.to_string().contains(base.as_str()), "{error}");
    assert!(counted.is_none_left());
    assert_eq!(kind(reading.tree_of(&base)), TreeErrorKind::Git);
    assert_eq!(counted.readers().len(), 2);
}

#[test]
fn a_caller_that_cancels_in_the_middle_of_reading_leaves_no_git() {
    let git = needs_git!();
    let place = place(&git);
    // It answers that an object comes, and then starts something that holds its pipes.
    let counted = Counted::new(&place, "read id; echo \"$id commit 1000\"; sleep 300 & wait");
    let tree = place.create().unwrap();
    let base = tree.base().commit.clone();
    let cancel = CancelToken::new();
    let cancelled = tree.clone().with_git(&counted.git).with_cancel(cancel.clone());
    let ended = thread::scope(|scope| {
        let call = scope.spawn(|| cancelled.tree_of(&base));
        let began = Instant::now();
        while counted.readers().is_empty() && began.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(5));
        }
        cancel.cancel();
        call.join().unwrap()
    });
    assert_eq!(kind(ended), TreeErrorKind::Cancelled);
    assert!(counted.is_none_left());
    // Nothing is begun any more, and nobody else is bothered.
    let readers = counted.readers().len();
    assert_eq!(kind(cancelled.tree_of(&base)), TreeErrorKind::Cancelled);
    assert_eq!(counted.readers().len(), readers);
    tree.tree_of(&base).unwrap();
}

#[test]
fn a_repository_that_is_replaced_or_gone_under_an_open_tree_is_noticed() {
    let git = needs_git!();
    let place = place(&git);
    let tree = place.create().unwrap();
    let folder = place.out("now");
    let made = step(&tree, &folder, "one");
    let (repository, away) = (tree.path().join("repository"), tree.path().join("away"));
    fs::rename(&repository, &away).unwrap();
    assert!(tree.tree_of(&made).is_err());
    // Another one takes its place.
    place.person(&["init", "-q", "--bare", repository.to_str().unwrap()]);
    let before = listing(&folder);
    assert_eq!(kind(tree.tree_of(&made)), TreeErrorKind::NotFound);
    assert_eq!(kind(tree.restore(&made, &folder, &[])), TreeErrorKind::NotFound);
    assert_eq!(kind(tree.snapshot(&folder)), TreeErrorKind::NotFound);
    assert_eq!(kind(tree.move_ref("head", None, &made)), TreeErrorKind::NotFound);
    assert_eq!(kind(Tree::open(&git, place.workspace())), TreeErrorKind::MissingObject);
    assert_eq!(listing(&folder), before);
    fs::remove_dir_all(&repository).unwrap();
    fs::rename(&away, &repository).unwrap();
    tree.tree_of(&made).unwrap();
    tree.restore(&made, &folder, &[]).unwrap();
}

#[test]
fn an_object_that_is_lost_or_damaged_under_an_open_tree_is_named() {
    let git = needs_git!();
    let place = place(&git);
    let tree = place.create().unwrap();
    let folder = place.out("now");
    let made = step(&tree, &folder, "one");
    let object = |id: &str| tree.path().join("repository/objects").join(&id[..2]).join(&id[2..]);
    let content = tree.changes(&tree.base().commit, &made).unwrap();
    let id = content[0].new.as_ref().unwrap().id.clone();
    let kept = fs::read(object(&id)).unwrap();
    fs::remove_file(object(&id)).unwrap();
    let error = tree.check_out(&made, place.out("other")).unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::MissingObject);
    assert!(error.to_string().contains(&id), "{error}");
    write(&object(&id), b"no object");
    assert!(tree.restore(&made, &folder, &[]).is_err());
    fs::remove_file(object(&id)).unwrap();
    write(&object(&id), kept);
    tree.restore(&made, &folder, &[]).unwrap();
}

#[test]
fn what_is_listed_is_what_git_lists_with_folders_that_become_files_and_odd_names() {
    let git = needs_git!();
    let place = Place::with(
        &git,
        &[("a/b/c", "1\n"), ("a.b", "1\n"), ("a-b", "1\n"), ("same/x/y", "1\n"), ("z", "1\n")],
    );
    let tree = place.create().unwrap();
    let folder = place.out("now");
    tree.check_out(&tree.base().commit, &folder).unwrap();
    fs::remove_dir_all(folder.join("a")).unwrap();
    write(&folder.join("a"), "now a file\n");
    fs::remove_file(folder.join("z")).unwrap();
    write(&folder.join("z/q r/\u{e9}\n".trim_end()), "now a folder\n");
    std::os::unix::fs::symlink("a", folder.join("link")).unwrap();
    let base = &tree.base().commit;
    let made = commit(&tree, &folder, base).unwrap();
    let raw = place.person_in(
        &tree.path().join("repository"),
        &["diff-tree", "-r", "-z", "--name-only", "--no-renames", base.as_str(), made.as_str()],
    );
    let expected: Vec<PathBuf> = raw.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    let found: Vec<PathBuf> =
        tree.changes(base, &made).unwrap().into_iter().map(|change| change.path).collect();
    assert_eq!(found, expected);
    assert!(found.len() >= 5);
}

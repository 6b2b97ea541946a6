//! Snapshots around turns in a person's folder: coverage, undo, redo, and the files that no snapshot may touch.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use nexus_trees::{FolderHistory, LaterChanges, StoredHistory, TreeErrorKind, TreeLimits};

use crate::kit::{Place, needs_git, write};

const REFUSE: LaterChanges = LaterChanges::Refuse;

fn history(place: &Place) -> FolderHistory {
    FolderHistory::open(&place.git, place.folder.path().join("home/undo/one"), place.project()).unwrap()
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("({})", error.kind()))
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Runs a turn that makes these changes.
fn turn(history: &FolderHistory, change: impl FnOnce()) -> u64 {
    let number = history.begin("executor").unwrap();
    change();
    history.end(number).unwrap();
    number
}

#[test]
fn a_turn_is_undone_redone_and_shown_and_other_files_stay() {
    let git = needs_git!();
    let place =
        Place::with(&git, &[("kept", "1\n"), ("gone", "2\n"), ("deep/er/file", "3\n"), ("run", "#!\n")]);
    let folder = place.project();
    let at = |name: &str| folder.join(name);
    write(&at("new"), "untracked\n");
    fs::set_permissions(at("new"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(at("run"), fs::Permissions::from_mode(0o775)).unwrap();
    symlink("kept", at("link")).unwrap();
    let status = place.person(&["status", "--porcelain"]);
    let history = history(&place);
    turn(&history, || {
        write(&at("kept"), "changed\n");
        fs::remove_file(at("gone")).unwrap();
        fs::remove_dir_all(at("deep")).unwrap();
        write(&at("deep"), "a file\n");
        fs::remove_file(at("new")).unwrap();
        fs::remove_file(at("link")).unwrap();
        write(&at("link/below"), "a folder\n");
        fs::set_permissions(at("run"), fs::Permissions::from_mode(0o664)).unwrap();
    });
    write(&at("mine"), "later\n");

    let (shown, patch) = history.diff(Some(1)).unwrap();
    assert_eq!((shown.number, shown.label.as_str(), shown.has_end), (1, "executor", true));
    assert!(patch.text().contains("-2\n") && !patch.text().contains("later"), "{}", patch.text());
    let (_, patch) = history.diff(None).unwrap();
    assert!(patch.text().contains("+later"), "{}", patch.text());

    let undone = history.undo(REFUSE).unwrap();
    assert!(undone.left_out.is_empty() && undone.turn.is_undone, "{undone:?}");
    let contents = ["kept", "gone", "deep/er/file", "new", "link/below", "mine"].map(|name| read(at(name)));
    assert_eq!(contents, ["1\n", "2\n", "3\n", "untracked\n", "(not a directory)", "later\n"]);
    assert_eq!((mode(at("new")), mode(at("run"))), (0o600, 0o775));
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("kept"));
    fs::remove_file(at("mine")).unwrap();
    assert_eq!(place.person(&["status", "--porcelain"]), status);

    assert_eq!(history.undo(REFUSE).unwrap_err().kind(), TreeErrorKind::NotFound);
    // A turn that changed nothing is no turn to undo.
    turn(&history, || ());
    assert_eq!(history.undo(REFUSE).unwrap_err().kind(), TreeErrorKind::NotFound);
    history.redo().unwrap();
    let contents = ["kept", "gone", "deep", "new", "link/below"].map(|name| read(at(name)));
    assert_eq!(contents, ["changed\n", "(entity not found)", "a file\n", "(entity not found)", "a folder\n"]);
    assert_eq!(history.redo().unwrap_err().kind(), TreeErrorKind::NotFound);
    history.undo(REFUSE).unwrap();
    assert_eq!(read(at("kept")), "1\n");
    assert!(place.person(&["for-each-ref"]).lines().count() == 1, "the repository got a ref");
}

#[test]
fn a_file_that_the_person_changed_later_is_not_overwritten_unasked_and_never_lost() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n"), ("b", "1\n")]);
    let (history, folder) = (history(&place), place.project());
    turn(&history, || {
        write(&folder.join("a"), "2\n");
        write(&folder.join("b"), "2\n");
    });
    write(&folder.join("a"), "mine\n");
    let error = history.undo(REFUSE).unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::Changed);
    assert_eq!(error.to_string(), "these files were changed after turn 1: \"a\"");
    assert_eq!((read(folder.join("a")), read(folder.join("b"))), ("mine\n".into(), "2\n".into()));
    history.undo(LaterChanges::Overwrite).unwrap();
    assert_eq!((read(folder.join("a")), read(folder.join("b"))), ("1\n".into(), "1\n".into()));
    history.redo().unwrap();
    assert_eq!((read(folder.join("a")), read(folder.join("b"))), ("mine\n".into(), "2\n".into()));
    history.undo(REFUSE).unwrap();
    write(&folder.join("b"), "after the undo\n");
    assert_eq!(history.redo().unwrap_err().kind(), TreeErrorKind::Changed);
    assert_eq!((read(folder.join("a")), read(folder.join("b"))), ("1\n".into(), "after the undo\n".into()));
}

#[test]
fn a_turn_without_an_end_is_undone_only_on_request() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let (history, folder) = (history(&place), place.project());
    history.begin("killed").unwrap();
    write(&folder.join("a"), "2\n");
    let error = history.undo(REFUSE).unwrap_err();
    assert!(error.to_string().contains("the end of turn 1 is not recorded"), "{error}");
    history.undo(LaterChanges::Overwrite).unwrap();
    assert_eq!(read(folder.join("a")), "1\n");
}

#[test]
fn ignored_large_and_foreign_files_are_never_touched_even_if_the_rules_change() {
    let git = needs_git!();
    let place =
        Place::with(&git, &[(".gitignore", "secret\nout/\n"), ("a", "1\n"), ("sub/.gitignore", "inner\n")]);
    let folder = place.project();
    let at = |name: &str| folder.join(name);
    for (name, content) in [("secret", "key\n"), ("out/x/y", "built\n"), ("sub/inner", "i\n")] {
        write(&at(name), content);
    }
    write(&at("large"), "x".repeat(5000));
    fs::create_dir(at("nested")).unwrap();
    place.person_in(&at("nested"), &["init", "-q"]);
    write(&at("nested/file"), "other\n");
    rustix_fifo(&at("pipe"));
    let history = history(&place).with_limits(limits(4096));
    turn(&history, || {
        // The turn makes ignored files visible, and hides a covered one.
        write(&at(".gitignore"), "a\n");
        write(&at("sub/.gitignore"), "\n");
        write(&at("a"), "2\n");
        write(&at("large"), "small\n");
        write(&at("nested/file"), "changed\n");
    });
    let undone = history.undo(REFUSE).unwrap();
    assert!(undone.left_out.contains(&"large".into()), "{undone:?}");
    let names = ["a", ".gitignore", "secret", "out/x/y", "sub/inner", "large", "nested/file"];
    let contents = names.map(|name| read(at(name)));
    assert_eq!(contents, ["1\n", "secret\nout/\n", "key\n", "built\n", "i\n", "small\n", "changed\n"]);
}

#[test]
fn a_folder_below_the_top_has_a_history_of_its_own_files() {
    let git = needs_git!();
    let place = Place::with(
        &git,
        &[(".gitignore", "*.log\n"), ("top", "1\n"), ("[s]/file", "1\n"), ("s/file", "1\n")],
    );
    let folder = place.project().join("[s]");
    write(&folder.join("a.log"), "ignored\n");
    let history = FolderHistory::open(&git, place.folder.path().join("home/undo"), &folder).unwrap();
    turn(&history, || {
        write(&folder.join("file"), "2\n");
        write(&place.project().join("s/file"), "2\n");
        write(&place.project().join("top"), "2\n");
        write(&folder.join("a.log"), "more\n");
    });
    let undone = history.undo(REFUSE).unwrap();
    assert_eq!(undone.paths, [Path::new("file")]);
    assert_eq!(read(folder.join("file")), "1\n");
    assert_eq!(
        (read(place.project().join("top")), read(folder.join("a.log"))),
        ("2\n".into(), "more\n".into())
    );
}

#[test]
fn no_link_is_followed_and_no_limit_is_passed() {
    let git = needs_git!();
    let place = Place::with(&git, &[("dir/file", "1\n")]);
    let (folder, outside) = (place.project(), place.folder.path().join("home"));
    write(&outside.join("file"), "private\n");
    let taken = history(&place);
    turn(&taken, || {
        fs::remove_dir_all(folder.join("dir")).unwrap();
        symlink(&outside, folder.join("dir")).unwrap();
    });
    taken.undo(REFUSE).unwrap();
    assert_eq!(
        (read(folder.join("dir/file")), read(outside.join("file"))),
        ("1\n".into(), "private\n".into())
    );
    for index in 0..20 {
        write(&folder.join(format!("many-{index}")), "x");
    }
    let mut few = limits(4096);
    few.files = 10;
    assert_eq!(taken.with_limits(few).begin("x").unwrap_err().kind(), TreeErrorKind::TooLarge);
    let plain = place.folder.path().join("plain");
    fs::create_dir(&plain).unwrap();
    let error = FolderHistory::open(&git, &outside, &plain).unwrap_err();
    assert_eq!(error.kind(), TreeErrorKind::NotAProject);
    let unborn = Place::new(&git);
    unborn.person(&["init", "-q"]);
    write(&unborn.project().join("first"), "1\n");
    let history = history(&unborn);
    turn(&history, || write(&unborn.project().join("first"), "2\n"));
    history.undo(REFUSE).unwrap();
    assert_eq!(read(unborn.project().join("first")), "1\n");
}

#[test]
fn the_oldest_turns_are_deleted_with_their_objects() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let (history, folder) = (history(&place), place.project());
    for index in 0..61 {
        write(&folder.join("a"), format!("state {index}\n"));
        history.begin("x").unwrap();
    }
    let turns = history.turns().unwrap();
    assert_eq!((turns.first().unwrap().number, turns.last().unwrap().number, turns.len()), (11, 61, 51));
    let (_, patch) = history.diff(Some(11)).unwrap();
    assert!(patch.text().contains("-state 10") && patch.text().contains("+state 60"), "{}", patch.text());
    let store = place.folder.path().join("home/undo/one/repository");
    let all = place.person(&[
        "--git-dir",
        store.to_str().unwrap(),
        "cat-file",
        "--batch-all-objects",
        "--batch-check",
    ]);
    assert_eq!(all.lines().filter(|line| line.contains(" blob ")).count(), 51, "{all}");
}

#[test]
fn a_second_undo_restores_only_the_files_of_the_turn() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n"), ("b", "1\n")]);
    let (history, folder) = (history(&place), place.project());
    turn(&history, || write(&folder.join("a"), "2\n"));
    write(&folder.join("b"), "mine\n");
    history.undo(REFUSE).unwrap();
    history.redo().unwrap();
    let undone = history.undo(REFUSE).unwrap();
    assert_eq!(undone.paths, [Path::new("a")]);
    assert_eq!((read(folder.join("a")), read(folder.join("b"))), ("1\n".into(), "mine\n".into()));
}

#[test]
fn undos_at_the_same_time_undo_different_turns() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let (taken, folder) = (history(&place), place.project());
    for state in ["2\n", "3\n"] {
        turn(&taken, || write(&folder.join("a"), state));
    }
    std::thread::scope(|scope| {
        let undos = [(); 2].map(|()| scope.spawn(|| history(&place).undo(REFUSE).unwrap().turn.number));
        let mut numbers = undos.map(|undo| undo.join().unwrap());
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2]);
    });
    assert_eq!(read(folder.join("a")), "1\n");
}

#[test]
fn an_undo_that_cannot_write_is_continued_by_the_next_one() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n"), ("dir/file", "1\n"), ("z", "1\n")]);
    let (history, folder) = (history(&place), place.project());
    let at = |name: &str| folder.join(name);
    turn(&history, || write(&at("z"), "first\n"));
    turn(&history, || {
        write(&at("a"), "2\n");
        write(&at("z"), "2\n");
        fs::remove_dir_all(at("dir")).unwrap();
    });
    // A file where the folder was is found before anything is recorded.
    write(&at("dir"), "mine\n");
    let error = history.undo(REFUSE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"dir\" is no folder any more, so files cannot be restored there: move it away"
    );
    assert_eq!((read(at("a")), history.turns().unwrap()[1].is_undone), ("2\n".into(), false));
    fs::remove_file(at("dir")).unwrap();
    // A folder with a file that no snapshot covers is found when the turn's new file is replaced.
    turn(&history, || fs::remove_file(at("z")).unwrap());
    fs::create_dir_all(at("z/deep")).unwrap();
    rustix_fifo(&at("z/deep/pipe"));
    let error = history.undo(REFUSE).unwrap_err();
    assert!(error.to_string().contains("\"z\" is a folder"), "{error}");
    fs::remove_dir_all(at("z")).unwrap();
    assert_eq!(history.undo(REFUSE).unwrap().turn.number, 3);
    let undone = history.undo(REFUSE).unwrap();
    assert_eq!(undone.turn.number, 2);
    assert_eq!([read(at("a")), read(at("dir/file")), read(at("z"))], ["1\n", "1\n", "first\n"]);
}

#[test]
fn an_undo_that_failed_on_the_way_is_continued_and_can_be_redone() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n"), ("z", "1\n")]);
    let (history, folder) = (history(&place), place.project());
    let at = |name: &str| folder.join(name);
    turn(&history, || write(&at("a"), "first\n"));
    turn(&history, || {
        write(&at("a"), "2\n");
        fs::remove_file(at("z")).unwrap();
        write(&at("z/new"), "2\n");
    });
    // No snapshot covers a pipe, so the folder stays.
    rustix_fifo(&at("z/pipe"));
    let error = history.undo(REFUSE).unwrap_err().to_string();
    assert!(error.contains("cannot be restored: ") && error.contains("irectory"), "{error}");
    assert!(!history.turns().unwrap()[1].is_undone);
    fs::remove_dir_all(at("z")).unwrap();
    assert_eq!(history.undo(REFUSE).unwrap().turn.number, 2);
    assert_eq!([read(at("a")), read(at("z"))], ["first\n", "1\n"]);
    history.redo().unwrap();
    assert_eq!([read(at("a")), read(at("z/new"))], ["2\n", "2\n"]);
}

#[test]
fn an_interrupted_undo_is_not_done_and_its_first_state_is_retained() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n"), ("b", "1\n")]);
    let (history, folder) = (history(&place), place.project());
    let at = |name: &str| folder.join(name);
    turn(&history, || write(&at("a"), "first\n"));
    turn(&history, || {
        write(&at("a"), "2\n");
        write(&at("b"), "2\n");
    });
    history.undo(REFUSE).unwrap();
    // As if the program had been killed after the first file.
    let stored = place.folder.path().join("home/undo/one/turns/00000002.json");
    let text = read(&stored).replace("\"is_complete\":true", "\"is_complete\":false");
    assert!(text.contains("\"is_complete\":false"));
    fs::write(&stored, text).unwrap();
    write(&at("b"), "2\n");
    assert!(!history.turns().unwrap()[1].is_undone);
    let undone = history.undo(REFUSE).unwrap();
    assert_eq!((undone.turn.number, undone.paths), (2, vec!["b".into()]));
    history.redo().unwrap();
    assert_eq!((read(at("a")), read(at("b"))), ("2\n".into(), "2\n".into()));
}

#[test]
fn an_excluded_folder_is_not_recorded_and_has_no_history() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n"), ("inside/secret", "key\n"), ("inside-not", "1\n")]);
    let folder = place.project();
    let history = history(&place).without(folder.join("inside"));
    turn(&history, || {
        for name in ["a", "inside/secret", "inside/new", "inside-not"] {
            write(&folder.join(name), "2\n");
        }
    });
    let (_, patch) = history.diff(Some(1)).unwrap();
    assert!(!patch.text().contains("inside/"), "{}", patch.text());
    let undone = history.undo(REFUSE).unwrap();
    assert_eq!(undone.paths, [Path::new("a"), Path::new("inside-not")]);
    assert_eq!(read(folder.join("inside/secret")), "2\n");
    for excluded in [folder.clone(), folder.parent().unwrap().to_owned()] {
        let store = place.folder.path().join("home/undo/two");
        let history = FolderHistory::open(&git, &store, &folder).unwrap().without(excluded);
        assert_eq!(history.begin("x").unwrap_err().kind(), TreeErrorKind::NotAProject);
        assert!(!store.exists());
    }
}

#[test]
fn files_that_the_user_ignores_everywhere_are_left_out() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let (folder, home) = (place.project(), place.folder.path().join("home"));
    write(&home.join("ignored"), ".env\n");
    write(&home.join("config"), format!("[core]\n\texcludesFile = {}\n", home.join("ignored").display()));
    write(&folder.join(".env"), "key\n");
    let git = place.git.with_user_configuration([home.join("config")]);
    let history = FolderHistory::open(&git, home.join("undo/one"), &folder).unwrap();
    turn(&history, || {
        write(&folder.join(".env"), "changed\n");
        write(&folder.join("a"), "2\n");
    });
    let undone = history.undo(REFUSE).unwrap();
    assert_eq!((undone.paths, read(folder.join(".env"))), (vec!["a".into()], "changed\n".into()));
}

#[test]
fn a_split_index_is_read_and_an_owner_only_file_stays_so() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n"), (".gitignore", "tracked\n")]);
    let folder = place.project();
    write(&folder.join("tracked"), "1\n");
    place.person(&["add", "-f", "tracked"]);
    place.person(&["update-index", "--split-index"]);
    let found = fs::read_dir(folder.join(".git")).unwrap().flatten();
    assert!(
        found.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("sharedindex."))
    );
    fs::set_permissions(folder.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
    let history = history(&place);
    turn(&history, || {
        fs::remove_file(folder.join("a")).unwrap();
        write(&folder.join("tracked"), "2\n");
    });
    history.undo(REFUSE).unwrap();
    assert_eq!((read(folder.join("tracked")), mode(folder.join("a"))), ("1\n".into(), 0o600));
    let left = fs::read_dir(place.folder.path().join("home/undo/one/repository")).unwrap().flatten();
    assert!(
        !left.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("sharedindex."))
    );
}

fn limits(file_bytes: u64) -> TreeLimits {
    let mut limits = TreeLimits::default();
    limits.file_bytes = file_bytes;
    limits
}

fn rustix_fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn a_stored_history_is_removed_unless_a_turn_uses_it_or_has_used_it_since() {
    let git = needs_git!();
    let place = Place::with(&git, &[("a", "1\n")]);
    let stores = place.folder.path().join("home/undo");
    assert_eq!(StoredHistory::all(&stores).unwrap(), []);
    let used = history(&place);
    turn(&used, || write(&place.project().join("a"), "2\n"));
    let listed = || StoredHistory::all(&stores).unwrap().pop().unwrap();
    let stored = listed();
    assert_eq!(stored.folder.as_deref(), Some(place.project().canonicalize().unwrap().as_path()));
    // While a turn runs, and after it.
    let in_use = used.retain().unwrap().unwrap();
    assert!(!stored.remove().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(20));
    turn(&used, || write(&place.project().join("a"), "3\n"));
    drop(in_use);
    assert!(!stored.remove().unwrap());
    assert_eq!(used.turns().unwrap().len(), 2);
    // A history whose removal was interrupted, and one whose lock is gone.
    fs::create_dir_all(stores.join(".removed-1/turns")).unwrap();
    fs::remove_file(stores.join("one/lock")).unwrap();
    assert!(listed().remove().unwrap());
    assert_eq!(StoredHistory::all(&stores).unwrap(), []);
    FolderHistory::sweep(&stores);
    assert_eq!(fs::read_dir(&stores).unwrap().count(), 0);
}

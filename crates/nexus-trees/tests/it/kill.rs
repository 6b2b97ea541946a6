//! Git is killed at every step: before it begins, when it is done, and in between.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use nexus_testkit::effort;
use nexus_trees::{BranchJoin, CommitId, Git, Landing, Project, Tree, TreeError, TreeOptions};

use super::kit::{Place, commit, listing, needs_git, real_git, script, write};

/// A git that is killed in one run of many.
struct Killer {
    program: PathBuf,
    counter: PathBuf,
    at: PathBuf,
    log: PathBuf,
}

impl Killer {
    /// `how` is shell: `real` is the true git with its arguments.
    fn new(folder: &Path, how: &str) -> Self {
        let (program, counter, at) = (folder.join("bin/git"), folder.join("counter"), folder.join("at"));
        let log = folder.join("log");
        script(
            &program,
            &format!(
                "real() {{ {} \"$@\"; }}\nread n < {1}; n=$((n + 1)); echo $n > {1}; echo \"$*\" >> {3}\n[ $n = \"$(cat {2})\" ] || exec {0} \"$@\"\n{how}",
                real_git().display(),
                counter.display(),
                at.display(),
                log.display()
            ),
        );
        Self { program, counter, at, log }
    }

    /// Kills the run with this number from now on. 0 kills none.
    fn arm(&self, at: usize) {
        fs::write(self.program.with_extension("round"), at.to_string()).unwrap();
        fs::write(&self.counter, "0\n").unwrap();
        fs::write(&self.log, "").unwrap();
        fs::write(&self.at, at.to_string()).unwrap();
    }

    /// The runs since, of those whose command is one of these.
    fn runs(&self, commands: &[&str]) -> Vec<usize> {
        let log = fs::read_to_string(&self.log).unwrap();
        let runs = log.lines().zip(1..).filter(|(line, _)| {
            let command =
                line.split_once("--no-pager ").map_or("", |(_, rest)| rest).split(' ').next().unwrap();
            commands.is_empty() || commands.contains(&command)
        });
        runs.map(|(_, run)| run).collect()
    }
}

/// All runs in the deep lanes; elsewhere as many as there are rounds, evenly spread from the first to the last.
fn tried(runs: Vec<usize>) -> Vec<usize> {
    let rounds = effort::rounds().min(runs.len());
    if effort::is_deep() || rounds < 2 {
        return runs;
    }
    (0..rounds).map(|round| runs[round * (runs.len() - 1) / (rounds - 1)]).collect()
}

/// What a task does to a person's repository before it lands.
fn work(git: &Git, place: &Place) -> Result<Tree, TreeError> {
    let project = Project::find(place.project())?;
    let tree = Tree::create(git, place.workspace(), &project, &TreeOptions::new().include_uncommitted())?;
    let base = tree.base().commit.clone();
    let folder = place.out("now");
    tree.restore(&base, &folder, &[])?;
    write(&folder.join("a"), "2\n");
    let snapshot = tree.snapshot(&folder)?;
    tree.patch(&base, &snapshot)?;
    let made = commit(&tree, &folder, &base)?;
    let now = tree.read_ref("head")?;
    if now.is_none() {
        tree.move_ref("head", None, &made)?;
    }
    assert_eq!(tree.read_ref("head")?.as_ref(), Some(&made));
    let mut bundle = Vec::new();
    tree.bundle(&base, &made, &mut bundle)?;
    tree.apply_bundle(&mut bundle.as_slice())?;
    Ok(tree)
}

/// The person's repository, without folders that git left empty.
fn files(place: &Place) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = place.repository();
    files.retain(|_, content| content != b"folder");
    files
}

/// How it is killed, in runs of which commands.
const WAYS: [(&str, &[&str]); 3] = [
    ("real \"$@\"; kill -9 $$", &[]),
    // Each time at another moment of the first few milliseconds.
    (
        "real \"$@\" & sleep 0.00$(($(cat \"$0.round\") % 9)); kill -9 $! $$",
        &["init", "fast-import", "update-index", "write-tree", "update-ref", "index-pack", "read-tree", "pack-objects"],
    ),
    // With the locks taken that moving a ref takes.
    (
        "for a in \"$@\"; do case $a in refs/*) mkdir -p \"$GIT_DIR/${a%/*}\"; : > \"$GIT_DIR/$a.lock\" ;; esac; done
: > \"$GIT_DIR/HEAD.lock\"; kill -9 $$",
        &["update-ref"],
    ),
];

#[test]
fn a_git_that_is_killed_at_any_step_leaves_nothing_with_the_person_but_the_one_ref() {
    let git = needs_git!();
    let mut failures = 0;
    for (how, commands) in WAYS {
        let scratch = tempfile::tempdir().unwrap();
        let killer = Killer::new(scratch.path(), how);
        killer.arm(0);
        let killing = Git::at(&killer.program).unwrap();
        let place =
            Place::with(&git, &[("a", "1\n"), ("b", "1\n"), (".gitattributes", "*.bin filter=lfs\n")]);
        write(&place.project().join("b"), "uncommitted\n");
        let before = files(&place);
        killer.arm(0);
        work(&killing, &place).unwrap().delete().unwrap();
        assert!(killer.runs(&[]).len() > 20);
        assert_eq!(files(&place), before);
        for at in tried(killer.runs(commands)) {
            killer.arm(at);
            failures += usize::from(work(&killing, &place).and_then(Tree::delete).is_err());
            assert_eq!(files(&place), before, "killed in run {at} by {how}");
            assert!(place.pins().len() <= 1, "{:?}", place.pins());
            // The next start goes on, whatever was left.
            let tree = place.create_with(&TreeOptions::new().include_uncommitted());
            let tree = tree.unwrap_or_else(|error| panic!("after run {at} by {how}: {error}"));
            assert_eq!(place.pins().len(), 1);
            let (now, base) = (tree.read_ref("head").unwrap(), tree.base().commit.clone());
            tree.move_ref("head", now.as_ref(), &base).unwrap();
            tree.delete().unwrap();
            assert_eq!(files(&place), before, "after run {at} by {how}");
            assert_eq!(place.pins().len(), 0);
        }
    }
    assert!(failures > 0, "no run was hit");
}

#[test]
fn a_landing_that_is_killed_leaves_no_lock_and_loses_nothing() {
    kill_landings(|tree, made| tree.land(made), |_| {});
}

#[test]
fn a_rebase_that_is_killed_leaves_no_lock_and_loses_nothing() {
    let rebase = |tree: &Tree, made: &CommitId| {
        let joined = tree.join_branch(made, &BranchJoin::Rebase)?;
        tree.land_joined(&joined.unwrap_or_else(|obstacle| panic!("{obstacle}")))
    };
    kill_landings(rebase, |place| {
        write(&place.project().join("other"), "1\n");
        place.person(&["add", "other"]);
        place.person(&["commit", "-q", "-m", "meanwhile"]);
    });
}

fn kill_landings(land: impl Fn(&Tree, &CommitId) -> Result<Landing, TreeError>, meanwhile: impl Fn(&Place)) {
    let Some(git) = crate::kit::git() else { return };
    let (mut landed, mut failed) = (0, 0);
    for (how, commands) in WAYS {
        let scratch = tempfile::tempdir().unwrap();
        let killer = Killer::new(scratch.path(), how);
        killer.arm(0);
        let killing = Git::at(&killer.program).unwrap();
        // The first one is not killed, and says which runs there are.
        let mut todo = vec![0];
        while let Some(at) = todo.pop() {
            let place = Place::with(&git, &[("a", "1\n"), ("sub/b", "1\n"), ("gone", "1\n")]);
            let (tree, folder) = place.checked_out();
            write(&folder.join("a"), "2\n");
            write(&folder.join("new/c"), "2\n");
            fs::remove_file(folder.join("gone")).unwrap();
            let made = commit(&tree, &folder, &tree.base().commit).unwrap();
            meanwhile(&place);
            write(&place.project().join("sub/b"), "the person's\n");
            let (base, before) = (place.person(&["rev-parse", "main"]), checkout(&place));
            killer.arm(at);
            let landing = land(&tree.clone().with_git(&killing), &made);
            if at == 0 {
                todo = tried(killer.runs(commands));
                assert!(!todo.is_empty());
            }
            let locks: Vec<_> = listing(&place.project().join(".git"))
                .into_keys()
                .filter(|path| {
                    path.to_string_lossy().contains(".lock") || path.to_string_lossy().contains("tmp_")
                })
                .collect();
            assert_eq!(locks, Vec::<PathBuf>::new(), "run {at} by {how}");
            match landing {
                Ok(Landing::FastForwarded { .. }) => landed += 1,
                Ok(other) => panic!("run {at} by {how}: {other:?}"),
                Err(error) => {
                    failed += 1;
                    assert_eq!(place.person(&["rev-parse", "main"]), base, "run {at} by {how}: {error}");
                    assert_eq!(checkout(&place), before, "run {at} by {how}: {error}");
                    assert_eq!(
                        place.person(&["status", "--porcelain"]),
                        " M sub/b",
                        "run {at} by {how}: {error}"
                    );
                }
            }
            let again = land(&tree, &made).unwrap();
            let Landing::FastForwarded { to, .. } = again else { panic!("{again:?}") };
            assert_eq!(place.person(&["status", "--porcelain"]), " M sub/b");
            assert_eq!(place.person(&["rev-parse", "main"]), to.as_str());
            assert_eq!(place.person(&["rev-parse", "main~1"]), base);
            assert_eq!(place.person(&["show", "main:a"]), "2");
            place.person(&["fsck", "--strict"]);
        }
    }
    assert!(landed >= WAYS.len() && failed > 0, "{landed} landed, {failed} failed");
}

fn checkout(place: &Place) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = listing(&place.project());
    files.retain(|path, _| !path.starts_with(".git"));
    files
}

//! Running a probe on three trees.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use nexus_core::{CancelToken, harness::try_blocking};
use nexus_process::spawn::KeptOutput;
use nexus_trees::TreeId;
use nexus_work::{DraftError, Faults};

use super::{
    Checks,
    copies::PreparedCopy,
    error::CheckError,
    keep::ShownPath,
    missing,
    output::{CheckOutput, ProgramExit},
    prepare::Prepare,
    probe::{ProbeDraft, ProbeFile},
    probe_record::{
        ProbeAnswer, ProbeDifference, ProbeRecord, ProbeRun, ProbeRunEnd, ProbeSide, ProbeSides, SideOutcome,
    },
    runner::{Program, ProgramEnd, Ran},
};

/// Maximum amount of output of one probe run, in bytes. Small enough to compare all of it: a probe prints observations.
const OUTPUT_BYTES: u64 = 1 << 20;
/// Stored part of each output, in bytes.
const STORED_BYTES: usize = 64 << 10;
/// Time for all runs of a probe, as a multiple of the longest run of one program. A probe of sixteen inputs is 96 runs.
const WALLS: u32 = 4;

/// Tree on which a probe runs, for all the sides that have it.
struct ProbedTree {
    tree: TreeId,
    prepare: Prepare,
    /// One pair of runs for each input.
    runs: Vec<[Ran; 2]>,
}

impl ProbedTree {
    fn prepared(&self) -> Option<&Arc<PreparedCopy>> {
        match &self.prepare {
            Prepare::Done(prepared) => Some(prepared),
            Prepare::Failed { .. } => None,
        }
    }
}

impl Checks {
    /// Runs a probe on three trees, and stores the results under a new number.
    ///
    /// On each tree it runs twice for each input, each time over a fresh copy, so its own writes are never seen again. If two sides have
    /// the same tree, it runs once for both. Nothing is normalised: a probe that prints a time or a random number is
    /// [`Unstable`](SideOutcome::Unstable), and is not compared. All runs together may take four times as long as one.
    ///
    /// # Probes that did not start
    ///
    /// A side is [`DidNotStart`](SideOutcome::DidNotStart) in these cases:
    ///
    /// - The program is missing, or the interpreter that its first line names.
    /// - A command that prepares the tree failed.
    /// - The probe wrote nothing to standard output, failed, and names a file or a Python module that only another tree has.
    /// - The probe reported a missing program or module on *every* side.
    ///
    /// Every other failure counts as *ran*, and is compared. No text that a tree's own programs print can remove their side from the
    /// comparison.
    ///
    /// # Errors
    ///
    /// [`Refused`](CheckError::Refused) for a probe that is too large, or whose files leave the tree or have a path that one of the trees
    /// has; [`Settings`](CheckError::Settings); [`NoSandbox`](CheckError::NoSandbox); errors of trees, disks and
    /// [`Runner`](CheckError::Runner); [`Cancelled`](CheckError::Cancelled).
    pub async fn run_probe(
        &self,
        probe: ProbeDraft,
        sides: &ProbeSides,
        cancel: &CancelToken,
    ) -> Result<ProbeRecord, CheckError> {
        self.probe(probe, None, sides, cancel).await
    }

    /// Runs a stored probe again, perhaps on other trees, and stores the results under a new number.
    ///
    /// # Errors
    ///
    /// [`NoSuchProbe`](CheckError::NoSuchProbe) and [`Malformed`](CheckError::Malformed); otherwise as [`Checks::run_probe`].
    pub async fn run_probe_again(
        &self,
        number: u32,
        sides: &ProbeSides,
        cancel: &CancelToken,
    ) -> Result<ProbeRecord, CheckError> {
        let store = self.probes.clone();
        let stored = try_blocking(move || store.read(number)).await?;
        self.probe(stored.probe, Some(number), sides, cancel).await
    }

    async fn probe(
        &self,
        probe: ProbeDraft,
        again_of: Option<u32>,
        sides: &ProbeSides,
        cancel: &CancelToken,
    ) -> Result<ProbeRecord, CheckError> {
        probe.check()?;
        let began = SystemTime::now();
        let kept = self.kept().await?;
        let (mut trees, mut index): (Vec<ProbedTree>, Vec<usize>) = (Vec::new(), Vec::new());
        for side in ProbeSide::ALL {
            let tree = self.tree_of(sides.commit(side), cancel).await?;
            // Sides with the same files share one set of runs.
            let at = trees.iter().position(|known| known.tree == tree).unwrap_or(trees.len());
            index.push(at);
            if at == trees.len() {
                let prepare = self.prepare(&tree, &kept, cancel).await?;
                trees.push(ProbedTree { tree, prepare, runs: Vec::new() });
            }
        }
        // Check the prepared copies, not the trees: setup commands may have created files as well.
        self.refuse_overwriting(&probe, &trees, &kept).await?;
        // The time of the probe begins after the preparation, whose setup commands have their own limit.
        let deadline = Instant::now() + self.wall().saturating_mul(WALLS);
        let files: Arc<[ProbeFile]> = probe.files.clone().into();
        for tree in &mut trees {
            let Some(prepared) = tree.prepared().cloned() else { continue };
            for input in 0..probe.runs() {
                let stdin = probe.inputs.get(input).map_or(&[][..], String::as_bytes);
                let run = || self.once(&prepared, &files, &probe.argv, stdin, &kept, deadline, cancel);
                // Run both at once: the pair shows instability, and the runner admits two programs of a task anyway.
                let (first, second) = tokio::try_join!(run(), run())?;
                tree.runs.push([first, second]);
            }
        }
        let project = self.runner.project.clone();
        let draft = ProbeRecord {
            number: 0,
            again_of,
            began,
            probe,
            sides: sides.clone(),
            answers: Vec::new(),
            differs: Vec::new(),
        };
        let store = self.probes.clone();
        try_blocking(move || {
            let mut answers: Vec<ProbeAnswer> = ProbeSide::ALL
                .into_iter()
                .zip(&index)
                .map(|(side, at)| {
                    let same =
                        ProbeSide::ALL.into_iter().zip(&index).find(|(other, of)| *other < side && *of == at);
                    ProbeAnswer { side, same_files_as: same.map(|(other, _)| other), outcomes: Vec::new() }
                })
                .collect();
            let mut differs = Vec::new();
            for input in 0..draft.probe.runs() {
                let outcomes = outcomes(&trees, input, &project);
                differs.extend(differences(&trees, &outcomes, &index, input));
                for (answer, at) in answers.iter_mut().zip(&index) {
                    answer.outcomes.extend(outcomes.get(*at).cloned());
                }
            }
            store.store(ProbeRecord { answers, differs, ..draft })
        })
        .await
    }

    /// Runs the probe once over a fresh copy.
    #[expect(clippy::too_many_arguments, reason = "what all runs of a probe share, and what is this one's")]
    async fn once(
        &self,
        prepared: &Arc<PreparedCopy>,
        files: &Arc<[ProbeFile]>,
        argv: &[String],
        stdin: &[u8],
        kept: &[ShownPath],
        deadline: Instant,
        cancel: &CancelToken,
    ) -> Result<Ran, CheckError> {
        let copy = self.copies.scratch(prepared, cancel).await?;
        let (tree, files) = (copy.files(), Arc::clone(files));
        try_blocking(move || files.iter().try_for_each(|file| lay(&tree, file))).await?;
        self.link(&copy.files(), kept).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        // The time of the whole probe is used up, so this run counts as timed out.
        if left.is_zero() {
            let (stdout, stderr) = (KeptOutput::default(), KeptOutput::default());
            return Ok(Ran { ended: ProgramEnd::TimedOut, stdout, stderr, elapsed: Duration::ZERO });
        }
        let program = Program {
            argv,
            stdin,
            wall: self.wall().min(left),
            output_bytes: OUTPUT_BYTES,
            // Retain all of the output, because `is_same` compares every byte.
            kept_bytes: usize::try_from(OUTPUT_BYTES).unwrap_or(usize::MAX),
        };
        self.runner.run(&copy.files(), &copy.home(), kept, program, cancel).await
    }

    /// Rejects probe files whose paths are taken in one of the trees.
    async fn refuse_overwriting(
        &self,
        probe: &ProbeDraft,
        trees: &[ProbedTree],
        kept: &[ShownPath],
    ) -> Result<(), CheckError> {
        let trees: Vec<PathBuf> =
            trees.iter().filter_map(ProbedTree::prepared).map(|prepared| prepared.files()).collect();
        let (files, kept) = (probe.files.clone(), kept.to_vec());
        try_blocking(move || {
            let mut faults = Faults::default();
            for (number, file) in files.iter().enumerate() {
                let place = format!("files[{number}].path");
                let path = Path::new(&file.path);
                if kept.iter().any(|kept| path.starts_with(&kept.place) || kept.place.starts_with(path)) {
                    faults.add(
                        place,
                        format!(
                            "{:?} is the path of a read-only folder of the project; choose another path",
                            file.path
                        ),
                    );
                } else if let Some(problem) = trees.iter().find_map(|tree| in_the_way(tree, path)) {
                    faults.add(place, problem);
                }
            }
            faults.into_result("probe").map_err(|error: DraftError| CheckError::Refused(error))
        })
        .await
    }
}

/// Returns the reason why a file cannot be written into a tree, if there is any.
fn in_the_way(tree: &Path, path: &Path) -> Option<String> {
    let mut reached = PathBuf::new();
    for name in path {
        reached.push(name);
        match tree.join(&reached).symlink_metadata() {
            Err(_) => return None,
            Ok(found) if found.is_dir() && reached != path => {}
            Ok(_) if reached == path => {
                return Some(format!(
                    "{path:?} exists in one of the three trees, and a probe cannot overwrite it: choose a \
                    path that is in none of them"
                ));
            }
            Ok(_) => {
                return Some(format!(
                    "{reached:?} is not a folder in one of the three trees; choose another path"
                ));
            }
        }
    }
    None
}

/// Writes a file into a copy in which its path is free. A script gets execute permission.
fn lay(tree: &Path, file: &ProbeFile) -> Result<(), CheckError> {
    let path = tree.join(&file.path);
    let failed = |error| CheckError::from_io(&path, error);
    let folder = path.parent().unwrap_or(tree);
    fs::create_dir_all(folder).map_err(failed)?;
    // The tree may have this folder without write permission.
    let about = fs::metadata(folder).map_err(failed)?;
    if about.permissions().mode() & 0o300 != 0o300 {
        fs::set_permissions(folder, fs::Permissions::from_mode(about.permissions().mode() | 0o300))
            .map_err(failed)?;
    }
    let mode = if file.content.starts_with("#!") { 0o755 } else { 0o644 };
    let mut options = fs::OpenOptions::new();
    let mut laid = options.write(true).create_new(true).mode(mode).open(&path).map_err(failed)?;
    laid.write_all(file.content.as_bytes()).map_err(failed)
}

/// Returns the outcome of each tree with one input.
fn outcomes(trees: &[ProbedTree], input: usize, project: &Path) -> Vec<SideOutcome> {
    let prepared: Vec<PathBuf> =
        trees.iter().filter_map(ProbedTree::prepared).map(|other| other.files()).collect();
    let mut all: Vec<SideOutcome> = Vec::with_capacity(trees.len());
    for side in trees {
        let mut outcome = match (&side.prepare, side.runs.get(input)) {
            (Prepare::Failed { missing, .. }, _) => SideOutcome::DidNotStart { missing: missing.clone() },
            (_, Some(runs)) => outcome(runs),
            (_, None) => SideOutcome::TimedOut { output: CheckOutput::default() },
        };
        // A side that lacks a file of another side did not really run the probe.
        if let (Some(here), Some((_, stderr))) = (side.prepared(), silent_failure(side, &outcome, input))
            && let Some(missing) = missing::file(&stderr, project, &here.files(), &prepared)
        {
            outcome = SideOutcome::DidNotStart { missing };
        }
        all.push(outcome);
    }
    let said = |(side, outcome): (&ProbedTree, &SideOutcome)| match outcome {
        SideOutcome::DidNotStart { missing } => Some(missing.clone()),
        _ => silent_failure(side, outcome, input).and_then(|(exit, stderr)| missing::said(exit, &stderr)),
    };
    // `collect` into an `Option`: the words count only if every side has them.
    let missing: Option<Vec<String>> = trees.iter().zip(&all).map(said).collect();
    match missing {
        Some(missing) => missing.into_iter().map(|missing| SideOutcome::DidNotStart { missing }).collect(),
        None => all,
    }
}

/// Returns the exit and standard error of a run that failed without output on standard output.
fn silent_failure(side: &ProbedTree, outcome: &SideOutcome, input: usize) -> Option<(ProgramExit, String)> {
    let SideOutcome::Ran { exit, .. } = outcome else { return None };
    // `Ran` means that both runs are equal, so the first one suffices.
    let [first, _] = side.runs.get(input)?;
    let is_silent = !exit.is_success() && first.stdout.total_bytes() == 0;
    is_silent.then(|| (*exit, String::from_utf8_lossy(&first.stderr.head()).into_owned()))
}

/// Returns the outcome of two runs on one tree.
fn outcome([first, second]: &[Ran; 2]) -> SideOutcome {
    let output = || first.output(STORED_BYTES);
    match (&first.ended, &second.ended) {
        (ProgramEnd::NotStarted(missing), ProgramEnd::NotStarted(_)) => {
            SideOutcome::DidNotStart { missing: missing.clone() }
        }
        (ProgramEnd::TimedOut, ProgramEnd::TimedOut) => SideOutcome::TimedOut { output: output() },
        (ProgramEnd::Limit(limit), ProgramEnd::Limit(other)) if limit == other => {
            SideOutcome::ReachedLimit { limit: limit.clone(), output: output() }
        }
        (ProgramEnd::Exited(exit), ProgramEnd::Exited(_)) if is_same(first, second) => {
            SideOutcome::Ran { exit: *exit, output: output() }
        }
        _ => SideOutcome::Unstable { first: run(first), second: run(second) },
    }
}

/// Converts one of two runs that differ.
fn run(ran: &Ran) -> ProbeRun {
    let end = match &ran.ended {
        ProgramEnd::Exited(exit) => ProbeRunEnd::Exited(*exit),
        ProgramEnd::TimedOut => ProbeRunEnd::TimedOut,
        ProgramEnd::Limit(limit) => ProbeRunEnd::ReachedLimit(limit.clone()),
        ProgramEnd::NotStarted(missing) => ProbeRunEnd::DidNotStart(missing.clone()),
    };
    ProbeRun { end, output: ran.output(STORED_BYTES) }
}

/// Returns true if two runs have the same end and output, byte for byte. Both outputs are complete: longer ones end the run.
fn is_same(one: &Ran, other: &Ran) -> bool {
    one.ended == other.ended && one.stdout == other.stdout && one.stderr == other.stderr
}

/// Returns the pairs of sides that differ with one input, among those on which the probe ran.
fn differences(
    trees: &[ProbedTree],
    outcomes: &[SideOutcome],
    index: &[usize],
    input: usize,
) -> Vec<ProbeDifference> {
    let run_of = |at: usize| match outcomes.get(at)? {
        SideOutcome::Ran { .. } => trees.get(at)?.runs.get(input).map(|[first, _]| first),
        _ => None,
    };
    let sides: Vec<(ProbeSide, Option<&Ran>)> =
        ProbeSide::ALL.into_iter().zip(index).map(|(side, at)| (side, run_of(*at))).collect();
    let mut found = Vec::new();
    for (number, (newer, after)) in sides.iter().enumerate() {
        for (older, before) in sides.iter().take(number) {
            if let (Some(before), Some(after)) = (before, after)
                && !is_same(before, after)
            {
                let stdout_line = first_line(&before.stdout.head(), &after.stdout.head());
                found.push(ProbeDifference { older: *older, newer: *newer, input, stdout_line });
            }
        }
    }
    found
}

/// Returns the number of the first line that differs, counted from 1.
fn first_line(one: &[u8], other: &[u8]) -> Option<u64> {
    let lines = |bytes: &'_ [u8]| {
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    let (one, other) = (lines(one), lines(other));
    let at = (0..one.len().max(other.len())).find(|at| one.get(*at) != other.get(*at))?;
    Some(at as u64 + 1)
}

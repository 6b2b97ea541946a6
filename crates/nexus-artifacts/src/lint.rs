//! The lint: returns the faults of artifacts, each with its file, line and column.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nexus_project::{ProjectError, ProjectErrorKind};

use super::{
    check::{self, CheckContext, Fault, planned},
    document::{Artifact, TextPosition},
    frontmatter::{Meta, Research},
    kind::{Kind, Place},
    research,
    rule::{LintFinding, Rule},
    todo,
    tree::{self, Artifacts},
};

/// Maximum number of files that one call checks.
const MOST_FILES: usize = 50_000;
/// Maximum depth of folders that are searched.
const MOST_DEPTH: usize = 16;

/// Settings of the lint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LintOptions {
    /// Kind of every given file. Without it, the file name determines the kind.
    pub kind: Option<Kind>,
    /// Portable models of the configuration, which are valid tiers.
    pub models: Vec<String>,
}

/// Result of [`lint`].
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct LintReport {
    /// Number of checked artifacts.
    pub files: usize,
    /// Faults, sorted by file, line and column.
    pub findings: Vec<LintFinding>,
}

/// Checks files, and the artifacts below folders. Below `.nubos-pilot/` it also compares the files with each other.
///
/// # Errors
///
/// [`Unknown`](ProjectErrorKind::Unknown) for a missing path; [`InvalidArgument`](ProjectErrorKind::InvalidArgument) for a
/// file whose name determines no kind.
pub fn lint(paths: &[PathBuf], options: &LintOptions) -> Result<LintReport, ProjectError> {
    let mut report = LintReport::default();
    for path in paths {
        let found = fs::symlink_metadata(path).map_err(|error| ProjectError::unusable(path, &error))?;
        if found.is_dir() {
            lint_folder(path, options, &mut report, 0)?;
        } else if options.kind.is_none() && Place::of(path).is_none() {
            let message = format!("the name of {path:?} does not name a kind of artifact");
            return Err(ProjectError::invalid(message, "give the kind of artifact with --schema"));
        } else {
            lint_file(path, options, &mut report)?;
        }
    }
    report.findings.sort();
    // A file may be named twice: by itself, and by a folder above it.
    report.findings.dedup();
    Ok(report)
}

fn lint_folder(
    folder: &Path,
    options: &LintOptions,
    report: &mut LintReport,
    depth: usize,
) -> Result<(), ProjectError> {
    for path in tree::entries(folder)? {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let is_named = Place::of(&path).is_some();
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.') && name != tree::FOLDER);
        if found.is_dir() && !is_hidden && depth < MOST_DEPTH {
            lint_folder(&path, options, report, depth + 1)?;
        } else if is_named && !found.is_dir() && !is_hidden {
            // A given kind applies to named files only. In a folder, the name of each file decides.
            lint_file(&path, &LintOptions { kind: None, ..options.clone() }, report)?;
        }
    }
    Ok(())
}

fn lint_file(path: &Path, options: &LintOptions, report: &mut LintReport) -> Result<(), ProjectError> {
    report.files += 1;
    if report.files > MOST_FILES {
        let message = format!("there are more than {MOST_FILES} artifacts");
        return Err(ProjectError::new(ProjectErrorKind::WrongState, message, "name fewer of them"));
    }
    let place = Place::of(path);
    let Some(kind) = options.kind.or(place.map(|place| place.kind)) else { return Ok(()) };
    let mut add = |position: TextPosition, rule: Rule, message: String| {
        report.findings.push(LintFinding::at(path, position, rule, message));
    };
    let bytes = match tree::read_bytes(path) {
        Ok(Some(bytes)) => bytes,
        // The file was removed after its folder was listed.
        Ok(None) => return Ok(()),
        Err(error) => {
            add(TextPosition { line: 1, column: 1 }, Rule::Unreadable, error.message);
            return Ok(());
        }
    };
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(&error.as_bytes()[..good]).into_owned();
            let position = Artifact::parse(kind, before).position(good);
            add(position, Rule::Encoding, "the bytes here are not UTF-8".to_owned());
            return Ok(());
        }
    };
    let document = Artifact::parse(kind, text);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut faults = check::faults(&document, place.as_ref(), &name, &options.models);
    // Compare a file with others only if it has no faults of its own.
    if faults.is_empty()
        && let (Some(place), Some(artifacts)) = (place.filter(|place| place.kind == kind), project_of(path))
    {
        let together = artifacts.faults(&document, &place, path, &options.models);
        faults.extend(together.unwrap_or_else(|error| vec![(0, Rule::Unreadable, error.to_string())]));
    }
    for (at, rule, message) in faults {
        add(document.position(at), rule, message);
    }
    Ok(())
}

/// Returns the project of an artifact.
fn project_of(path: &Path) -> Option<Artifacts> {
    let path = std::path::absolute(path).ok()?;
    let folder = path.ancestors().find(|above| above.file_name().is_some_and(|name| name == tree::FOLDER))?;
    Some(Artifacts::at(folder.parent()?))
}

impl Artifacts {
    /// Returns the faults of an artifact in relation to the others.
    fn faults(
        &self,
        document: &Artifact,
        place: &Place,
        path: &Path,
        models: &[String],
    ) -> Result<Vec<Fault>, ProjectError> {
        let values = document.values();
        let at = |key: &str| values.get(key).map_or(0, |range| range.start);
        let mut faults = Vec::new();
        match (place.kind, place.milestone, place.slice) {
            (Kind::Meta, Some(milestone), _) => {
                let said = document.read::<Meta>()?;
                let (slices, tasks) = self.counted(milestone)?;
                for (key, said, found) in
                    [("slice_count", said.slice_count, slices), ("task_count", said.task_count, tasks)]
                {
                    if said != found {
                        faults.push((
                            at(key),
                            Rule::MetaCount,
                            format!("{key} is {said}, but there are {found} folders"),
                        ));
                    }
                }
            }
            (Kind::Research, Some(milestone), _) => {
                let outputs = self.researcher_outputs(milestone)?;
                // Without the outputs, nothing can be recomputed.
                if outputs.is_empty() {
                    return Ok(faults);
                }
                let found = research::reconcile(&outputs)?;
                let said = document.read::<Research>()?;
                let pairs = [
                    ("k", said.k as f64, found.k as f64),
                    ("agreement_score", said.agreement_score, found.agreement_score),
                    ("contested_count", said.contested_count as f64, found.contested_count as f64),
                ];
                for (key, said, found) in pairs {
                    // The written score has three digits, so allow for rounding.
                    if (said - found).abs() > 0.0015 {
                        let message =
                            format!("{key} is {said}, but the researchers' outputs result in {found}");
                        faults.push((at(key), Rule::ResearchScore, message));
                    }
                }
            }
            (Kind::SlicePlan, _, Some(_)) => {
                let mut check = CheckContext::new(document, Some(place), models);
                for task in planned(&mut check) {
                    self.check_dependencies(&task, &mut check)?;
                }
                faults.append(&mut check.faults);
            }
            (Kind::Todo, _, Some(slice))
                if path.parent().is_some_and(|folder| folder.ends_with(slice.short())) =>
            {
                let expected = todo::render(slice, &self.task_list(slice)?);
                // Another program writes this line. The rendered TODO has none.
                let without_time = document.text().lines().filter(|line| !line.starts_with("updated_at:"));
                if !without_time.eq(expected.lines()) {
                    let line = document
                        .text()
                        .lines()
                        .zip(expected.lines())
                        .take_while(|(said, found)| said == found)
                        .count();
                    let start = document.text().split_inclusive('\n').take(line).map(str::len).sum();
                    let message = format!("it does not match the tasks; call `nexus artifact todo {slice}`");
                    faults.push((start, Rule::TodoStale, message));
                }
            }
            _ => {}
        }
        Ok(faults)
    }

    /// Returns the outputs of a milestone's researchers.
    pub(super) fn researcher_outputs(
        &self,
        milestone: crate::MilestoneId,
    ) -> Result<Vec<Artifact>, ProjectError> {
        let folder = self.milestone_folder(milestone).join("research");
        self.guard(&folder)?;
        let paths = tree::entries(&folder)?;
        let outputs = paths
            .iter()
            .filter(|path| Place::of(path).is_some_and(|place| place.kind == Kind::ResearcherOutput));
        outputs.map(|path| self.existing(path, Kind::ResearcherOutput)).collect()
    }
}

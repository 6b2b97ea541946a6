//! Checks the files of a trap, before anything runs.

use std::collections::BTreeSet;

use nexus_core::{scope::folded_name, visible::is_invisible};
use nexus_tasks::{ProbeDraft, ProbeFile};

use super::{Answer, Trap, TrapSource, file::TrapFile, folder::TrapFiles};
use crate::trap_error::TrapError;

/// Maximum length of a text in `trap.yaml` for people and agents, in bytes.
const MOST_TEXT_BYTES: usize = 4 << 10;
/// Maximum length of a name, in bytes.
const MOST_NAME_BYTES: usize = 40;
/// Maximum time limit of a trap's program, in seconds.
const MOST_SECONDS: u64 = 600;
/// Maximum number of claims. Source: the limit of a handoff.
const MOST_CLAIMS: usize = 64;
/// Maximum length of the ground truth's expected output, in bytes. Source: a longer output is not stored completely.
const MOST_EXPECTED_BYTES: usize = 32 << 10;

/// Checks the files of a trap, and returns the trap. `origin` names the trap in errors: its folder.
pub(super) fn check(origin: &str, files: &TrapFiles) -> Result<Trap, TrapError> {
    let yaml = format!("{origin}/trap.yaml");
    let Some(text) = files.get("trap.yaml") else {
        return Err(TrapError::new(
            origin,
            "has no trap.yaml; docs/reference/traps.md describes its content",
        ));
    };
    let text = std::str::from_utf8(text).map_err(|_| TrapError::new(&yaml, "is not UTF-8"))?;
    let file: TrapFile =
        serde_yaml::from_str(text).map_err(|error| TrapError::new(&yaml, error.to_string()))?;
    texts(&yaml, &file)?;
    if let Some(stray) = files.keys().find(|path| !is_placed(path)) {
        let problem = "is in none of base/, planted/, right/, probe/ and truth/";
        return Err(TrapError::new(format!("{origin}/{stray}"), problem));
    }
    let source = TrapSource {
        base: below(files, "base/"),
        planted: below(files, "planted/"),
        right: below(files, "right/"),
        planted_removes: file.removed.planted.clone(),
        right_removes: file.removed.right.clone(),
    };
    if source.base.is_empty() {
        return Err(TrapError::new(format!("{origin}/base"), "has no file: it is the project"));
    }
    let probe = ProbeDraft {
        files: programs(origin, files, "probe/")?,
        argv: file.probe.argv.clone(),
        inputs: file.probe.inputs.clone(),
    };
    let truth = ProbeDraft {
        files: programs(origin, files, "truth/")?,
        argv: file.truth.argv.clone(),
        inputs: Vec::new(),
    };
    for (key, draft) in [("probe", &probe), ("truth", &truth)] {
        draft.check().map_err(|error| TrapError::new(format!("{yaml}: {key}"), error.to_string()))?;
    }
    let trap = Trap {
        origin: origin.to_owned(),
        folder: None,
        fingerprint: super::fingerprint(files),
        file,
        source,
        probe,
        truth,
    };
    // These checks compare complete trees, which only the built trap can return.
    for answer in Answer::ALL {
        answers(&trap, answer)?;
    }
    if trap.tree(Some(Answer::Planted)) == trap.tree(Some(Answer::Right)) {
        return Err(TrapError::new(format!("{origin}/right"), "creates the same files as planted/"));
    }
    apart(&trap)?;
    Ok(trap)
}

fn texts(yaml: &str, file: &TrapFile) -> Result<(), TrapError> {
    let fault = |key: &str, problem: String| Err(TrapError::new(format!("{yaml}: {key}"), problem));
    let is_word = |text: &str, also: char| {
        text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.len() <= MOST_NAME_BYTES
            && text.chars().all(|part| part.is_ascii_lowercase() || part.is_ascii_digit() || part == also)
    };
    if !is_word(&file.name, '-') {
        return fault(
            "name",
            format!("a lower-case letter, and up to {} letters, digits and `-`", MOST_NAME_BYTES - 1),
        );
    }
    if !is_word(&file.kind, '_') {
        return fault(
            "kind",
            format!("a lower-case letter, and up to {} letters, digits and `_`", MOST_NAME_BYTES - 1),
        );
    }
    let claims =
        file.claims.iter().enumerate().map(|(index, claim)| (format!("claims[{index}].text"), &claim.text));
    let texts = [("about".to_owned(), &file.about), ("goal".to_owned(), &file.goal)];
    for (key, text) in texts.into_iter().chain(claims) {
        let is_odd =
            |character: char| (character.is_control() && character != '\n') || is_invisible(character);
        if text.trim().is_empty() || text.len() > MOST_TEXT_BYTES || text.chars().any(is_odd) {
            return fault(
                &key,
                format!("a text of 1 to {MOST_TEXT_BYTES} bytes without control and invisible characters"),
            );
        }
    }
    if file.claims.is_empty() || file.claims.len() > MOST_CLAIMS {
        return fault("claims", format!("1 to {MOST_CLAIMS} claims that are true of the planted answer"));
    }
    if file.test_command.first().is_none_or(String::is_empty)
        || file.test_command.iter().any(|part| part.contains('\0'))
    {
        return fault("test_command", "names no program".to_owned());
    }
    if file.brief.plan.len() != 1 {
        return fault(
            "brief.plan",
            format!(
                "has {} entries; a trap is one step of work, and its review is added",
                file.brief.plan.len()
            ),
        );
    }
    if file.truth.expected.trim().is_empty() || file.truth.expected.len() > MOST_EXPECTED_BYTES {
        return fault(
            "truth.expected",
            format!("1 to {MOST_EXPECTED_BYTES} bytes: what the program prints on the right answer"),
        );
    }
    if !(1..=MOST_SECONDS).contains(&file.seconds) {
        return fault("seconds", format!("1 to {MOST_SECONDS}"));
    }
    Ok(())
}

fn is_placed(path: &str) -> bool {
    path == "trap.yaml"
        || path == "README.md"
        || ["base/", "planted/", "right/", "probe/", "truth/"].iter().any(|folder| path.starts_with(folder))
}

fn below(files: &TrapFiles, folder: &str) -> TrapFiles {
    let inside =
        |(path, content): (&String, &Vec<u8>)| Some((path.strip_prefix(folder)?.to_owned(), content.clone()));
    files.iter().filter_map(inside).collect()
}

/// Returns the files of a program that is copied into a tree.
fn programs(origin: &str, files: &TrapFiles, folder: &str) -> Result<Vec<ProbeFile>, TrapError> {
    let program = |(path, content): (String, Vec<u8>)| match String::from_utf8(content) {
        Ok(content) => Ok(ProbeFile { path, content }),
        Err(_) => Err(TrapError::new(format!("{origin}/{folder}{path}"), "is not UTF-8")),
    };
    below(files, folder).into_iter().map(program).collect()
}

/// Returns true if `path` is `other` or is below it. Compares names as file systems may do, without case.
fn is_below(path: &str, other: &str) -> bool {
    let fold = |path: &str| path.split('/').map(folded_name).collect::<Vec<_>>();
    // Compare whole components, so that `src` does not contain `src2/a`.
    other == "." || fold(path).starts_with(&fold(other.trim_end_matches('/')))
}

/// Checks that the brief allows the paths that an answer changes.
fn answers(trap: &Trap, answer: Answer) -> Result<(), TrapError> {
    let origin = &trap.origin;
    let (files, removes) = trap.source.of(answer);
    if files.is_empty() && removes.is_empty() {
        return Err(TrapError::new(format!("{origin}/{answer}"), "changes nothing"));
    }
    let writable = |path: &str| trap.file.brief.write.iter().any(|write| is_below(path, write));
    if let Some(path) = files.keys().find(|path| !writable(path)) {
        let problem = "is not below the paths of brief.write, so no agent could have created it";
        return Err(TrapError::new(format!("{origin}/{answer}/{path}"), problem));
    }
    for (index, path) in removes.iter().enumerate() {
        let place = format!("{origin}/trap.yaml: removed.{answer}[{index}]");
        let problem = match trap.source.base.contains_key(path) {
            false => "is not a file of base/",
            // A path that is both written and removed has no defined result.
            true if files.contains_key(path) => "is a file of the answer as well",
            true if !writable(path) => "is not below the paths of brief.write",
            true => continue,
        };
        return Err(TrapError::new(place, problem));
    }
    if trap.tree(Some(answer)) == trap.tree(None) {
        return Err(TrapError::new(format!("{origin}/{answer}"), "changes nothing of base/"));
    }
    Ok(())
}

/// Checks that the programs of the probe and the ground truth use paths that neither the project nor an agent's answer has.
fn apart(trap: &Trap) -> Result<(), TrapError> {
    let trees = [None, Some(Answer::Planted), Some(Answer::Right)].map(|answer| trap.tree(answer));
    let taken: BTreeSet<&str> = trees.iter().flat_map(|tree| tree.keys().copied()).collect();
    for (folder, draft) in [("probe", &trap.probe), ("truth", &trap.truth)] {
        for file in &draft.files {
            let place = format!("{}/{folder}/{}", trap.origin, file.path);
            // Check both directions: a file of one may be a folder of the other.
            let is_in_the_way = |other: &&&str| is_below(&file.path, other) || is_below(other, &file.path);
            if let Some(other) = taken.iter().find(is_in_the_way) {
                return Err(TrapError::new(place, format!("has the same path as {other} of the project")));
            }
            let writes = &trap.file.brief.write;
            if let Some(write) =
                writes.iter().find(|write| is_below(&file.path, write) || is_below(write, &file.path))
            {
                let problem = format!("is below brief.write ({write}), where agents could replace it");
                return Err(TrapError::new(place, problem));
            }
        }
    }
    Ok(())
}

//! What tests of traps have in common.

use std::{fs, path::Path, process::Command, sync::Arc};

use nexus_testbed::Trap;
use nexus_testkit::effort;

/// Whether this machine can run a trap's programs. It is printed, and a failure where they are required.
pub(crate) fn can_run() -> bool {
    ["git", "python3", "bwrap"].into_iter().all(|program| {
        let runs =
            Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
        assert!(runs || std::env::var_os("NEXUS_TEST_SANDBOX").is_none(), "{program} is required here");
        if !runs {
            println!("NOT TESTED: there is no {program}");
        }
        runs
    })
}

/// Traps of the library that the tests of all traps run: three, or all eight in a deep run.
pub(crate) fn tried_traps() -> Vec<Arc<Trap>> {
    let count = if effort::is_deep() { 8 } else { 3 };
    Trap::built_in().unwrap().into_iter().take(count).map(Arc::new).collect()
}

pub(crate) fn built_in(name: &str) -> Arc<Trap> {
    let traps = Trap::built_in().unwrap();
    Arc::new(traps.into_iter().find(|trap| trap.name() == name).unwrap())
}

/// Writes the example of docs/reference/traps.md into a folder: each block below a heading that names its file.
pub(crate) fn write_example(folder: &Path) {
    let page = include_str!("../../../../docs/reference/traps.md");
    let mut written = 0;
    for part in page.split("\n### `").skip(1) {
        let (path, rest) = part.split_once('`').unwrap();
        let (_, block) = rest.split_once("```").unwrap();
        let (_, block) = block.split_once('\n').unwrap();
        let (text, _) = block.split_once("```").unwrap();
        let file = folder.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        written += 1;
    }
    assert_eq!(written, 12);
}

/// Replaces text in a file, which has it.
pub(crate) fn edit(file: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(old), "{old:?} is not in {}", file.display());
    fs::write(file, text.replacen(old, new, 1)).unwrap();
}

//! A task on a repository, without a model. The files of the project are in a separate folder, in which an agent (played by
//! this program) works. The agent tries to hide a change, but the diff shows it. A good change lands in the branch.
//!
//!     cargo run --example tree
//!
//! It needs git 2.32 or newer, no login and no network.

use std::error::Error;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn Error>> {
    use std::{
        fs,
        path::Path,
        process::Command,
        time::{Duration, UNIX_EPOCH},
    };

    use nexus::tree::{CommitIntent, Git, Landing, Project, Tree, TreeOptions};

    println!("No login needed, and no network.\n");
    let place = tempfile::tempdir()?;
    let (project, workspace) = (place.path().join("shop"), place.path().join("workspace"));
    fs::create_dir(&project)?;
    fs::create_dir(&workspace)?;

    // The user's repository. It has a hook that Nexus must not run.
    let person = |args: &[&str]| -> Result<String, Box<dyn Error>> {
        let identity = ["-c", "user.name=Person", "-c", "user.email=person@localhost"];
        let output = Command::new("git").current_dir(&project).args(identity).args(args).output()?;
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    };
    let git = Git::find()?;
    person(&["init", "--quiet", "--initial-branch=main"])?;
    fs::write(project.join("price.py"), "def price(pieces):\n    return 450 + pieces\n")?;
    fs::write(project.join(".gitignore"), "*.log\n")?;
    person(&["add", "--all"])?;
    person(&["commit", "--quiet", "--message=A shop"])?;
    let hook = project.join(".git/hooks/post-checkout");
    fs::create_dir_all(project.join(".git/hooks"))?;
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", place.path().join("hook-ran").display()))?;
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;

    // Create a tree, and check out its base into a folder.
    let tree = Tree::create(&git, &workspace, &Project::find(&project)?, &TreeOptions::new())?;
    let base = &tree.base().commit;
    let folder = workspace.join("now");
    tree.check_out(base, &folder)?;

    // The first attempt hides its change in a `.gitignore`, and creates a repository.
    fs::write(folder.join(".gitignore"), "*\n")?;
    fs::write(folder.join(".gitattributes"), "*.py -diff\n")?;
    fs::write(folder.join("price.py"), "def price(pieces):\n    return 0\n")?;
    let snapshot = tree.snapshot(&folder)?;
    for change in tree.changes(base, &snapshot)? {
        println!("changed: {}", change.path.display());
    }
    fs::create_dir(folder.join(".git"))?;
    if let Err(error) = tree.snapshot(&folder) {
        println!("refused: {error}");
    }

    // Restore the folder, and repeat the work.
    tree.restore(base, &folder, &[])?;
    fs::write(folder.join("price.py"), "def price(pieces):\n    return 450 * pieces\n")?;
    let snapshot = tree.snapshot(&folder)?;
    println!("\n{}", tree.patch(base, &snapshot)?.text());

    // A program that stores the intent before the commit can repeat the same commit after a crash.
    let time = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let intent = CommitIntent::new(snapshot, base.clone(), time, "Mend the price").with_trailer("Task", "12");
    let commit = tree.commit(&intent)?;
    println!("the same again: {}", tree.commit(&intent)? == commit);
    tree.move_ref("head", None, &commit)?;

    match tree.land(&commit)? {
        Landing::FastForwarded { branch, .. } => println!("landed in {branch}"),
        Landing::Patch { obstacle, .. } => println!("not landed: {obstacle}"),
        _ => {}
    }
    println!("the person's log:\n{}", person(&["log", "--format=%s (%an)"])?);
    println!("the hook ran: {}", Path::exists(&place.path().join("hook-ran")));
    tree.delete()?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<(), Box<dyn Error>> {
    Err("trees are there on Linux only".into())
}

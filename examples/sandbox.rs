//! A program that is not trusted, run where it sees one folder of this machine and nothing else, under limits.
//!
//!     cargo run --example sandbox
//!     cargo run --example sandbox -- ls -la /
//!
//! The second runs a command of your own with the current folder at its own path, read-only. It needs bubblewrap, and no
//! login.

use std::{error::Error, fs, process::ExitCode, time::Duration};

use nexus::process::sandbox::{Sandbox, SandboxCommand, SandboxLimits, SandboxOutcome};

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut limits = SandboxLimits::default();
    limits.wall = Duration::from_secs(20);
    limits.processes = 64;
    if let Err(error) = Sandbox::new().check().await {
        println!("There is no sandbox on this machine: {error}");
        return Ok(ExitCode::FAILURE);
    }
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if !arguments.is_empty() {
        let here = std::env::current_dir()?;
        let sandbox = Sandbox::new().limits(limits).read_only(&here, &here);
        show(&sandbox.run(SandboxCommand::new(arguments).folder(here)).await?);
        return Ok(ExitCode::SUCCESS);
    }

    // The user's checkout, a secret next to it, and a tree. The sandbox shows the tree at the path of the checkout.
    let folder = tempfile::tempdir()?;
    let (checkout, tree) = (folder.path().join("project"), folder.path().join("tree"));
    for (root, answer) in [(&checkout, "the answer of the checkout"), (&tree, "the answer of the tree")] {
        fs::create_dir(root)?;
        fs::write(root.join("answer.txt"), answer)?;
    }
    fs::write(folder.path().join("secret"), "a login")?;
    let sandbox = Sandbox::new().limits(limits.clone()).read_only(&tree, &checkout);

    let script = "cat answer.txt; echo; cat ../secret; ls -A \"$HOME\"; cat /proc/net/dev | tail -n +3; echo x >answer.txt";
    println!("What a program sees of this machine:\n");
    show(&sandbox.run(SandboxCommand::new(["sh", "-c", script]).folder(&checkout)).await?);

    println!("\nOne that starts more than it may:\n");
    let storm = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); sleep 15 & done; wait";
    show(&sandbox.run(SandboxCommand::new(["sh", "-c", storm])).await?);

    println!("\nOne that ends too late:\n");
    limits.wall = Duration::from_millis(500);
    show(&sandbox.limits(limits).run(SandboxCommand::new(["sleep", "15"])).await?);
    Ok(ExitCode::SUCCESS)
}

fn show(outcome: &SandboxOutcome) {
    for line in outcome.stdout.text().lines() {
        println!("  out: {line}");
    }
    for line in outcome.stderr.text().lines() {
        println!("  err: {line}");
    }
    println!("  {:?}, {:?}, after {:.1?}", outcome.end, outcome.status, outcome.elapsed);
    println!("  contained by a {}, limits kept by a {}", outcome.containment, outcome.limited_by);
}

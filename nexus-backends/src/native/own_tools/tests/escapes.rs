//! Forty ways out of the working directory, by commands. None succeeds in the sandbox, and nearly all succeed without it.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use super::*;

/// Reads that print the word `canary` if they succeed. `$O` is a folder outside, `$H` a home, `$P` a process, `$S` a port.
const READS: [&str; 28] = [
    "cat $O/secret",
    "cat ../outside.txt",
    "ln -sf $O/secret link; cat link",
    // As root, commands run in a process namespace at every level.
    "cat /proc/$P/environ",
    "cat /proc/self/cwd/../outside.txt",
    "cd -P /proc/self/cwd/.. && cat outside.txt",
    "cat $H/.ssh/id",
    "cat $H/.aws/credentials",
    "cat $H/.netrc",
    "cat $H/.config/gh/hosts.yml",
    "cat .nexus-home/login",
    "exec 3<>/dev/tcp/127.0.0.1/$S; cat <&3",
    "exec 3<>/dev/tcp/localhost/$S; cat <&3",
    "cat < /dev/tcp/127.0.0.1/$S",
    "tar -C $O -cf - secret",
    "cp $O/secret copy; cat copy",
    "grep -r canary $O",
    "find $O -name secret -exec cat {} +",
    "dd if=$O/secret",
    "cd $O && cat secret",
    "ln -f $O/secret hard; cat hard",
    "cat $(readlink -f ../outside.txt)",
    "read -r line < $O/secret; echo $line",
    "cat /proc/self/root$O/secret",
    // An ordinary user may not follow the links of process 1.
    "cat /proc/1/root$O/secret",
    // Some machines forbid namespaces.
    "unshare -r cat $O/secret",
    "base64 $O/secret | base64 -d",
    "sed -n p $O/secret",
];

/// Writes that leave a file outside if they succeed. `$N` is its path.
const WRITES: [&str; 12] = [
    "echo x > $N",
    "touch ../w/$(basename $N)",
    "cp a.txt $N",
    "mkdir $N",
    "ln -s x $N",
    "echo x > moved; mv moved $N",
    "(echo x > $N) & wait",
    "nohup setsid sh -c \"echo x > $N\" > /dev/null; sleep 0.2",
    "echo x > .git/hooks/pre-commit && touch $N",
    "echo x >> .git/config && touch $N",
    "rm $O/victim && touch $N",
    "kill $V && touch $N",
];

/// Process that ends with the test.
struct Victim(Child);

impl Victim {
    fn new(folder: &Path) -> Self {
        let mut command = Command::new("sleep");
        command.arg("600").current_dir(folder).env("SECRET", "canary").stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs all tries at one level. Returns the numbers of those that succeeded.
async fn escapes(access: ToolAccess) -> Option<Vec<usize>> {
    let machine = Machine::new();
    let tools = machine.tools(access).await;
    if !has_commands(&tools) {
        return None;
    }
    let (outside, written, home) = (machine.root.join("o"), machine.root.join("w"), machine.root.join("h"));
    for folder in [&outside, &written, &home.join(".ssh"), &home.join(".aws"), &home.join(".config/gh")] {
        fs::create_dir_all(folder).unwrap();
    }
    for file in
        ["o/secret", "h/.ssh/id", "h/.aws/credentials", "h/.netrc", "h/.config/gh/hosts.yml", "o/victim"]
    {
        fs::write(machine.root.join(file), "canary\n").unwrap();
    }
    let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = server.accept() {
            let _ = stream.write_all(b"canary\n");
        }
    });
    let (mut watched, mut victim) = (Victim::new(&outside), Victim::new(&outside));
    let mut script = format!(
        "O={} H={} P={} S={port} V={}\n",
        outside.display(),
        home.display(),
        watched.0.id(),
        victim.0.id()
    );
    for (number, read) in READS.iter().enumerate() {
        script.push_str(&format!("echo; echo '== {number}'; ( {read} ) 2> /dev/null\n"));
    }
    for (number, write) in WRITES.iter().enumerate() {
        script.push_str(&format!("N={}/{number}; ( {write} ) > /dev/null 2>&1\n", written.display()));
    }
    let text = run(&tools, &script).await;
    let mut found = Vec::new();
    for (number, part) in text.split("\n== ").skip(1).enumerate() {
        assert!(part.starts_with(&format!("{number}\n")), "{part}");
        if part.contains("canary") {
            found.push(number);
        }
    }
    let left = |number: &usize| written.join(number.to_string()).symlink_metadata().is_ok();
    found.extend((0..WRITES.len()).filter(left).map(|number| READS.len() + number));
    let git = machine.project().join(".git");
    if access != ToolAccess::Unrestricted {
        assert!(watched.is_running() && victim.is_running());
        assert_eq!(fs::read_to_string(outside.join("victim")).unwrap(), "canary\n");
        assert!(!git.join("hooks/pre-commit").exists() && !git.join("config").exists());
    }
    Some(found)
}

#[tokio::test]
async fn no_command_in_the_sandbox_gets_out_of_the_working_directory() {
    for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite] {
        let Some(found) = escapes(access).await else { return };
        assert!(found.is_empty(), "{access:?}: {found:?}");
    }
}

#[tokio::test]
async fn without_the_sandbox_the_same_commands_get_out() {
    let Some(found) = escapes(ToolAccess::Unrestricted).await else { return };
    let all = READS.len() + WRITES.len();
    assert!(found.len() >= all - 2, "{} of {all}: {found:?}", found.len());
}

//! Forty ways out of the working directory, for tests of what encloses a program. None succeeds in a sandbox, and nearly all
//! succeed without one.

mod attack;

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub use attack::{Attack, attack};

/// Reads that print the word `canary` if they succeed. `$O` is a folder outside, `$H` a home, `$P` a process, `$S` a port.
const READS: [&str; 28] = [
    "cat $O/secret",
    "cat ../outside.txt",
    "ln -sf $O/secret link; cat link",
    // For root, this fails at every level: its commands have a process namespace.
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
#[derive(Debug)]
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

/// Machine with secrets outside of a project, for one run of all tries.
#[derive(Debug)]
pub struct EscapeSite {
    project: PathBuf,
    outside: PathBuf,
    written: PathBuf,
    home: PathBuf,
    port: u16,
    watched: Victim,
    victim: Victim,
}

impl EscapeSite {
    /// Number of tries.
    pub const TRIES: usize = READS.len() + WRITES.len();
    /// Number of the tries that read, and report what they read.
    const TRIES_TO_READ: usize = READS.len();

    /// Puts the secrets beside a project, which has the folder `.git/hooks`, and beside it a file `outside.txt` with the word `canary`.
    ///
    /// # Panics
    ///
    /// If a file, a process or a port cannot be created.
    pub fn beside(project: &Path) -> Self {
        let root = project.parent().unwrap();
        let (outside, written, home) = (root.join("o"), root.join("w"), root.join("h"));
        for folder in [&outside, &written, &home.join(".ssh"), &home.join(".aws"), &home.join(".config/gh")] {
            fs::create_dir_all(folder).unwrap();
        }
        for file in
            ["o/secret", "h/.ssh/id", "h/.aws/credentials", "h/.netrc", "h/.config/gh/hosts.yml", "o/victim"]
        {
            fs::write(root.join(file), "canary\n").unwrap();
        }
        // Stands for a service of the machine that a program in a sandbox must not reach.
        let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = server.accept() {
                let _ = stream.write_all(b"canary\n");
            }
        });
        let (watched, victim) = (Victim::new(&outside), Victim::new(&outside));
        Self { project: project.to_owned(), outside, written, home, port, watched, victim }
    }

    /// Returns a script for bash with all tries, to be run in the project.
    pub fn script(&self) -> String {
        let mut script = format!(
            "O={} H={} P={} S={} V={}\n",
            self.outside.display(),
            self.home.display(),
            self.watched.0.id(),
            self.port,
            self.victim.0.id()
        );
        for (number, read) in READS.iter().enumerate() {
            // A subshell, so that `cd` and `exec` of one try do not affect the next. The empty line ends an output
            // without a line end.
            script.push_str(&format!("echo; echo '== {number}'; ( {read} ) 2> /dev/null\n"));
        }
        for (number, write) in WRITES.iter().enumerate() {
            script
                .push_str(&format!("N={}/{number}; ( {write} ) > /dev/null 2>&1\n", self.written.display()));
        }
        script
    }

    /// Returns the numbers of the tries that succeeded, from the output of the script.
    ///
    /// # Panics
    ///
    /// If the output is not that of the whole script.
    pub fn succeeded(&self, output: &str) -> Vec<usize> {
        let found = self.reads(output).unwrap_or_else(|| panic!("not the whole output: {output}"));
        found.into_iter().chain(self.writes()).collect()
    }

    /// Returns the numbers of the reads that succeeded. `None` if the output is not that of the whole script.
    fn reads(&self, output: &str) -> Option<Vec<usize>> {
        let parts: Vec<_> = output.split("\n== ").skip(1).enumerate().collect();
        let is_whole = parts.len() == READS.len()
            && parts.iter().all(|(number, part)| part.starts_with(&format!("{number}\n")));
        let succeeded = parts.into_iter().filter(|(_, part)| part.contains("canary"));
        is_whole.then(|| succeeded.map(|(number, _)| number).collect())
    }

    /// Returns the numbers of the writes that succeeded.
    fn writes(&self) -> Vec<usize> {
        // A link without a target is a success too.
        let left = |number: &usize| self.written.join(number.to_string()).symlink_metadata().is_ok();
        (0..WRITES.len()).filter(left).map(|number| READS.len() + number).collect()
    }

    /// Checks that nothing outside was changed.
    ///
    /// # Panics
    ///
    /// If something was.
    pub fn assert_untouched(&mut self) {
        assert!(self.is_untouched(), "something outside was changed, or its process was ended");
    }

    fn is_untouched(&mut self) -> bool {
        let git = self.project.join(".git");
        self.watched.is_running()
            && self.victim.is_running()
            && fs::read_to_string(self.outside.join("victim")).is_ok_and(|text| text == "canary\n")
            && !git.join("hooks/pre-commit").exists()
            && !git.join("config").exists()
    }
}

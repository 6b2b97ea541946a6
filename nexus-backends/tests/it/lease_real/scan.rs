//! What can be seen of files and processes by somebody who looks everywhere, again and again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Everything that was read of one kind of place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    /// How many files or processes were read.
    pub(crate) count: usize,
    /// What stood there, with the names of the files.
    pub(crate) text: String,
}

impl Scan {
    /// Reads every file below a folder.
    pub(crate) fn files(folder: &Path) -> Self {
        let mut scan = Self::default();
        scan.add_files(folder, &mut |_, _| true);
        scan
    }

    /// Reads every file below a folder, and keeps what is wanted by its name and content.
    fn add_files(&mut self, folder: &Path, wants: &mut dyn FnMut(&Path, &[u8]) -> bool) {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    // A pipe would keep us; a file may be gone since it was listed.
                    Ok(kind) if kind.is_file() => {
                        if let Ok(content) = fs::read(entry.path())
                            && wants(&entry.path(), &content)
                        {
                            self.add(&entry.path().display().to_string(), &content);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn add(&mut self, name: &str, content: &[u8]) {
        self.count += 1;
        self.text.push_str(name);
        self.text.push('\n');
        self.text.push_str(&String::from_utf8_lossy(content));
        self.text.push('\n');
    }

    pub(crate) fn sees(&self, word: &str) -> bool {
        self.text.contains(word)
    }

    /// The access token of the stored login that was read.
    pub(crate) fn access_token(&self) -> String {
        let after = self.text.split_once("\"access_token\":").expect("a login was read").1;
        after.split('"').nth(1).expect("it has a token").to_owned()
    }
}

/// What was seen while the turns ran.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// The homes of the runs.
    pub(crate) homes: Scan,
    /// The user's home, and the workspace.
    pub(crate) elsewhere: Scan,
    /// The argument lists of all descendants, one each.
    pub(crate) argument_lists: Scan,
    /// Their variables.
    pub(crate) environments: Scan,
    /// Their limits on core dumps.
    pub(crate) core_limits: Scan,
    /// Who may dump core.
    pub(crate) may_dump: Vec<String>,
    names: BTreeMap<u32, String>,
    known: BTreeSet<u64>,
}

impl Sight {
    pub(crate) fn processes_named(&self, name: &str) -> usize {
        self.names.values().filter(|known| known.starts_with(name)).count()
    }

    fn look(&mut self, homes: &Path, elsewhere: &[PathBuf]) {
        for pid in descendants() {
            self.look_at(pid);
        }
        // A file counts anew whenever it says something else.
        let Self { homes: seen_homes, elsewhere: seen_elsewhere, known, .. } = self;
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let mut is_new = |path: &Path, content: &[u8]| known.insert(hasher.hash_one((path, content)));
        seen_homes.add_files(homes, &mut is_new);
        for folder in elsewhere {
            seen_elsewhere.add_files(folder, &mut is_new);
        }
    }

    fn look_at(&mut self, pid: u32) {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}"));
        let name = read("comm").map(|name| String::from_utf8_lossy(&name).trim().to_owned());
        let (Ok(name), Ok(arguments), Ok(environment)) = (name, read("cmdline"), read("environ")) else {
            return;
        };
        // Between its fork and its program a child looks as we do.
        let is_program = environment.windows(10).any(|window| window == b"NEXUS_RUN=");
        if !is_program {
            return;
        }
        let is_new = self.names.insert(pid, name.clone()).is_none_or(|before| before != name);
        if !is_new {
            return;
        }
        // The limit comes some microseconds after the start; on a busy machine the host may have to wait for its turn.
        let mut core = core_limit(pid);
        for _ in 0..100 {
            if core.as_deref().is_none_or(is_zero) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            core = core_limit(pid);
        }
        match core {
            Some(core) if is_zero(&core) => self.core_limits.add(&name, core.as_bytes()),
            Some(core) => self.may_dump.push(format!("{name}: {core}")),
            // It is gone, and tells nothing.
            None => {}
        }
        self.argument_lists.add(&name, &arguments);
        self.environments.add(&name, &environment);
    }
}

/// What the kernel says of a process's core dumps; `None` of one that is gone.
fn core_limit(pid: u32) -> Option<String> {
    let limits = match fs::read_to_string(format!("/proc/{pid}/limits")) {
        Ok(limits) => limits,
        Err(_) if !Path::new(&format!("/proc/{pid}")).exists() => return None,
        Err(error) => return Some(error.to_string()),
    };
    Some(limits.lines().find(|line| line.starts_with("Max core file size")).unwrap_or_default().to_owned())
}

fn is_zero(core: &str) -> bool {
    core.split_whitespace().skip(4).take(2).eq(["0", "0"])
}

/// Every process that descends from this one.
fn descendants() -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let parent = fields.split(' ').nth(1).and_then(|parent| parent.parse::<u32>().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    let mut found = vec![std::process::id()];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// Looks again and again until it is stopped.
pub(crate) struct Watching {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Sight>,
}

/// Begins to look at the homes of the runs, at other folders, and at all descendants.
pub(crate) fn watch(homes: PathBuf, home: PathBuf, work: PathBuf) -> Watching {
    let is_over = Arc::<AtomicBool>::default();
    let over = Arc::clone(&is_over);
    let thread = std::thread::spawn(move || {
        let mut sight = Sight::default();
        while !over.load(Ordering::SeqCst) {
            sight.look(&homes, &[home.clone(), work.clone()]);
            std::thread::sleep(Duration::from_millis(50));
        }
        sight
    });
    Watching { is_over, thread }
}

impl Watching {
    pub(crate) fn stop(self) -> Sight {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().expect("the watch lives")
    }
}

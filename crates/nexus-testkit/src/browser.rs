//! A page as a real browser shows it: Chromium, without a network.

use std::{
    fs, io,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

/// Time limit for a browser to show a page.
const PATIENCE: Duration = Duration::from_secs(60);

/// Page as a browser rendered it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The page as the browser understood it, written out as HTML.
    pub dom: String,
    /// Every requested address, including the browser's own requests.
    pub requests: Vec<String>,
    /// A picture of it, as PNG.
    pub picture: Vec<u8>,
}

/// Opens a page in Chromium, in a network namespace without any interface, with a new profile. `None` if this machine lacks
/// Chromium, or does not allow such namespaces for this user.
///
/// # Errors
///
/// The browser cannot be started, or shows nothing within a minute.
pub fn look_at(page: &str) -> io::Result<Option<Seen>> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    fs::write(at("page.html"), page)?;
    // One try shows whether both the namespace and the browser are available.
    if !succeeds("unshare", &["-rn", "chromium", "--version"]) {
        return Ok(None);
    }
    let (dom, errors) = (at("dom"), at("errors"));
    let mut browser = Command::new("unshare");
    browser
        .args([
            "-rn",
            "chromium",
            "--headless",
            // The user is root in this namespace, and Chromium refuses its own sandbox for root.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-dev-shm-usage", "--window-size=1100,2400", "--dump-dom"])
        .arg(named("--user-data-dir", &at("profile")))
        .arg(named("--log-net-log", &at("net.json")))
        .arg(named("--screenshot", &at("picture.png")))
        .arg(format!("file://{}", at("page.html").display()))
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        // Files, because the loop below reads no pipe, and a full pipe would block the browser.
        .stdout(fs::File::create(&dom)?)
        .stderr(fs::File::create(&errors)?);
    let mut browser = browser.spawn()?;
    let began = Instant::now();
    let status = loop {
        match browser.try_wait()? {
            Some(status) => break status,
            None if began.elapsed() > PATIENCE => {
                browser.kill()?;
                break browser.wait()?;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if !status.success() {
        let errors = fs::read_to_string(&errors).unwrap_or_default();
        return Err(io::Error::other(format!("chromium ended with {status}: {errors}")));
    }
    let requests = requests(&fs::read(at("net.json"))?);
    Ok(Some(Seen { dom: fs::read_to_string(&dom)?, requests, picture: fs::read(at("picture.png"))? }))
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn named(option: &str, path: &Path) -> String {
    format!("{option}={}", path.display())
}

/// The addresses in a log of Chromium's network stack.
fn requests(log: &[u8]) -> Vec<String> {
    let log: Value = serde_json::from_slice(log).unwrap_or_default();
    let events = log["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    let urls = events.iter().filter_map(|event| event["params"]["url"].as_str());
    let mut urls: Vec<String> = urls.map(str::to_owned).collect();
    // Several events name the same request.
    urls.sort();
    urls.dedup();
    urls
}

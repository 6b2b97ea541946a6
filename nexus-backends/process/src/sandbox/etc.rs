//! The `/etc` of a sandbox: shared files of the machine that contain no names of persons, and generated files.

use std::io;
use std::path::{Path, PathBuf};

use super::layout::Layout;
use crate::private_home::PrivateHome;

/// Host name inside.
pub(super) const HOST_NAME: &str = "sandbox";
/// User id that files of unknown users have. Source: Linux, `/proc/sys/kernel/overflowuid`.
const NOBODY: u32 = 65534;
/// Parts of the machine's own `/etc` that programs need, if they exist. They contain no private keys; of `/etc/ssl`
/// only the certificates are included.
const SHARED: [&str; 17] = [
    "alternatives",
    "ca-certificates/extracted",
    "crypto-policies",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "mime.types",
    "os-release",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
];
/// Prefix of the folders with the settings of Debian's Java.
const JAVA: &str = "java-";

/// Adds `/etc` to a layout, and writes generated files to `folder`. `host_lines` are lines for the file of host names.
///
/// # Errors
///
/// A file cannot be written.
pub(super) fn lay_out(
    mut layout: Layout,
    folder: &PrivateHome,
    home: &Path,
    host_lines: &str,
) -> io::Result<Layout> {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let name = |id: u32| match id {
        0 => "root",
        NOBODY => "nobody",
        _ => HOST_NAME,
    };
    // A field of the table must not contain a colon or a line break.
    let home = home.to_str().filter(|home| !home.contains([':', '\n'])).unwrap_or("/");
    let mut users = format!("{}:x:{user}:{group}::{home}:/bin/sh\n", name(user));
    let mut groups = format!("{}:x:{group}:\n", name(group));
    if user != NOBODY {
        users.push_str(&format!("nobody:x:{NOBODY}:{NOBODY}::/:/bin/false\n"));
    }
    if group != NOBODY {
        groups.push_str(&format!("nogroup:x:{NOBODY}:\n"));
    }
    // Programs use the first line with a name.
    let hosts =
        format!("{host_lines}127.0.0.1 localhost {HOST_NAME}\n::1 localhost ip6-localhost {HOST_NAME}\n");
    let generated = [
        ("passwd", &*users),
        ("group", &*groups),
        ("hosts", &*hosts),
        ("hostname", "sandbox\n"),
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n",
        ),
        ("resolv.conf", ""),
    ];
    for (name, content) in generated {
        let file = folder.write(Path::new("etc").join(name), content)?;
        layout = layout.read_only(file, Path::new("/etc").join(name));
    }
    for (outside, name) in shared(Path::new("/etc")) {
        layout = layout.read_only(outside, Path::new("/etc").join(name));
    }
    Ok(layout.link("/proc/self/mounts", "/etc/mtab"))
}

/// Returns the real path and the name of each shared file that exists.
fn shared(etc: &Path) -> Vec<(PathBuf, PathBuf)> {
    let java = std::fs::read_dir(etc).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let java = java.filter(|name| name.as_encoded_bytes().starts_with(JAVA.as_bytes())).map(PathBuf::from);
    let all = SHARED.iter().map(PathBuf::from).chain(java);
    all.filter_map(|name| Some((etc.join(&name).canonicalize().ok()?, name))).collect()
}

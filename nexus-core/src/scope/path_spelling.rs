//! Checks of a path's spelling, before any access to the file system.

/// Longest path, in bytes. Source: `PATH_MAX` of Linux, which counts the NUL.
const MAX_PATH_BYTES: usize = 4095;

/// Longest name in a path, in bytes. Source: `NAME_MAX` of Linux.
const MAX_NAME_BYTES: usize = 255;

/// Checks the spelling of a path.
pub(super) fn spelling(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("it is empty; `.` is the root".to_owned());
    }
    if path.contains('\0') {
        return Err("it has a NUL byte in it".to_owned());
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(format!("it is longer than {MAX_PATH_BYTES} bytes"));
    }
    if path.split(std::path::is_separator).any(|name| name.len() > MAX_NAME_BYTES) {
        return Err(format!("a name in it is longer than {MAX_NAME_BYTES} bytes"));
    }
    if cfg!(windows) && path.split(std::path::is_separator).any(is_special_on_windows) {
        return Err("a name in it has a special meaning on this operating system".to_owned());
    }
    Ok(())
}

/// Returns true if Windows treats a name as something other than that file: a device, a stream, another name.
/// Source: "Naming Files, Paths, and Namespaces" of its documentation.
fn is_special_on_windows(name: &str) -> bool {
    let is_drive = name.len() == 2 && name.ends_with(':');
    // Windows ignores extensions of devices: `NUL.txt` is the device `NUL`.
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_uppercase();
    let is_device = matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$")
        || stem
            .strip_prefix("COM")
            .or(stem.strip_prefix("LPT"))
            // Windows accepts superscript digits too, as in `COM¹`, so any character counts.
            .is_some_and(|rest| rest.chars().count() == 1);
    let trimmed = !matches!(name, "." | "..") && name.ends_with(['.', ' ']);
    (name.contains(':') && !is_drive) || is_device || trimmed
}

/// Returns the fault of a path that begins with a shell shorthand, which would have another meaning here.
pub(super) fn shell_shorthand(path: &str) -> Option<String> {
    let first = path.split(std::path::is_separator).next().unwrap_or_default();
    let is_variable = |name: &str| {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(|byte| byte.is_ascii_uppercase() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let stands_for_another =
        first == "~" || first.starts_with("${") || first.strip_prefix('$').is_some_and(is_variable);
    stands_for_another.then(|| {
        let way_out = format!("write the path it leads to, or \"./{first}\" if it is a name");
        format!("begins with {first:?}, which is not expanded here; {way_out}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_windows_reads_otherwise_are_told() {
        for name in ["CON", "nul.txt", "com1", "LPT9.log", "a:b", "file::$DATA", "dot.", "space ", "aux .c"] {
            assert!(is_special_on_windows(name), "{name}");
        }
        for name in ["C:", ".", "..", "console", "a.txt", "com10", ".env", "nullable"] {
            assert!(!is_special_on_windows(name), "{name}");
        }
    }
}

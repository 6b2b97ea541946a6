//! Lines that a patch changes.

use std::{borrow::Cow, ops::RangeInclusive};

/// Returns the lines of new files that a git patch adds, or before which it removes some, by path. A verdict may cite these lines.
///
/// A change without lines (of a mode, of an empty file) and a removed file count as line 1 of their path. The patch has no renames and
/// has `a/` and `b/` before its paths. Content cannot be mistaken for a header: each hunk header states how many lines follow.
pub(super) fn changed_lines(patch: &[u8]) -> Vec<(String, RangeInclusive<u32>)> {
    let mut found: Vec<(String, RangeInclusive<u32>)> = Vec::new();
    // The current file, and true if one of its lines was found.
    let mut file: Option<(String, bool)> = None;
    let mut hunk = Hunk::default();
    for line in patch.split(|&byte| byte == b'\n') {
        if hunk.is_open() {
            if let (Some(changed), Some((path, has_lines))) = (hunk.take(line), &mut file) {
                *has_lines = true;
                match found.last_mut() {
                    Some((last, lines)) if last == path && changed <= lines.end().saturating_add(1) => {
                        *lines = *lines.start()..=changed.max(*lines.end());
                    }
                    _ => found.push((path.clone(), changed..=changed)),
                }
            }
        } else if let Some(names) = line.strip_prefix(b"diff --git ") {
            found.extend(without_lines(file.take()));
            file = path_of(names).map(|path| (path, false));
        } else if let Some(head) = line.strip_prefix(b"@@ ") {
            hunk = Hunk::begin(head).unwrap_or_default();
        }
    }
    found.extend(without_lines(file));
    found
}

fn without_lines(file: Option<(String, bool)>) -> Option<(String, RangeInclusive<u32>)> {
    file.filter(|(_, has_lines)| !has_lines).map(|(path, _)| (path, 1..=1))
}

/// Lines of one file that stand together.
#[derive(Debug, Default)]
struct Hunk {
    /// Numbers of lines of the old and the new file that are still to come.
    old: u32,
    new: u32,
    /// The number of the next line of the new file.
    next: u32,
}

impl Hunk {
    /// Parses `-3,4 +3,5 @@ …`. An omitted count is 1.
    fn begin(head: &[u8]) -> Option<Self> {
        let head = std::str::from_utf8(head.split(|&byte| byte == b'@').next()?).ok()?;
        let mut sides = head.split_ascii_whitespace();
        let (_, old) = side(sides.next()?.strip_prefix('-')?)?;
        let (first, new) = side(sides.next()?.strip_prefix('+')?)?;
        // For a file that is now empty, the header states line 0.
        Some(Self { old, new, next: first.max(1) })
    }

    fn is_open(&self) -> bool {
        self.old > 0 || self.new > 0
    }

    /// Reads one line, and returns the line of the new file that it changes.
    fn take(&mut self, line: &[u8]) -> Option<u32> {
        let here = self.next;
        match line.first() {
            Some(b'+') => {
                self.new = self.new.saturating_sub(1);
                self.next = here.saturating_add(1);
                Some(here)
            }
            Some(b'-') => {
                self.old = self.old.saturating_sub(1);
                Some(here)
            }
            // "\ No newline at end of file" belongs to neither file.
            Some(b'\\') => None,
            _ => {
                self.old = self.old.saturating_sub(1);
                self.new = self.new.saturating_sub(1);
                self.next = here.saturating_add(1);
                None
            }
        }
    }
}

fn side(text: &str) -> Option<(u32, u32)> {
    let (first, count) = text.split_once(',').unwrap_or((text, "1"));
    Some((first.parse().ok()?, count.parse().ok()?))
}

/// Returns the path in `a/PATH b/PATH`, where both are the same.
fn path_of(names: &[u8]) -> Option<String> {
    let path: Cow<'_, [u8]> = match names.strip_prefix(b"\"") {
        Some(quoted) => Cow::Owned(unquoted(quoted)),
        // Half of the text, without the space in the middle: a path may contain spaces.
        None => Cow::Borrowed(names.get(..names.len() / 2)?),
    };
    let path = path.strip_prefix(b"a/")?;
    Some(String::from_utf8_lossy(path).into_owned())
}

/// Decodes a path that git quoted: `\n`, `\"`, `\303`.
fn unquoted(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => break,
            b'\\' => match rest.next() {
                Some(b'a') => bytes.push(7),
                Some(b'b') => bytes.push(8),
                Some(b't') => bytes.push(b'\t'),
                Some(b'n') => bytes.push(b'\n'),
                Some(b'v') => bytes.push(11),
                Some(b'f') => bytes.push(12),
                Some(b'r') => bytes.push(b'\r'),
                Some(digit @ b'0'..=b'3') => {
                    let mut value = digit - b'0';
                    for next in rest.by_ref().take(2) {
                        value = (value << 3) | (next & 7);
                    }
                    bytes.push(value);
                }
                Some(other) => bytes.push(other),
                None => break,
            },
            other => bytes.push(other),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(patch: &str) -> Vec<String> {
        let lines = changed_lines(patch.as_bytes());
        lines.into_iter().map(|(path, lines)| format!("{path}:{}-{}", lines.start(), lines.end())).collect()
    }

    #[test]
    fn lines_that_are_added_and_places_where_some_are_gone_are_changed() {
        let patch = "\
diff --git a/src/a b.rs b/src/a b.rs
index 1..2 100644
--- a/src/a b.rs\t
+++ b/src/a b.rs\t
@@ -1,3 +1,4 @@ fn head() {
 one
-two
+TWO
+more
 three
@@ -20,3 +21,2 @@
 x
-gone
 y
diff --git a/new b/new
new file mode 100644
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+x
\\ No newline at end of file
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1,2 +0,0 @@
-x
-y
diff --git a/tool b/tool
old mode 100644
new mode 100755
diff --git \"a/na\\303\\257ve\\n\\\"x\" \"b/na\\303\\257ve\\n\\\"x\"
new file mode 100644
index 0..e
";
        let expected =
            ["src/a b.rs:2-3", "src/a b.rs:22-22", "new:1-1", "gone:1-1", "tool:1-1", "na\u{ef}ve\n\"x:1-1"];
        assert_eq!(shown(patch), expected);
    }

    #[test]
    fn what_is_in_a_file_passes_for_no_head() {
        let patch = "\
diff --git a/a b/a
--- a/a
+++ b/a
@@ -1,3 +1,4 @@
-diff --git a/b b/b
 diff --git a/c c/c
+@@ -1,1 +90,9 @@
+diff --git a/d b/d
 end
diff --git a/e b/e
--- a/e
+++ b/e
@@ -7 +7 @@
-x
+y
";
        assert_eq!(shown(patch), ["a:1-3", "e:7-7"]);
    }

    proptest! {
        #[test]
        fn no_patch_breaks_it(patch in prop::collection::vec(any::<u8>(), 0..200)) {
            changed_lines(&patch);
        }

        #[test]
        fn no_odd_head_breaks_it(head in "@@ -[0-9]{0,11},?[0-9]{0,11} \\+[0-9]{0,11},?[0-9]{0,11} @@") {
            let patch = format!("diff --git a/a b/a\n{head}\n+x\n-y\n z\n");
            let lines = changed_lines(patch.as_bytes());
            prop_assert!(lines.iter().all(|(path, lines)| path == "a" && *lines.start() >= 1));
        }
    }
}

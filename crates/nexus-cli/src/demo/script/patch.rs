//! Lines of a patch, as `read_diff` returns it.

/// A line that a patch adds or removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangedLine<'d> {
    pub(super) path: &'d str,
    /// Number of the line in the new file. A removed line has the number of the line that follows it.
    number: usize,
    pub(super) is_added: bool,
    pub(super) text: &'d str,
}

impl ChangedLine<'_> {
    /// Returns the id by which a verdict cites the line.
    pub(super) fn evidence(&self) -> String {
        format!("diff:{}:{}", self.path, self.number)
    }
}

/// Returns the changed lines of a quoted patch. A path that git quotes is left as git writes it.
pub(super) fn changed_lines(diff: &str) -> Vec<ChangedLine<'_>> {
    let mut lines = Vec::new();
    let (mut path, mut number) = ("", 0);
    // Lines of the current hunk that are still to come, of the old and the new file.
    let (mut old, mut new) = (0_usize, 0_usize);
    // Tools quote the diff with this mark at the beginning of each line.
    for line in diff.lines().filter_map(|line| line.strip_prefix("> ")) {
        if old == 0 && new == 0 {
            if let Some(named) = line.strip_prefix("--- a/").or_else(|| line.strip_prefix("+++ b/")) {
                path = named;
            } else if let Some((removed, added)) = hunk(line) {
                (old, number, new) = (removed, added.0.max(1), added.1);
            }
            continue;
        }
        let (is_removed, is_added) = (line.starts_with('-'), line.starts_with('+'));
        if line.starts_with('\\') {
            continue;
        }
        if is_removed || is_added {
            lines.push(ChangedLine { path, number, is_added, text: &line[1..] });
        }
        old = old.saturating_sub(usize::from(!is_added));
        new = new.saturating_sub(usize::from(!is_removed));
        number += usize::from(!is_removed);
    }
    lines
}

/// Reads `@@ -3,4 +3,5 @@`: the number of old lines, and the first new line with the number of new lines.
fn hunk(line: &str) -> Option<(usize, (usize, usize))> {
    let mut sides = line.strip_prefix("@@ ")?.split(' ');
    let side = |text: &str| {
        let (first, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((first.parse().ok()?, count.parse().ok()?))
    };
    let (_, old): (usize, usize) = side(sides.next()?.strip_prefix('-')?)?;
    Some((old, side(sides.next()?.strip_prefix('+')?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_have_their_paths_and_numbers() {
        let diff = "[the diff of this step]\n> diff --git a/a.sh b/a.sh\n> --- a/a.sh\n> +++ b/a.sh\n> @@ -2,3 +2,3 @@\n>  one\n\
                    > --- two\n> +++ three\n>  four\n> diff --git a/b b/b\n> --- /dev/null\n> +++ b/b\n> @@ -0,0 +1 @@\n> +five\n";
        let lines: Vec<_> =
            changed_lines(diff).iter().map(|line| (line.evidence(), line.is_added, line.text)).collect();
        let expected =
            [("diff:a.sh:3", false, "-- two"), ("diff:a.sh:3", true, "++ three"), ("diff:b:1", true, "five")];
        assert_eq!(lines, expected.map(|(id, is_added, text)| (id.to_owned(), is_added, text)));
        for odd in ["", "> @@ -x +1 @@\n> +a", "> @@ -1,9 +1,9 @@", "> @@ -0,0 +1 @@\n> "] {
            assert!(changed_lines(odd).is_empty(), "{odd}");
        }
    }
}

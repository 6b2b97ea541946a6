//! Outputs of a probe, as `run_probe` returns them.

/// Returns the lines that a probe printed on the present files. Outputs of other trees are left out.
pub(super) fn lines_now(answer: &str) -> Vec<&str> {
    lines_of(answer, "now", 0)
}

fn lines_of<'a>(answer: &'a str, side: &str, depth: usize) -> Vec<&'a str> {
    const SIDES: [&str; 3] = ["task_base", "step_base", "now"];
    let heading = |line: &'a str| line.split_once(": ").filter(|(name, _)| SIDES.contains(name));
    let mut lines = answer.lines().skip_while(|line| heading(line).is_none_or(|(name, _)| name != side));
    let Some((_, outcome)) = lines.next().and_then(heading) else { return Vec::new() };
    // An output that an earlier side already shows is not repeated.
    let alike = outcome.strip_prefix("as ").or_else(|| outcome.strip_prefix("the same files as "));
    // The depth ends references that lead in a circle.
    if let Some(other) = alike.filter(|_| depth < SIDES.len()) {
        return lines_of(answer, other, depth + 1);
    }
    lines.take_while(|line| heading(line).is_none()).filter_map(|line| line.strip_prefix("> ")).collect()
}

//! Targets of the links of a tree.

use std::collections::BTreeMap;

use nexus_core::scope::is_dot_git;

/// Maximum number of links that are followed. Source: path_resolution(7).
const MAX_LINKS: usize = 40;

/// Targets of a tree's links, by path.
pub(super) type LinkTargets = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns true if a link leads out of the tree, into a `.git`, or in a circle. Links on the way are followed
/// as the operating system does; a missing path counts as a folder.
pub(super) fn leads_out(links: &LinkTargets, path: &[u8]) -> bool {
    let Some(target) = links.get(path) else { return false };
    let mut place: Vec<Vec<u8>> = parts(path);
    place.pop();
    let mut todo: Vec<Vec<u8>> = Vec::new();
    let mut followed = 0;
    let mut next = Some(target);
    loop {
        if let Some(target) = next.take() {
            followed += 1;
            if target.starts_with(b"/") || followed > MAX_LINKS {
                return true;
            }
            todo.extend(parts(target).into_iter().rev());
        }
        let Some(name) = todo.pop() else { return false };
        match name.as_slice() {
            b"" | b"." => {}
            b".." => {
                if place.pop().is_none() {
                    return true;
                }
            }
            name if is_dot_git(name) => return true,
            _ => {
                place.push(name);
                next = links.get(&place.join(&b'/'));
                if next.is_some() {
                    place.pop();
                }
            }
        }
    }
}

fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(links: &[(&str, &str)]) -> LinkTargets {
        links.iter().map(|(path, target)| (path.as_bytes().to_vec(), target.as_bytes().to_vec())).collect()
    }

    #[test]
    fn links_are_followed_as_the_system_does() {
        let tree = links(&[
            ("in", "a/b"),
            ("a/up", "../in"),
            ("a/out", "../../x"),
            ("absolute", "/etc"),
            ("a/b/c/top", "../../.."),
            ("over", "a/b/c/top/.."),
            ("through", "in/../../x"),
            ("round", "round"),
            ("git", "a/.GIT/hooks"),
            ("empty", ""),
            ("self", "."),
        ]);
        for (path, expected) in [
            ("in", false),
            ("a/up", false),
            ("a/out", true),
            ("absolute", true),
            ("a/b/c/top", false),
            ("over", true),
            ("through", false),
            ("round", true),
            ("git", true),
            ("empty", false),
            ("self", false),
            ("no link", false),
        ] {
            assert_eq!(leads_out(&tree, path.as_bytes()), expected, "{path}");
        }
    }
}

//! Random edits and random vandalism.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};

use nexus_trees::CommitIntent;
use proptest::prelude::*;

use super::kit::{Place, at, git, listing, write};

/// One thing that is done in a folder.
#[derive(Clone, Debug)]
enum Edit {
    Write(PathBuf, Vec<u8>),
    Append(PathBuf, Vec<u8>),
    Remove(PathBuf),
    Mode(PathBuf, u32),
    Link(PathBuf, PathBuf),
    Folder(PathBuf),
}

fn path() -> impl Strategy<Value = PathBuf> {
    let name = prop_oneof![
        8 => "[abc]".prop_map(String::into_bytes),
        1 => Just(b"white space".to_vec()),
        1 => Just(b"\"quoted\\".to_vec()),
        1 => Just("\u{e9}t\u{e9}".as_bytes().to_vec()),
        1 => Just(b"not-\xff-unicode".to_vec()),
        1 => Just(b"-option".to_vec()),
        1 => Just(b":(top)magic".to_vec()),
        1 => Just(b"*".to_vec()),
    ];
    prop::collection::vec(name, 1..4)
        .prop_map(|names| names.iter().map(|name| OsStr::from_bytes(name)).collect())
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "([a-c ]{0,4}\r?\n){0,12}[a-c]{0,3}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => prop::collection::vec(prop::sample::select(vec![0_u8, b'\n', b'\r', b'a', b'+', b'-', b'\\']), 0..60),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        5 => (path(), content()).prop_map(|(path, content)| Edit::Write(path, content)),
        2 => (path(), content()).prop_map(|(path, content)| Edit::Append(path, content)),
        2 => path().prop_map(Edit::Remove),
        2 => (path(), prop::sample::select(vec![0o644, 0o755, 0o600, 0o4755])).prop_map(|(path, mode)| Edit::Mode(path, mode)),
        1 => (path(), path()).prop_map(|(path, target)| Edit::Link(path, target)),
        1 => path().prop_map(Edit::Folder),
    ]
}

/// Does it, where it can be done.
fn carry_out(folder: &Path, edit: &Edit) {
    let is_inside = |path: &Path| {
        // A link on the way leads elsewhere.
        path.ancestors().skip(1).take_while(|above| *above != folder).all(|above| !above.is_symlink())
    };
    let (Edit::Write(path, _)
    | Edit::Append(path, _)
    | Edit::Remove(path)
    | Edit::Mode(path, _)
    | Edit::Link(path, _)
    | Edit::Folder(path)) = edit;
    let path = folder.join(path);
    if !is_inside(&path) {
        return;
    }
    match edit {
        Edit::Write(_, content) if !path.is_symlink() => {
            let _ = fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(&path, content));
        }
        Edit::Append(_, more) if path.is_file() && !path.is_symlink() => {
            let mut content = fs::read(&path).unwrap_or_default();
            content.extend_from_slice(more);
            let _ = fs::write(&path, content);
        }
        Edit::Remove(_) if path.is_dir() && !path.is_symlink() => drop(fs::remove_dir_all(&path)),
        Edit::Remove(_) => drop(fs::remove_file(&path)),
        Edit::Mode(_, mode) if path.is_file() && !path.is_symlink() => {
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(*mode));
        }
        Edit::Link(_, target) => drop(symlink(target, &path)),
        Edit::Folder(_) => drop(fs::create_dir_all(&path)),
        _ => {}
    }
}

/// What git keeps of a listing: no folders, and of a mode whether a file can be executed.
fn kept(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let plain = |content: Vec<u8>| match content.strip_prefix(b"file ") {
        Some(rest) => {
            let end = rest.iter().position(|byte| *byte == b' ').unwrap();
            let mode = u32::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 8).unwrap();
            [format!("{} ", mode & 0o100 != 0).as_bytes(), &rest[end..]].concat()
        }
        None => content,
    };
    let files = listing(folder).into_iter().filter(|(_, content)| content != b"folder");
    files.map(|(path, content)| (path, plain(content))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_patch_makes_of_the_base_what_is_there_and_restoring_brings_back_the_base(
        first in prop::collection::vec(edit(), 0..12),
        second in prop::collection::vec(edit(), 1..12),
    ) {
        let Some(git) = git() else { return Ok(()) };
        let place = Place::new(&git);
        for edit in &first {
            carry_out(&place.project(), edit);
        }
        let tree = place.create().unwrap();
        let base = tree.base().commit.clone();
        let folder = place.out("now");
        tree.check_out(&base, &folder).unwrap();
        prop_assert_eq!(kept(&folder), kept(&place.project()));
        let checked_out = listing(&folder);

        for edit in &second {
            carry_out(&folder, edit);
        }
        let snapshot = tree.snapshot(&folder).unwrap();
        let edited = kept(&folder);

        // The patch, by a git that knows nothing of trees.
        let patch = place.folder.path().join("patch");
        let applied = place.folder.path().join("applied");
        fs::write(&patch, tree.patch(&base, &snapshot).unwrap().as_bytes()).unwrap();
        tree.check_out(&base, &applied).unwrap();
        if fs::metadata(&patch).unwrap().len() > 0 {
            let patch = patch.to_str().unwrap();
            place.person_in(&applied, &["-c", "core.whitespace=cr-at-eol", "apply", "--whitespace=nowarn", patch]);
        }
        prop_assert_eq!(kept(&applied), edited.as_slice());
        prop_assert_eq!(&tree.snapshot(&applied).unwrap(), &snapshot);

        // Restoring forth and back. A tree may hold links that no commit takes.
        if let Ok(made) = tree.commit(&CommitIntent::new(snapshot, base.clone(), at(7), "Edit")) {
            tree.restore(&made, &applied, &[]).unwrap();
            prop_assert_eq!(kept(&applied), edited);
            let mut bundle = Vec::new();
            tree.bundle(&base, &made, &mut bundle).unwrap();
            prop_assert_eq!(tree.apply_bundle(&mut bundle.as_slice()).unwrap(), made);
        }
        write(&folder.join("left/by/an/agent"), "x");
        tree.restore(&base, &folder, &[]).unwrap();
        prop_assert_eq!(listing(&folder), checked_out);
        prop_assert_eq!(tree.snapshot(&folder).unwrap(), tree.tree_of(&base).unwrap());
    }
}

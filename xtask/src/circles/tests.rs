use std::fs;
use std::path::Path;

use super::*;

/// The circles of a crate of these files, as lists of file names.
fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tree = Tree::read(folder.path(), Path::new("lib.rs")).unwrap();
    find(&tree)
        .into_iter()
        .map(|circle| circle.files.iter().map(|path| path.display().to_string()).collect())
        .collect()
}

#[test]
fn a_circle_through_a_re_export_is_found_at_the_files_that_define() {
    let found = circles(&[
        ("lib.rs", "mod inner; mod outer; pub use inner::Inner;"),
        ("inner.rs", "use crate::outer::Outer; pub struct Inner(Outer);"),
        ("outer/mod.rs", "mod deep; pub use deep::Outer;"),
        ("outer/deep.rs", "pub struct Outer; impl Outer { fn inner(&self) -> crate::Inner { todo!() } }"),
    ]);
    assert_eq!(found, [["inner.rs", "outer/deep.rs"]]);
}

#[test]
fn a_module_and_what_is_below_it_may_use_each_other() {
    let found = circles(&[
        ("lib.rs", "mod parent; pub struct Root; fn grand() { parent::child::grand(); }"),
        ("parent.rs", "pub mod child; pub struct Parent(child::Child);"),
        (
            "parent/child.rs",
            "use super::Parent; pub struct Child(Box<Parent>, crate::Root); pub fn grand() {}",
        ),
    ]);
    assert_eq!(found, Vec::<Vec<String>>::new());
}

#[test]
fn siblings_may_not() {
    let found = circles(&[
        ("lib.rs", "mod one; mod two;"),
        ("one.rs", "pub fn one() { super::two::two() }"),
        ("two.rs", "use super::one; pub fn two() { one::one() }"),
    ]);
    assert_eq!(found, [["one.rs", "two.rs"]]);
}

#[test]
fn tests_make_no_circle() {
    let found = circles(&[
        ("lib.rs", "mod one; mod two; #[cfg(test)] mod gone;"),
        ("one.rs", "pub struct One; #[cfg(test)] mod tests { use crate::two::Two; }"),
        ("two.rs", "pub struct Two(crate::one::One);"),
    ]);
    assert_eq!(found, Vec::<Vec<String>>::new());
}

#[test]
fn macros_strings_globs_and_bodies_count() {
    let base = ("lib.rs", "mod one; mod two;");
    let two =
        ("two.rs", "pub struct Two(crate::one::One); pub mod text { pub fn read() {} } pub fn two() {}");
    for one in [
        "pub struct One; fn f() { println!(\"{:?}\", crate::two::two()); }",
        "#[derive(serde::Serialize)] pub struct One { #[serde(with = \"crate::two::text\")] x: u8 }",
        "use super::two::*; pub struct One; fn f(_: Two) {}",
        "pub struct One; fn f() { use crate::two::two; two() }",
    ] {
        assert_eq!(circles(&[base, ("one.rs", one), two]), [["one.rs", "two.rs"]], "{one}");
    }
}

#[test]
fn a_name_of_two_platforms_leads_to_both_files() {
    let found = circles(&[
        (
            "lib.rs",
            "mod user; #[cfg(unix)] #[path = \"unix.rs\"] mod system; #[cfg(not(unix))] #[path = \"other.rs\"] mod system;",
        ),
        ("user.rs", "pub struct User; fn f() { crate::system::call() }"),
        ("unix.rs", "pub fn call() {}"),
        ("other.rs", "pub fn call() { let _ = crate::user::User; }"),
    ]);
    assert_eq!(found, [["other.rs", "user.rs"]]);
}

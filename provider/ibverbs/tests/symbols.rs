//! The names that the library exports, and at which versions.

#![expect(clippy::unwrap_used, reason = "this is test code")]

mod common;

use common::{library, library_folder, program, shown};
use ferroce_ibverbs_link::{PRIVATE_NODES, PUBLIC, private_names_of};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::Command;

/// Every (name, version node) that the library should define.
fn expected() -> BTreeSet<(String, String)> {
    let public = PUBLIC
        .iter()
        .flat_map(|node| node.symbols.iter().map(|name| ((*name).to_owned(), node.name.to_owned())));
    let private = PRIVATE_NODES.into_iter().flat_map(|node| {
        private_names_of(node).into_iter().map(move |name| (name, format!("IBVERBS_PRIVATE_{node}")))
    });
    public.chain(private).collect()
}

/// What `nm -D` says it defines: name, version, and whether that is the default one.
fn defined() -> Vec<(String, String, bool)> {
    let output =
        Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(library()).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter_map(|symbol| {
            let (name, version) = symbol.split_once('@')?;
            let is_default = version.starts_with('@');
            Some((name.to_owned(), version.trim_start_matches('@').to_owned(), is_default))
        })
        // The nodes themselves are symbols too.
        .filter(|(name, version, _)| name != version)
        .collect()
}

#[test]
fn the_library_defines_the_names_of_the_table_and_no_others() {
    let found: BTreeSet<_> = defined().into_iter().map(|(name, version, _)| (name, version)).collect();
    assert_eq!(found, expected());
}

#[test]
fn each_name_has_exactly_one_default_version() {
    let found = defined();
    for name in found.iter().map(|(name, ..)| name).collect::<BTreeSet<_>>() {
        let defaults = found.iter().filter(|(other, _, is_default)| other == name && *is_default).count();
        assert_eq!(defaults, 1, "{name}");
    }
}

// NCCL looks every name up with dlvsym; rdma-core-mummy, ctypes and Mooncake with dlsym. libmlx5 and libefa are linked
// BIND_NOW against the private names of their own rdma-core.
#[test]
fn programs_find_every_name_by_version_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("names");
    let mut text = String::new();
    for (name, version) in expected() {
        writeln!(text, "{name} {version}").unwrap();
    }
    std::fs::write(&list, text).unwrap();
    let Some(mut program) = program("symbols") else { return };
    let output = program.arg(list).arg(library_folder()).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
}

#[test]
fn nothing_is_left_undefined_but_the_c_library() {
    let output = Command::new("readelf").arg("-d").arg(library()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Library soname: [libibverbs.so.1]"), "{text}");
    assert!(text.contains("NOW") && text.contains("NODELETE"), "{text}");
    for needed in text.lines().filter(|line| line.contains("(NEEDED)")) {
        let expected =
            ["libgcc_s.so.1", "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux"];
        assert!(expected.iter().any(|library| needed.contains(library)), "{needed}");
    }
}

//! The names that the library exports, and at which versions.

mod common;

use common::{library, library_folder};
use ferroce_ibverbs_link::RDMACM;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// What `nm -D` says it defines: name and version.
fn defined(library: &Path) -> BTreeSet<(String, String)> {
    let output =
        Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(library).output();
    let text = String::from_utf8(output.expect("nm runs").stdout).expect("text");
    let symbols = text.lines().filter_map(|line| line.split_whitespace().last()?.split_once("@@"));
    // The nodes themselves are symbols too.
    symbols
        .filter(|(name, version)| name != version)
        .map(|(name, version)| (name.into(), version.into()))
        .collect()
}

#[test]
fn the_library_defines_the_names_of_the_table_and_no_others() {
    let table = RDMACM
        .iter()
        .flat_map(|node| node.symbols.iter().map(|name| ((*name).to_owned(), node.name.to_owned())));
    assert_eq!(defined(&library()), table.collect());
}

/// The system's own library, where there is one, defines nothing that ours does not.
#[test]
fn whatever_the_systems_library_has_ours_has_too() {
    let system = Path::new("/usr/lib/x86_64-linux-gnu/librdmacm.so.1");
    if system.exists() {
        let missing: Vec<_> = defined(system).difference(&defined(&library())).cloned().collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn programs_find_every_name_by_its_version() {
    let mut source =
        String::from("#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\nint main(void) {\n");
    source.push_str("void *library = dlopen(\"librdmacm.so.1\", RTLD_NOW);\n");
    source.push_str("if (!library) { puts(dlerror()); return 1; }\n");
    for node in RDMACM {
        for name in node.symbols {
            writeln!(
                source,
                "if (!dlvsym(library, \"{name}\", \"{}\")) {{ puts(\"{name}\"); return 1; }}",
                node.name
            )
            .expect("a String takes everything");
        }
    }
    source.push_str("return 0; }\n");
    let folder = tempfile::tempdir().expect("a folder");
    let (file, program) = (folder.path().join("names.c"), folder.path().join("names"));
    std::fs::write(&file, source).expect("written");
    let compiled = Command::new("cc").arg(&file).arg("-o").arg(&program).args(["-ldl"]).status();
    assert!(compiled.expect("cc runs").success());
    let output = Command::new(&program).env("LD_LIBRARY_PATH", library_folder()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

//! What measuring needs: cargo-llvm-cov, and the LLVM tools that it drives.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command;
use crate::report;
use crate::workspace::Workspace;

/// The LLVM tools.
pub struct Tools {
    cov: PathBuf,
    profdata: PathBuf,
}

/// The first LLVM whose tools read what today's rustc writes (raw profile version 10).
const OLDEST_LLVM: u32 = 19;
/// As far as packages are looked for.
const NEWEST_LLVM: u32 = 40;

impl Tools {
    /// Finds them, and installs cargo-llvm-cov if it is missing.
    ///
    /// # Errors
    /// The LLVM tools are not there, with what to do; cargo-llvm-cov cannot be installed.
    pub fn ensure(workspace: &Workspace) -> Result<Tools> {
        let Some(tools) = Tools::of_the_toolchain()?.or_else(Tools::of_the_system) else {
            bail!(
                "llvm-cov and llvm-profdata are missing: `rustup component add llvm-tools`, or the package of LLVM \
                 {OLDEST_LLVM} or newer (apt-get install llvm-{OLDEST_LLVM}; dnf install llvm; pacman -S llvm)"
            );
        };
        if !has_cargo_llvm_cov(workspace) {
            report::heading("installing cargo-llvm-cov, which runs instrumented tests");
            let mut cargo = command::cargo(&workspace.root);
            command::run(cargo.args(["install", "--locked", "cargo-llvm-cov"]))?;
        }
        Ok(tools)
    }

    /// Tells cargo-llvm-cov where they are.
    pub fn apply(&self, cargo: &mut Command) {
        cargo.env("LLVM_COV", &self.cov).env("LLVM_PROFDATA", &self.profdata);
    }

    /// Those of rustup's component, which fit the compiler best.
    fn of_the_toolchain() -> Result<Option<Tools>> {
        let output = Command::new("rustc").args(["--print", "target-libdir"]).output();
        let output = output.context("cannot start rustc")?;
        let libdir = String::from_utf8(output.stdout).context("rustc's folder is not UTF-8")?;
        let bin = Path::new(libdir.trim()).with_file_name("bin");
        let tools = Tools { cov: bin.join("llvm-cov"), profdata: bin.join("llvm-profdata") };
        Ok((tools.cov.exists() && tools.profdata.exists()).then_some(tools))
    }

    /// The newest that the system has.
    fn of_the_system() -> Option<Tools> {
        (OLDEST_LLVM..=NEWEST_LLVM).rev().find_map(|version| {
            let named = |tool: &str| ferroce_pair::find(&format!("{tool}-{version}"));
            Some(Tools { cov: named("llvm-cov")?, profdata: named("llvm-profdata")? })
        })
    }
}

fn has_cargo_llvm_cov(workspace: &Workspace) -> bool {
    let mut cargo = command::cargo(&workspace.root);
    cargo.args(["llvm-cov", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    cargo.status().is_ok_and(|status| status.success())
}

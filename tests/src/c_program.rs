//! Programs in C, compiled against the system's headers as any application is.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::sandbox::Sandbox;

/// A compiled program. Its file goes when this is dropped.
pub struct CProgram {
    folder: TempDir,
}

impl CProgram {
    /// Compiles `c/NAME.c` of this crate and links it with the system's libibverbs, and with its librdmacm if it calls that.
    ///
    /// # Panics
    /// When the compiler fails, with what it said.
    pub fn compile(sandbox: &Sandbox, name: &str) -> CProgram {
        let folder = sandbox.folder();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
        let output = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
            .arg(folder.path().join("program"))
            .arg(sources.join(name).with_extension("c"))
            .args(["-Wl,--as-needed", "-lrdmacm", "-libverbs"])
            .output()
            .unwrap_or_else(|error| panic!("cannot start cc: {error}"));
        assert!(output.status.success(), "cc {name}.c:\n{}", String::from_utf8_lossy(&output.stderr));
        CProgram { folder }
    }

    /// Where it lies.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }
}

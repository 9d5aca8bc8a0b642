//! Where things are: the sources, what cargo builds, and the tree that is handed to users.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folders of this checkout.
pub struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub root: PathBuf,
    /// Cargo's target folder, where the profiles' folders and our tree lie.
    pub target: PathBuf,
}

impl Workspace {
    /// Finds the folders from this program's own place, so that `sudo xtask install` needs no cargo.
    ///
    /// # Errors
    /// When the running executable cannot be located or was moved out of cargo's target folder.
    pub fn locate() -> Result<Self> {
        let executable = env::current_exe().context("cannot find xtask's own executable")?;
        let profile = executable.parent().context("xtask's executable has no folder")?;
        let target = profile.parent().context("xtask was moved out of cargo's target folder")?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no workspace")?;
        Ok(Self { root: root.to_path_buf(), target: target.to_path_buf() })
    }

    /// Where cargo leaves what it builds in release mode.
    pub fn release(&self) -> PathBuf {
        self.target.join("release")
    }

    /// The tree that users get.
    pub fn tree(&self) -> Tree {
        Tree { root: self.target.join("ferroce") }
    }
}

/// The layout of an installed or built tree: the same everywhere, so that the parts find each other relative to
/// themselves and the tree can be moved.
pub struct Tree {
    /// The folder that holds `bin`, `lib` and `libexec`.
    pub root: PathBuf,
}

impl Tree {
    /// The `ferroce` command.
    pub fn command(&self) -> PathBuf {
        self.root.join("bin/ferroce")
    }

    /// The library that applications load in place of the system's.
    pub fn library(&self) -> PathBuf {
        self.root.join("lib/libibverbs.so.1")
    }

    /// The library of those that manage connections with the RDMA CM.
    pub fn rdmacm(&self) -> PathBuf {
        self.root.join("lib/librdmacm.so.1")
    }

    /// The process that shares UDP port 4791.
    pub fn keeper(&self) -> PathBuf {
        self.root.join("libexec/ferroce-keeper")
    }

    /// Every file of the tree.
    pub fn files(&self) -> [PathBuf; 4] {
        [self.command(), self.library(), self.rdmacm(), self.keeper()]
    }
}

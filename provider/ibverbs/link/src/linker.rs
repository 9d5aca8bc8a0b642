//! The link step: `cc -shared` over a staticlib with a version script.

use crate::{RDMACM, ibverbs_version_script, private_aliases, version_script};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::{env, fs, io};
use thiserror::Error;

/// A shared library to be made from a static one.
#[derive(Clone, Debug)]
pub struct SharedLibrary<'a> {
    /// Its soname, which is also its file name.
    pub soname: &'a str,
    /// The static library that rustc made.
    pub archive: &'a Path,
    /// Which names are exported, and at which version.
    pub version_script: &'a str,
    /// A C translation unit to be linked with it.
    pub source: Option<&'a str>,
    /// Shared libraries that it needs besides the C library.
    pub needs: &'a [&'a Path],
}

/// Why a library was not linked.
#[derive(Debug, Error)]
pub enum LinkError {
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The C compiler did not start.
    #[error("cannot run the C compiler `{compiler}` ({source}); install one or name it in CC")]
    Compiler {
        /// Its name.
        compiler: String,
        /// What the system said.
        source: io::Error,
    },
    /// The C compiler or the linker refused.
    #[error("`{compiler}` could not link {soname} ({status}):\n{messages}")]
    Refused {
        /// Its name.
        compiler: String,
        /// The library.
        soname: String,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote.
        messages: String,
    },
}

/// Links `libibverbs.so.1` from `archive` (`libferroce_ibverbs.a`) into the folder `out_dir`, which is made if needed.
pub fn link_ibverbs(archive: &Path, out_dir: &Path) -> Result<PathBuf, LinkError> {
    SharedLibrary {
        soname: "libibverbs.so.1",
        archive,
        version_script: &ibverbs_version_script(),
        source: Some(&private_aliases()),
        needs: &[],
    }
    .link(out_dir)
}

/// Links `librdmacm.so.1` from `archive` (`libferroce_rdmacm.a`) and the `libibverbs.so.1` that it calls into the folder
/// `out_dir`, which is made if needed.
pub fn link_rdmacm(archive: &Path, ibverbs: &Path, out_dir: &Path) -> Result<PathBuf, LinkError> {
    SharedLibrary {
        soname: "librdmacm.so.1",
        archive,
        version_script: &version_script(RDMACM),
        source: None,
        needs: &[ibverbs],
    }
    .link(out_dir)
}

impl SharedLibrary<'_> {
    /// Links it into the folder `out_dir`, which is made if needed; the path of the library.
    ///
    /// The version script and the C unit stay beside it, for whoever wants to see what was linked.
    pub fn link(&self, out_dir: &Path) -> Result<PathBuf, LinkError> {
        fs::create_dir_all(out_dir)
            .map_err(|source| LinkError::Write { path: out_dir.to_owned(), source })?;
        let library = out_dir.join(self.soname);
        let script = write(out_dir.join(format!("{}.map", self.soname)), self.version_script)?;
        let unit = self
            .source
            .map(|source| write(out_dir.join(format!("{}.c", self.soname)), source))
            .transpose()?;

        let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        // The linker writes beside the library and renames, so that a process that has it mapped keeps the old one.
        let fresh = fresh_name(&library);
        let output = Command::new(&compiler)
            .args(["-shared", "-fPIC", "-O2", "-Wl,--build-id", "-Wl,--gc-sections"])
            // An engine thread must never find its code unmapped by dlclose(3).
            .args(["-Wl,-z,now", "-Wl,-z,relro", "-Wl,-z,defs", "-Wl,-z,nodelete"])
            .arg(format!("-Wl,-soname,{}", self.soname))
            .arg(format!("-Wl,--version-script={}", script.display()))
            .args(&unit)
            .arg("-Wl,--whole-archive")
            .arg(self.archive)
            .arg("-Wl,--no-whole-archive")
            .args(self.needs)
            .args(["-lgcc_s", "-lpthread", "-ldl", "-lm", "-lc", "-o"])
            .arg(&fresh)
            .output()
            .map_err(|source| LinkError::Compiler { compiler: compiler.clone(), source })?;
        if !output.status.success() {
            return Err(LinkError::Refused {
                compiler,
                soname: self.soname.to_owned(),
                status: output.status,
                messages: String::from_utf8_lossy(&output.stderr).into_owned(),
            });
        }
        fs::rename(&fresh, &library).map_err(|source| LinkError::Write { path: library.clone(), source })?;
        Ok(library)
    }
}

/// Writes beside the file and renames, so that a compiler that another process runs on it never finds half of it.
fn write(path: PathBuf, text: &str) -> Result<PathBuf, LinkError> {
    let fresh = fresh_name(&path);
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, &path))
        .map_err(|source| LinkError::Write { path: path.clone(), source })?;
    Ok(path)
}

/// Where this process writes what is to become `path`.
fn fresh_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.{}.new", std::process::id()))
}

//! Looks at the program that is about to run, for the cases in which the dynamic linker will not give it our library.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;
use rustix::process::{getegid, geteuid};

/// Why a program will not load our library.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Obstacle {
    /// It gains privileges when it starts, so ld.so(8) ignores LD_LIBRARY_PATH.
    Privileged,
    /// It has no dynamic linker.
    Static,
    /// It is of another word size than this command and its library.
    WordSize,
}

impl Obstacle {
    /// What it means and what to do.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Privileged => {
                "is setuid, setgid or has file capabilities, so the dynamic linker ignores our library; \
                 run a copy of it without them"
            }
            Self::Static => {
                "is statically linked, so it cannot load our library; only dynamically linked programs \
                 that it starts will"
            }
            Self::WordSize => "is a 32-bit program and our library is a 64-bit one; run a 64-bit build of it",
        }
    }
}

/// Where execvp(3) will find the program: as it is if it has a slash, else in PATH.
pub fn resolve(program: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    std::env::split_paths(path?).map(|folder| folder.join(program)).find(|candidate| {
        fs::metadata(candidate).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
    })
}

/// What keeps the program at `path` from loading our library, if anything does that can be told from its file.
pub fn obstacle(path: &Path) -> Option<Obstacle> {
    if gains_privileges(path) {
        return Some(Obstacle::Privileged);
    }
    let file = File::open(path).ok()?;
    match Linkage::of(&file).ok()? {
        Linkage::Static => Some(Obstacle::Static),
        Linkage::Elf32 => Some(Obstacle::WordSize),
        Linkage::Dynamic | Linkage::Other => None,
    }
}

/// Whether execve(2) would set AT_SECURE for this user.
fn gains_privileges(path: &Path) -> bool {
    let Ok(meta) = fs::metadata(path) else { return false };
    let mode = meta.permissions().mode();
    let changes_user = mode & SETUID != 0 && meta.uid() != geteuid().as_raw();
    let changes_group = mode & SETGID != 0 && meta.gid() != getegid().as_raw();
    // Root has every capability already.
    let gains_capabilities =
        !geteuid().is_root() && getxattr(path, "security.capability", &mut [0_u8; CAPABILITY_LEN]).is_ok();
    changes_user || changes_group || gains_capabilities
}

/// How an executable file gets its libraries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Linkage {
    Dynamic,
    Static,
    Elf32,
    /// A script, or something that the kernel will refuse.
    Other,
}

impl Linkage {
    /// Reads the ELF header and the program headers, see elf(5).
    fn of(file: &File) -> io::Result<Self> {
        let mut header = Vec::with_capacity(EHDR64_LEN);
        file.take(EHDR64_LEN as u64).read_to_end(&mut header)?;
        if !header.starts_with(b"\x7fELF") {
            return Ok(Self::Other);
        }
        match header.get(EI_CLASS) {
            Some(&ELFCLASS32) => return Ok(Self::Elf32),
            Some(&ELFCLASS64) if header.len() == EHDR64_LEN => {}
            _ => return Ok(Self::Other),
        }
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let table = u64::from_ne_bytes(header[E_PHOFF..E_PHOFF + 8].try_into().expect("eight bytes"));
        let (entry_len, entries) = (u64::from(half(E_PHENTSIZE)), u64::from(half(E_PHNUM)));
        // At most 65,535 entries, as the field is 16 bits wide.
        for index in 0..entries {
            let mut kind = [0; 4];
            file.read_exact_at(&mut kind, table.saturating_add(index * entry_len))?;
            if u32::from_ne_bytes(kind) == PT_INTERP {
                return Ok(Self::Dynamic);
            }
        }
        Ok(Self::Static)
    }
}

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
/// More than a `struct vfs_ns_cap_data`, 24 bytes.
const CAPABILITY_LEN: usize = 64;

const EI_CLASS: usize = 4;
const ELFCLASS32: u8 = 1;
const ELFCLASS64: u8 = 2;
const EHDR64_LEN: usize = 64;
const E_PHOFF: usize = 32;
const E_PHENTSIZE: usize = 54;
const E_PHNUM: usize = 56;
const PT_INTERP: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    /// An ELF file of nothing but headers, with these program header types.
    fn elf(class: u8, kinds: &[u32]) -> File {
        let mut bytes = vec![0; EHDR64_LEN];
        bytes[..4].copy_from_slice(b"\x7fELF");
        bytes[EI_CLASS] = class;
        bytes[E_PHOFF..E_PHOFF + 8].copy_from_slice(&64_u64.to_ne_bytes());
        bytes[E_PHENTSIZE..E_PHENTSIZE + 2].copy_from_slice(&56_u16.to_ne_bytes());
        bytes[E_PHNUM..E_PHNUM + 2].copy_from_slice(&(kinds.len() as u16).to_ne_bytes());
        for kind in kinds {
            let mut entry = [0; 56];
            entry[..4].copy_from_slice(&kind.to_ne_bytes());
            bytes.extend(entry);
        }
        file_of(&bytes)
    }

    #[test]
    fn linkage_is_read_from_the_program_headers() {
        assert_eq!(Linkage::of(&elf(ELFCLASS64, &[6, PT_INTERP, 1])).unwrap(), Linkage::Dynamic);
        assert_eq!(Linkage::of(&elf(ELFCLASS64, &[1, 1, 2])).unwrap(), Linkage::Static);
        assert_eq!(Linkage::of(&elf(ELFCLASS32, &[])).unwrap(), Linkage::Elf32);
        assert_eq!(Linkage::of(&file_of(b"#!/bin/sh\n")).unwrap(), Linkage::Other);
        assert_eq!(Linkage::of(&file_of(b"\x7fELF\x02")).unwrap(), Linkage::Other);
    }

    #[test]
    fn a_header_that_points_nowhere_is_an_error_and_no_panic() {
        let mut bytes = vec![0xff; EHDR64_LEN];
        bytes[..4].copy_from_slice(b"\x7fELF");
        bytes[EI_CLASS] = ELFCLASS64;
        assert!(Linkage::of(&file_of(&bytes)).is_err());
    }

    #[test]
    fn the_shell_of_this_machine_has_no_obstacle() {
        let shell = resolve(OsStr::new("sh"), Some(OsStr::new("/nonexistent:/bin"))).unwrap();
        assert_eq!(shell, Path::new("/bin/sh"));
        assert_eq!(obstacle(&shell), None);
    }

    #[test]
    fn a_program_with_a_slash_is_not_searched_for() {
        assert_eq!(resolve(OsStr::new("./x"), None), Some(PathBuf::from("./x")));
        assert_eq!(resolve(OsStr::new("no-such-program"), Some(OsStr::new("/bin"))), None);
    }
}

//! Where this library lies, and the keeper's program with it.

use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The keeper's program: in `../libexec` from the library in an installed tree, or beside it where cargo builds.
pub fn keeper() -> Option<PathBuf> {
    let folder = library()?.parent()?.to_owned();
    let places = [folder.join("../libexec/ferroce-keeper"), folder.join("ferroce-keeper")];
    places.into_iter().find(|place| place.is_file())
}

/// The file that this code was loaded from.
fn library() -> Option<PathBuf> {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: dladdr(3) takes any address and fills in the structure if it answers with other than 0.
    let found = unsafe { libc::dladdr((keeper as fn() -> Option<PathBuf>) as *const _, info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: filled in, as the answer says.
    let info = unsafe { info.assume_init() };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a C string that lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())).to_owned())
}

//! `ibv_get_sysfs_path` and `ibv_read_sysfs_file`: programs look for facts about devices in sysfs.

use crate::errno::{Errno, count};
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Where sysfs is, as libibverbs takes it: `SYSFS_PATH` without slashes at its end, unless the program runs with
/// another user's rights.
static SYSFS_PATH: LazyLock<CString> = LazyLock::new(|| {
    let named = if has_own_rights() { std::env::var_os("SYSFS_PATH") } else { None };
    let path = named.map_or_else(|| PathBuf::from("/sys"), PathBuf::from);
    let mut bytes = path.as_os_str().as_bytes();
    while let Some(shorter) = bytes.strip_suffix(b"/") {
        bytes = shorter;
    }
    CString::new(bytes).unwrap_or_else(|_| c"/sys".to_owned())
});

/// Where sysfs is.
pub(crate) fn sysfs_path() -> &'static str {
    SYSFS_PATH.to_str().unwrap_or("/sys")
}

fn has_own_rights() -> bool {
    // SAFETY: getuid(2) always succeeds and touches no memory.
    let real = unsafe { libc::getuid() };
    // SAFETY: so does geteuid(2).
    let effective = unsafe { libc::geteuid() };
    real == effective
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    SYSFS_PATH.as_ptr()
}

/// Reads `dir`/`file` into `buf`, without the newline at its end; its length, or -1.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: null, or the caller's strings and a buffer of `size` bytes.
    count(unsafe { read_file(dir, file, buf, size) })
}

unsafe fn read_file(
    dir: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> Result<c_int, Errno> {
    // SAFETY: null, or the caller's string.
    let dir = unsafe { path(dir) }?;
    // SAFETY: null, or the caller's string.
    let file = unsafe { path(file) }?;
    let text =
        read_text(&dir.join(file), size).map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
    let Some(text) = text else { return Err(Errno(libc::EOVERFLOW)) };
    let terminated: Vec<u8> = text.iter().copied().chain([0]).collect();
    // SAFETY: null, or `size` bytes, of which `text` and the terminator take no more by `read_text`.
    let copied = unsafe { copy_out(buf, &terminated) };
    copied.map(|()| text.len() as c_int)
}

/// The file's first line block without its last newline; `None` if it and a terminator do not fit into `size` bytes.
fn read_text(path: &Path, size: usize) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    File::open(path)?.take(size as u64).read_to_end(&mut text)?;
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    Ok((text.len() < size).then_some(text))
}

unsafe fn path<'a>(text: *const c_char) -> Result<&'a Path, Errno> {
    if text.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: not null, so a C string by the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    Ok(Path::new(std::ffi::OsStr::from_bytes(text.to_bytes())))
}

unsafe fn copy_out(buf: *mut c_char, bytes: &[u8]) -> Result<(), Errno> {
    if buf.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller has checked that `bytes` fit into the buffer, which is the program's and overlaps nothing.
    unsafe { bytes.as_ptr().copy_to_nonoverlapping(buf.cast(), bytes.len()) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8], size: usize) -> (c_int, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("board_id"), content).unwrap();
        let dir = CString::new(folder.path().as_os_str().as_bytes()).unwrap();
        let mut buf = [b'#'; 16];
        // SAFETY: C strings, and a buffer of at least `size` bytes.
        let len =
            unsafe { ibv_read_sysfs_file(dir.as_ptr(), c"board_id".as_ptr(), buf.as_mut_ptr().cast(), size) };
        (len, buf.to_vec())
    }

    #[test]
    fn the_newline_at_the_end_goes_and_a_terminator_comes() {
        let (len, buf) = read(b"FRC\n", 16);
        assert_eq!((len, &buf[..5]), (3, &b"FRC\0#"[..]));
        assert_eq!(read(b"", 16).0, 0);
    }

    #[test]
    fn a_text_that_does_not_fit_is_refused_and_the_buffer_stays() {
        assert_eq!(read(b"12345678", 8), (-1, vec![b'#'; 16]));
        assert_eq!(read(b"1234567\n", 8).0, 7);
    }

    #[test]
    fn a_missing_file_is_minus_1() {
        let mut buf = [0u8; 8];
        // SAFETY: C strings, and a buffer of 8 bytes.
        let len = unsafe {
            ibv_read_sysfs_file(c"/nonexistent".as_ptr(), c"x".as_ptr(), buf.as_mut_ptr().cast(), 8)
        };
        assert_eq!((len, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ENOENT)));
    }
}

//! Reading and writing what C hands over, with null pointers refused.
//!
//! libibverbs crashes on a null pointer; an error number costs one comparison and tells more.

use crate::errno::Errno;
use std::slice;

/// Reads through a pointer.
///
/// # Safety
/// `pointer` is null or points to a `T` that nobody changes meanwhile.
pub unsafe fn read<T: Copy>(pointer: *const T) -> Result<T, Errno> {
    if pointer.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: not null, so it points to a T by the caller's promise.
    Ok(unsafe { pointer.read() })
}

/// Reads through a pointer that need not be aligned.
///
/// # Safety
/// `pointer` is null or points to the bytes of a `T` that nobody changes meanwhile.
pub unsafe fn read_unaligned<T: Copy>(pointer: *const T) -> Result<T, Errno> {
    if pointer.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: not null, so it points to the bytes of a T by the caller's promise.
    Ok(unsafe { pointer.read_unaligned() })
}

/// Writes through a pointer.
///
/// # Safety
/// `pointer` is null or points to room for a `T`.
pub unsafe fn write<T>(pointer: *mut T, value: T) -> Result<(), Errno> {
    if pointer.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: not null, so there is room for a T by the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Writes a structure that has grown over the years: `size` bytes of it, as many as the caller's form of it has. What
/// that has beyond ours is zeroed.
///
/// # Safety
/// `pointer` is null or points to room for `size` bytes.
pub unsafe fn write_sized<T: Copy>(pointer: *mut T, value: &T, size: usize) -> Result<(), Errno> {
    if pointer.is_null() {
        return Err(Errno::INVALID);
    }
    let (bytes, known) = (pointer.cast::<u8>(), size.min(size_of::<T>()));
    // SAFETY: `value` is as long as a T, there is room for `size` bytes, and the two do not overlap.
    unsafe { std::ptr::from_ref(value).cast::<u8>().copy_to_nonoverlapping(bytes, known) };
    // SAFETY: there is room for `size` bytes, of which `known` are not more.
    unsafe { bytes.wrapping_add(known).write_bytes(0, size - known) };
    Ok(())
}

/// Borrows an object or an attribute structure.
///
/// # Safety
/// `pointer` is null or points to a `T` that lives, and that is not changed except through cells, for `'a`.
pub unsafe fn borrow<'a, T>(pointer: *const T) -> Result<&'a T, Errno> {
    // SAFETY: null is excluded by as_ref; the rest is the caller's promise.
    unsafe { pointer.as_ref() }.ok_or(Errno::INVALID)
}

/// Borrows an array of `len` elements; an empty one may be null.
///
/// # Safety
/// `pointer` is null or points to `len` elements that live and do not change for `'a`.
pub unsafe fn borrow_slice<'a, T>(pointer: *const T, len: usize) -> Result<&'a [T], Errno> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: not null, so it points to `len` elements by the caller's promise.
    Ok(unsafe { slice::from_raw_parts(pointer, len) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{null, null_mut};

    #[test]
    fn null_is_refused() {
        // SAFETY: null pointers are what these functions are made for.
        assert_eq!(unsafe { read::<u32>(null()) }, Err(Errno::INVALID));
        // SAFETY: as above.
        assert_eq!(unsafe { write::<u32>(null_mut(), 1) }, Err(Errno::INVALID));
        // SAFETY: as above.
        assert_eq!(unsafe { borrow_slice::<u32>(null(), 1) }, Err(Errno::INVALID));
        // SAFETY: as above.
        assert_eq!(unsafe { borrow_slice::<u32>(null(), 0) }, Ok(&[][..]));
    }

    #[test]
    fn a_shorter_form_gets_its_bytes_and_not_one_more() {
        let mut room = [9u32; 4];
        // SAFETY: the room is 16 bytes long.
        unsafe { write_sized(&raw mut room, &[1, 2, 3, 4], 8) }.unwrap();
        assert_eq!(room, [1, 2, 9, 9]);
    }

    #[test]
    fn a_longer_form_is_zeroed_beyond_what_we_know() {
        let mut room = [9u32; 4];
        // SAFETY: the room is 16 bytes long.
        unsafe { write_sized(room.as_mut_ptr().cast::<[u32; 2]>(), &[1, 2], 12) }.unwrap();
        assert_eq!(room, [1, 2, 0, 9]);
    }
}

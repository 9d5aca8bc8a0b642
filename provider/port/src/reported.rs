//! Which errors have been told already.

use std::io;

use smallvec::SmallVec;

/// Remembers error codes, so that a fault that comes with every packet is told once.
#[derive(Default)]
pub(crate) struct Reported {
    codes: SmallVec<[i32; 8]>,
}

impl Reported {
    /// Whether this kind of error is new. After [`MAX_CODES`] kinds, none is.
    pub(crate) fn is_first(&mut self, error: &io::Error) -> bool {
        let code = error.raw_os_error().unwrap_or(0);
        if self.codes.contains(&code) || self.codes.len() >= MAX_CODES {
            return false;
        }
        self.codes.push(code);
        true
    }
}

const MAX_CODES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_first_once_and_kinds_are_bounded() {
        let mut reported = Reported::default();
        assert!(reported.is_first(&io::Error::from_raw_os_error(11)));
        assert!(!reported.is_first(&io::Error::from_raw_os_error(11)));
        let new = (100..200).filter(|&code| reported.is_first(&io::Error::from_raw_os_error(code))).count();
        assert_eq!(new, MAX_CODES - 1);
    }
}

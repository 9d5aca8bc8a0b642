//! What `libibverbs.so.1` and `librdmacm.so.1` have in common: error numbers, pointers of C's, the log, and where the
//! library lies that this code is linked into.

pub mod errno;
pub mod log;
pub mod place;
pub mod pointer;

//! The thin layer over the system calls that neither the standard library nor socket2 offers.
//!
//! All of the crate's unsafe code is here and in [`crate::shared`].

pub(crate) mod control;
pub(crate) mod descriptor;
pub(crate) mod interface;
pub(crate) mod mapping;
pub(crate) mod name;
pub(crate) mod option;
pub(crate) mod packet_message;
pub(crate) mod process;
pub(crate) mod unix_message;

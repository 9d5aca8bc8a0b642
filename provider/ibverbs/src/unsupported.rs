//! Verbs of features that the device does not have.
//!
//! They answer as a card without the feature does: `EOPNOTSUPP`, on which programs and test suites fall back or skip.
//! In C a function may be called with more arguments than it looks at, so none of these names any.

use crate::errno::{Errno, pointer, status};
use libc::{c_int, c_void};

/// Exported functions that return an error number.
macro_rules! return_errno {
    ($($name:ident),+ $(,)?) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            errno_op()
        }
    )+ };
}

/// Exported functions that return -1 and set `errno`.
macro_rules! return_minus_one {
    ($($name:ident),+ $(,)?) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            errno_op();
            -1
        }
    )+ };
}

/// Exported functions that return a null pointer and set `errno`.
macro_rules! return_null {
    ($($name:ident),+ $(,)?) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> *mut c_void {
            pointer_op()
        }
    )+ };
}

/// Exported functions that return nothing; the objects that they would release cannot exist.
macro_rules! return_nothing {
    ($($name:ident),+ $(,)?) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() {}
    )+ };
}

// Ethernet addresses, which the host sees to.
return_minus_one!(ibv_resolve_eth_l2_from_gid);

// Regions and buffers in ways newer than rdma-core 50.
return_null!(ibv_reg_mr_ex, ibv_alloc_dmah, ibv_alloc_buf, ibv_reg_buf_mr);
return_errno!(ibv_dealloc_dmah);
return_nothing!(ibv_free_buf);
return_minus_one!(ibv_dm_export_dmabuf_fd, ibv_export_buf_dmabuf_fd);

// Objects of another process.
return_null!(ibv_import_device, ibv_import_pd, ibv_import_mr, ibv_import_dm);
return_nothing!(ibv_unimport_pd, ibv_unimport_mr, ibv_unimport_dm);

// Enhanced connection establishment.
return_errno!(ibv_query_ece, ibv_set_ece);

// Completion counters.
return_null!(ibv_create_comp_cntr);
return_errno!(
    _ibv_query_comp_cntr_caps,
    ibv_destroy_comp_cntr,
    ibv_inc_comp_cntr,
    ibv_inc_err_comp_cntr,
    ibv_qp_attach_comp_cntr,
    ibv_read_comp_cntr,
    ibv_read_err_comp_cntr,
    ibv_set_comp_cntr,
    ibv_set_err_comp_cntr,
);

/// An operation in a context's table that returns an error number.
pub(crate) extern "C" fn errno_op() -> c_int {
    status(Err(Errno::UNSUPPORTED))
}

/// An operation in a context's table that returns a pointer.
pub(crate) extern "C" fn pointer_op() -> *mut c_void {
    pointer(Err(Errno::UNSUPPORTED))
}

/// An operation in a context's table that returns nothing.
pub(crate) extern "C" fn void_op() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_says_eopnotsupp() {
        assert_eq!(ibv_set_ece(), libc::EOPNOTSUPP);
        assert_eq!(ibv_dm_export_dmabuf_fd(), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert!(ibv_import_pd().is_null());
    }
}

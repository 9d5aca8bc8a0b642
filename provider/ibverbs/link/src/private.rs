//! The names that rdma-core's provider libraries import from libibverbs.
//!
//! perftest, UCX and libfabric are linked against `libmlx5.so.1` and `libefa.so.1`, which are linked BIND_NOW: each of
//! these names has to exist, in the node of that distribution's rdma-core, or the program does not start. No provider
//! of rdma-core ever drives one of our devices, so none of the functions does anything.

/// What a private name does when it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Returns the error number `EOPNOTSUPP`.
    Errno,
    /// Returns -1 and sets `errno` to `EOPNOTSUPP`.
    MinusOne,
    /// Returns a null pointer and sets `errno` to `EOPNOTSUPP`.
    Null,
    /// Returns nothing; does nothing.
    Nothing,
    /// Is a `bool`, false.
    Flag,
    /// Calls the function of this name in the static library.
    Calls(&'static str),
}

/// A private name.
#[derive(Clone, Copy, Debug)]
pub struct PrivateName {
    /// The name, without version.
    pub name: &'static str,
    /// The first node that has it; the later ones have it too.
    pub since: u32,
    /// What it does.
    pub answer: Answer,
}

/// The private nodes, oldest first: one for each incompatible change of rdma-core's internal interface.
/// Node 34 is rdma-core 34 to 56, 57 is 57 and 58, 59 is 59 to 63, 64 is 64, 65 is the one after it.
pub const PRIVATE_NODES: [u32; 5] = [34, 57, 59, 64, 65];

/// The private names of one node, `verbs_register_driver_<node>` included.
pub fn private_names_of(node: u32) -> Vec<String> {
    let common = PRIVATE.iter().filter(|p| p.since <= node).map(|p| p.name.to_owned());
    common.chain([register_driver(node)]).collect()
}

/// The name by which the providers of `node` register themselves from their constructors.
pub(crate) fn register_driver(node: u32) -> String {
    format!("verbs_register_driver_{node}")
}

const fn since(node: u32, name: &'static str, answer: Answer) -> PrivateName {
    PrivateName { name, since: node, answer }
}

const fn errno(name: &'static str) -> PrivateName {
    since(34, name, Answer::Errno)
}

/// Every private name except `verbs_register_driver_<node>`, of which each node has its own.
pub const PRIVATE: &[PrivateName] = &[
    // A count and not an error number; its callers size a buffer with it and fail in the call that follows.
    errno("__ioctl_final_num_attrs"),
    since(34, "__verbs_log", Answer::Nothing),
    since(34, "_verbs_init_and_alloc_context", Answer::Null),
    errno("execute_ioctl"),
    errno("ibv_cmd_advise_mr"),
    errno("ibv_cmd_alloc_dm"),
    errno("ibv_cmd_alloc_mw"),
    errno("ibv_cmd_alloc_pd"),
    errno("ibv_cmd_attach_mcast"),
    errno("ibv_cmd_close_xrcd"),
    errno("ibv_cmd_create_ah"),
    errno("ibv_cmd_create_counters"),
    errno("ibv_cmd_create_cq"),
    errno("ibv_cmd_create_cq_ex"),
    errno("ibv_cmd_create_flow"),
    errno("ibv_cmd_create_flow_action_esp"),
    errno("ibv_cmd_create_qp"),
    errno("ibv_cmd_create_qp_ex"),
    errno("ibv_cmd_create_qp_ex2"),
    errno("ibv_cmd_create_rwq_ind_table"),
    errno("ibv_cmd_create_srq"),
    errno("ibv_cmd_create_srq_ex"),
    errno("ibv_cmd_create_wq"),
    errno("ibv_cmd_dealloc_mw"),
    errno("ibv_cmd_dealloc_pd"),
    errno("ibv_cmd_dereg_mr"),
    errno("ibv_cmd_destroy_ah"),
    errno("ibv_cmd_destroy_counters"),
    errno("ibv_cmd_destroy_cq"),
    errno("ibv_cmd_destroy_flow"),
    errno("ibv_cmd_destroy_flow_action"),
    errno("ibv_cmd_destroy_qp"),
    errno("ibv_cmd_destroy_rwq_ind_table"),
    errno("ibv_cmd_destroy_srq"),
    errno("ibv_cmd_destroy_wq"),
    errno("ibv_cmd_detach_mcast"),
    errno("ibv_cmd_free_dm"),
    errno("ibv_cmd_get_context"),
    errno("ibv_cmd_modify_cq"),
    errno("ibv_cmd_modify_flow_action_esp"),
    errno("ibv_cmd_modify_qp"),
    errno("ibv_cmd_modify_qp_ex"),
    errno("ibv_cmd_modify_srq"),
    errno("ibv_cmd_modify_wq"),
    errno("ibv_cmd_open_qp"),
    errno("ibv_cmd_open_xrcd"),
    since(34, "ibv_cmd_poll_cq", Answer::MinusOne),
    errno("ibv_cmd_post_recv"),
    errno("ibv_cmd_post_send"),
    errno("ibv_cmd_post_srq_recv"),
    errno("ibv_cmd_query_context"),
    errno("ibv_cmd_query_device_any"),
    errno("ibv_cmd_query_mr"),
    errno("ibv_cmd_query_port"),
    errno("ibv_cmd_query_qp"),
    errno("ibv_cmd_query_srq"),
    errno("ibv_cmd_read_counters"),
    errno("ibv_cmd_reg_dm_mr"),
    errno("ibv_cmd_reg_dmabuf_mr"),
    errno("ibv_cmd_reg_mr"),
    errno("ibv_cmd_req_notify_cq"),
    errno("ibv_cmd_rereg_mr"),
    errno("ibv_cmd_resize_cq"),
    since(34, "ibv_query_gid_type", Answer::Calls("ferroce_query_gid_type")),
    since(34, "ibv_read_ibdev_sysfs_file", Answer::MinusOne),
    since(34, "verbs_allow_disassociate_destroy", Answer::Flag),
    since(34, "verbs_init_cq", Answer::Nothing),
    since(34, "verbs_open_device", Answer::Null),
    since(34, "verbs_set_ops", Answer::Nothing),
    since(34, "verbs_uninit_context", Answer::Nothing),
    // Added to node 34 without a new number, by rdma-core 49 and 53.
    errno("ibv_cmd_create_cq_ex2"),
    since(34, "ibv_wr_opcode_str", Answer::Calls("ferroce_wr_opcode_str")),
    since(59, "ibv_cmd_alloc_dmah", Answer::Errno),
    since(59, "ibv_cmd_free_dmah", Answer::Errno),
    since(59, "ibv_cmd_reg_mr_ex", Answer::Errno),
    since(59, "ibv_cmd_export_dmabuf_fd", Answer::MinusOne),
    since(59, "ibv_cmd_query_port_speed", Answer::Errno),
    since(64, "ibv_dmabuf_heap_alloc", Answer::Null),
    since(64, "ibv_dmabuf_heap_cc_shared_init", Answer::Null),
    since(64, "ibv_dmabuf_heap_destroy", Answer::Nothing),
    since(64, "ibv_dmabuf_heap_free", Answer::Nothing),
    since(65, "ibv_cmd_create_comp_cntr", Answer::Errno),
    since(65, "ibv_cmd_destroy_comp_cntr", Answer::Errno),
    since(65, "ibv_cmd_inc_comp_cntr", Answer::Errno),
    since(65, "ibv_cmd_inc_err_comp_cntr", Answer::Errno),
    since(65, "ibv_cmd_qp_attach_comp_cntr", Answer::Errno),
    since(65, "ibv_cmd_query_comp_cntr_caps", Answer::Errno),
    since(65, "ibv_cmd_read_comp_cntr", Answer::Errno),
    since(65, "ibv_cmd_read_err_comp_cntr", Answer::Errno),
    since(65, "ibv_cmd_set_comp_cntr", Answer::Errno),
    since(65, "ibv_cmd_set_err_comp_cntr", Answer::Errno),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_private_name_is_listed_once() {
        let mut seen = HashSet::new();
        for private in PRIVATE {
            assert!(seen.insert(private.name), "{} is listed twice", private.name);
            assert!(PRIVATE_NODES.contains(&private.since), "{} is in no node", private.name);
        }
    }

    #[test]
    fn node_34_has_the_71_names_of_debian_12_and_two_of_later_releases() {
        assert_eq!(private_names_of(34).len(), 71 + 2);
    }
}

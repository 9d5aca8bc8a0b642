//! The public names of libibverbs and the node each belongs to.

/// A version node and the names that have their default version in it.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// Its name, as `dlvsym(3)` takes it.
    pub name: &'a str,
    /// The names it defines.
    pub symbols: &'a [&'a str],
}

/// Every public name, node by node, oldest first; each node inherits from the one before it.
///
/// Left out on purpose: the `@IBVERBS_1.0` variants of names that have a 1.1 version, and `ibv_register_driver`.
/// They carry structures from before 2007 and nothing that can still be built refers to them.
pub const PUBLIC: &[Node<'_>] = &[
    Node {
        name: "IBVERBS_1.0",
        symbols: &[
            "ibv_copy_path_rec_from_kern",
            "ibv_copy_path_rec_to_kern",
            "ibv_copy_qp_attr_from_kern",
            "ibv_create_comp_channel",
            "ibv_destroy_comp_channel",
            "ibv_get_sysfs_path",
            "ibv_rate_to_mult",
            "ibv_read_sysfs_file",
            "mult_to_ibv_rate",
        ],
    },
    Node {
        name: "IBVERBS_1.1",
        symbols: &[
            "ibv_ack_async_event",
            "ibv_ack_cq_events",
            "ibv_alloc_pd",
            "ibv_attach_mcast",
            "ibv_close_device",
            "ibv_copy_ah_attr_from_kern",
            "ibv_create_ah",
            "ibv_create_ah_from_wc",
            "ibv_create_cq",
            "ibv_create_qp",
            "ibv_create_srq",
            "ibv_dealloc_pd",
            "ibv_dereg_mr",
            "ibv_destroy_ah",
            "ibv_destroy_cq",
            "ibv_destroy_qp",
            "ibv_destroy_srq",
            "ibv_detach_mcast",
            "ibv_dofork_range",
            "ibv_dontfork_range",
            "ibv_event_type_str",
            "ibv_fork_init",
            "ibv_free_device_list",
            "ibv_get_async_event",
            "ibv_get_cq_event",
            "ibv_get_device_guid",
            "ibv_get_device_list",
            "ibv_get_device_name",
            "ibv_init_ah_from_wc",
            "ibv_modify_qp",
            "ibv_modify_srq",
            "ibv_node_type_str",
            "ibv_open_device",
            "ibv_port_state_str",
            "ibv_query_device",
            "ibv_query_gid",
            "ibv_query_pkey",
            "ibv_query_port",
            "ibv_query_qp",
            "ibv_query_srq",
            "ibv_rate_to_mbps",
            "ibv_reg_mr",
            "ibv_rereg_mr",
            "ibv_resize_cq",
            "ibv_resolve_eth_l2_from_gid",
            "ibv_wc_status_str",
            "mbps_to_ibv_rate",
        ],
    },
    Node { name: "IBVERBS_1.5", symbols: &["ibv_get_pkey_index"] },
    Node { name: "IBVERBS_1.6", symbols: &["ibv_qp_to_qp_ex"] },
    Node { name: "IBVERBS_1.7", symbols: &["ibv_reg_mr_iova"] },
    Node { name: "IBVERBS_1.8", symbols: &["ibv_reg_mr_iova2"] },
    Node { name: "IBVERBS_1.9", symbols: &["ibv_get_device_index"] },
    Node {
        name: "IBVERBS_1.10",
        symbols: &[
            "ibv_import_device",
            "ibv_import_mr",
            "ibv_import_pd",
            "ibv_query_ece",
            "ibv_set_ece",
            "ibv_unimport_mr",
            "ibv_unimport_pd",
        ],
    },
    Node { name: "IBVERBS_1.11", symbols: &["_ibv_query_gid_ex", "_ibv_query_gid_table"] },
    Node { name: "IBVERBS_1.12", symbols: &["ibv_reg_dmabuf_mr"] },
    Node { name: "IBVERBS_1.13", symbols: &["ibv_import_dm", "ibv_is_fork_initialized", "ibv_unimport_dm"] },
    Node { name: "IBVERBS_1.14", symbols: &["ibv_query_qp_data_in_order"] },
    Node { name: "IBVERBS_1.15", symbols: &["ibv_alloc_dmah", "ibv_dealloc_dmah", "ibv_reg_mr_ex"] },
    Node { name: "IBVERBS_1.16", symbols: &["ibv_dm_export_dmabuf_fd", "ibv_query_port_speed"] },
    Node { name: "IBVERBS_1.17", symbols: &["ibv_alloc_buf", "ibv_free_buf", "ibv_reg_buf_mr"] },
    Node {
        name: "IBVERBS_1.18",
        symbols: &[
            "_ibv_query_comp_cntr_caps",
            "ibv_create_comp_cntr",
            "ibv_destroy_comp_cntr",
            "ibv_export_buf_dmabuf_fd",
            "ibv_inc_comp_cntr",
            "ibv_inc_err_comp_cntr",
            "ibv_qp_attach_comp_cntr",
            "ibv_read_comp_cntr",
            "ibv_read_err_comp_cntr",
            "ibv_set_comp_cntr",
            "ibv_set_err_comp_cntr",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_has_exactly_one_node() {
        let mut seen = HashSet::new();
        for name in PUBLIC.iter().flat_map(|node| node.symbols) {
            assert!(seen.insert(*name), "{name} is listed twice");
        }
    }
}

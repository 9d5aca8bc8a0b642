//! Every size and offset against the system's header, through a C program.
//!
//! Skipped, with a message, where `infiniband/verbs.h` or a C compiler is missing.

use ferroce_ibverbs_layout::*;
use std::fmt::Write;
use std::mem::{offset_of, size_of};
use std::process::Command;

/// One line of the C program's output: an expression and the number it should have.
struct Fact {
    expression: String,
    ours: usize,
}

/// Sizes and offsets of structures that are the same in every header. A field is compared with the C field of its
/// own name unless another is given.
macro_rules! facts {
    ($($rust:ident = $c:literal { $($($field:ident).+ $(= $c_field:literal)?),+ $(,)? })+) => {
        vec![$(
            Fact { expression: format!("sizeof({})", $c), ours: size_of::<$rust>() },
            $(Fact {
                expression: format!("offsetof({}, {})", $c, c_field(stringify!($($field).+), &[$($c_field)?])),
                ours: offset_of!($rust, $($field).+),
            },)+
        )+]
    };
}

fn c_field(rust: &str, c: &[&str]) -> String {
    c.first().copied().map_or_else(|| rust.replace(' ', ""), str::to_owned)
}

/// Fields newer than the oldest supported header (rdma-core 44) and where they are, `verbs_context`'s counted back
/// from its `context`, as programs do.
fn newer_fields() -> Vec<(&'static str, usize, usize)> {
    let back = |offset: usize| offset_of!(VerbsContext, context) - offset;
    vec![
        ("verbs_context.alloc_dmah", back(offset_of!(VerbsContext, alloc_dmah)), 328),
        ("verbs_context.dealloc_dmah", back(offset_of!(VerbsContext, dealloc_dmah)), 336),
        ("verbs_context.reg_mr_ex", back(offset_of!(VerbsContext, reg_mr_ex)), 344),
        ("verbs_context.dm_export_dmabuf_fd", back(offset_of!(VerbsContext, dm_export_dmabuf_fd)), 352),
        ("verbs_context.alloc_buf", back(offset_of!(VerbsContext, alloc_buf)), 360),
        ("verbs_context.free_buf", back(offset_of!(VerbsContext, free_buf)), 368),
        ("ibv_port_attr.active_speed_ex", offset_of!(IbvPortAttr, active_speed_ex), 52),
        ("ibv_qp_ex.wr_flush", offset_of!(IbvQpEx, wr_flush), 352),
        ("sizeof verbs_context", size_of::<VerbsContext>(), 696),
        ("sizeof ibv_port_attr", size_of::<IbvPortAttr>(), 56),
        ("sizeof ibv_qp_ex", size_of::<IbvQpEx>(), 360),
        // Not in any installed header: what libmlx5 and libefa look at behind an ibv_device.
        ("verbs_device.ops", offset_of!(VerbsDevice, ops), 664),
        ("verbs_device.refcount", offset_of!(VerbsDevice, refcount), 672),
        ("verbs_device.entry", offset_of!(VerbsDevice, entry), 680),
        ("verbs_device.sysfs", offset_of!(VerbsDevice, sysfs), 696),
        ("verbs_device.core_support", offset_of!(VerbsDevice, core_support), 704),
        ("sizeof verbs_device", size_of::<VerbsDevice>(), 712),
    ]
}

/// Structures that have the same size in every header since rdma-core 15, or 44 for the growing ones.
fn frozen() -> Vec<Fact> {
    facts! {
        IbvDevice = "struct ibv_device" {
            _ops, node_type, transport_type, name, dev_name, dev_path, ibdev_path
        }
        IbvGidEntry = "struct ibv_gid_entry" {
            gid, gid_index, port_num, gid_type, ndev_ifindex
        }
        IbvDeviceAttr = "struct ibv_device_attr" {
            fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id,
            hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr,
            max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom,
            max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp,
            max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr,
            max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay,
            phys_port_cnt
        }
        IbvDeviceAttrEx = "struct ibv_device_attr_ex" {
            orig_attr, comp_mask, odp_caps, completion_timestamp_mask, hca_core_clock,
            device_cap_flags_ex, tso_caps, rss_caps, max_wq_type_rq, packet_pacing_caps,
            raw_packet_caps, tm_caps, cq_mod_caps, max_dm_size, pci_atomic_caps, xrc_odp_caps,
            phys_port_cnt_ex
        }
        IbvOdpCaps = "struct ibv_odp_caps" {
            general_caps, per_transport_caps.rc_odp_caps, per_transport_caps.uc_odp_caps,
            per_transport_caps.ud_odp_caps
        }
        IbvTsoCaps = "struct ibv_tso_caps" {
            max_tso, supported_qpts
        }
        IbvRssCaps = "struct ibv_rss_caps" {
            supported_qpts, max_rwq_indirection_tables, max_rwq_indirection_table_size,
            rx_hash_fields_mask, rx_hash_function
        }
        IbvPacketPacingCaps = "struct ibv_packet_pacing_caps" {
            qp_rate_limit_min, qp_rate_limit_max, supported_qpts
        }
        IbvTmCaps = "struct ibv_tm_caps" {
            max_rndv_hdr_size, max_num_tags, flags, max_ops, max_sge
        }
        IbvCqModerationCaps = "struct ibv_cq_moderation_caps" {
            max_cq_count, max_cq_period
        }
        IbvModifyCqAttr = "struct ibv_modify_cq_attr" {
            attr_mask, moderate, moderate.cq_count, moderate.cq_period
        }
        IbvTd = "struct ibv_td" { context }
        IbvTdInitAttr = "struct ibv_td_init_attr" { comp_mask }
        IbvPciAtomicCaps = "struct ibv_pci_atomic_caps" {
            fetch_add, swap, compare_swap
        }
        IbvQueryDeviceExInput = "struct ibv_query_device_ex_input" {
            comp_mask
        }
        IbvContext = "struct ibv_context" {
            device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat
        }
        IbvContextOps = "struct ibv_context_ops" {
            _compat_query_device, _compat_query_port, _compat_alloc_pd, _compat_dealloc_pd,
            _compat_reg_mr, _compat_rereg_mr, _compat_dereg_mr, alloc_mw, bind_mw, dealloc_mw,
            _compat_create_cq, poll_cq, req_notify_cq, _compat_cq_event, _compat_resize_cq,
            _compat_destroy_cq, _compat_create_srq, _compat_modify_srq, _compat_query_srq,
            _compat_destroy_srq, post_srq_recv, _compat_create_qp, _compat_query_qp, _compat_modify_qp,
            _compat_destroy_qp, post_send, post_recv, _compat_create_ah, _compat_destroy_ah,
            _compat_attach_mcast, _compat_detach_mcast, _compat_async_event
        }
        IbvPd = "struct ibv_pd" {
            context, handle
        }
        IbvMr = "struct ibv_mr" {
            context, pd, addr, length, handle, lkey, rkey
        }
        IbvMw = "struct ibv_mw" {
            context, pd, rkey, handle, mw_type = "type"
        }
        IbvDm = "struct ibv_dm" { context, memcpy_to_dm, memcpy_from_dm, comp_mask, handle }
        IbvAllocDmAttr = "struct ibv_alloc_dm_attr" { length, log_align_req, comp_mask }
        IbvAh = "struct ibv_ah" {
            context, pd, handle
        }
        IbvCompChannel = "struct ibv_comp_channel" {
            context, fd, refcnt
        }
        IbvCq = "struct ibv_cq" {
            context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed,
            async_events_completed
        }
        IbvSrq = "struct ibv_srq" {
            context, srq_context, pd, handle, mutex, cond, events_completed
        }
        IbvQp = "struct ibv_qp" {
            context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex, cond,
            events_completed
        }
        IbvDataBuf = "struct ibv_data_buf" {
            addr, length
        }
        IbvCqEx = "struct ibv_cq_ex" {
            cq = "context", comp_mask, status, wr_id, start_poll, next_poll, end_poll, read_opcode,
            read_vendor_err, read_byte_len, read_imm_data, read_qp_num, read_src_qp, read_wc_flags,
            read_slid, read_sl, read_dlid_path_bits, read_completion_ts, read_cvlan, read_flow_tag,
            read_tm_info, read_completion_wallclock_ns
        }
        IbvPollCqAttr = "struct ibv_poll_cq_attr" {
            comp_mask
        }
        IbvWcTmInfo = "struct ibv_wc_tm_info" {
            tag, private = "priv"
        }
        IbvAsyncEvent = "struct ibv_async_event" {
            event_type, element.cq, element.qp, element.srq, element.wq, element.port_num
        }
        IbvValuesEx = "struct ibv_values_ex" {
            comp_mask, raw_clock
        }
        IbvSge = "struct ibv_sge" {
            addr, length, lkey
        }
        IbvSendWr = "struct ibv_send_wr" {
            wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, remote_srqn =
            "qp_type.xrc.remote_srqn", bind_or_tso = "bind_mw", wr.rdma.remote_addr, wr.rdma.rkey,
            wr.atomic.remote_addr, wr.atomic.compare_add, wr.atomic.swap, wr.atomic.rkey, wr.ud.ah,
            wr.ud.remote_qpn, wr.ud.remote_qkey, bind_or_tso.bind_mw.mw = "bind_mw.mw",
            bind_or_tso.bind_mw.rkey = "bind_mw.rkey", bind_or_tso.bind_mw.bind_info =
            "bind_mw.bind_info", bind_or_tso.tso.hdr = "tso.hdr", bind_or_tso.tso.hdr_sz = "tso.hdr_sz",
            bind_or_tso.tso.mss = "tso.mss"
        }
        IbvMwBindInfo = "struct ibv_mw_bind_info" {
            mr, addr, length, mw_access_flags
        }
        IbvMwBind = "struct ibv_mw_bind" {
            wr_id, send_flags, bind_info
        }
        IbvRecvWr = "struct ibv_recv_wr" {
            wr_id, next, sg_list, num_sge
        }
        IbvWc = "struct ibv_wc" {
            wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags, pkey_index,
            slid, sl, dlid_path_bits
        }
        IbvGlobalRoute = "struct ibv_global_route" {
            dgid, flow_label, sgid_index, hop_limit, traffic_class
        }
        IbvAhAttr = "struct ibv_ah_attr" {
            grh, dlid, sl, src_path_bits, static_rate, is_global, port_num
        }
        IbvGrh = "struct ibv_grh" {
            version_tclass_flow, paylen, next_hdr, hop_limit, sgid, dgid
        }
        IbvQpCap = "struct ibv_qp_cap" {
            max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data
        }
        IbvQpAttr = "struct ibv_qp_attr" {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num,
            qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify,
            sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt,
            rnr_retry, alt_port_num, alt_timeout, rate_limit
        }
        IbvSrqAttr = "struct ibv_srq_attr" {
            max_wr, max_sge, srq_limit
        }
        IbvEce = "struct ibv_ece" {
            vendor_id, options, comp_mask
        }
        IbvQpInitAttr = "struct ibv_qp_init_attr" {
            qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all
        }
        IbvQpInitAttrEx = "struct ibv_qp_init_attr_ex" {
            oldest.qp_context = "qp_context", oldest.send_cq = "send_cq", oldest.recv_cq = "recv_cq", oldest.srq = "srq", oldest.cap = "cap", oldest.qp_type = "qp_type", oldest.sq_sig_all = "sq_sig_all", oldest.comp_mask = "comp_mask", oldest.pd = "pd", oldest.xrcd = "xrcd", oldest.create_flags = "create_flags", oldest.max_tso_header = "max_tso_header", oldest.rwq_ind_tbl = "rwq_ind_tbl",
            oldest.rx_hash_conf = "rx_hash_conf", oldest.source_qpn = "source_qpn", send_ops_flags
        }
        IbvRxHashConf = "struct ibv_rx_hash_conf" {
            rx_hash_function, rx_hash_key_len, rx_hash_key, rx_hash_fields_mask
        }
        IbvCqInitAttrEx = "struct ibv_cq_init_attr_ex" {
            oldest.cqe = "cqe", oldest.cq_context = "cq_context", oldest.channel = "channel", oldest.comp_vector = "comp_vector", oldest.wc_flags = "wc_flags", oldest.comp_mask = "comp_mask", oldest.flags = "flags", parent_domain
        }
        IbvSrqInitAttr = "struct ibv_srq_init_attr" {
            srq_context, attr
        }
        IbvSrqInitAttrEx = "struct ibv_srq_init_attr_ex" {
            oldest.srq_context = "srq_context", oldest.attr = "attr", oldest.comp_mask = "comp_mask",
            oldest.srq_type = "srq_type", oldest.pd = "pd", oldest.xrcd = "xrcd", oldest.cq = "cq", tm_cap
        }
        IbvXrcd = "struct ibv_xrcd" { context }
        IbvXrcdInitAttr = "struct ibv_xrcd_init_attr" { comp_mask, fd, oflags }
        IbvQpOpenAttr = "struct ibv_qp_open_attr" { comp_mask, qp_num, xrcd, qp_context, qp_type }
        IbvTmCap = "struct ibv_tm_cap" {
            max_num_tags, max_ops
        }
        UverbsGlobalRoute = "struct ib_uverbs_global_route" {
            dgid, flow_label, sgid_index, hop_limit, traffic_class, reserved
        }
        UverbsAhAttr = "struct ib_uverbs_ah_attr" {
            grh, dlid, sl, src_path_bits, static_rate, is_global, port_num, reserved
        }
        UverbsQpAttr = "struct ib_uverbs_qp_attr" {
            qp_attr_mask, qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn,
            dest_qp_num, qp_access_flags, ah_attr, alt_ah_attr, max_send_wr, max_recv_wr, max_send_sge,
            max_recv_sge, max_inline_data, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining,
            max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry,
            alt_port_num, alt_timeout, reserved
        }
        UserPathRec = "struct ib_user_path_rec" {
            dgid, sgid, dlid, slid, raw_traffic, flow_label, reversible, mtu, pkey, hop_limit,
            traffic_class, numb_path, sl, mtu_selector, rate_selector, rate, packet_life_time_selector,
            packet_life_time, preference
        }
        IbvSaPathRec = "struct ibv_sa_path_rec" {
            dgid, sgid, dlid, slid, raw_traffic, flow_label, hop_limit, traffic_class, reversible,
            numb_path, pkey, sl, mtu_selector, mtu, rate_selector, rate, packet_life_time_selector,
            packet_life_time, preference
        }
    }
}

/// Structures of which we know a longer form than the header may: offsets only, from the front.
fn growing_at_the_end() -> Vec<Fact> {
    let mut facts = facts! {
        IbvPortAttr = "struct ibv_port_attr" {
            state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr,
            qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout,
            init_type_reply, active_width, active_speed, phys_state, link_layer, flags, port_cap_flags2
        }
        IbvQpEx = "struct ibv_qp_ex" {
            qp_base, comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp, wr_atomic_fetch_add, wr_bind_mw,
            wr_local_inv, wr_rdma_read, wr_rdma_write, wr_rdma_write_imm, wr_send, wr_send_imm,
            wr_send_inv, wr_send_tso, wr_set_ud_addr, wr_set_xrc_srqn, wr_set_inline_data,
            wr_set_inline_data_list, wr_set_sge, wr_set_sge_list, wr_start, wr_complete, wr_abort,
            wr_atomic_write
        }
    };
    facts.retain(|fact| !fact.expression.starts_with("sizeof"));
    facts
}

/// `verbs_context`, counted back from its last member.
fn growing_at_the_front() -> Vec<Fact> {
    let facts = facts! {
        VerbsContext = "struct verbs_context" {
            query_port, advise_mr, alloc_null_mr, read_counters, attach_counters_point_flow,
            create_counters, destroy_counters, reg_dm_mr, alloc_dm, free_dm, modify_flow_action_esp,
            destroy_flow_action, create_flow_action_esp, modify_qp_rate_limit, alloc_parent_domain,
            dealloc_td, alloc_td, modify_cq, post_srq_ops, destroy_rwq_ind_table, create_rwq_ind_table,
            destroy_wq, modify_wq, create_wq, query_rt_values, create_cq_ex, private = "priv",
            query_device_ex, ibv_destroy_flow, abi_placeholder2 = "ABI_placeholder2", ibv_create_flow,
            abi_placeholder1 = "ABI_placeholder1", open_qp, create_qp_ex, get_srq_num, create_srq_ex,
            open_xrcd, close_xrcd, abi_placeholder3 = "_ABI_placeholder3", sz, context
        }
    };
    let context = offset_of!(VerbsContext, context);
    let offsets = facts.into_iter().filter(|fact| !fact.expression.starts_with("sizeof"));
    offsets
        .map(|fact| Fact {
            expression: format!("offsetof(struct verbs_context, context) - {}", fact.expression),
            ours: context - fact.ours,
        })
        .collect()
}

#[test]
fn newer_fields_are_where_rdma_core_65_has_them() {
    for (name, ours, expected) in newer_fields() {
        assert_eq!(ours, expected, "{name}");
    }
}

#[test]
fn sizes_and_offsets_are_those_of_the_systems_header() {
    let facts: Vec<Fact> =
        frozen().into_iter().chain(growing_at_the_end()).chain(growing_at_the_front()).collect();
    let mut source = include_str!("layout.c").to_owned();
    source.push_str("int main(void)\n{\n");
    for fact in &facts {
        writeln!(source, "\tprintf(\"%zu\\n\", (size_t)({}));", fact.expression).unwrap();
    }
    source.push_str("\treturn 0;\n}\n");

    let folder = tempfile::tempdir().unwrap();
    let (unit, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&unit, source).unwrap();
    if !Command::new("cc")
        .arg("-fsyntax-only")
        .arg("-include")
        .arg("infiniband/verbs.h")
        .args(["-xc", "/dev/null"])
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("skipped: no C compiler, or no infiniband/verbs.h (libibverbs-dev)");
        return;
    }
    let compiled = Command::new("cc").arg("-Wall").arg("-Werror").arg(&unit).arg("-o").arg(&program).status();
    assert!(compiled.unwrap().success(), "the C program does not compile: a field has another name");

    let output = Command::new(&program).output().unwrap();
    let theirs: Vec<usize> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(theirs.len(), facts.len());
    let wrong: Vec<String> = facts
        .iter()
        .zip(theirs)
        .filter(|(fact, theirs)| fact.ours != *theirs)
        .map(|(fact, theirs)| format!("{}: ours {}, the header's {theirs}", fact.expression, fact.ours))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! Every size and offset against the system's header, through a C program.
//!
//! Skipped, with a message, where `rdma/rdma_cma.h` or a C compiler is missing.

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the library's own file, of which sizes and offsets are looked at only"
)]
#[path = "../src/layout.rs"]
mod layout;

use layout::*;
use std::fmt::Write;
use std::mem::{offset_of, size_of};
use std::process::Command;

/// An expression of C, and the number it should have.
struct Fact {
    expression: String,
    ours: usize,
}

/// Sizes and offsets. A field is compared with the C field of its own name behind `$prefix`, unless another is given.
macro_rules! facts {
    ($($rust:ident = $c:literal $prefix:literal { $($field:ident $(= $c_field:literal)?),+ $(,)? })+) => {
        vec![$(
            Fact { expression: format!("sizeof({})", $c), ours: size_of::<$rust>() },
            $(Fact {
                expression: format!("offsetof({}, {})", $c, [$($c_field,)? concat!($prefix, stringify!($field))][0]),
                ours: offset_of!($rust, $field),
            },)+
        )+]
    };
}

fn facts() -> Vec<Fact> {
    facts! {
        RdmaIbAddr = "struct rdma_ib_addr" "" { sgid, dgid, pkey }
        RdmaAddr = "struct rdma_addr" "" { src = "src_storage", dst = "dst_storage", ib = "addr.ibaddr" }
        RdmaRoute = "struct rdma_route" "" { addr, path_rec, num_paths }
        RdmaEventChannel = "struct rdma_event_channel" "" { fd }
        RdmaCmId = "struct rdma_cm_id" "" {
            verbs, channel, context, qp, route, ps, port_num, event, send_cq_channel, send_cq, recv_cq_channel,
            recv_cq, srq, pd, qp_type
        }
        RdmaConnParam = "struct rdma_conn_param" "" {
            private_data, private_data_len, responder_resources, initiator_depth, flow_control, retry_count,
            rnr_retry_count, srq, qp_num
        }
        RdmaUdParam = "struct rdma_ud_param" "" { private_data, private_data_len, ah_attr, qp_num, qkey }
        RdmaCmEvent = "struct rdma_cm_event" "" { id, listen_id, event, status, param }
        RdmaAddrinfo = "struct rdma_addrinfo" "ai_" {
            flags, family, qp_type, port_space, src_len, dst_len, src_addr, dst_addr, src_canonname,
            dst_canonname, route_len, route, connect_len, connect, next
        }
        RdmaCmJoinMcAttrEx = "struct rdma_cm_join_mc_attr_ex" "" { comp_mask, join_flags, addr }
        IbvSaPathRec = "struct ibv_sa_path_rec" "" {
            dgid, sgid, dlid, slid, raw_traffic, flow_label, hop_limit, traffic_class, reversible, numb_path, pkey,
            sl, mtu_selector, mtu, rate_selector, rate, packet_life_time_selector, packet_life_time, preference
        }
    }
}

#[test]
fn sizes_and_offsets_are_those_of_the_systems_header() {
    let facts = facts();
    let mut source = "#include <rdma/rdma_cma.h>\n#include <stddef.h>\n#include <stdio.h>\n\n".to_owned();
    source.push_str("int main(void)\n{\n");
    for fact in &facts {
        writeln!(source, "\tprintf(\"%zu\\n\", (size_t)({}));", fact.expression).unwrap();
    }
    source.push_str("\treturn 0;\n}\n");

    let folder = tempfile::tempdir().unwrap();
    let (unit, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&unit, source).unwrap();
    let has_header = Command::new("cc")
        .args(["-fsyntax-only", "-include", "rdma/rdma_cma.h", "-xc", "/dev/null"])
        .output();
    if !has_header.is_ok_and(|output| output.status.success()) {
        println!("skipped: no C compiler, or no rdma/rdma_cma.h (librdmacm-dev)");
        return;
    }
    let compiled = Command::new("cc").args(["-Wall", "-Werror"]).arg(&unit).arg("-o").arg(&program).status();
    assert!(compiled.unwrap().success(), "the C program does not compile: a field has another name");

    let output = Command::new(&program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let theirs: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(theirs.len(), facts.len());
    let wrong: Vec<String> = facts
        .iter()
        .zip(theirs)
        .filter(|(fact, theirs)| fact.ours != *theirs)
        .map(|(fact, theirs)| format!("{}: ours {}, the header's {theirs}", fact.expression, fact.ours))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! C programs on the linked library: the interface as a program of the system sees it.
//!
//! The cases are in `tests/c`; each runs in a process, and where that is allowed in a network, of its own. Faults that
//! people met elsewhere are named there by their source.

mod common;

use common::run;

macro_rules! cases {
    ($program:literal: $($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                run($program, stringify!($case));
            }
        )+
    };
}

/// `ibv_post_send(3)` and `ibv_post_recv(3)`.
mod post {
    use super::run;

    cases!("post":
        send_queue_overflow,
        receive_queue_overflow,
        states_without_a_queue,
        lists_that_are_too_long,
        opcodes_that_do_not_exist,
        inline_lists,
        immediate_data_and_flush,
        nothing_comes_from_before_a_reset,
    );
}

/// `ibv_wr_post(3)`.
mod builder {
    use super::run;

    cases!("builder":
        sge_lists,
        inline_data,
        one_sided_operations,
        all_or_nothing,
        operations_not_asked_for,
    );
}

/// `ibv_create_cq_ex(3)`.
mod cq_ex {
    use super::run;

    cases!("cq_ex":
        fields,
        fields_single_threaded,
        time_stamps,
        an_overrun_that_is_ignored,
        attributes_that_are_not_provided,
    );
}

/// `ibv_modify_cq(3)`, `ibv_resize_cq(3)` and `ibv_req_notify_cq(3)`.
mod cq {
    use super::run;

    cases!("cq": moderation, solicited_only, sizes);
}

/// `ibv_alloc_td(3)` and `ibv_alloc_parent_domain(3)`.
mod domains {
    use super::run;

    cases!("domains": a_parent_domain_is_its_pd, a_cq_of_a_parent_domain, what_is_refused);
}

/// `ibv_get_cq_event(3)` and `ibv_get_async_event(3)`.
mod events {
    use super::run;

    cases!("events":
        completion_channel,
        a_blocking_reader_is_woken,
        a_cq_waits_for_its_acknowledgements,
        unread_events_do_not_hold_a_cq,
        asynchronous_events,
        a_drained_send_queue,
        a_cq_that_overruns,
        the_first_packet_in_rtr,
    );
}

/// UD QPs, address handles and multicast groups.
mod datagrams {
    use super::run;

    cases!("datagrams":
        there_and_back_over_ipv4,
        there_and_back_over_ipv6,
        built_by_calls,
        requests_that_are_wrong,
        violations_are_counted,
        handles_of_another_pd,
        groups,
    );
}

/// Shared receive queues.
mod srq {
    use super::run;

    cases!("srq": overflow, attributes, created_by_its_type, events);
}

/// XRC domains.
mod xrc {
    use super::run;

    cases!("xrc": one_target_and_several_srqs, built_by_calls, domains_behind_a_file);
}

/// Memory windows.
mod windows {
    use super::run;

    cases!("windows": type_1, type_2, requests_that_are_wrong);
}

/// Regions other than plain ones.
mod memory {
    use super::run;

    cases!("memory": changed_regions, on_demand, null_region, device_memory, behind_a_descriptor);
}

/// FLUSH and ATOMIC_WRITE.
mod placement {
    use super::run;

    cases!("placement": capabilities, flushes, flush_of_a_qp_without_the_right, atomic_writes);
}

/// Queries and refusals.
mod queries {
    use super::run;

    cases!("queries":
        port_attributes_of_every_size,
        device_attributes_of_every_size,
        gid_table,
        path_over_an_empty_gid,
        pkey_table,
        device_list,
        qp_attributes,
        objects_in_use,
        arguments_that_are_wrong,
        optional_access_flags,
        features_that_are_not_provided,
        null_pointers,
        forked_child,
        every_cq_there_is,
    );
}

/// What a process may do around the library.
mod process {
    use super::run;

    cases!("process":
        signals_are_for_the_applications_threads,
        signals_do_not_keep_a_device_from_opening,
        a_forked_child_lets_go_of_the_port,
        messages_that_cannot_be_written,
        a_child_forked_in_the_middle_of_a_message,
        closed_standard_streams,
        no_descriptors_left_to_send_from,
    );
}

use super::*;
use ferroce_ibverbs_layout::{IbvAtomic, IbvSendExtra, IbvSendRemote, IbvTso};
use std::ptr::null_mut;

const CAPS: QpCaps =
    QpCaps { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 3, max_recv_sge: 1, max_inline_data: 16 };

const TARGET: Target<'static> = Target { caps: &CAPS, qp_type: Some(QpType::Rc), qpn: Qpn::new(0x11) };

fn send_wr(opcode: u32, sges: &mut [IbvSge]) -> IbvSendWr {
    IbvSendWr {
        wr_id: 7,
        next: null_mut(),
        sg_list: sges.as_mut_ptr(),
        num_sge: sges.len() as c_int,
        opcode,
        send_flags: 0,
        imm_data: 0,
        wr: IbvSendRemote { atomic: IbvAtomic { remote_addr: 0x1000, compare_add: 5, swap: 6, rkey: 9 } },
        remote_srqn: 0,
        bind_or_tso: IbvSendExtra { tso: IbvTso { hdr: null_mut(), hdr_sz: 0, mss: 0 } },
    }
}

fn convert(wr: &IbvSendWr) -> Result<SendWr, Errno> {
    // SAFETY: the tests' lists are whole.
    unsafe { wr.convert(TARGET) }
}

fn inline_sge(text: &[u8]) -> IbvSge {
    IbvSge { addr: text.as_ptr() as u64, length: text.len() as u32, lkey: 0 }
}

#[test]
fn an_inline_list_is_gathered_in_order() {
    let mut sges = [inline_sge(b"abc"), inline_sge(b"defgh"), inline_sge(b"ij")];
    let mut wr = send_wr(2, &mut sges);
    wr.send_flags = SendFlags::INLINE.bits();
    let Payload::Inline(bytes) = convert(&wr).unwrap().payload else { panic!("not inline") };
    assert_eq!(&bytes[..], b"abcdefghij");
}

// rdma-core: a list whose sum passed the limit, or 2^32, was copied past the end of the WQE.
#[test]
fn an_inline_list_whose_sum_is_too_long_is_refused_before_anything_is_read() {
    let huge = IbvSge { addr: 8, length: u32::MAX, lkey: 0 };
    for mut sges in [vec![huge, huge, IbvSge { length: 2, ..huge }], vec![IbvSge { length: 6, ..huge }; 3]] {
        let mut wr = send_wr(2, &mut sges);
        wr.send_flags = SendFlags::INLINE.bits();
        assert_eq!(convert(&wr).err(), Some(Errno::INVALID));
    }
}

#[test]
fn a_list_length_is_checked_before_the_list_is_looked_at() {
    let mut wr = send_wr(2, &mut []);
    wr.sg_list = std::ptr::dangling_mut();
    for num_sge in [-1, 4, c_int::MAX] {
        wr.num_sge = num_sge;
        assert_eq!(convert(&wr).err(), Some(Errno::INVALID));
    }
    wr.num_sge = 0;
    assert!(convert(&wr).is_ok());
}

#[test]
fn opcodes_meet_their_operations() {
    let op = |opcode| convert(&send_wr(opcode, &mut [])).unwrap().op;
    assert_eq!(op(5), SendOp::CompareSwap { va: 0x1000, rkey: 9, compare: 5, swap: 6 });
    assert_eq!(op(6), SendOp::FetchAdd { va: 0x1000, rkey: 9, add: 5 });
    assert_eq!(op(2), SendOp::Send);
    assert!(matches!(op(15), SendOp::AtomicWrite { va: 0x1000, .. }));
    // A bind without a window, and what the device does not have.
    for absent in [8, 10, 11, 14, 99] {
        assert_eq!(convert(&send_wr(absent, &mut [])).err(), Some(Errno::INVALID), "opcode {absent}");
    }
}

#[test]
fn the_first_that_can_not_be_converted_is_the_bad_one() {
    let mut third = send_wr(2, &mut []);
    let mut second = send_wr(99, &mut []);
    second.next = &raw mut third;
    let mut first = send_wr(2, &mut []);
    first.next = &raw mut second;
    let mut list = List::new(&raw mut first, TARGET);
    assert_eq!(list.by_ref().count(), 1);
    assert_eq!(list.outcome(Ok(())), Err((&raw mut second, Errno::INVALID)));
}

#[test]
fn the_first_that_the_qp_refuses_is_the_bad_one() {
    let mut second = send_wr(2, &mut []);
    let mut first = send_wr(2, &mut []);
    first.next = &raw mut second;
    let mut list = List::new(&raw mut first, TARGET);
    assert_eq!(list.by_ref().count(), 2);
    let full = PostError { index: 1, cause: PostCause::QueueFull { limit: 1 } };
    assert_eq!(list.outcome(Err(full)), Err((&raw mut second, Errno(libc::ENOMEM))));
}

use super::*;
use crate::{AccessFlags, AddressVector, Path};
use ferroce_wire::Psn;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

const TYPES: [QpType; 5] = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcIni, QpType::XrcTgt];

/// What the modify tables say, written out in full for each type: `FROM TO required… / optional…`.
/// The lines to RESET and to ERR are the same for all types and come from [`expectation`].
const EXPECTED: [(QpType, &str); 5] = [
    (
        QpType::Rc,
        "RESET INIT PKEY_INDEX PORT ACCESS_FLAGS /
         INIT INIT / PKEY_INDEX PORT ACCESS_FLAGS
         INIT RTR AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER / ALT_PATH ACCESS_FLAGS PKEY_INDEX
         RTR RTS SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC / CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER
         RTS RTS / CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER
         RTS SQD / EN_SQD_ASYNC_NOTIFY
         SQD SQD / PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE
         SQD RTS / CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER",
    ),
    (
        QpType::Uc,
        "RESET INIT PKEY_INDEX PORT ACCESS_FLAGS /
         INIT INIT / PKEY_INDEX PORT ACCESS_FLAGS
         INIT RTR AV PATH_MTU DEST_QPN RQ_PSN / ALT_PATH ACCESS_FLAGS PKEY_INDEX
         RTR RTS SQ_PSN / CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
         RTS RTS / CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE
         RTS SQD / EN_SQD_ASYNC_NOTIFY
         SQD SQD / AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE
         SQD RTS / CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
         SQE RTS / CUR_STATE ACCESS_FLAGS",
    ),
    (
        QpType::Ud,
        "RESET INIT PKEY_INDEX PORT QKEY /
         INIT INIT / PKEY_INDEX PORT QKEY
         INIT RTR / PKEY_INDEX QKEY
         RTR RTS SQ_PSN / CUR_STATE QKEY
         RTS RTS / CUR_STATE QKEY
         RTS SQD / EN_SQD_ASYNC_NOTIFY
         SQD SQD / PKEY_INDEX QKEY
         SQD RTS / CUR_STATE QKEY
         SQE RTS / CUR_STATE QKEY",
    ),
    (
        QpType::XrcIni,
        "RESET INIT PKEY_INDEX PORT ACCESS_FLAGS /
         INIT INIT / PKEY_INDEX PORT ACCESS_FLAGS
         INIT RTR AV PATH_MTU DEST_QPN RQ_PSN / ALT_PATH ACCESS_FLAGS PKEY_INDEX
         RTR RTS SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC / CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
         RTS RTS / CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE
         RTS SQD / EN_SQD_ASYNC_NOTIFY
         SQD SQD / PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE
         SQD RTS / CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE",
    ),
    (
        QpType::XrcTgt,
        "RESET INIT PKEY_INDEX PORT ACCESS_FLAGS /
         INIT INIT / PKEY_INDEX PORT ACCESS_FLAGS
         INIT RTR AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER / ALT_PATH ACCESS_FLAGS PKEY_INDEX
         RTR RTS SQ_PSN TIMEOUT / CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER
         RTS RTS / CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER
         RTS SQD / EN_SQD_ASYNC_NOTIFY
         SQD SQD / PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE
         SQD RTS / CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER",
    ),
];

type Expectation = BTreeMap<(String, String), (QpAttrMask, QpAttrMask)>;

fn expectation(text: &str) -> Expectation {
    let mask = |words: &str| {
        let bits = words.split_whitespace().map(|name| QpAttrMask::from_name(name).expect(name));
        bits.fold(QpAttrMask::empty(), QpAttrMask::union)
    };
    let mut expected = Expectation::new();
    for line in text.lines().map(str::trim) {
        let (head, optional) = line.split_once('/').unwrap();
        let (from, head) = head.split_once(' ').unwrap();
        let (to, required) = head.split_once(' ').unwrap_or((head, ""));
        expected.insert((from.into(), to.into()), (mask(required), mask(optional)));
    }
    for state in ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"] {
        let nothing = (QpAttrMask::empty(), QpAttrMask::empty());
        expected.insert((state.into(), "RESET".into()), nothing);
        if state != "RESET" {
            expected.insert((state.into(), "ERR".into()), nothing);
        }
    }
    expected
}

const LIMITS: Limits = Limits {
    active_mtu: PathMtu::Mtu2048,
    max_qp_rd_atomic: 16,
    max_dest_rd_atomic: 12,
    pkey_tbl_len: 1,
    port_count: 1,
};

fn address_vector() -> AddressVector {
    let path = Path {
        src: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1)),
        dst: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)),
        interface: 0,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        source_port: 0xc000,
        receiver: None,
    };
    AddressVector {
        dgid: [0; 16],
        flow_label: 0,
        sgid_index: 1,
        hop_limit: 64,
        traffic_class: 0,
        sl: 0,
        port_num: 1,
        path,
    }
}

/// Attributes that are all in range and all differ from the defaults.
fn good(from: QpState, to: QpState) -> QpAttr {
    QpAttr {
        qp_state: to,
        cur_qp_state: from,
        path_mtu: PathMtu::Mtu2048,
        path_mig_state: 0,
        qkey: 0x1111_1111,
        rq_psn: Psn::new(0x123456),
        sq_psn: Psn::new(0x654321),
        dest_qpn: Qpn::new(0x11),
        access: AccessFlags::REMOTE_READ,
        av: Some(address_vector()),
        pkey_index: 0,
        en_sqd_async_notify: true,
        sq_draining: false,
        max_rd_atomic: 16,
        max_dest_rd_atomic: 12,
        min_rnr_timer: 31,
        port_num: 1,
        timeout: 31,
        retry_cnt: 7,
        rnr_retry: 7,
    }
}

/// Every mask bit there is, and every one there is not.
fn bits() -> impl Iterator<Item = QpAttrMask> {
    (0..32).map(|bit| QpAttrMask::from_bits_retain(1 << bit))
}

#[test]
fn the_whole_table_is_as_the_specification_says() {
    let mut legal = 0;
    for (qp_type, text) in EXPECTED {
        let expected = expectation(text);
        for from in table::STATES {
            for to in table::STATES {
                let step = Step { qp_type, from, to };
                let check = |mask| check_modify(qp_type, from, &good(from, to), mask, &LIMITS);
                let Some((required, optional)) = expected.get(&(from.to_string(), to.to_string())) else {
                    for bit in bits() {
                        let result = check(QpAttrMask::STATE | bit);
                        assert_eq!(result, Err(ModifyQpError::IllegalTransition { step }), "{step} {bit:?}");
                    }
                    continue;
                };
                legal += 1;
                let base = QpAttrMask::STATE | *required;
                assert_eq!(check(base), Ok(to), "{step}");
                for bit in bits().filter(|bit| *bit != QpAttrMask::STATE) {
                    if required.contains(bit) {
                        let missing = ModifyQpError::MissingAttributes { step, missing: bit };
                        assert_eq!(check(base - bit), Err(missing), "{step} without {bit:?}");
                    } else if bit == QpAttrMask::ALT_PATH && optional.contains(bit) {
                        assert_eq!(check(base | bit), Err(ModifyQpError::NoPathMigration), "{step}");
                    } else if optional.contains(bit) {
                        assert_eq!(check(base | bit), Ok(to), "{step} with {bit:?}");
                    } else {
                        let taken = *required | *optional;
                        let refused = ModifyQpError::RefusedAttributes { step, refused: bit, taken };
                        assert_eq!(check(base | bit), Err(refused), "{step} with {bit:?}");
                    }
                }
            }
        }
    }
    // 13 lines to RESET and ERR for each type, and the ones written out above.
    assert_eq!(legal, 5 * 13 + 8 + 9 + 9 + 8 + 8);
}

#[test]
fn without_state_the_attributes_must_be_changeable_in_place() {
    let attr = good(QpState::Reset, QpState::Reset);
    let check = |from, mask| check_modify(QpType::Rc, from, &attr, mask, &LIMITS);
    assert_eq!(check(QpState::Rts, QpAttrMask::MIN_RNR_TIMER), Ok(QpState::Rts));
    assert_eq!(check(QpState::Init, QpAttrMask::ACCESS_FLAGS), Ok(QpState::Init));
    assert_eq!(check(QpState::Reset, QpAttrMask::empty()), Ok(QpState::Reset));
    let step = Step { qp_type: QpType::Rc, from: QpState::Rtr, to: QpState::Rtr };
    assert_eq!(check(QpState::Rtr, QpAttrMask::ACCESS_FLAGS), Err(ModifyQpError::IllegalTransition { step }));
}

#[test]
fn a_wrong_cur_state_is_named() {
    let attr = good(QpState::Sqd, QpState::Rts);
    let mask = QpAttrMask::STATE | QpAttrMask::CUR_STATE;
    assert_eq!(
        check_modify(QpType::Rc, QpState::Rts, &attr, mask, &LIMITS),
        Err(ModifyQpError::CurStateMismatch { assumed: QpState::Sqd, actual: QpState::Rts })
    );
}

/// INIT→RTR or RTR→RTS on an RC QP with one attribute changed.
fn rc_with(to: QpState, change: impl FnOnce(&mut QpAttr)) -> Result<QpState, ModifyQpError> {
    let from = if to == QpState::Rtr { QpState::Init } else { QpState::Rtr };
    let mut attr = good(from, to);
    change(&mut attr);
    let row = transition(QpType::Rc, from, to).expect("both are in the table");
    let mut mask = QpAttrMask::STATE | row.required | row.optional;
    mask.remove(QpAttrMask::ALT_PATH);
    check_modify(QpType::Rc, from, &attr, mask, &LIMITS)
}

#[test]
fn numbers_beyond_their_limit_are_named() {
    let out_of_range = |attribute, value, max| Err(ModifyQpError::OutOfRange { attribute, value, max });
    assert_eq!(rc_with(QpState::Rts, |a| a.timeout = 32), out_of_range(QpAttrMask::TIMEOUT, 32, 31));
    assert_eq!(rc_with(QpState::Rts, |a| a.retry_cnt = 8), out_of_range(QpAttrMask::RETRY_CNT, 8, 7));
    assert_eq!(rc_with(QpState::Rts, |a| a.rnr_retry = 255), out_of_range(QpAttrMask::RNR_RETRY, 255, 7));
    assert_eq!(
        rc_with(QpState::Rts, |a| a.max_rd_atomic = 17),
        out_of_range(QpAttrMask::MAX_QP_RD_ATOMIC, 17, 16)
    );
    assert_eq!(
        rc_with(QpState::Rtr, |a| a.max_dest_rd_atomic = 13),
        out_of_range(QpAttrMask::MAX_DEST_RD_ATOMIC, 13, 12)
    );
    assert_eq!(
        rc_with(QpState::Rtr, |a| a.min_rnr_timer = 32),
        out_of_range(QpAttrMask::MIN_RNR_TIMER, 32, 31)
    );
    assert_eq!(rc_with(QpState::Rtr, |a| a.pkey_index = 1), out_of_range(QpAttrMask::PKEY_INDEX, 1, 0));
}

#[test]
fn paths_that_lead_nowhere_are_named() {
    assert_eq!(rc_with(QpState::Rtr, |a| a.av = None), Err(ModifyQpError::MissingGrh));
    assert_eq!(
        rc_with(QpState::Rtr, |a| a.path_mtu = PathMtu::Mtu4096),
        Err(ModifyQpError::PathMtuTooLarge { asked: PathMtu::Mtu4096, active: PathMtu::Mtu2048 })
    );
    for port in [0, 2] {
        let unknown = Err(ModifyQpError::UnknownPort { port, port_count: 1 });
        let in_av = |a: &mut QpAttr| a.av = Some(AddressVector { port_num: port, ..address_vector() });
        assert_eq!(rc_with(QpState::Rtr, in_av), unknown);
        let attr = QpAttr { port_num: port, ..good(QpState::Init, QpState::Init) };
        assert_eq!(check_modify(QpType::Rc, QpState::Init, &attr, QpAttrMask::PORT, &LIMITS), unknown);
    }
    let reserved = |a: &mut QpAttr| a.av = Some(AddressVector { sl: 8, ..address_vector() });
    assert_eq!(rc_with(QpState::Rtr, reserved), Err(ModifyQpError::ReservedSl { sl: 8 }));
    assert_eq!(rc_with(QpState::Rts, |a| a.path_mig_state = 1), Err(ModifyQpError::NoPathMigration));
}

#[test]
fn attributes_out_of_range_but_not_named_are_ignored() {
    let attr = QpAttr { timeout: 99, av: None, port_num: 0, ..good(QpState::Rts, QpState::Err) };
    let result = check_modify(QpType::Rc, QpState::Rts, &attr, QpAttrMask::STATE, &LIMITS);
    assert_eq!(result, Ok(QpState::Err));
}

#[test]
fn apply_copies_what_the_mask_names_and_nothing_else() {
    let new = good(QpState::Init, QpState::Rtr);
    let old = QpAttr { path_mig_state: 2, port_num: 9, pkey_index: 9, ..QpAttr::default() };
    for bit in bits() {
        let mut attr = old;
        apply(&mut attr, &new, bit);
        let mut expected = old;
        match bit {
            QpAttrMask::STATE => {
                expected.qp_state = QpState::Rtr;
                expected.cur_qp_state = QpState::Rtr;
            }
            QpAttrMask::EN_SQD_ASYNC_NOTIFY => expected.en_sqd_async_notify = true,
            QpAttrMask::ACCESS_FLAGS => expected.access = AccessFlags::REMOTE_READ,
            QpAttrMask::PKEY_INDEX => expected.pkey_index = 0,
            QpAttrMask::PORT => expected.port_num = 1,
            QpAttrMask::QKEY => expected.qkey = 0x1111_1111,
            QpAttrMask::AV => expected.av = Some(address_vector()),
            QpAttrMask::PATH_MTU => expected.path_mtu = PathMtu::Mtu2048,
            QpAttrMask::TIMEOUT => expected.timeout = 31,
            QpAttrMask::RETRY_CNT => expected.retry_cnt = 7,
            QpAttrMask::RNR_RETRY => expected.rnr_retry = 7,
            QpAttrMask::RQ_PSN => expected.rq_psn = Psn::new(0x123456),
            QpAttrMask::MAX_QP_RD_ATOMIC => expected.max_rd_atomic = 16,
            QpAttrMask::MIN_RNR_TIMER => expected.min_rnr_timer = 31,
            QpAttrMask::SQ_PSN => expected.sq_psn = Psn::new(0x654321),
            QpAttrMask::MAX_DEST_RD_ATOMIC => expected.max_dest_rd_atomic = 12,
            QpAttrMask::PATH_MIG_STATE => expected.path_mig_state = 0,
            QpAttrMask::DEST_QPN => expected.dest_qpn = Qpn::new(0x11),
            _ => {}
        }
        assert_eq!(attr, expected, "{bit:?}");
    }
}

#[test]
fn reset_clears_every_attribute() {
    let mut attr = good(QpState::Rtr, QpState::Rts);
    apply(&mut attr, &QpAttr::default(), QpAttrMask::STATE);
    assert_eq!(attr, QpAttr::default());
}

#[test]
fn query_reports_the_present_state_in_both_fields() {
    // rxe once left cur_qp_state out (linux-rdma 40668c0ec).
    let stored = good(QpState::Rtr, QpState::Rts);
    let next = NextPsns { sent: Psn::new(7), expected: Psn::new(8) };
    let seen = query(&stored, next, true);
    let expected = QpAttr {
        cur_qp_state: QpState::Rts,
        sq_draining: true,
        sq_psn: Psn::new(7),
        rq_psn: Psn::new(8),
        ..stored
    };
    assert_eq!(seen, expected);
}

#[test]
fn messages_teach() {
    let say = |from, to, mask| {
        let error = check_modify(QpType::Rc, from, &good(from, to), mask, &LIMITS).unwrap_err();
        error.to_string()
    };
    let rtr = QpAttrMask::STATE | transition(QpType::Rc, QpState::Init, QpState::Rtr).unwrap().required;
    assert_eq!(
        say(QpState::Init, QpState::Rtr, rtr - QpAttrMask::PATH_MTU),
        "INIT→RTR on an RC QP needs PATH_MTU, which is missing"
    );
    assert_eq!(
        say(QpState::Init, QpState::Rtr, rtr - QpAttrMask::PATH_MTU - QpAttrMask::AV),
        "INIT→RTR on an RC QP needs AV and PATH_MTU, which are missing"
    );
    assert_eq!(
        say(QpState::Reset, QpState::Rtr, rtr),
        "RESET→RTR on an RC QP does not exist; from RESET it goes to RESET and INIT"
    );
    assert_eq!(
        say(QpState::Rts, QpState::Sqd, QpAttrMask::from_bits_retain(1 | 1 << 16 | 1 << 30)),
        "RTS→SQD on an RC QP does not take SQ_PSN and unknown bits 0x40000000; it takes EN_SQD_ASYNC_NOTIFY"
    );
    assert_eq!(
        say(QpState::Rts, QpState::Err, QpAttrMask::STATE | QpAttrMask::QKEY),
        "RTS→ERR on an RC QP does not take QKEY; it takes nothing else"
    );
    assert_eq!(
        rc_with(QpState::Rts, |a| a.timeout = 40).unwrap_err().to_string(),
        "TIMEOUT is 40, but 31 is the most"
    );
    assert_eq!(
        TYPES.map(|t| Step { qp_type: t, from: QpState::Rtr, to: QpState::Rts }.to_string()),
        [
            "RTR→RTS on an RC QP",
            "RTR→RTS on a UC QP",
            "RTR→RTS on a UD QP",
            "RTR→RTS on an XRC_INI QP",
            "RTR→RTS on an XRC_TGT QP",
        ]
    );
}

//! What a queue pair of an ID is to be told in each state (`rdma_init_qp_attr`).

use super::state::IdState;
use super::{UDP_QKEY, id::CmId};
use crate::ah::AhAttr;
use crate::error::Error;
use crate::gid::Gid;
use crate::qp::Qp;
use ferroce_cm::QpSettings;
use ferroce_core::{AccessFlags, PathMtu, QpAttr, QpAttrMask, QpState, QpType};
use ferroce_wire::{Psn, Qpn};

/// The attributes of one transition.
#[derive(Clone, Copy, Debug)]
pub struct QpSetup {
    /// All but the address vector.
    pub attr: QpAttr,
    /// The address vector, where the mask has it.
    pub ah: Option<AhAttr>,
    /// Which of them count.
    pub mask: QpAttrMask,
}

impl CmId {
    /// What the ID's queue pair is to be told on its way to `state`.
    ///
    /// # Errors
    /// The ID is not that far; there is no such transition.
    pub fn qp_setup(&self, state: QpState) -> Result<QpSetup, Error> {
        self.with(|id, cm| {
            let settings = id.comm.and_then(|comm| cm.qp_settings(comm));
            let call = "tell what its queue pair needs";
            let refused = Error::CmState { state: id.phase.name(), call };
            match state {
                QpState::Init => Ok(init(id, settings.as_ref())),
                QpState::Rtr if id.is_datagram() => Ok(datagram(QpState::Rtr)),
                QpState::Rts if id.is_datagram() => Ok(datagram(QpState::Rts)),
                QpState::Rtr => settings.map(|it| rtr(id, &it)).ok_or(refused),
                QpState::Rts => settings.map(|it| rts(id, &it)).ok_or(refused),
                _ => Err(refused),
            }
        })
    }

    /// Takes a queue pair to RTS with what the peer said: of a request before it is accepted, of an acceptance before it
    /// is established; of a datagram service at any time.
    ///
    /// # Errors
    /// The peer has not said it; or as [`Qp::modify`].
    pub fn set_up_qp(&self, qp: &Qp) -> Result<(), Error> {
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            let setup = self.qp_setup(state)?;
            qp.modify(&setup.attr, setup.ah.as_ref(), setup.mask)?;
        }
        Ok(())
    }
}

fn init(id: &IdState, settings: Option<&QpSettings>) -> QpSetup {
    let mut attr = QpAttr { qp_state: QpState::Init, pkey_index: 0, port_num: PORT_NUM, ..QpAttr::default() };
    let mut mask = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT;
    if id.is_datagram() {
        attr.qkey = UDP_QKEY;
        return QpSetup { attr, ah: None, mask: mask | QpAttrMask::QKEY };
    }
    mask |= QpAttrMask::ACCESS_FLAGS;
    if let Some(settings) = settings {
        attr.access = AccessFlags::REMOTE_WRITE;
        if settings.max_dest_rd_atomic > 0 {
            attr.access |= AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC;
        }
    }
    QpSetup { attr, ah: None, mask }
}

fn datagram(state: QpState) -> QpSetup {
    let attr = QpAttr { qp_state: state, ..QpAttr::default() };
    let mask = if state == QpState::Rts { QpAttrMask::STATE | QpAttrMask::SQ_PSN } else { QpAttrMask::STATE };
    QpSetup { attr, ah: None, mask }
}

fn rtr(id: &IdState, settings: &QpSettings) -> QpSetup {
    let mut mask =
        QpAttrMask::STATE | QpAttrMask::AV | QpAttrMask::PATH_MTU | QpAttrMask::DEST_QPN | QpAttrMask::RQ_PSN;
    let attr = QpAttr {
        qp_state: QpState::Rtr,
        path_mtu: PathMtu::from_code(settings.path_mtu.into()).unwrap_or(PathMtu::Mtu256),
        dest_qpn: Qpn::new(settings.dest_qpn),
        rq_psn: Psn::new(id.psn),
        max_dest_rd_atomic: settings.max_dest_rd_atomic,
        min_rnr_timer: 0,
        ..QpAttr::default()
    };
    if matches!(id.qp_type, QpType::Rc | QpType::XrcTgt) {
        mask |= QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER;
    }
    QpSetup { attr, ah: Some(address_vector(id, settings)), mask }
}

fn rts(id: &IdState, settings: &QpSettings) -> QpSetup {
    let mut mask = QpAttrMask::STATE | QpAttrMask::SQ_PSN;
    let attr = QpAttr {
        qp_state: QpState::Rts,
        sq_psn: Psn::new(settings.sq_psn),
        timeout: id.options.ack_timeout.unwrap_or(settings.timeout),
        retry_cnt: settings.retry_count,
        rnr_retry: settings.rnr_retry,
        max_rd_atomic: settings.max_rd_atomic,
        ..QpAttr::default()
    };
    if matches!(id.qp_type, QpType::Rc | QpType::XrcIni) {
        mask |= QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY | QpAttrMask::MAX_QP_RD_ATOMIC;
    }
    if matches!(id.qp_type, QpType::Rc | QpType::XrcIni | QpType::XrcTgt) {
        mask |= QpAttrMask::TIMEOUT;
    }
    QpSetup { attr, ah: None, mask }
}

pub(super) fn address_vector(id: &IdState, settings: &QpSettings) -> AhAttr {
    AhAttr {
        is_global: true,
        dgid: Gid::from_ip(settings.route.peer),
        sgid_index: id.device.as_ref().map_or(0, |(_, index)| *index),
        flow_label: 0,
        hop_limit: HOP_LIMIT,
        traffic_class: settings.route.traffic_class,
        sl: 0,
        port_num: PORT_NUM,
    }
}

/// The only port.
pub(super) const PORT_NUM: u8 = 1;
pub(super) const HOP_LIMIT: u8 = 64;

//! Memory windows.

use crate::error::{Error, PostCause, PostError};
use crate::pd::PdUser;
use crate::qp::Qp;
use ferroce_core::{MwBind, MwType, Payload, Remote, SendFlags, SendOp, SendWr};
use std::sync::atomic::{AtomicU32, Ordering};

/// A memory window: an R_Key of its own for a part of a region. Dropping it takes it away, bound or not.
#[derive(Debug)]
pub struct Mw {
    mw_type: MwType,
    /// The R_Key of the last bind that was posted.
    rkey: AtomicU32,
    pd: PdUser,
}

impl Mw {
    pub(crate) fn new(pd: PdUser, mw_type: MwType) -> Result<Mw, Error> {
        let rkey = pd.pd.context.engine.alloc_mw(pd.pd.id, mw_type)?;
        Ok(Mw { mw_type, rkey: AtomicU32::new(rkey), pd })
    }

    /// Its type.
    pub fn mw_type(&self) -> MwType {
        self.mw_type
    }

    /// Its R_Key: of a type 1 window that of the last bind posted, of a type 2 window the one that it was made with, whose
    /// upper 24 bits are those of all its R_Keys.
    pub fn rkey(&self) -> u32 {
        self.rkey.load(Ordering::Acquire)
    }

    /// The operation that binds it with the key byte given, for [`Qp::post_send`]: that of a type 2 window, since the R_Key
    /// of a type 1 window is not the consumer's choice.
    pub fn bind_op(&self, key_byte: u8, bind: MwBind) -> SendOp {
        SendOp::BindMw { rkey: self.rkey() & !KEY_BYTE | u32::from(key_byte), bind }
    }
}

impl Qp {
    /// Posts the bind of a type 1 window, which has the next R_Key from now on (`ibv_bind_mw(3)`); with a length of 0 it
    /// is unbound.
    pub fn bind_mw(&self, mw: &Mw, wr_id: u64, flags: SendFlags, bind: MwBind) -> Result<(), PostError> {
        if mw.mw_type != MwType::Type1 {
            let cause = PostCause::OpNotSupported("ibv_bind_mw on a type 2 memory window");
            return Err(PostError { index: 0, cause });
        }
        let rkey = next_key(mw.rkey());
        let op = SendOp::BindMw { rkey, bind };
        let payload = Payload::Sges(Default::default());
        self.post_send([SendWr { wr_id, op, flags, payload, remote: Remote::Peer }])?;
        mw.rkey.store(rkey, Ordering::Release);
        Ok(())
    }
}

impl Drop for Mw {
    fn drop(&mut self) {
        let context = &self.pd.pd.context;
        if !context.is_dead()
            && let Err(error) = context.engine.dealloc_mw(self.rkey())
        {
            tracing::error!(%error, "deallocating a memory window");
        }
    }
}

/// The R_Key with the next key byte (`ibv_inc_rkey(3)`).
fn next_key(rkey: u32) -> u32 {
    rkey & !KEY_BYTE | rkey.wrapping_add(1) & KEY_BYTE
}

/// The part of a key that is not its number.
const KEY_BYTE: u32 = 0xff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_key_stays_when_its_byte_wraps() {
        assert_eq!(next_key(0x1234_5601), 0x1234_5602);
        assert_eq!(next_key(0xffff_ffff), 0xffff_ff00);
    }
}

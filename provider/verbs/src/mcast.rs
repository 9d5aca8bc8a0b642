//! Multicast groups of UD QPs.

use crate::error::Error;
use crate::gid::Gid;
use crate::qp::Qp;
use ferroce_core::McastError;

impl Qp {
    /// Attaches a UD QP to a multicast group, whose packets it receives from now on (`ibv_attach_mcast(3)`). The host
    /// joins the group on the device's interface. Attached twice it still receives each packet once.
    ///
    /// # Errors
    /// A QP of another type, a GID that is no group's, what the kernel has against joining.
    pub fn attach_mcast(&self, gid: Gid) -> Result<(), Error> {
        self.context.check_alive()?;
        let mut groups = self.groups.lock();
        if groups.contains(&gid) {
            return Ok(());
        }
        self.context.engine.attach_mcast(self.qpn(), gid, self.context.device.interface_index())?;
        groups.push(gid);
        Ok(())
    }

    /// Detaches a QP from a multicast group (`ibv_detach_mcast(3)`).
    ///
    /// # Errors
    /// It is not attached.
    pub fn detach_mcast(&self, gid: Gid) -> Result<(), Error> {
        self.context.check_alive()?;
        let mut groups = self.groups.lock();
        let Some(place) = groups.iter().position(|it| *it == gid) else {
            return Err(McastError::NotAttached { qpn: self.qpn(), gid: gid.0 }.into());
        };
        self.context.engine.detach_mcast(self.qpn(), gid, self.context.device.interface_index())?;
        groups.swap_remove(place);
        Ok(())
    }
}

//! What cases work with: a fabric, and the calls that most of them make in the same way.

mod buffer;
mod end;
mod plan;
mod wait;
mod wr;

pub use buffer::{Buffer, pattern};
pub use end::{End, Peer, attr_of};
pub use plan::{ALL_ACCESS, Plan};
pub use wr::{Wr, recv};

use crate::case::Failure;
use crate::fabric::{Fabric, IpVersion};
use crate::verbs::{AhAttr, Endpoint, Gid};
use std::net::IpAddr;

/// An open fabric.
pub struct Lab {
    /// The fabric, for every verb.
    pub fabric: Box<dyn Fabric>,
}

/// The endpoints that most cases use.
pub const A: Endpoint = Endpoint(0);
/// See [`A`].
pub const B: Endpoint = Endpoint(1);

/// Most entries of a port's GID table that are looked at.
const GIDS: u32 = 16;

impl Lab {
    /// Works on `fabric`.
    pub fn new(fabric: Box<dyn Fabric>) -> Lab {
        Lab { fabric }
    }

    /// An endpoint's GID of that version of IP, and its index.
    ///
    /// # Errors
    /// It has none.
    pub fn gid(&mut self, at: Endpoint, version: IpVersion) -> Result<(u32, Gid), Failure> {
        for index in 0..GIDS {
            let gid = self.fabric.query_gid(at, index)?;
            if !gid.is_zero() && !gid.is_link_local() && gid.ip().is_ipv6() == (version == IpVersion::V6) {
                return Ok((index, gid));
            }
        }
        Err(Failure::new(format!("endpoint {} has no {version} address", at.0)))
    }

    /// The address vector from an endpoint to an address.
    ///
    /// # Errors
    /// The endpoint has no address of that version.
    pub fn ah_attr(&mut self, from: Endpoint, to: IpAddr) -> Result<AhAttr, Failure> {
        let version = if to.is_ipv6() { IpVersion::V6 } else { IpVersion::V4 };
        let (sgid_index, _) = self.gid(from, version)?;
        Ok(AhAttr {
            is_global: true,
            dgid: Gid::from_ip(to),
            sgid_index,
            flow_label: 0,
            hop_limit: 64,
            traffic_class: 0,
            sl: 0,
            port_num: 1,
        })
    }

    /// An endpoint's address.
    ///
    /// # Errors
    /// It has none of that version.
    pub fn address(&mut self, at: Endpoint, version: IpVersion) -> Result<IpAddr, Failure> {
        Ok(self.gid(at, version)?.1.ip())
    }
}

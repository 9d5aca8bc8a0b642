//! The Ethernet header, and the 802.1Q tag that may follow it.

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Ethernet header, 14 bytes: addresses and the type of what follows.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct EthernetHeader {
    destination: [u8; 6],
    source: [u8; 6],
    ethertype: U16,
}

/// 802.1Q tag, 4 bytes, behind an Ethernet header of type [`EthernetHeader::VLAN`].
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VlanTag {
    control: U16,
    ethertype: U16,
}

impl EthernetHeader {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();
    /// Type of IPv4.
    pub const IPV4: u16 = 0x0800;
    /// Type of IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// Type of RoCEv1: a GRH follows.
    pub const ROCEV1: u16 = 0x8915;
    /// Type of an 802.1Q tag.
    pub const VLAN: u16 = 0x8100;

    /// A header from `source` to `destination`.
    pub const fn new(destination: [u8; 6], source: [u8; 6], ethertype: u16) -> Self {
        EthernetHeader { destination, source, ethertype: U16::new(ethertype) }
    }

    /// Where the frame goes.
    pub const fn destination(&self) -> [u8; 6] {
        self.destination
    }

    /// Where it comes from.
    pub const fn source(&self) -> [u8; 6] {
        self.source
    }

    /// What follows.
    pub const fn ethertype(&self) -> u16 {
        self.ethertype.get()
    }
}

impl VlanTag {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    const ID_MASK: u16 = 0x0fff;
    const PRIORITY_SHIFT: u32 = 13;
    const PRIORITY_MASK: u8 = 7;

    /// A tag with the low three bits of `priority` (PCP) and the low twelve of `id`; the drop-eligible bit is clear.
    pub const fn new(priority: u8, id: u16, ethertype: u16) -> Self {
        let control = ((priority & Self::PRIORITY_MASK) as u16) << Self::PRIORITY_SHIFT | id & Self::ID_MASK;
        VlanTag { control: U16::new(control), ethertype: U16::new(ethertype) }
    }

    /// Priority code point, 0 to 7.
    pub const fn priority(&self) -> u8 {
        (self.control.get() >> Self::PRIORITY_SHIFT) as u8
    }

    /// VLAN, 0 to 4095.
    pub const fn id(&self) -> u16 {
        self.control.get() & Self::ID_MASK
    }

    /// What follows.
    pub const fn ethertype(&self) -> u16 {
        self.ethertype.get()
    }
}

impl fmt::Display for EthernetHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_address(f, &self.source)?;
        write!(f, " > ")?;
        write_address(f, &self.destination)?;
        write!(f, ", ethertype {:#06x}", self.ethertype())
    }
}

fn write_address(f: &mut fmt::Formatter<'_>, address: &[u8; 6]) -> fmt::Result {
    let [a, b, c, d, e, g] = address;
    write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
}

impl fmt::Display for VlanTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vlan {} p {}", self.id(), self.priority())
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn ethernet_is_fourteen_known_bytes() {
        let header =
            EthernetHeader::new([2, 0x77, 0, 0, 0, 3], [2, 0x77, 0, 0, 0, 2], EthernetHeader::ROCEV1);
        assert_header(header, &[2, 0x77, 0, 0, 0, 3, 2, 0x77, 0, 0, 0, 2, 0x89, 0x15]);
        assert_eq!(header.to_string(), "02:77:00:00:00:02 > 02:77:00:00:00:03, ethertype 0x8915");
    }

    #[test]
    fn a_tag_is_four_known_bytes() {
        assert_header(VlanTag::new(5, 0x123, EthernetHeader::IPV6), &[0xa1, 0x23, 0x86, 0xdd]);
        assert_eq!(VlanTag::new(5, 0x123, 0).to_string(), "vlan 291 p 5");
    }

    #[test]
    fn both_round_trip_all_but_the_drop_eligible_bit() {
        assert_round_trip::<EthernetHeader>(&[0xff; 14], |header| {
            EthernetHeader::new(header.destination(), header.source(), header.ethertype())
        });
        assert_round_trip::<VlanTag>(&[0xef, 0xff, 0xff, 0xff], |tag| {
            VlanTag::new(tag.priority(), tag.id(), tag.ethertype())
        });
    }
}

//! Where outgoing packets are written.

use crate::Path;

/// A batch of outgoing packets.
///
/// The transport reserves room, writes header, payload and pad, and commits. The sink owns the ICRC (the last
/// four bytes), because only it knows the IPv4 identification that the packet will carry.
pub trait TransmitSink {
    /// Room for one UDP payload of `len` bytes, the ICRC's four included, on `path`; its content is arbitrary.
    /// `None` when the batch is full or the path is held back for now: the transport tries again later.
    fn reserve(&mut self, path: &Path, len: usize) -> Option<&mut [u8]>;
    /// Whether the packet in the room last reserved goes to the system in one piece with the one before it
    /// (segmentation offload), so that the two share a buffer.
    fn continues(&self) -> bool {
        false
    }
    /// The packet in the room last reserved is complete but for its ICRC.
    fn commit(&mut self);
}

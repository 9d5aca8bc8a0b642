//! Limits of a connection manager, in one place.

/// Connections at once, those in timewait included.
pub const MAX_CONNECTIONS: usize = 65_536;
/// Datagram services being looked up, and lookups being answered, at once.
pub const MAX_RESOLUTIONS: usize = 16_384;
/// Listeners at once.
pub const MAX_LISTENERS: usize = 65_536;
/// Requests that a listener lets wait when its application names no number, and at most; the kernel's is 1024.
pub const MAX_BACKLOG: u32 = 1_024;

//! What two ends of a stream say to each other.

/// A buffer that the peer may write to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sge {
    pub(super) addr: u64,
    pub(super) key: u32,
    pub(super) length: u32,
}

impl Sge {
    pub(super) const LEN: usize = 16;

    /// As it lies in memory that the peer reads: in the peer's byte order.
    pub(super) fn to_bytes(self, swaps: bool) -> [u8; Self::LEN] {
        let Sge { addr, key, length } = if swaps { self.swapped() } else { self };
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&addr.to_ne_bytes());
        bytes[8..12].copy_from_slice(&key.to_ne_bytes());
        bytes[12..].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    /// From memory that the peer has written: in our byte order.
    pub(super) fn from_bytes(bytes: [u8; Self::LEN]) -> Sge {
        Sge {
            addr: u64::from_ne_bytes(part(&bytes, 0)),
            key: u32::from_ne_bytes(part(&bytes, 8)),
            length: u32::from_ne_bytes(part(&bytes, 12)),
        }
    }

    fn swapped(self) -> Sge {
        Sge { addr: self.addr.swap_bytes(), key: self.key.swap_bytes(), length: self.length.swap_bytes() }
    }

    fn to_be_bytes(self) -> [u8; Self::LEN] {
        self.to_bytes(cfg!(target_endian = "little"))
    }

    fn from_be_bytes(bytes: [u8; Self::LEN]) -> Sge {
        let sge = Sge::from_bytes(bytes);
        if cfg!(target_endian = "little") { sge.swapped() } else { sge }
    }
}

/// The private data of a request and of its acceptance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ConnData {
    pub(super) is_big_endian: bool,
    /// Messages that the sender of this takes before it gives more credits.
    pub(super) credits: u16,
    /// Entries of the list of mapped buffers behind the list of receive buffers.
    pub(super) iomap_size: u32,
    /// Where to write the addresses of buffers to; its length is the number of entries.
    pub(super) target_sgl: Sge,
    /// The first receive buffer.
    pub(super) data_buf: Sge,
}

impl ConnData {
    pub(super) const LEN: usize = 40;

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = VERSION;
        bytes[1] = FLAG_IOMAP | if self.is_big_endian { FLAG_BIG_ENDIAN } else { 0 };
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        bytes[7] = scale_of(self.iomap_size);
        bytes[8..24].copy_from_slice(&self.target_sgl.to_be_bytes());
        bytes[24..].copy_from_slice(&self.data_buf.to_be_bytes());
        bytes
    }

    /// `None` for private data that are none of an rsocket's.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<ConnData> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        let target_sgl = Sge::from_be_bytes(part(bytes, 8));
        if bytes[0] != VERSION || target_sgl.length == 0 {
            return None;
        }
        Some(ConnData {
            is_big_endian: bytes[1] & FLAG_BIG_ENDIAN != 0,
            credits: u16::from_be_bytes(part(bytes, 2)),
            iomap_size: if bytes[1] & FLAG_IOMAP != 0 { value_of(bytes[7]) } else { 0 },
            target_sgl,
            data_buf: Sge::from_be_bytes(part(bytes, 24)),
        })
    }
}

/// `N` bytes from `at` on.
pub(super) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the places are constants within the bytes")
}

/// A number in eight bits: up to 128 itself, beyond that a multiple of 256.
fn scale_of(value: u32) -> u8 {
    if value <= SCALE_SPLIT { value as u8 } else { (SCALE_SPLIT | (value >> 8).min(SCALE_SPLIT - 1)) as u8 }
}

fn value_of(scale: u8) -> u32 {
    let scale = u32::from(scale);
    if scale <= SCALE_SPLIT { scale } else { (scale & !SCALE_SPLIT) << 8 }
}

const SCALE_SPLIT: u32 = 1 << 7;

/// What immediate data say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// So many bytes were written to the receive buffer.
    Data(u32),
    /// The sender takes messages up to this number; a buffer may have been added to the list.
    Credits(u16),
    /// An entry of the list of mapped buffers was written.
    Mapped(u32),
    /// The sender has closed.
    Disconnect,
    /// The sender sends no more data.
    Shutdown,
    /// Nothing that is known.
    Other,
}

impl Message {
    /// The immediate data.
    pub(super) fn to_imm(self) -> [u8; 4] {
        let (op, value) = match self {
            Message::Data(length) => (OP_DATA, length),
            Message::Credits(number) => (OP_SGL, u32::from(number)),
            Message::Mapped(index) => (OP_IOMAP_SGL, index),
            Message::Disconnect => (OP_CTRL, CTRL_DISCONNECT),
            Message::Shutdown => (OP_CTRL, CTRL_SHUTDOWN),
            Message::Other => (OP_CTRL, CTRL_KEEPALIVE),
        };
        (op << OP_SHIFT | value & VALUE_MASK).to_be_bytes()
    }

    pub(super) fn from_imm(imm: [u8; 4]) -> Message {
        let imm = u32::from_be_bytes(imm);
        let value = imm & VALUE_MASK;
        match (imm >> OP_SHIFT, value) {
            (OP_DATA, length) => Message::Data(length),
            (OP_SGL, number) => Message::Credits(number as u16),
            (OP_IOMAP_SGL, index) => Message::Mapped(index),
            (OP_CTRL, CTRL_DISCONNECT) => Message::Disconnect,
            (OP_CTRL, CTRL_SHUTDOWN) => Message::Shutdown,
            _ => Message::Other,
        }
    }
}

const VERSION: u8 = 1;
const FLAG_BIG_ENDIAN: u8 = 1;
const FLAG_IOMAP: u8 = 1 << 1;
const OP_SHIFT: u32 = 29;
const VALUE_MASK: u32 = (1 << OP_SHIFT) - 1;
const OP_DATA: u32 = 0;
const OP_SGL: u32 = 4;
const OP_IOMAP_SGL: u32 = 6;
const OP_CTRL: u32 = 7;
const CTRL_DISCONNECT: u32 = 0;
const CTRL_KEEPALIVE: u32 = 1;
const CTRL_SHUTDOWN: u32 = 2;

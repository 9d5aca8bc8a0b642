//! Registered memory, and bytes that can be told from one another.

use super::{Lab, Plan};
use crate::case::{Failure, Outcome, ensure};
use crate::verbs::{Endpoint, Mr, MrSpec, Pd};
use ferroce_core::{AccessFlags, Sge};

/// Memory of an endpoint, registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Where it is.
    pub at: Endpoint,
    /// Its address.
    pub addr: u64,
    /// Bytes.
    pub len: usize,
    /// Its region.
    pub mr: Mr,
}

impl Buffer {
    /// `length` bytes from `offset` on.
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge { addr: self.addr + offset, length, lkey: self.mr.lkey }
    }
}

/// `len` bytes of a sequence that depends on `seed` and on each byte's place.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|place| pattern_byte(seed, place)).collect()
}

/// The byte at `place` of the sequence.
fn pattern_byte(seed: u64, place: u64) -> u8 {
    // The upper bits of a product are good enough to show bytes that are missing, swapped or repeated.
    ((place + seed.wrapping_mul(0x1_0001) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Lab {
    /// Allocates and registers memory.
    ///
    /// # Errors
    /// It cannot be registered.
    pub fn buffer(&mut self, pd: Pd, len: usize, access: AccessFlags) -> Result<Buffer, Failure> {
        let addr = self.fabric.alloc(pd.at, len);
        let mr = self.fabric.reg_mr(pd, &MrSpec { addr, length: len as u64, iova: addr, access })?;
        Ok(Buffer { at: pd.at, addr, len, mr })
    }

    /// The buffer that a plan asks for.
    pub(super) fn planned_buffer(&mut self, pd: Pd, plan: &Plan) -> Result<Buffer, Failure> {
        self.buffer(pd, plan.buffer_len, plan.buffer_access)
    }

    /// Writes bytes to a buffer.
    pub fn write(&mut self, buffer: &Buffer, offset: u64, bytes: &[u8]) {
        self.fabric.write_memory(buffer.at, buffer.addr + offset, bytes);
    }

    /// Reads bytes of a buffer.
    pub fn read(&mut self, buffer: &Buffer, offset: u64, len: usize) -> Vec<u8> {
        self.fabric.read_memory(buffer.at, buffer.addr + offset, len)
    }

    /// # Errors
    /// Other bytes are in the buffer.
    pub fn expect_bytes(&mut self, buffer: &Buffer, offset: u64, expected: &[u8]) -> Outcome {
        let got = self.read(buffer, offset, expected.len());
        let differs = got.iter().zip(expected).position(|(got, expected)| got != expected);
        match differs {
            None => Ok(()),
            Some(at) => ensure(
                false,
                format_args!(
                    "byte {} of the buffer (byte {at} of {}) is {:#04x}, expected {:#04x}",
                    offset + at as u64,
                    expected.len(),
                    got[at],
                    expected[at]
                ),
            ),
        }
    }

    /// A 64-bit word of a buffer, in host order.
    pub fn word(&mut self, buffer: &Buffer, offset: u64) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.read(buffer, offset, 8));
        u64::from_ne_bytes(word)
    }

    /// Writes a 64-bit word in host order.
    pub fn set_word(&mut self, buffer: &Buffer, offset: u64, word: u64) {
        self.write(buffer, offset, &word.to_ne_bytes());
    }
}

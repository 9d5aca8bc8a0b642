//! How messages get their accessors: a line for each field instead of two functions.

use core::fmt;

use zerocopy::network_endian::{U16, U32, U64};

use crate::u24::U24;

/// A field on the wire and the value it holds.
pub(super) trait Field {
    /// What callers see.
    type Value;
    /// The value.
    fn load(&self) -> Self::Value;
    /// The field that holds `value`.
    fn store(value: Self::Value) -> Self;
}

macro_rules! number_fields {
    ($($field:ident: $value:ident),*) => {$(
        impl Field for $field {
            type Value = $value;
            fn load(&self) -> $value {
                self.get()
            }
            fn store(value: $value) -> Self {
                $field::new(value)
            }
        }
    )*};
}

number_fields!(U16: u16, U24: u32, U32: u32, U64: u64);

impl Field for u8 {
    type Value = u8;
    fn load(&self) -> u8 {
        *self
    }
    fn store(value: u8) -> Self {
        value
    }
}

impl<const N: usize> Field for [u8; N] {
    type Value = [u8; N];
    fn load(&self) -> [u8; N] {
        *self
    }
    fn store(value: [u8; N]) -> Self {
        value
    }
}

/// Readers and `with_` setters: `get, with => field: type;` for a whole field, `field[high:low]: u8` for bits of a byte,
/// `field[bit]: bool` for one. A value too large for its bits loses its upper ones.
macro_rules! accessors {
    ($message:ident: $($(#[$doc:meta])* $get:ident, $with:ident => $field:ident $([$($bits:tt)+])?: $type:tt;)*) => {
        impl $message {
            $(accessors!(@one $(#[$doc])* $get, $with, $field, [$($($bits)+)?], $type);)*
        }
    };
    (@one $(#[$doc:meta])* $get:ident, $with:ident, $field:ident, [], $type:ty) => {
        $(#[$doc])*
        pub fn $get(&self) -> $type {
            $crate::cm::fields::Field::load(&self.$field)
        }
        #[doc = concat!("Sets what [`Self::", stringify!($get), "`] reads.")]
        #[must_use]
        pub fn $with(mut self, value: $type) -> Self {
            self.$field = $crate::cm::fields::Field::store(value);
            self
        }
    };
    (@one $(#[$doc:meta])* $get:ident, $with:ident, $field:ident, [$high:literal : $low:literal], u8) => {
        $(#[$doc])*
        pub fn $get(&self) -> u8 {
            (self.$field & ($crate::cm::fields::mask($high, $low))) >> $low
        }
        #[doc = concat!("Sets what [`Self::", stringify!($get), "`] reads.")]
        #[must_use]
        pub fn $with(mut self, value: u8) -> Self {
            let mask = $crate::cm::fields::mask($high, $low);
            self.$field = self.$field & !mask | (value << $low) & mask;
            self
        }
    };
    (@one $(#[$doc:meta])* $get:ident, $with:ident, $field:ident, [$bit:literal], bool) => {
        $(#[$doc])*
        pub fn $get(&self) -> bool {
            self.$field & (1 << $bit) != 0
        }
        #[doc = concat!("Sets what [`Self::", stringify!($get), "`] reads.")]
        #[must_use]
        pub fn $with(mut self, value: bool) -> Self {
            self.$field = self.$field & !(1 << $bit) | u8::from(value) << $bit;
            self
        }
    };
}

/// What all messages have: an attribute, private data at the end, and a value with every bit clear.
macro_rules! message {
    ($message:ident, attribute $attribute:literal, private data $len:literal) => {
        impl $message {
            /// Room for private data in bytes.
            pub const PRIVATE_DATA_LEN: usize = $len;

            /// The private data with all of its room; its length is not sent.
            pub fn private_data(&self) -> &[u8; $len] {
                &self.private_data
            }

            /// Sets the private data and clears what is left of its room.
            ///
            /// # Errors
            /// `data` is longer than [`Self::PRIVATE_DATA_LEN`].
            pub fn with_private_data(
                mut self,
                data: &[u8],
            ) -> Result<Self, $crate::cm::fields::PrivateDataTooLong> {
                $crate::cm::fields::fill(&mut self.private_data, data)?;
                Ok(self)
            }
        }

        impl $crate::cm::Body for $message {
            const ATTRIBUTE: u16 = $attribute;
        }

        impl Default for $message {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        const _: () = assert!(size_of::<$message>() == $crate::mad::Mad::BODY_LEN);
    };
}

/// The bits `high` to `low` of a byte.
pub(super) const fn mask(high: u32, low: u32) -> u8 {
    (0xff >> (7 - high)) & (0xff << low)
}

/// Copies `data` to the start of `room` and clears the rest.
pub(super) fn fill(room: &mut [u8], data: &[u8]) -> Result<(), PrivateDataTooLong> {
    let too_long = PrivateDataTooLong { len: data.len(), room: room.len() };
    let (start, rest) = room.split_at_mut_checked(data.len()).ok_or(too_long)?;
    start.copy_from_slice(data);
    rest.fill(0);
    Ok(())
}

/// More private data (or additional information) than the message has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrivateDataTooLong {
    /// Bytes that were to be sent.
    pub len: usize,
    /// Bytes there are.
    pub room: usize,
}

impl fmt::Display for PrivateDataTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of private data, where the message has room for {}", self.len, self.room)
    }
}

impl core::error::Error for PrivateDataTooLong {}

//! The messages of the InfiniBand connection manager, and what the RDMA CM (librdmacm) puts into them.
//!
//! Each message is the body of a management datagram: 232 bytes, of which the last part is private data. This module
//! knows where everything lies; who sends what when is the connection manager's affair.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::mad::{Mad, MadHeader};

#[macro_use]
mod fields;
mod apr;
mod cma;
mod drep;
mod dreq;
mod lap;
mod mra;
mod rej;
mod rep;
mod req;
mod req_path;
mod rtu;
mod service_id;
mod sidr_rep;
mod sidr_req;
mod subject;

pub use apr::{Apr, AprStatus};
pub use cma::{CmaError, CmaHeader};
pub use drep::Drep;
pub use dreq::Dreq;
pub use fields::PrivateDataTooLong;
pub use lap::Lap;
pub use mra::Mra;
pub use rej::{Rej, RejectReason};
pub use rep::Rep;
pub use req::{Req, Transport};
pub use req_path::ReqPath;
pub use rtu::Rtu;
pub use service_id::{PortSpace, ServiceId};
pub use sidr_rep::{SidrRep, SidrStatus};
pub use sidr_req::SidrReq;
pub use subject::Subject;

/// The class version that all messages here have.
pub const CM_CLASS_VERSION: u8 = 2;

/// The body of a message.
pub trait Body: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    /// The attribute that announces it.
    const ATTRIBUTE: u16;
}

/// Any message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Request for communication.
    Req(&'a Req),
    /// Message receipt acknowledgement: please wait longer.
    Mra(&'a Mra),
    /// Reject.
    Rej(&'a Rej),
    /// Reply to a request.
    Rep(&'a Rep),
    /// Ready to use.
    Rtu(&'a Rtu),
    /// Request for disconnection.
    Dreq(&'a Dreq),
    /// Reply to that.
    Drep(&'a Drep),
    /// Service ID resolution request.
    SidrReq(&'a SidrReq),
    /// Reply to that.
    SidrRep(&'a SidrRep),
    /// Load alternate path.
    Lap(&'a Lap),
    /// Response to that.
    Apr(&'a Apr),
}

/// The datagram that sends `body`.
pub fn encode<T: Body>(transaction_id: u64, body: &T) -> Mad {
    let header = MadHeader::new(
        MadHeader::CLASS_CM,
        CM_CLASS_VERSION,
        MadHeader::METHOD_SEND,
        transaction_id,
        T::ATTRIBUTE,
    );
    let mut bytes = [0; Mad::BODY_LEN];
    bytes.copy_from_slice(body.as_bytes());
    Mad::new(header, bytes)
}

impl<'a> Message<'a> {
    /// The message that `mad` sends.
    ///
    /// # Errors
    /// It is of another class, version or method, or the attribute is no message.
    pub fn parse(mad: &'a Mad) -> Result<Message<'a>, CmError> {
        let header = mad.header();
        if header.class() != MadHeader::CLASS_CM {
            return Err(CmError::Class(header.class()));
        }
        if header.class_version() != CM_CLASS_VERSION {
            return Err(CmError::ClassVersion(header.class_version()));
        }
        if header.method() != MadHeader::METHOD_SEND {
            return Err(CmError::Method(header.method()));
        }
        Ok(match header.attribute_id() {
            Req::ATTRIBUTE => Message::Req(body(mad)),
            Mra::ATTRIBUTE => Message::Mra(body(mad)),
            Rej::ATTRIBUTE => Message::Rej(body(mad)),
            Rep::ATTRIBUTE => Message::Rep(body(mad)),
            Rtu::ATTRIBUTE => Message::Rtu(body(mad)),
            Dreq::ATTRIBUTE => Message::Dreq(body(mad)),
            Drep::ATTRIBUTE => Message::Drep(body(mad)),
            SidrReq::ATTRIBUTE => Message::SidrReq(body(mad)),
            SidrRep::ATTRIBUTE => Message::SidrRep(body(mad)),
            Lap::ATTRIBUTE => Message::Lap(body(mad)),
            Apr::ATTRIBUTE => Message::Apr(body(mad)),
            other => return Err(CmError::Attribute(other)),
        })
    }
}

fn body<T: Body>(mad: &Mad) -> &T {
    T::ref_from_bytes(mad.body())
        .expect("each message is as long as the body, which is asserted where it is defined")
}

/// Why a management datagram is no message of the connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CmError {
    /// Another management class.
    Class(u8),
    /// Another version of the class; answered with the reject reason for it.
    ClassVersion(u8),
    /// Another method than Send.
    Method(u8),
    /// An attribute that is no message.
    Attribute(u16),
}

impl fmt::Display for CmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CmError::Class(class) => write!(f, "management class {class:#x} is not communication management"),
            CmError::ClassVersion(version) => {
                write!(f, "communication management version {version}, where only {CM_CLASS_VERSION} exists")
            }
            CmError::Method(method) => write!(f, "method {method:#x}, where messages are sent with Send"),
            CmError::Attribute(attribute) => write!(f, "attribute {attribute:#06x} is no message"),
        }
    }
}

impl core::error::Error for CmError {}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Req(body) => body.fmt(f),
            Message::Mra(body) => body.fmt(f),
            Message::Rej(body) => body.fmt(f),
            Message::Rep(body) => body.fmt(f),
            Message::Rtu(body) => body.fmt(f),
            Message::Dreq(body) => body.fmt(f),
            Message::Drep(body) => body.fmt(f),
            Message::SidrReq(body) => body.fmt(f),
            Message::SidrRep(body) => body.fmt(f),
            Message::Lap(body) => body.fmt(f),
            Message::Apr(body) => body.fmt(f),
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

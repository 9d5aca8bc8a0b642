//! rsockets (`rsocket(7)`): streams over RDMA behind the calls of sockets.
//!
//! A stream is an RC connection of the RDMA CM. What is sent is written into the peer's receive buffer by RDMA WRITE with
//! immediate data, which says how much; the peer hands the halves of its buffer out anew by writing their address into a
//! list of the sender's. The protocol is that of rdma-core's librdmacm, so that the peer may be one of its.
//!
//! A socket's number is the descriptor of its ID's event channel. Datagram sockets are not provided (EPROTONOSUPPORT), nor
//! the `repoll` calls.

mod abi;
mod descriptors;
mod inner;
mod iomap;
mod memory;
mod options;
mod poll;
mod queue;
mod socket;
mod stream;
mod table;
mod wire;

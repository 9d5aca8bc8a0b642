//! A server that accepts connections and a client that says hello, over the RDMA CM.
//!
//! ```text
//! cargo run --example hello -- 127.0.0.1:7471            # the server
//! cargo run --example hello -- 127.0.0.1:7471 hello      # and in another terminal the client
//! ```
//! `FERROCE_KEEPER_BIN` names the keeper's program, unless it lies beside this one.

use ferroce::cm::{CmEvent, CmEventChannel, CmEventKind, CmId, ConnParam, PortSpace};
use ferroce::core::{
    AccessFlags, Payload, QpCaps, QpType, RecvWr, Remote, SendFlags, SendOp, SendWr, Sge, Wc, WcStatus,
};
use ferroce::{Cq, CqSpec, Mr, Qp, QpSpec};
use std::io::Write;
use std::net::SocketAddr;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().ok_or("usage: hello ADDRESS:PORT [WORDS]")?.parse()?;
    match arguments.next() {
        None => serve(address),
        Some(words) => say(address, words.as_bytes()),
    }
}

/// Listens, and takes one message of each client.
fn serve(address: SocketAddr) -> Outcome<()> {
    let channel = CmEventChannel::new()?;
    let listener = CmId::new(&channel, PortSpace::Tcp, QpType::Rc, 0)?;
    listener.bind(address)?;
    listener.listen(0)?;
    loop {
        let event = expect(&channel, CmEventKind::ConnectRequest)?;
        let id = event.request.ok_or("a request comes with an ID")?;
        let end = End::new(&id)?;
        end.post_receive()?;
        id.set_up_qp(&end.qp)?;
        id.accept(&end.param(), None)?;
        expect(&channel, CmEventKind::Established)?;
        let length = end.wait()?.byte_len as usize;
        writeln!(std::io::stdout(), "{}", String::from_utf8_lossy(&end.buffer[..length]))?;
        expect(&channel, CmEventKind::Disconnected)?;
        id.disconnect()?;
    }
}

/// Connects, and sends one message.
fn say(address: SocketAddr, words: &[u8]) -> Outcome<()> {
    let channel = CmEventChannel::new()?;
    let id = CmId::new(&channel, PortSpace::Tcp, QpType::Rc, 0)?;
    id.resolve_addr(None, address)?;
    expect(&channel, CmEventKind::AddrResolved)?;
    id.resolve_route()?;
    expect(&channel, CmEventKind::RouteResolved)?;
    let mut end = End::new(&id)?;
    id.connect(&end.param())?;
    expect(&channel, CmEventKind::ConnectResponse)?;
    id.set_up_qp(&end.qp)?;
    id.establish()?;
    let length = words.len().min(end.buffer.len());
    end.buffer[..length].copy_from_slice(&words[..length]);
    end.post_send(length as u32)?;
    end.wait()?;
    id.disconnect()?;
    expect(&channel, CmEventKind::Disconnected)?;
    Ok(())
}

fn expect(channel: &CmEventChannel, kind: CmEventKind) -> Outcome<CmEvent> {
    loop {
        let event = channel.next_event()?;
        match event.kind {
            // Of a connection before.
            CmEventKind::TimewaitExit => {}
            found if found == kind => return Ok(event),
            found => return Err(format!("{found:?} (status {}) instead of {kind:?}", event.status).into()),
        }
    }
}

/// A queue pair with room for one message.
struct End {
    qp: Qp,
    cq: Cq,
    mr: Mr,
    /// Registered with `mr`, and so dropped after it.
    buffer: Box<[u8]>,
}

impl End {
    /// On the device that the ID was resolved to.
    fn new(id: &CmId) -> Outcome<End> {
        let (device, _) = id.device().ok_or("the ID has no device")?;
        let context = device.open()?;
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(&CqSpec { cqe: 4, ..CqSpec::default() })?;
        let buffer = vec![0; 4096].into_boxed_slice();
        let addr = buffer.as_ptr() as u64;
        // SAFETY: the buffer lives in the same struct as the region, declared after it, and so outlives it.
        let mr = unsafe { pd.reg_mr(addr, buffer.len() as u64, addr, AccessFlags::LOCAL_WRITE) }?;
        let caps =
            QpCaps { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
        let spec = QpSpec {
            qp_type: QpType::Rc,
            send_cq: &cq,
            recv_cq: &cq,
            srq: None,
            caps,
            sq_sig_all: true,
            block_self_mcast: false,
            cookie: 0,
        };
        let qp = pd.create_qp(&spec)?;
        // Receives may be posted from INIT on.
        let setup = id.qp_setup(ferroce::core::QpState::Init)?;
        qp.modify(&setup.attr, None, setup.mask)?;
        Ok(End { qp, cq, mr, buffer })
    }

    fn param(&self) -> ConnParam {
        ConnParam {
            retry_count: 7,
            rnr_retry_count: 7,
            qp_num: self.qp.qpn().value(),
            ..ConnParam::default()
        }
    }

    fn sge(&self, length: u32) -> Sge {
        Sge { addr: self.buffer.as_ptr() as u64, length, lkey: self.mr.lkey() }
    }

    fn post_receive(&self) -> Outcome<()> {
        let sges = [self.sge(self.buffer.len() as u32)].into_iter().collect();
        Ok(self.qp.post_recv([RecvWr { wr_id: 0, sges }])?)
    }

    fn post_send(&self, length: u32) -> Outcome<()> {
        let payload = Payload::Sges([self.sge(length)].into_iter().collect());
        let flags = SendFlags::SIGNALED;
        Ok(self.qp.post_send([SendWr {
            wr_id: 0,
            op: SendOp::Send,
            flags,
            payload,
            remote: Remote::Peer,
        }])?)
    }

    fn wait(&self) -> Outcome<Wc> {
        loop {
            match self.cq.poll(1)?.pop() {
                Some(wc) if wc.status == WcStatus::Success => return Ok(wc),
                Some(wc) => return Err(format!("completed with {:?}", wc.status).into()),
                None => {}
            }
        }
    }
}

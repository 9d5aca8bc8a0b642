//! Completions: each work request once, in order, with a status that has its cause, and the bytes where they belong.

use super::Fault;
use super::ends::{End, Message, Pool, PoolKind, Posted};
use super::ledger::{difference, pattern};
use super::plan::{Flaw, Op, Service};
use super::pools::GRH_LEN;
use super::world::World;
use ferroce_core::{Completion, QpState, Queue, Wc, WcFlags, WcOpcode, WcStatus};
use ferroce_wire::Qpn;

impl World {
    /// A completion was polled.
    pub(super) fn completed(&mut self, host: usize, completion: &Completion) -> Result<(), Fault> {
        self.tally.count(completion.wc.status);
        if let Some(prey) = self.prey_at(host, completion.wc.qpn) {
            return self.prey_completed(prey, completion);
        }
        let Some(index) = self.by_qpn.get(&(host, completion.wc.qpn)).copied() else {
            return Err(Fault::new("completion", format!("of a QP that is not there: {:?}", completion.wc)));
        };
        let end = &self.ends[index];
        let pool = end.pool.map(|pool| &self.pools[pool]);
        let (cq, queue) = match (completion.queue, pool.map(|pool| pool.kind)) {
            (Queue::Send, _) => (end.send_cq, Queue::Send),
            (_, Some(PoolKind::Xrc(_, _, cq))) => (cq, pool.map_or(Queue::Recv, Pool::queue)),
            _ => (end.recv_cq, pool.map_or(Queue::Recv, Pool::queue)),
        };
        if (completion.cq, completion.queue) != (cq, queue) {
            let text = format!("{:?} of {:?}, not {cq:?} of {queue:?}", completion.cq, completion.queue);
            return Err(end.fault("completion", text));
        }
        match completion.queue {
            Queue::Send => self.sent(index, completion),
            _ => self.received(index, completion),
        }
    }

    /// A send completion: of one work request, and of the silent ones before it.
    fn sent(&mut self, index: usize, completion: &Completion) -> Result<(), Fault> {
        let Completion { retires, wc, .. } = completion;
        let end = &self.ends[index];
        let first = end.completed;
        let last = (first + *retires as usize).checked_sub(1).filter(|last| *last < end.messages.len());
        let Some(last) = last.filter(|last| *last >= first) else {
            let text = format!("retires {retires} of {} outstanding: {wc:?}", end.outstanding());
            return Err(end.fault("completion", text));
        };
        for silent in first..last {
            let message = &self.ends[index].messages[silent];
            if message.signaled || self.ends[index].sig_all {
                let text =
                    format!("wr {} asked for a completion, and wr {} had one first", message.wr_id, wc.wr_id);
                return Err(self.ends[index].fault("completion", text));
            }
            self.succeeded(index, silent)?;
        }
        let end = &self.ends[index];
        let message = &end.messages[last];
        if message.wr_id != wc.wr_id {
            let text = format!("wr {} completed, and wr {} was next", wc.wr_id, message.wr_id);
            return Err(end.fault("completion", text));
        }
        match wc.status {
            WcStatus::Success => {
                if !message.signaled && !end.sig_all {
                    return Err(end.fault("completion", format!("wr {} asked for none", wc.wr_id)));
                }
                check_send_wc(end, message, wc)?;
                self.succeeded(index, last)?;
            }
            status => self.failed(index, last, status)?,
        }
        let local = self.ends[index].messages[first..=last].iter().filter(|message| message.op.is_local());
        self.ends[index].local[1] += local.count();
        self.ends[index].completed = last + 1;
        Ok(())
    }

    /// A send work request was done.
    fn succeeded(&mut self, index: usize, number: usize) -> Result<(), Fault> {
        let peer = self.ends[self.peer(index)].host;
        let end = &self.ends[index];
        let message = end.messages[number].clone();
        let fault = |rule, text: String| {
            Err(end.fault(rule, format!("wr {} ({:?}): {text}", message.wr_id, message.op)))
        };
        let is_reliable = end.service.is_reliable();
        if !message.flaw.is_none() && (is_reliable || message.flaw == Flaw::BadLkey) {
            return fault("status", format!("succeeded in spite of {:?}", message.flaw));
        }
        if is_reliable && message.op.consumes_receive() && !message.is_received {
            return fault("data", "succeeded, and the peer did not receive it".into());
        }
        let is_same_process = self.hosts[peer].epoch == message.epoch;
        if let (Some(place), true, true) =
            (message.remote, message.op.is_write(), is_reliable && is_same_process)
        {
            if message.len > 0 && self.hosts[peer].ledger.written(place.addr) != message.len {
                return fault("data", "succeeded, and not all of it was written".into());
            }
            let memory = self.fabric.network.memory(self.hosts[peer].id);
            if let Some(text) = difference(memory, place.addr, &pattern(message.content, message.len)) {
                return fault("data", text);
            }
            self.hosts[peer].ledger.close(place.addr);
        }
        if message.op.is_local() {
            self.window_changed(index, &message);
            return Ok(());
        }
        let Some(place) = message.local else { return Ok(()) };
        let model = &mut self.hosts[end.host];
        let memory = self.fabric.network.memory(model.id);
        if !message.op.is_answered() {
            // The buffer is the application's again, which uses it for something else.
            memory.put(place.addr, &vec![SCRIBBLE; place.len as usize]).expect("the place exists");
            return Ok(());
        }
        let expected = match message.op {
            Op::Read => pattern(message.content, message.len),
            _ => message.original.to_ne_bytes().to_vec(),
        };
        if message.len > 0 && model.ledger.written(place.addr) != message.len {
            return fault("data", "succeeded, and not all of its answer was written".into());
        }
        if let Some(text) = difference(memory, place.addr, &expected) {
            return fault("data", text);
        }
        model.ledger.close(place.addr);
        Ok(())
    }

    /// A send work request ended in an error.
    fn failed(&mut self, index: usize, number: usize, status: WcStatus) -> Result<(), Fault> {
        let end = &self.ends[index];
        let message = &end.messages[number];
        let device_state = self.device_state(index);
        let (wr_id, host, local, is_answered) =
            (message.wr_id, end.host, message.local, message.op.is_answered());
        if status == WcStatus::WrFlushErr {
            if !matches!(device_state, Some(QpState::Err | QpState::Sqe)) {
                return Err(end.fault("status", format!("wr {wr_id} flushed in {device_state:?}")));
            }
        } else {
            self.check_cause(index, number, status)?;
            let cause = format!("wr {wr_id} ended with {status:?}");
            let end = &mut self.ends[index];
            end.cause.get_or_insert(cause);
            self.connection_mut(index).is_gone = true;
            self.is_calm = false;
        }
        if let (Some(place), true) = (local, is_answered) {
            self.hosts[host].ledger.close(place.addr);
        }
        // On UC a request is done when its last packet leaves.
        let end = &mut self.ends[index];
        end.messages[number].is_void |= !end.service.is_reliable();
        Ok(())
    }

    /// Whether an error has a cause.
    fn check_cause(&self, index: usize, number: usize, status: WcStatus) -> Result<(), Fault> {
        let end = &self.ends[index];
        let message = &end.messages[number];
        let connection = self.connection(index);
        let has_cause = match status {
            WcStatus::LocProtErr => message.flaw == Flaw::BadLkey || connection.lost_memory,
            WcStatus::RemAccessErr => {
                let by_key = [Flaw::BadRkey, Flaw::OutOfRange, Flaw::NoRight, Flaw::OtherPd, Flaw::Unbound];
                by_key.contains(&message.flaw) || connection.lost_memory
            }
            // A receive WQE that is too short, too.
            WcStatus::RemInvReqErr => message.flaw == Flaw::Misaligned || connection.is_tainted,
            WcStatus::RemOpErr => connection.is_tainted || connection.lost_memory,
            WcStatus::RnrRetryExcErr => connection.plan.rnr_retry < 7 && connection.was_starved,
            WcStatus::RetryExcErr => self.may_run_out(index),
            _ => false,
        };
        if has_cause {
            return Ok(());
        }
        let hit = self.wire.borrow().hit(connection.plan.number);
        let text =
            format!("wr {} ({:?}, {:?}) ended with {status:?}", message.wr_id, message.op, message.flaw);
        Err(end.fault("status", format!("{text}, and {hit} packets of the connection met a fault")))
    }

    /// Whether the retries of an end may have been used up: each of them needs a packet that met a fault.
    fn may_run_out(&self, index: usize) -> bool {
        let connection = self.connection(index);
        let hit = self.wire.borrow().hit(connection.plan.number);
        // A short timeout may run out while others' packets are in the way.
        connection.is_gone
            || connection.is_troubled
            || connection.plan.timeout < PATIENT_TIMEOUT
            || self.switch_drops() > 0
            || hit > u64::from(connection.plan.retry_cnt)
    }

    /// Frames that the switch had no room for.
    pub(super) fn switch_drops(&self) -> u64 {
        let Some(switch) = self.fabric.switch() else { return 0 };
        (0..=self.hosts.len()).map(|port| self.fabric.network.egress_stats(switch, port).dropped).sum()
    }

    /// A receive completion.
    fn received(&mut self, index: usize, completion: &Completion) -> Result<(), Fault> {
        let wc = &completion.wc;
        let posted = self.take_posted(index, wc.wr_id)?;
        let end = &self.ends[index];
        if completion.retires != 1 {
            return Err(
                end.fault("completion", format!("receive wr {} retires {}", wc.wr_id, completion.retires))
            );
        }
        match wc.status {
            WcStatus::Success => self.arrived(index, &posted, completion)?,
            WcStatus::WrFlushErr => {
                if self.device_state(index) != Some(QpState::Err) {
                    return Err(end.fault("status", format!("receive wr {} flushed", wc.wr_id)));
                }
            }
            status => self.refused(index, &posted, status)?,
        }
        let host = self.ends[index].host;
        self.hosts[host].ledger.close(posted.place.addr);
        Ok(())
    }

    /// A receive work request ended in an error.
    fn refused(&mut self, index: usize, posted: &Posted, status: WcStatus) -> Result<(), Fault> {
        let peer = self.peer(index);
        let next = self.next_delivery(peer).map(|number| self.ends[peer].messages[number].len);
        let is_too_short = next.is_some_and(|len| len > posted.place.len);
        let connection = self.connection(index);
        let is_shared = self.pool_of(index).is_some_and(|pool| pool.kind != PoolKind::Own);
        // A message that was lost on UC takes an SRQ's WQE along (class E), and the QP stays.
        if self.ends[index].service == Service::Uc && is_shared && status == WcStatus::RemInvReqErr {
            if !is_too_short && !self.may_lose(index) {
                let text = format!("receive wr {} ended with {status:?}", posted.wr_id);
                return Err(self.ends[index].fault("status", text));
            }
            self.connection_mut(index).is_troubled = true;
            return Ok(());
        }
        let has_cause = match status {
            WcStatus::LocLenErr => is_too_short,
            WcStatus::LocProtErr => posted.bad_lkey || connection.lost_memory,
            _ => connection.is_tainted || connection.lost_memory,
        };
        if !has_cause {
            let text =
                format!("receive wr {} of {} bytes ended with {status:?}", posted.wr_id, posted.place.len);
            return Err(self.ends[index].fault("status", text));
        }
        self.ends[index].cause.get_or_insert(format!("receive wr {} ended with {status:?}", posted.wr_id));
        self.is_calm = false;
        let connection = self.connection_mut(index);
        connection.is_tainted = true;
        connection.is_gone = true;
        Ok(())
    }

    /// The next message of an end that takes a receive WQE from its peer.
    fn next_delivery(&self, from: usize) -> Option<usize> {
        let end = &self.ends[from];
        let number =
            end.messages[end.delivered..].iter().position(|message| message.op.consumes_receive())?;
        Some(end.delivered + number)
    }

    /// A message arrived.
    fn arrived(&mut self, index: usize, posted: &Posted, completion: &Completion) -> Result<(), Fault> {
        let from = self.peer(index);
        let is_reliable = self.ends[index].service.is_reliable();
        let number = match is_reliable {
            true => self.next_delivery(from),
            false => self.find_delivery(index, from, posted, completion)?,
        };
        let Some(number) = number else {
            let text = format!("receive wr {} has a message that nobody sent", posted.wr_id);
            return Err(self.ends[index].fault("data", text));
        };
        if let Some(text) = self.mismatch(index, &self.ends[from].messages[number], posted, completion) {
            let text = format!("receive wr {}: {text}", posted.wr_id);
            return Err(self.ends[index].fault("data", text));
        }
        if is_reliable {
            self.check_writes_before(index, from, number)?;
        }
        let sender = &mut self.ends[from];
        sender.delivered = sender.delivered.max(number + 1);
        sender.messages[number].is_received = true;
        if sender.messages[number].op == Op::SendInvalidate {
            let key = sender.messages[number].key;
            self.window_taken(index, key);
            // A READ request that came twice, and late, finds the window gone.
            let hit = self.wire.borrow().hit(self.ends[index].name.connection);
            self.connection_mut(index).lost_memory |= hit > 0;
        }
        Ok(())
    }

    /// On UC a message may be lost, and one that came twice or late is new again. It is the next one that fits; or,
    /// where packets met a fault, any that fits.
    fn find_delivery(
        &self,
        index: usize,
        from: usize,
        posted: &Posted,
        completion: &Completion,
    ) -> Result<Option<usize>, Fault> {
        let sender = &self.ends[from];
        let fits = |number: &usize| {
            let message = &sender.messages[*number];
            message.needs_receive() && self.mismatch(index, message, posted, completion).is_none()
        };
        let next = self.next_delivery(from);
        let found =
            (sender.delivered..sender.messages.len()).find(fits).or_else(|| (0..sender.delivered).find(fits));
        let header = if self.ends[index].service == Service::Ud { GRH_LEN } else { 0 };
        // P-29, W-24: too long for its receive WQE, which then serves the next; of an SRQ, that of whoever comes first.
        let pool = self.pool_of(index).filter(|pool| pool.kind != PoolKind::Own);
        let room = pool.map_or(posted.place.len, |pool| pool.shortest);
        let was_too_long = found.is_some_and(|found| {
            let skipped =
                sender.messages[sender.delivered..].iter().take(found.saturating_sub(sender.delivered));
            skipped.filter(|message| message.needs_receive()).all(|message| message.len + header > room)
        });
        if found != next && !self.may_lose(index) && !was_too_long {
            let text = format!("receive wr {} has message {found:?}, and {next:?} was next", posted.wr_id);
            return Err(self.ends[index].fault("data", text));
        }
        Ok(found)
    }

    /// Whether messages to an end of an unreliable service may be lost, doubled, or out of order. A fault on the way to
    /// one end costs another the receive WQE, if they share an SRQ.
    fn may_lose(&self, index: usize) -> bool {
        let shared = self.pool_of(index).filter(|pool| pool.kind != PoolKind::Own);
        let is_lossy = |end: &usize| {
            let connection = self.connection(*end);
            self.wire.borrow().hit(connection.plan.number) > 0
                || connection.is_troubled
                || connection.was_starved
                || connection.is_tainted
                || connection.lost_memory
        };
        self.switch_drops() > 0
            || is_lossy(&index)
            || shared.is_some_and(|pool| pool.users.iter().any(is_lossy))
    }

    /// What of a receive completion does not belong to a message.
    fn mismatch(
        &self,
        index: usize,
        message: &Message,
        posted: &Posted,
        completion: &Completion,
    ) -> Option<String> {
        let wc = &completion.wc;
        let end = &self.ends[index];
        let header = if end.service == Service::Ud { GRH_LEN } else { 0 };
        let (opcode, written) = match message.op {
            Op::WriteImm => (WcOpcode::RecvRdmaWithImm, 0),
            _ => (WcOpcode::Recv, message.len + header),
        };
        let imm = matches!(message.op, Op::SendImm | Op::WriteImm).then_some(message.imm);
        let invalidated = (message.op == Op::SendInvalidate).then_some(message.key);
        let got_key = wc.flags.contains(WcFlags::WITH_INV).then_some(wc.invalidated_rkey);
        if got_key != invalidated {
            return Some(format!("it took the window {got_key:x?} back, not {invalidated:x?}"));
        }
        let got_imm = wc.flags.contains(WcFlags::WITH_IMM).then_some(wc.imm);
        if (wc.opcode, wc.byte_len, got_imm) != (opcode, message.len + header, imm) {
            let text = format!("{:?} of {} bytes with {got_imm:?}", wc.opcode, wc.byte_len);
            return Some(format!("{text}, not {opcode:?} of {} with {imm:?}", message.len));
        }
        if completion.solicited != message.solicited {
            return Some(format!("solicited is {}", completion.solicited));
        }
        let is_datagram = end.service == Service::Ud;
        let source = if is_datagram { self.ends[self.peer(index)].qpn } else { Qpn::default() };
        if (wc.flags.contains(WcFlags::GRH), wc.src_qp) != (is_datagram, source) {
            return Some(format!("it is from {} with {:?}", wc.src_qp, wc.flags));
        }
        let model = &self.hosts[end.host];
        let place = if message.op == Op::WriteImm { message.remote? } else { posted.place };
        // A message that was given up may have left its beginning in the buffer.
        let is_shared = self.pool_of(index).is_some_and(|pool| pool.kind != PoolKind::Own);
        let is_left_over = written == 0 && (end.service == Service::Uc || is_shared);
        if model.ledger.written(posted.place.addr) != written && !is_left_over {
            return Some("the receive buffer has not the bytes of this message alone".into());
        }
        let memory = self.fabric.network.memory(model.id);
        difference(memory, place.addr + u64::from(header), &pattern(message.content, message.len))
    }

    /// What was written before this message is there when it arrives.
    fn check_writes_before(&self, index: usize, from: usize, number: usize) -> Result<(), Fault> {
        let (sender, model) = (&self.ends[from], &self.hosts[self.ends[index].host]);
        for message in &sender.messages[sender.delivered..number] {
            let Some(place) = message.remote.filter(|_| message.op == Op::Write && message.len > 0) else {
                continue;
            };
            if model.epoch == message.epoch && model.ledger.written(place.addr) != message.len {
                let text = format!("wr {} is overtaken by a later message", message.wr_id);
                return Err(self.ends[index].fault("data", text));
            }
        }
        Ok(())
    }

    /// The state of an end as the device has it.
    pub(super) fn device_state(&self, index: usize) -> Option<QpState> {
        let End { host, qpn, .. } = self.ends[index];
        self.fabric.network.nic(self.hosts[host].id)?.device().qp_state(qpn)
    }
}

/// A success says what it was.
fn check_send_wc(end: &End, message: &Message, wc: &Wc) -> Result<(), Fault> {
    let opcode = match message.op {
        Op::Send | Op::SendImm | Op::SendInvalidate => WcOpcode::Send,
        Op::Bind => WcOpcode::BindMw,
        Op::LocalInvalidate => WcOpcode::LocalInv,
        Op::Write | Op::WriteImm => WcOpcode::RdmaWrite,
        Op::Read => WcOpcode::RdmaRead,
        Op::FetchAdd => WcOpcode::FetchAdd,
        Op::CompareSwap => WcOpcode::CompSwap,
    };
    let byte_len = if message.op.is_answered() { message.len } else { 0 };
    if (wc.opcode, wc.byte_len) == (opcode, byte_len) {
        return Ok(());
    }
    let text =
        format!("wr {} is {:?} of {} bytes, not {opcode:?} of {byte_len}", wc.wr_id, wc.opcode, wc.byte_len);
    Err(end.fault("completion", text))
}

/// What an application writes into a buffer that is its own again.
const SCRIBBLE: u8 = 0xdd;
/// From this timeout code on (8.4 ms) a timeout does not run out because others' packets are in the way.
const PATIENT_TIMEOUT: u8 = 11;

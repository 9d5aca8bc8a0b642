//! The model finds what it is made for. Somebody on the way does what only a broken card would: the packets it changes
//! are sealed again, so that no receiver can tell.

use super::world::World;
use super::{Fault, Plan, Step, Tally, generate, run};
use crate::rules::{Action, HexBytes, Kind, Seen};
use ferroce_core::WcStatus;
use ferroce_wire::{Opcode, Operation, Packet, PacketHeader, Syndrome};

const LENGTH_NS: u64 = 3_000_000;

/// The faults that `tamper` leads to in some plans without other faults, by their rules.
fn found(tamper: impl Fn(&Seen<'_>) -> Option<Action> + Clone + 'static) -> Vec<String> {
    let mut rules: Vec<String> = (0..60)
        .filter_map(|seed| {
            let mut plan = generate(seed, LENGTH_NS);
            plan.steps.retain(|step| !matches!(step, Step::Faults(_)));
            tampered(&plan, tamper.clone())
        })
        .map(|fault| fault.rule.into_owned())
        .collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

fn tampered(plan: &Plan, tamper: impl Fn(&Seen<'_>) -> Option<Action> + 'static) -> Option<Fault> {
    let mut world = World::new(plan, false);
    // Behind the model's own rule, which has seen the packet as it was sent.
    world.fabric.network.add_rule(tamper);
    world.run(plan).err()
}

/// The same packet with another header, sealed.
fn with_header(packet: &Packet<'_>, change: impl FnOnce(PacketHeader) -> PacketHeader) -> Action {
    let header = change(PacketHeader::from(packet));
    let mut bytes = vec![0; header.packet_len(packet.payload().len())];
    header.write(&mut bytes, packet.payload().len()).copy_from_slice(packet.payload());
    Action::Replace { payload: HexBytes(bytes.into()), seal: true }
}

fn is_rc(packet: &Packet<'_>) -> bool {
    packet.opcode().service() == ferroce_wire::Service::Rc
}

#[test]
fn without_tampering_there_is_nothing_to_find() {
    assert_eq!(found(|_| None), [] as [String; 0]);
}

#[test]
fn changed_bytes_are_found() {
    let rules = found(|seen| {
        let packet = seen.packet.filter(|packet| !packet.payload().is_empty())?;
        let mut bytes = seen.frame.parse().ok()?.transport().to_vec();
        let at = packet.opcode().header_len() + packet.payload().len() / 2;
        bytes[at] ^= 0x40;
        Some(Action::Replace { payload: HexBytes(bytes.into()), seal: true })
    });
    assert!(rules.contains(&"data".to_string()), "{rules:?}");
}

#[test]
fn an_acknowledgement_of_what_never_came_is_found() {
    let rules = found(|seen| {
        let packet = seen.packet.filter(is_rc)?;
        if packet.opcode().operation() != Operation::Acknowledge {
            return None;
        }
        let bth = packet.bth();
        let later = PacketHeader::new(packet.opcode(), bth.dest_qpn(), bth.psn().plus(1));
        Some(with_header(&packet, |_| later.aeth(Syndrome::ACK, 0)))
    });
    assert!(rules.iter().any(|rule| rule == "psn" || rule == "data"), "{rules:?}");
}

#[test]
fn losses_that_nobody_told_about_are_found() {
    // Retries run out, and the model knows of no packet that met a fault.
    let rules = found(|seen| {
        let address = seen.address?;
        (address.kind == Kind::Request && address.psn > 3).then_some(Action::Drop)
    });
    assert!(rules.iter().any(|rule| rule == "status" || rule == "calm"), "{rules:?}");
}

#[test]
fn a_window_that_is_not_taken_back_is_found() {
    // The SEND arrives without its IETH: the key stays good.
    let rules = found(|seen| {
        let packet = seen.packet.filter(|packet| packet.opcode().has_ieth())?;
        let bth = packet.bth();
        let opcode = match packet.opcode() {
            Opcode::RC_SEND_LAST_INV => Opcode::RC_SEND_LAST,
            _ => Opcode::RC_SEND_ONLY,
        };
        let plain = PacketHeader::new(opcode, bth.dest_qpn(), bth.psn()).ack_req(true);
        Some(with_header(&packet, |_| plain.solicited(bth.solicited())))
    });
    assert!(rules.contains(&"data".to_string()), "{rules:?}");
}

#[test]
fn a_nak_without_a_reason_is_found() {
    let rules = found(|seen| {
        let packet = seen.packet.filter(is_rc)?;
        if packet.opcode() != Opcode::RC_ACKNOWLEDGE {
            return None;
        }
        // NAK Remote Access Error.
        Some(with_header(&packet, |header| header.aeth(Syndrome::from_u8(0x62), 1)))
    });
    assert!(rules.contains(&"status".to_string()), "{rules:?}");
}

/// Plans of nothing but exposed QPs and attacks on them, and what they came to.
#[test]
fn hostile_peers_get_deep() {
    let mut tally = Tally::default();
    for seed in 0..400 {
        let mut plan = generate(seed, 20_000_000);
        plan.steps.retain(|step| {
            matches!(step, Step::Expose(_) | Step::Attack { .. } | Step::Twist { .. } | Step::Wait { .. })
        });
        let report = run(&plan, false);
        assert_eq!(report.fault, None, "seed {seed}");
        tally.add(&report.tally);
    }
    assert!(tally.exposed > 100 && tally.attacks > 5_000, "{tally:?}");
    // Some of what they say is believed, some is refused in each way there is.
    for status in [
        WcStatus::Success,
        WcStatus::LocLenErr,
        WcStatus::BadRespErr,
        WcStatus::LocAccessErr,
        WcStatus::RemInvReqErr,
        WcStatus::RemAccessErr,
        WcStatus::RemOpErr,
        WcStatus::RetryExcErr,
    ] {
        assert!(tally.completions.contains_key(&(status as u32)), "{status:?}: {tally:?}");
    }
}

#[test]
fn a_plan_reads_as_it_is_written() {
    for seed in 0..50 {
        let plan = generate(seed, LENGTH_NS);
        assert_eq!(Plan::from_toml(&plan.to_string()).as_ref(), Ok(&plan), "seed {seed}");
        assert_eq!(generate(seed, LENGTH_NS), plan);
    }
    assert!(Plan::from_toml("seed = 1").is_err());
    let wrong = generate(1, 0).to_string().replace("steps = [", "steps = [ { send = { end = '1c' } },");
    let error = Plan::from_toml(&wrong).expect_err("1c is no end").to_string();
    assert!(error.contains("ends look like 3a and 3b"), "{error}");
}

#[test]
fn a_plan_runs_the_same_way_each_time() {
    for seed in 0..10 {
        let plan = generate(seed, LENGTH_NS);
        let (first, second) = (run(&plan, true), run(&plan, true));
        assert!(first == second, "seed {seed}");
        assert!(!first.capture.is_empty());
        let uncaptured = run(&plan, false);
        assert_eq!((uncaptured.digest, uncaptured.now), (first.digest, first.now), "looking changes nothing");
    }
}

#[test]
fn steps_that_do_not_fit_are_skipped() {
    let plan = generate(7, LENGTH_NS);
    for at in 0..plan.steps.len() {
        let mut shorter = plan.clone();
        shorter.steps.remove(at);
        assert_eq!(run(&shorter, false).fault, None, "without step {at}");
    }
}

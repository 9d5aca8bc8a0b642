//! The wire scripts in the folder `wire/`.

use crate::case::Case;
use crate::script;

/// Adds the cases.
pub(super) fn add(cases: &mut Vec<Case>) {
    for (name, text) in SCRIPTS {
        // A test reads all of them.
        cases.extend(script::cases(name, text).unwrap_or_default());
    }
}

macro_rules! scripts {
    ($($name:literal)*) => {
        const SCRIPTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../wire/", $name, ".wire"))),)*];
    };
}

scripts! {
    "accepted/cnp-changes-nothing"
    "accepted/cnps-are-rare"
    "accepted/congestion-experienced"
    "accepted/odd-but-right"
    "dropped/bad-headers"
    "dropped/bad-packet"
    "dropped/in-a-state-without-traffic"
    "dropped/pad-exceeds-payload"
    "dropped/runt"
    "dropped/to-qp1"
    "dropped/unknown-opcode-to-the-multicast-qpn"
    "requester/ack-in-place-of-a-read-response"
    "requester/ack-in-place-of-the-answer-to-a-flush"
    "requester/answers-to-placement-extensions-that-are-wrong"
    "requester/atomic-response-missing"
    "requester/credits-and-msn-are-not-believed"
    "requester/err-is-silent"
    "requester/fence-does-not-wait-for-sends"
    "requester/fence-waits-for-a-flush"
    "requester/fence-waits-for-a-read"
    "requester/fence-waits-for-an-atomic"
    "requester/ghost-ack"
    "requester/memory-is-read-again"
    "requester/nak-ends-the-request"
    "requester/nak-in-the-middle-of-a-read"
    "requester/nak-seq-goes-back"
    "requester/nak-seq-in-the-middle-of-a-read"
    "requester/nak-seq-to-the-first"
    "requester/nak-seq-twice-for-one-loss"
    "requester/no-retries"
    "requester/no-retries-and-a-nak"
    "requester/no-timeout"
    "requester/one-ack-for-many"
    "requester/packets-of-a-read"
    "requester/packets-of-a-send"
    "requester/packets-of-a-write"
    "requester/packets-of-atomics"
    "requester/packets-of-placement-extensions"
    "requester/packets-of-send-with-invalidate"
    "requester/packets-of-zero-length"
    "requester/pad"
    "requester/psns-wrap"
    "requester/read-limit"
    "requester/read-response-acknowledges-what-is-before"
    "requester/read-response-missing-first"
    "requester/read-response-missing-last"
    "requester/read-response-missing-middle"
    "requester/read-response-that-is-wrong"
    "requester/read-response-that-is-wrong-later"
    "requester/response-of-another-kind"
    "requester/responses-without-meaning"
    "requester/retries-by-nak-run-out"
    "requester/retries-come-back-with-progress"
    "requester/retries-run-out"
    "requester/rnr-nak"
    "requester/rnr-nak-and-then-a-sequence-nak"
    "requester/rnr-retries-come-back-with-progress"
    "requester/rnr-retries-run-out"
    "requester/rnr-wait-is-longer-than-the-ack-timeout"
    "requester/sends-do-not-wait-for-reads"
    "requester/seven-retries-are-seven"
    "requester/sqd-finishes-what-was-begun"
    "requester/stale-responses"
    "requester/timeout-resends-from-the-oldest"
    "responder/ackreq-decides"
    "responder/acks-stay-behind-read-answers"
    "responder/atomic-write"
    "responder/atomic-write-that-is-wrong"
    "responder/dma-length"
    "responder/duplicate-after-reads"
    "responder/duplicate-atomic"
    "responder/duplicate-atomic-that-differs"
    "responder/duplicate-before-anything"
    "responder/duplicate-read-after-deregistration"
    "responder/duplicate-read-all"
    "responder/duplicate-read-of-something-else"
    "responder/duplicate-read-part"
    "responder/duplicate-send"
    "responder/duplicate-write"
    "responder/duplicates-are-answered-during-a-gap"
    "responder/flush"
    "responder/flush-that-is-wrong"
    "responder/flush-without-resources"
    "responder/gap-gets-one-nak"
    "responder/half-a-message-is-flushed"
    "responder/length-that-is-no-multiple-of-four"
    "responder/long-write-that-wraps"
    "responder/misaligned-atomic"
    "responder/msn-counts-messages"
    "responder/no-read-resources"
    "responder/one-qp-does-not-disturb-another"
    "responder/opcode-sequence"
    "responder/opcode-sequence-in-a-send"
    "responder/opcode-sequence-in-a-write"
    "responder/packet-length"
    "responder/packet-length-later"
    "responder/packet-length-of-a-send"
    "responder/psn-regions"
    "responder/psns-wrap"
    "responder/receive-with-a-bad-list"
    "responder/remote-access"
    "responder/rights-of-the-qp"
    "responder/rights-of-the-region"
    "responder/rights-that-change"
    "responder/rnr-nak"
    "responder/rnr-nak-again"
    "responder/send-longer-than-its-buffer"
    "responder/send-with-invalidate-of-a-region"
    "responder/solicited-and-immediate"
    "responder/stale-atomic"
    "responder/write-imm-without-receive"
    "responder/zero-length"
    "uc/gap-drops-until-a-first-packet"
    "uc/message-longer-than-its-buffer"
    "uc/new-message-in-a-message"
    "uc/nothing-is-acknowledged"
    "uc/opcode-sequence"
    "uc/packets"
    "uc/psns-wrap"
    "uc/responses-are-dropped"
    "uc/send-without-receive"
    "uc/write-imm-after-a-lost-last"
    "uc/write-with-a-bad-key"
    "ud/datagram"
    "ud/larger-than-its-buffer"
    "ud/multicast"
    "ud/multicast-qpn-with-a-unicast-address"
    "ud/opcode-of-a-connection"
    "ud/packets"
    "ud/psns-do-not-matter"
    "ud/without-receive"
    "ud/wrong-qkey"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_script_can_be_read() {
        for (name, text) in SCRIPTS {
            if let Err(error) = script::cases(name, text) {
                panic!("{error}");
            }
        }
    }

    #[test]
    fn every_file_is_listed_in_order() {
        let mut files = BTreeSet::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("wire");
        for folder in fs::read_dir(root).unwrap() {
            let folder = folder.unwrap();
            for file in fs::read_dir(folder.path()).unwrap() {
                let path = file.unwrap().path();
                let stem = path.file_stem().unwrap().to_str().unwrap();
                files.insert(format!("{}/{stem}", folder.file_name().to_str().unwrap()));
            }
        }
        let listed: Vec<&str> = SCRIPTS.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed, files.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

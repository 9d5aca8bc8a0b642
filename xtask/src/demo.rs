//! `make demo`: two unmodified programs of perftest, each as a pair of processes that talk RoCEv2 on this host.

use std::time::Duration;

use anyhow::Result;
use ferroce_pair::{Pair, User};

use crate::report;
use crate::workspace::Workspace;

/// Runs the pairs and says what happened.
///
/// # Errors
/// When a program fails or does not end in time; the text holds what it said.
pub fn run(workspace: &Workspace) -> Result<()> {
    let ferroce = workspace.tree().command();
    let user = User::choose(&[&ferroce]);
    for scene in [BANDWIDTH, LATENCY] {
        report::line("");
        report::heading(scene.title);
        report::line(scene.before);
        let options = scene.options.iter().map(|option| (*option).to_owned()).collect();
        let pair = Pair { program: scene.program, options };
        let spinner = report::spinner(format!("{} is running", scene.program));
        let run = pair.run(&ferroce, user, PATIENCE);
        spinner.finish_and_clear();
        let run = run?;
        report::shell(format_args!("{}   (server)", run.server_command));
        report::shell(&run.client_command);
        report::line(run.output.trim_end());
        report::line(scene.after);
    }
    report::line("");
    report::line(user.remark());
    report::line(NEXT);
    Ok(())
}

/// A pair of programs and how to explain it.
struct Scene {
    title: &'static str,
    program: &'static str,
    /// The same on both sides.
    options: &'static [&'static str],
    /// What is about to happen.
    before: &'static str,
    /// What happened.
    after: &'static str,
}

const BANDWIDTH: Scene = Scene {
    title: "bandwidth: ib_write_bw",
    program: "ib_write_bw",
    options: &[],
    before: "\
    Two processes of Debian's perftest, as they come from the package. Each loads Ferroce's libibverbs.so.1 in place
    of the system's and finds a device ferroce_lo on the loopback interface.",
    after: "
    What you saw: 5000 RDMA WRITEs of 64 KiB each, from the client's memory into the server's. Every message went out
    as 16 RoCEv2 packets of 4096 bytes (RDMA WRITE First, 14 × Middle, Last) in UDP datagrams to port 4791, each with
    its PSN and ICRC; the server's process checked them, copied them to their place and returned acknowledgements. The
    server program itself slept: with RDMA WRITE only the library works for it.",
};

const LATENCY: Scene = Scene {
    title: "latency: ib_send_lat",
    program: "ib_send_lat",
    options: &["-s", "8"],
    before: "    The same with SEND: both sides post receives and answer each other, one message at a time.",
    after: "
    What you saw: 1000 round trips of 8 bytes; perftest shows half of each. A message is one packet, SEND Only: 12
    bytes BTH, 8 bytes payload, 4 bytes ICRC, in UDP. No kernel module, no RDMA card, no privilege was involved.",
};

const NEXT: &str = "
To go on, with F=target/ferroce/bin/ferroce:
    $F run -- ibv_devinfo -v                       the devices, as an application sees them
    $F devices                                     the same, short, with GIDs
    $F run -- ib_read_bw -a                        a server; then in another terminal its client,
    $F run -- ib_read_bw -a localhost              READ, at every size from 2 bytes to 8 MiB
    $F run -- YOUR-PROGRAM                         anything that uses libibverbs
    FERROCE_LOG=debug $F run -- …                  with the reasons for every refusal on stderr";

/// A pair takes a few seconds; this covers a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

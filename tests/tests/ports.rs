//! What happens to a network interface is told to the program that has its device open: the carrier, addresses, the
//! interface itself (`ibv_get_async_event(3)`).

use std::process::ExitCode;

use ferroce_tests::c_program::CProgram;
use ferroce_tests::program::Program;
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::{PATIENCE, matrix, trials};

fn main() -> ExitCode {
    matrix::run(trials![
        a_port_without_a_carrier_is_down_and_its_carrier_makes_it_active,
        addresses_that_come_and_go_change_the_gid_table,
        an_interface_that_goes_away_takes_its_device_along,
    ])
}

/// One end of a cable inside a namespace, and a program that watches its port.
struct Watched {
    sandbox: Sandbox,
    program: Program,
    /// The program's file, which goes with this.
    _file: CProgram,
}

impl Watched {
    /// The interface is on, and its other end off, so there is no carrier.
    fn start() -> Watched {
        let sandbox = Sandbox::new();
        for line in [
            "link add near0 type veth peer name far0",
            // Nothing that the kernel does by itself is to change the GID table.
            "link set near0 addrgenmode none",
            "addr add 10.9.0.1/24 dev near0",
            "link set near0 up",
        ] {
            ip(&sandbox, line);
        }
        let file = CProgram::compile(&sandbox, "ports");
        let (command, line) = sandbox.run("near0", &file.path());
        let watched = Watched { program: Program::start(command, line), sandbox, _file: file };
        watched.must_say("opened down phys 2 with ::ffff:10.9.0.1\n");
        watched
    }

    fn ip(&self, line: &str) {
        ip(&self.sandbox, line);
    }

    #[track_caller]
    fn must_say(&self, text: &str) {
        let said = self.program.says(text, PATIENCE);
        assert!(said, "it does not say {text:?} but\n{}", self.program.output_so_far());
    }
}

fn ip(sandbox: &Sandbox, line: &str) {
    let words: Vec<_> = line.split_whitespace().collect();
    sandbox.privileged("ip", &words).finish(PATIENCE).assert_success();
}

fn a_port_without_a_carrier_is_down_and_its_carrier_makes_it_active() {
    let watched = Watched::start();
    watched.ip("link set far0 up");
    watched.must_say("port active active phys 5\n");
    watched.ip("link set far0 down");
    watched.must_say("port error down phys 2\n");
    watched.ip("link set far0 up");
    watched.must_say("phys 2\nport active active phys 5\n");
    watched.ip("link set near0 down");
    watched.must_say("port error down phys 3\n");
}

fn addresses_that_come_and_go_change_the_gid_table() {
    let watched = Watched::start();
    watched.ip("addr add 10.9.0.2/24 dev near0");
    watched.must_say("GID table change down phys 2 with ::ffff:10.9.0.2\n");
    watched.ip("addr del 10.9.0.1/24 dev near0");
    // Linux takes the addresses of the same network along with its first one.
    watched.must_say("without ::ffff:10.9.0.1");
    watched.ip("addr add fd00::7/64 dev near0 nodad");
    watched.must_say("with fd00::7");
}

fn an_interface_that_goes_away_takes_its_device_along() {
    let Watched { sandbox, program, _file } = Watched::start();
    ip(&sandbox, "link del near0");
    let ended = program.finish(PATIENCE);
    ended.assert_success();
    assert!(ended.stdout.ends_with("local catastrophic error down phys 3\n"), "{ended}");
}

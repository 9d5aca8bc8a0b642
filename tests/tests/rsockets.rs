//! rsockets over our `librdmacm.so.1`: the programs of the system's rdmacm-utils that use them, as they come from the
//! package, and a C program for what those do not try. They are users without privilege in a namespace of their own.
//!
//! `rcopy` copies 16 MiB, with `FERROCE_TEST_FULL=1` a gibibyte. `rstream -T f` is left out: a forked child has no
//! devices of its parent's.

use std::fs;
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use ferroce_tests::c_program::CProgram;
use ferroce_tests::program::{Ended, Program};
use ferroce_tests::sandbox::Sandbox;
use ferroce_tests::turn::Turn;
use ferroce_tests::{PATIENCE, is_full, matrix, trials};

/// Options of a pair of `rstream` or `riostream`; the client gets the address, too.
const STREAMS: [(&str, &str, &str, &str); 12] = [
    ("rstream/every_size", "rstream", "-S all -I 10 -C 20", "127.0.0.1"),
    ("rstream/blocking", "rstream", "-T b -S 4096 -I 20 -C 100", "127.0.0.1"),
    ("rstream/asynchronous", "rstream", "-T a -S 4096 -I 20 -C 100", "127.0.0.1"),
    ("rstream/nonblocking", "rstream", "-T n -S 4096 -I 20 -C 100", "127.0.0.1"),
    ("rstream/resolved", "rstream", "-T r -S 4096 -I 20 -C 100", "127.0.0.1"),
    ("rstream/verified", "rstream", "-T v -S 100000 -I 5 -C 50", "127.0.0.1"),
    ("rstream/verified_asynchronous", "rstream", "-T v -T a -S 1000000 -I 2 -C 10", "127.0.0.1"),
    ("rstream/inline", "rstream", "-i 256 -B 8192 -S 200 -I 20 -C 100", "127.0.0.1"),
    ("rstream/ipv6", "rstream", "-f ipv6 -T v -S 5000 -I 5 -C 20", "::1"),
    ("riostream/blocking", "riostream", "-T b -S 4096 -I 5 -C 50", "127.0.0.1"),
    ("riostream/asynchronous", "riostream", "-T a -S 70000 -I 5 -C 20", "127.0.0.1"),
    ("riostream/verified", "riostream", "-T v -S 70000 -I 5 -C 20", "127.0.0.1"),
];

/// Cases of the C program that need no second process.
const CASES: [&str; 7] = [
    "refusals",
    "peek_and_parts",
    "half_closed",
    "nonblocking",
    "poll_and_select",
    "both_directions",
    "mapped",
];

fn main() -> ExitCode {
    let streams = STREAMS.iter().map(|(name, program, options, address)| {
        matrix::row(*name, move || stream(program, options, address))
    });
    let program: Arc<OnceLock<CProgram>> = Arc::default();
    let cases = CASES.iter().map(|case| {
        let program = Arc::clone(&program);
        matrix::row(format!("calls/{case}"), move || run(&program, case))
    });
    let others = trials![
        rcopy,
        a_killed_peer_ends_the_stream_of_who_reads,
        a_killed_peer_ends_the_stream_of_who_writes
    ];
    matrix::run(streams.chain(cases).chain(others).collect())
}

fn stream(program: &str, options: &str, address: &str) {
    let _turn = Turn::wait();
    let sandbox = Sandbox::new();
    let mut words: Vec<&str> = options.split_whitespace().collect();
    // An address to listen at is needed only for what is not IPv4.
    let mut of_server = words.clone();
    if address.contains(':') {
        of_server.extend(["-b", address]);
    }
    let server = start_server(&sandbox, program, &of_server);
    words.extend(["-s", address]);
    let client = sandbox.application(program, &words).finish(PATIENCE);
    let server = server.finish(PATIENCE);
    assert!(client.is_success() && server.is_success(), "server: {server}client: {client}");
    assert!(client.stdout.lines().count() > 1, "it measured nothing\n{client}");
}

/// Starts a server and waits until it listens, which its log tells.
fn start_server(sandbox: &Sandbox, program: &str, arguments: &[&str]) -> Program {
    let variables = [("FERROCE_LOG", "warn,ferroce_rdmacm=debug")];
    let server = sandbox.application_with(program, arguments, &variables);
    assert!(server.says("an rsocket listens", PATIENCE), "{}", server.output_so_far());
    server
}

fn compiled<'a>(program: &'a OnceLock<CProgram>, sandbox: &Sandbox) -> &'a CProgram {
    program.get_or_init(|| CProgram::compile(sandbox, "rsockets"))
}

fn run(program: &OnceLock<CProgram>, case: &str) {
    let _turn = Turn::wait();
    let sandbox = Sandbox::new();
    let path = compiled(program, &sandbox).path();
    let ended = sandbox.application(path.to_str().expect("a path of ASCII"), &[case]).finish(PATIENCE);
    assert!(ended.is_success(), "{ended}");
}

/// Its server serves for ever.
fn rcopy() {
    let _turn = Turn::wait();
    let sandbox = Sandbox::new();
    let folder = tempfile::Builder::new().prefix("ferroce-rcopy-").tempdir().expect("a folder can be made");
    open_to_all(folder.path());
    let (source, destination) = (folder.path().join("source"), folder.path().join("destination"));
    let size = if is_full() { 1 << 30 } else { 16 << 20 };
    write_pattern(&source, size);
    let mut server = start_server(&sandbox, "rcopy", &[]);
    let target = format!("127.0.0.1:{}", destination.display());
    let client = sandbox.application("rcopy", &[&source.display().to_string(), &target]).finish(PATIENCE);
    server.kill();
    assert!(client.is_success(), "{client}{}", server.output_so_far());
    assert!(client.stdout.contains(&format!("{size} bytes")), "{client}");
    let (sent, received) = (fs::read(&source), fs::read(&destination));
    assert!(sent.expect("just written") == received.expect("copied"), "the copy differs\n{client}");
}

/// The programs run as another user, who makes files there.
fn open_to_all(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("it is ours");
}

/// Bytes of which no two pages are alike.
fn write_pattern(path: &std::path::Path, size: usize) {
    let mut file = fs::File::create(path).expect("the folder is writable");
    let mut page = [0u8; 4096];
    let mut state = 1u64;
    for _ in 0..size / page.len() {
        for word in page.chunks_exact_mut(8) {
            // Knuth's multiplicative generator.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&page).expect("there is room");
    }
}

/// Starts the C program's sink and its source, and waits until they are connected.
fn connected(sandbox: &Sandbox, program: &OnceLock<CProgram>) -> (Program, Program) {
    let path = compiled(program, sandbox).path();
    let path = path.to_str().expect("a path of ASCII");
    let sink = sandbox.application(path, &["sink"]);
    assert!(sink.says("listening", PATIENCE), "{}", sink.output_so_far());
    let source = sandbox.application(path, &["source"]);
    assert!(source.says("connected", PATIENCE), "{}", source.output_so_far());
    (sink, source)
}

fn a_killed_peer_ends_the_stream_of_who_reads() {
    let _turn = Turn::wait();
    let (sandbox, program) = (Sandbox::new(), OnceLock::new());
    let (sink, mut source) = connected(&sandbox, &program);
    source.kill();
    assert_reset(&sink.finish(PATIENCE));
}

fn a_killed_peer_ends_the_stream_of_who_writes() {
    let _turn = Turn::wait();
    let (sandbox, program) = (Sandbox::new(), OnceLock::new());
    let (mut sink, source) = connected(&sandbox, &program);
    sink.kill();
    assert_reset(&source.finish(PATIENCE));
}

fn assert_reset(ended: &Ended) {
    assert!(ended.is_success() && ended.stdout.contains("ended with ECONNRESET"), "{ended}");
}

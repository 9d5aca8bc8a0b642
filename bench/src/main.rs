//! Measures unmodified applications on Ferroce beside what raw UDP does on the same machine in the same minutes.

mod comparison;
mod raw;

use clap::Parser;

#[derive(Parser)]
#[command(
    name = "ferroce-bench",
    version,
    about = "perftest on Ferroce beside raw UDP, in rounds; a subcommand measures raw UDP alone",
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(flatten)]
    comparison: comparison::Options,
    /// Use IPv6 instead of IPv4
    #[arg(long, global = true)]
    ipv6: bool,
    #[command(subcommand)]
    test: Option<raw::Test>,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    match cli.test {
        Some(test) => raw::run(&test, cli.ipv6),
        None => comparison::run(&cli.comparison, cli.ipv6),
    }
}

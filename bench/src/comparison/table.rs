//! The result for people. Colours only where a person looks: `console` drops them when stdout is not a terminal.

use std::fmt::{self, Formatter};

use console::{measure_text_width, style};

use super::Report;
use super::figure::Kind;
use super::statistics::{Outcome, Spread};

/// What is printed at the end.
pub struct Page<'a>(pub &'a Report);

/// Two lines of a figure: its numbers, and what is to be known of them.
type Row = [[String; COLUMNS]; 2];

const COLUMNS: usize = 7;
const HEADS: [&str; COLUMNS] = ["figure", "Ferroce", "raw UDP", "ratio", "bests", "aim", "met"];

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Report { machine, setting, figures } = self.0;
        let version = if setting.ipv6 { "IPv6" } else { "IPv4" };
        writeln!(f, "{}", style(format_args!("perftest on Ferroce beside raw UDP, {version} on lo")).bold())?;
        writeln!(f, "{} × {}, Linux {}", machine.processors, machine.processor, machine.kernel)?;
        draw(f, &figures.iter().map(row).collect::<Vec<_>>())?;
        writeln!(
            f,
            "Medians of {} rounds; below them the lowest and the highest. A ratio is formed within a round; under\n\
             bests, that of the best Ferroce did in any round to the best raw UDP did in any.",
            setting.rounds
        )?;
        for kind in [Kind::Bandwidth, Kind::Latency] {
            if let Some(outcome) = figures.iter().find(|outcome| outcome.figure.kind() == kind) {
                writeln!(f, "{}", compared(outcome, setting.exchanges))?;
            }
        }
        writeln!(f, "{}", setting.user.remark())?;
        if machine.is_busy() {
            let warning = format!(
                "The machine was busy before this began (load {:.1} on {} processors): repeat this on a quiet one.",
                machine.load, machine.processors
            );
            writeln!(f, "{}", style(warning).yellow())?;
        }
        Ok(())
    }
}

/// What is held against what, exactly.
fn compared(outcome: &Outcome, exchanges: u32) -> String {
    let Outcome { figure, packet_len, payload_len, .. } = outcome;
    let program = figure.program();
    match figure.kind() {
        Kind::Bandwidth => format!(
            "Bandwidth: bytes of the messages that {program} completes in a second, beside those of a stream of UDP\n\
             packets as the messages consist of: {packet_len} bytes, of which {payload_len} count."
        ),
        Kind::Latency => format!(
            "Latency: half of the median of {exchanges} round trips of {program}, beside that of UDP packets as the\n\
             messages are: {packet_len} bytes."
        ),
    }
}

fn row(outcome: &Outcome) -> Row {
    let Outcome { figure, unit, ferroce, limit, ratio, aim, is_met, .. } = outcome;
    let what = match figure.kind() {
        Kind::Bandwidth => "bandwidth",
        Kind::Latency => "latency",
    };
    let met = if *is_met { style("yes").green() } else { style("no").red() };
    [
        [
            figure.title().to_owned(),
            format!("{:.2} {unit}", ferroce.median),
            format!("{:.2} {unit}", limit.median),
            style(format_args!("{:.2}", ratio.median)).bold().to_string(),
            format!("{:.2}", outcome.ratio_of_bests),
            aim.to_string(),
            met.to_string(),
        ],
        [
            style(format_args!("{what}, {} -s {}", figure.program(), figure.message_len())).dim().to_string(),
            between(ferroce),
            between(limit),
            between(ratio),
            String::new(),
            String::new(),
            String::new(),
        ],
    ]
}

fn between(spread: &Spread) -> String {
    style(format_args!("{:.2} … {:.2}", spread.min, spread.max)).dim().to_string()
}

fn draw(f: &mut Formatter<'_>, rows: &[Row]) -> fmt::Result {
    let mut widths = HEADS.map(measure_text_width);
    for line in rows.iter().flatten() {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = measure_text_width(cell).max(*width);
        }
    }
    rule(f, &widths, ["┌", "┬", "┐"])?;
    cells(f, &widths, &HEADS.map(|head| style(head).bold().to_string()))?;
    for row in rows {
        rule(f, &widths, ["├", "┼", "┤"])?;
        for line in row {
            cells(f, &widths, line)?;
        }
    }
    rule(f, &widths, ["└", "┴", "┘"])
}

fn rule(f: &mut Formatter<'_>, widths: &[usize], [left, middle, right]: [&str; 3]) -> fmt::Result {
    let lines: Vec<_> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
    writeln!(f, "{left}{}{right}", lines.join(middle))
}

fn cells(f: &mut Formatter<'_>, widths: &[usize], cells: &[String]) -> fmt::Result {
    for (width, cell) in widths.iter().zip(cells) {
        write!(f, "│ {cell}{} ", " ".repeat(width - measure_text_width(cell)))?;
    }
    writeln!(f, "│")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::figure::Figure;
    use crate::comparison::machine::Machine;
    use crate::comparison::measure::Setting;
    use crate::comparison::statistics::Round;
    use ferroce_pair::User;

    fn report(load: f64) -> Report {
        Report {
            machine: Machine { processor: "CPU".into(), processors: 2, kernel: "6.1".into(), load },
            setting: Setting {
                ipv6: false,
                rounds: 2,
                seconds: 1,
                exchanges: 100,
                user: User::Caller,
                ferroce: "/f".into(),
                bench: "/b".into(),
            },
            figures: vec![
                Outcome::new(Figure::Write64k, vec![Round::new(2.0, 4.0), Round::new(3.0, 4.0)]),
                Outcome::new(Figure::SendLat, vec![Round::new(9.0, 3.0), Round::new(12.25, 3.5)]),
            ],
        }
    }

    fn page(load: f64) -> String {
        console::strip_ansi_codes(&Page(&report(load)).to_string()).into_owned()
    }

    #[test]
    fn the_table_is_this() {
        let table: Vec<_> = page(0.0).lines().skip(2).take(9).map(str::to_owned).collect();
        #[rustfmt::skip]
        assert_eq!(table, [
            "┌─────────────────────────────────┬──────────────┬─────────────┬─────────────┬───────┬────────┬─────┐",
            "│ figure                          │ Ferroce      │ raw UDP     │ ratio       │ bests │ aim    │ met │",
            "├─────────────────────────────────┼──────────────┼─────────────┼─────────────┼───────┼────────┼─────┤",
            "│ RDMA WRITE, 64 KiB              │ 2.50 GB/s    │ 4.00 GB/s   │ 0.62        │ 0.75  │ ≥ 0.50 │ yes │",
            "│ bandwidth, ib_write_bw -s 65536 │ 2.00 … 3.00  │ 4.00 … 4.00 │ 0.50 … 0.75 │       │        │     │",
            "├─────────────────────────────────┼──────────────┼─────────────┼─────────────┼───────┼────────┼─────┤",
            "│ SEND, 8 bytes                   │ 10.62 µs     │ 3.25 µs     │ 3.25        │ 3.00  │ ≤ 2.00 │ no  │",
            "│ latency, ib_send_lat -s 8       │ 9.00 … 12.25 │ 3.00 … 3.50 │ 3.00 … 3.50 │       │        │     │",
            "└─────────────────────────────────┴──────────────┴─────────────┴─────────────┴───────┴────────┴─────┘",
        ]);
    }

    #[test]
    fn the_page_says_what_is_compared() {
        let page = page(0.0);
        assert!(page.contains("Medians of 2 rounds"), "{page}");
        assert!(page.contains("4112 bytes, of which 4096 count"), "{page}");
        assert!(page.contains("100 round trips of ib_send_lat") && page.contains(": 24 bytes."), "{page}");
    }

    #[test]
    fn a_busy_machine_is_told() {
        assert!(page(1.0).contains("load 1.0 on 2 processors"));
        assert!(!page(0.9).contains("busy"));
    }
}

//! What loss and reordering cost, as tables and plots.

use crate::loss::{Outcome, Sender, Trouble, transfer};
use crate::plot::{self, Axes, Line, SeriesLabelPosition};
use crate::table::{gbps, table};
use anyhow::Result;

/// Tables and plots.
pub struct Pages {
    /// Loss, as a table.
    pub loss_table: String,
    /// Loss, as an SVG.
    pub loss_plot: String,
    /// Reordering, as a table.
    pub reorder_table: String,
    /// Reordering, as an SVG.
    pub reorder_plot: String,
}

impl Pages {
    /// Measures.
    pub fn measure(seed: u64) -> Result<Pages> {
        let losses = outcomes(&Trouble::LOSSES, seed);
        let reorderings = outcomes(&Trouble::REORDERINGS, seed);
        Ok(Pages {
            loss_table: loss_table(&losses),
            loss_plot: loss_plot(&losses)?,
            reorder_table: reorder_table(&reorderings),
            reorder_plot: reorder_plot(&reorderings)?,
        })
    }
}

/// Of each trouble, what each sender makes of it.
type Outcomes = Vec<(Trouble, Vec<Outcome>)>;

fn outcomes(troubles: &[Trouble], seed: u64) -> Outcomes {
    let of = |trouble| Sender::ALL.iter().map(|sender| transfer(*sender, trouble, seed)).collect();
    troubles.iter().map(|trouble| (*trouble, of(*trouble))).collect()
}

fn loss_table(outcomes: &Outcomes) -> String {
    let mut rows = Vec::new();
    for (index, sender) in Sender::ALL.iter().enumerate() {
        let mut row = vec![sender.name.to_string()];
        row.extend(outcomes.iter().map(|(_, of)| gbps(of[index].goodput_bps)));
        rows.push(row);
    }
    for (index, sender) in Sender::ALL.iter().enumerate() {
        let mut row = vec![format!("*{}: sent again, timeouts*", sender.name)];
        row.extend(outcomes.iter().map(|(_, of)| repeated(&of[index])));
        rows.push(row);
    }
    let shares: Vec<String> = outcomes.iter().map(|(trouble, _)| trouble.share()).collect();
    let mut head = vec!["goodput in Gb/s at a loss of"];
    head.extend(shares.iter().map(String::as_str));
    table(&head, &rows)
}

/// Packets sent again, in percent of those that there were to send, and timeouts.
fn repeated(outcome: &Outcome) -> String {
    format!("{:.1} %, {}", outcome.repeated * 100.0, outcome.timeouts)
}

fn reorder_table(outcomes: &Outcomes) -> String {
    let rows = outcomes.iter().map(|(trouble, of)| {
        let by = if let Trouble::Reorder { by, .. } = trouble { *by } else { 0 };
        let mut row = vec![format!("{} of the packets, by {by} others", trouble.share())];
        row.extend(of.iter().map(|outcome| gbps(outcome.goodput_bps)));
        row
    });
    let mut head = vec!["goodput in Gb/s when others overtake"];
    head.extend(Sender::ALL.iter().map(|sender| sender.name));
    table(&head, &rows.collect::<Vec<_>>())
}

fn loss_plot(outcomes: &Outcomes) -> Result<String> {
    let axes = Axes {
        title: "One flow at 100 Gb/s with a round trip of 10 µs",
        x: ("packets lost, either way", (outcomes.len() - 1) as f64),
        y: ("goodput in Gb/s", 100.0),
        legend: SeriesLabelPosition::LowerLeft,
        names: &outcomes.iter().map(|(trouble, _)| trouble.share()).collect::<Vec<_>>(),
    };
    plot::svg((800, 460), |area| plot::chart(area, &axes, &lines(outcomes)))
}

fn reorder_plot(outcomes: &Outcomes) -> Result<String> {
    let (few, many) = outcomes.split_at(outcomes.len() / 2);
    plot::svg((800, 780), |area| {
        for (part, (outcomes, by)) in area.split_evenly((2, 1)).iter().zip([(few, 2), (many, 16)]) {
            let outcomes = outcomes.to_vec();
            let axes = Axes {
                title: &format!("Packets that are overtaken by {by} others"),
                x: ("requests that are overtaken", (outcomes.len() - 1) as f64),
                y: ("goodput in Gb/s", 100.0),
                legend: SeriesLabelPosition::LowerLeft,
                names: &outcomes.iter().map(|(trouble, _)| trouble.share()).collect::<Vec<_>>(),
            };
            plot::chart(part, &axes, &lines(&outcomes))?;
        }
        Ok(())
    })
}

fn lines(outcomes: &Outcomes) -> Vec<Line> {
    let line = |(index, sender): (usize, &Sender)| Line {
        name: sender.name.into(),
        points: (0..).zip(outcomes).map(|(x, (_, of))| (f64::from(x), of[index].goodput_bps / 1e9)).collect(),
        colour: usize::from(sender.selective),
        dashed: !sender.fixed_window,
        marked: true,
    };
    Sender::ALL.iter().enumerate().map(line).collect()
}

//! What an incast does, as a table and plots.

use crate::incast::{DURATION_NS, QUEUE_BYTES, Remedy, Run, SAMPLE_NS, SENDERS, fairness};
use crate::plot::{self, Axes, Line, SeriesLabelPosition};
use crate::table::{gbps, table};
use anyhow::Result;

/// A table and plots.
pub struct Pages {
    /// All runs, as a table.
    pub table: String,
    /// The switch's queue, as an SVG.
    pub queue_plot: String,
    /// Each sender's rate, as an SVG.
    pub rate_plot: String,
    /// How fair the rates are, as an SVG.
    pub fairness_plot: String,
}

impl Pages {
    /// Measures.
    pub fn measure(seed: u64) -> Result<Pages> {
        let runs = Remedy::ALL.map(|remedy| Run::new(remedy, seed));
        let drawn = &runs[..Remedy::DRAWN];
        Ok(Pages {
            table: runs_table(&runs),
            queue_plot: panels(drawn, ("queue in KiB", QUEUE_BYTES as f64 * 1.25 / KIB), queue_line)?,
            rate_plot: panels(drawn, ("rate in Gb/s", 60.0), rate_lines)?,
            fairness_plot: fairness_plot(drawn)?,
        })
    }
}

fn runs_table(runs: &[Run]) -> String {
    let rows = runs.iter().map(|run| {
        let last = run.received.len() - 1;
        vec![
            run.remedy.name.to_string(),
            gbps(run.goodput_bps()),
            format!("{:.2}", fairness(&run.rates(0, last))),
            format!("{:.0}", run.mean_queue() as f64 / KIB),
            format!("{:.0}", run.queue.iter().copied().max().unwrap_or(0) as f64 / KIB),
            run.dropped.to_string(),
            run.repeated.to_string(),
            run.pauses.to_string(),
            run.cnps.to_string(),
        ]
    });
    let head = [
        "done against the queue",
        "goodput, Gb/s",
        "Jain's index",
        "mean queue, KiB",
        "longest, KiB",
        "dropped",
        "sent again",
        "pauses",
        "CNPs",
    ];
    table(&head, &rows.collect::<Vec<_>>())
}

/// A panel for each run, all with the same axes.
fn panels(runs: &[Run], y: (&str, f64), lines: impl Fn(&Run) -> Vec<Line>) -> Result<String> {
    plot::svg((1000, 660), |area| {
        for (part, run) in area.split_evenly((2, 2)).iter().zip(runs) {
            let title = match run.remedy.name {
                "nothing" => "nothing is done",
                name => name,
            };
            let axes = Axes {
                title,
                x: ("time in ms", DURATION_NS as f64 / MS),
                y,
                legend: SeriesLabelPosition::LowerLeft,
                names: &[],
            };
            plot::chart(part, &axes, &lines(run))?;
        }
        Ok(())
    })
}

fn queue_line(run: &Run) -> Vec<Line> {
    let points = run.queue.iter().enumerate().map(|(sample, bytes)| (time_ms(sample), *bytes as f64 / KIB));
    vec![Line { name: String::new(), points: points.collect(), colour: 0, dashed: false, marked: false }]
}

/// Each sender's rate, as a mean over [`WINDOW_SAMPLES`].
fn rate_lines(run: &Run) -> Vec<Line> {
    let rates: Vec<_> = windows(run).collect();
    let line = |sender: usize| Line {
        name: String::new(),
        points: rates.iter().map(|(at, rates)| (*at, rates[sender] / 1e9)).collect(),
        colour: sender,
        dashed: false,
        marked: false,
    };
    (0..SENDERS).map(line).collect()
}

fn fairness_plot(runs: &[Run]) -> Result<String> {
    let line = |(index, run): (usize, &Run)| Line {
        name: run.remedy.name.into(),
        points: windows(run).map(|(at, rates)| (at, fairness(&rates))).collect(),
        colour: index,
        dashed: false,
        marked: false,
    };
    let axes = Axes {
        title: "How fair the eight rates are, in half a millisecond each",
        x: ("time in ms", DURATION_NS as f64 / MS),
        y: ("Jain's index (1 is fair)", 1.0),
        legend: SeriesLabelPosition::MiddleRight,
        names: &[],
    };
    let lines: Vec<Line> = runs.iter().enumerate().map(line).collect();
    plot::svg((800, 460), |area| plot::chart(area, &axes, &lines))
}

/// The rates in one stretch of samples after the other, each with the middle of its time.
fn windows(run: &Run) -> impl Iterator<Item = (f64, [f64; SENDERS])> + '_ {
    let starts = (0..run.received.len() - WINDOW_SAMPLES).step_by(WINDOW_SAMPLES);
    starts.map(|from| {
        let middle = time_ms(from) + time_ms(WINDOW_SAMPLES) / 2.0;
        (middle, run.rates(from, from + WINDOW_SAMPLES))
    })
}

fn time_ms(sample: usize) -> f64 {
    sample as f64 * SAMPLE_NS as f64 / MS
}

/// Half a millisecond: an ACK every sixteen packets is all that is known of what has arrived.
const WINDOW_SAMPLES: usize = 25;
const MS: f64 = 1e6;
const KIB: f64 = 1024.0;

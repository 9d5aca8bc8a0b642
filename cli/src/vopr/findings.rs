//! What a person gets: a summary, and for a failure as few steps as will do, with a plan and a capture to look at.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ferroce_core::WcStatus;
use ferroce_emulator::vopr::{Fault, Plan, Report, generate, run, shrink};

use super::VoprError;
use super::farm::{Farm, Harvest};
use super::judge::judge;
use crate::note;
use crate::output::{self, Reader, Table, grouped};

/// Shows what came of many seeds; the exit status.
///
/// # Errors
/// Files cannot be written, or the children cannot be started.
pub fn show(farm: &Farm, harvest: &Harvest, dir: &Path) -> Result<ExitCode, VoprError> {
    output::print(&summary(farm, harvest))?;
    let Some((seed, fault)) = harvest.failures.first_key_value() else { return Ok(ExitCode::SUCCESS) };
    output::print(&format!("\nseed {seed} breaks a rule\n  {fault}\n"))?;
    note("note", "looking for fewer steps that do the same");
    let plan = generate(*seed, farm.time_ns);
    let (small, runs) = smaller(&plan, fault)?;
    let path = dir.join(format!("vopr-{seed}.toml"));
    write(&path, small.to_string().as_bytes())?;
    let mut text = format!(
        "{} of {} steps do the same ({runs} runs):\n\n{small}\n",
        small.steps.len(),
        plan.steps.len()
    );
    // A panic in this process would take the report along.
    let is_safe = !matches!(&*fault.rule, "panic" | "endless");
    if is_safe {
        let report = run(&small, true);
        let capture = dir.join(format!("vopr-{seed}.pcapng"));
        write(&capture, &report.capture)?;
        text += &outcome(&report);
        let _ = writeln!(text, "capture: {}", capture.display());
    }
    let _ = writeln!(text, "again: ferroce vopr --replay {}", path.display());
    output::print(&text)?;
    Ok(ExitCode::FAILURE)
}

/// Carries out a plan of a file; the exit status.
///
/// # Errors
/// The file has no plan, or the capture cannot be written.
pub fn replay(path: &Path, capture: Option<&Path>) -> Result<ExitCode, VoprError> {
    let text = fs::read_to_string(path).map_err(|error| VoprError::File { path: path.into(), error })?;
    let report = run(&Plan::from_toml(&text)?, capture.is_some());
    if let Some(path) = capture {
        write(path, &report.capture)?;
    }
    output::print(&outcome(&report))?;
    Ok(if report.fault.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The smallest plan found that breaks the same rule, and how many were tried.
fn smaller(plan: &Plan, fault: &Fault) -> Result<(Plan, u32), VoprError> {
    let mut runs = 0;
    let mut failure = None;
    // A plan that cannot be judged is as good as one that does something else, but for the error.
    let small = shrink(plan, fault, SHRINK_BUDGET, |plan| {
        runs += 1;
        judge(plan).unwrap_or_else(|error| {
            failure.get_or_insert(error);
            None
        })
    });
    failure.map_or(Ok((small, runs)), Err)
}

fn outcome(report: &Report) -> String {
    let mut text = match &report.fault {
        Some(fault) => format!("{fault}\nat {} ns\n", grouped(report.now)),
        None => format!("no rule is broken; it ends at {} ns\n", grouped(report.now)),
    };
    for reason in &report.reasons {
        let _ = writeln!(text, "  {reason}");
    }
    let _ = writeln!(text, "digest {:#018x}", report.digest);
    text
}

fn summary(farm: &Farm, harvest: &Harvest) -> String {
    let tally = &harvest.tally;
    let mut table = Table::new(&["WHAT", "COUNT"], &[1]);
    let mut row = |what: &str, count: u64| table.row([what.to_owned(), grouped(count)]);
    row("first seed", farm.first);
    row("seeds without a fault", tally.runs);
    if !harvest.failures.is_empty() {
        row("seeds that broke a rule", harvest.failures.len() as u64);
    }
    let mut rules: BTreeMap<&str, u64> = BTreeMap::new();
    for fault in harvest.failures.values() {
        *rules.entry(&*fault.rule).or_default() += 1;
    }
    for (rule, count) in &rules {
        row(&format!("of them: {rule}"), *count);
    }
    row("connections", tally.connections);
    row("processes that died", tally.deaths);
    row("QPs exposed to a hostile peer", tally.exposed);
    row("packets of hostile peers", tally.attacks);
    row("events", tally.events);
    row("packets", tally.frames);
    row("packets that met a fault", tally.hit);
    for (status, count) in &tally.completions {
        row(&format!("completions with {}", status_name(*status)), *count);
    }
    row("milliseconds", harvest.took.as_millis() as u64);
    let mut text = table.text(Reader::of_stdout());
    if let Some(digest) = harvest.digest {
        let _ = writeln!(text, "digest {digest:#018x}");
    }
    text
}

/// A status as `ibv_wc_status_str(3)` has it in its enum.
fn status_name(status: u32) -> String {
    let known = [
        WcStatus::Success,
        WcStatus::LocLenErr,
        WcStatus::LocQpOpErr,
        WcStatus::LocProtErr,
        WcStatus::WrFlushErr,
        WcStatus::MwBindErr,
        WcStatus::BadRespErr,
        WcStatus::LocAccessErr,
        WcStatus::RemInvReqErr,
        WcStatus::RemAccessErr,
        WcStatus::RemOpErr,
        WcStatus::RetryExcErr,
        WcStatus::RnrRetryExcErr,
    ];
    let found = known.into_iter().find(|known| *known as u32 == status);
    found.map_or_else(|| format!("status {status}"), |status| format!("{status:?}"))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), VoprError> {
    fs::write(path, bytes).map_err(|error| VoprError::File { path: PathBuf::from(path), error })
}

/// Plans tried while shrinking; at some ten milliseconds each.
const SHRINK_BUDGET: u32 = 1_500;

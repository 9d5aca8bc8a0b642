//! Measures what loss, reordering and incast cost the transport, in the emulator's virtual time, and writes the tables
//! and plots of `docs/src/goodput.md`. The same seed gives the same files.

mod card;
mod incast;
mod incast_pages;
mod loss;
mod loss_pages;
mod plot;
mod table;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Parser)]
#[command(about = "Measure goodput under loss, reordering and incast, in virtual time")]
struct Options {
    /// Where the documentation's pages are
    #[arg(long, default_value = "docs/src")]
    docs: PathBuf,
    /// All chances follow from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write nothing, and fail if what there is is not what was measured
    #[arg(long)]
    check: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let incast = incast_pages::Pages::measure(options.seed)?;
    let loss = loss_pages::Pages::measure(options.seed)?;
    let page = options.docs.join("goodput.md");
    let mut text = fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    for (name, table) in
        [("loss", &loss.loss_table), ("reordering", &loss.reorder_table), ("incast", &incast.table)]
    {
        text = replaced(&text, name, table)?;
    }
    let plots = [
        ("goodput/loss.svg", loss.loss_plot),
        ("goodput/reordering.svg", loss.reorder_plot),
        ("goodput/incast-queue.svg", incast.queue_plot),
        ("goodput/incast-rates.svg", incast.rate_plot),
        ("goodput/incast-fairness.svg", incast.fairness_plot),
    ];
    settle(&page, &text, options.check)?;
    for (name, plot) in plots {
        settle(&options.docs.join(name), &plot, options.check)?;
    }
    Ok(())
}

/// The page with another table between the two comments that bear its name.
fn replaced(page: &str, name: &str, table: &str) -> Result<String> {
    let begin = format!("<!-- {name}: written by `cargo xtask goodput` -->\n");
    let end = format!("<!-- {name} ends -->");
    let from = page.find(&begin).with_context(|| format!("the page has no {begin}"))? + begin.len();
    let length = page[from..].find(&end).with_context(|| format!("the page has no {end}"))?;
    Ok(format!("{}\n{table}\n{}", &page[..from], &page[from + length..]))
}

/// Writes a file, or makes sure that it is as it should be.
fn settle(path: &Path, text: &str, check: bool) -> Result<()> {
    let name = path.display();
    if check {
        let present = fs::read_to_string(path).with_context(|| format!("reading {name}"))?;
        if present != text {
            bail!("{name} is not what is measured now: run `cargo xtask goodput`, look at it, and commit it");
        }
        return Ok(());
    }
    let folder = path.parent().context("a file lies in a folder")?;
    ensure!(folder.is_dir() || fs::create_dir_all(folder).is_ok(), "{} cannot be made", folder.display());
    fs::write(path, text).with_context(|| format!("writing {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_replaces_the_one_before() {
        let page = "a\n<!-- x: written by `cargo xtask goodput` -->\nold\n<!-- x ends -->\nb\n";
        let new = "a\n<!-- x: written by `cargo xtask goodput` -->\n\n| t |\n\n<!-- x ends -->\nb\n";
        assert_eq!(replaced(page, "x", "| t |\n").expect("both are there"), new);
        assert_eq!(replaced(new, "x", "| t |\n").expect("both are there"), new);
        assert!(replaced(page, "y", "").is_err());
    }
}

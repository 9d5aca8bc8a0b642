//! Many seeds in many processes, until one breaks a rule or there were enough.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ferroce_core::Nanos;
use ferroce_emulator::vopr::{Fault, Tally};
use indicatif::{ProgressBar, ProgressStyle};

use super::VoprError;
use super::judge::{LONGEST, child, endless, panicked};
use super::worker::{self, Record};

/// Which seeds, and how.
#[derive(Debug)]
pub struct Farm {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// Processes.
    pub jobs: u64,
    /// Simulated length of each.
    pub time_ns: Nanos,
    /// Real time after which none begins.
    pub limit: Option<Duration>,
    /// Whether a seed that breaks a rule is counted, and the others go on.
    pub keeps_going: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Harvest {
    /// All seeds that ended well.
    pub tally: Tally,
    /// The digest, if there was one seed only.
    pub digest: Option<u64>,
    /// Seeds that broke a rule, and how.
    pub failures: BTreeMap<u64, Fault>,
    /// How long it took.
    pub took: Duration,
}

/// What a thread that reads from a child passes on.
enum News {
    /// A line of its stdout.
    Line(String),
    /// It has ended; what it wrote to stderr.
    Ended(String),
}

/// A child, and how far it is.
struct Worker {
    child: Child,
    /// Seed under way.
    seed: u64,
    since: Instant,
    is_done: bool,
}

impl Farm {
    /// Runs them.
    ///
    /// # Errors
    /// The children could not be started, or speak another language.
    pub fn run(&self) -> Result<Harvest, VoprError> {
        let started = Instant::now();
        let progress = self.progress();
        let (sender, receiver) = mpsc::channel();
        let mut workers = Vec::new();
        let mut harvest = Harvest::default();
        let result = self.start(&sender, &mut workers).and_then(|()| {
            while workers.iter().any(|worker| !worker.is_done) {
                match receiver.recv_timeout(LOOK_EVERY) {
                    Ok((number, news)) => {
                        if let Some(next) = self.take(&mut workers[number], news, &mut harvest)? {
                            workers[number] = self.start_worker(number as u64, next, &sender)?;
                        }
                    }
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
                }
                for worker in &mut workers {
                    if !worker.is_done && worker.since.elapsed() > LONGEST {
                        harvest.failures.insert(worker.seed, endless());
                        // It can have ended by itself just now.
                        let _ = worker.child.kill();
                        worker.since = Instant::now();
                    }
                }
                let is_late = self.limit.is_some_and(|limit| started.elapsed() >= limit);
                if (!harvest.failures.is_empty() && !self.keeps_going) || is_late {
                    break;
                }
                self.show_progress(&progress, &harvest, started.elapsed());
            }
            Ok(())
        });
        progress.finish_and_clear();
        for worker in &mut workers {
            // One that has ended already cannot be ended.
            let _ = worker.child.kill();
            worker.child.wait().map_err(VoprError::Child)?;
        }
        harvest.took = started.elapsed();
        result.map(|()| harvest)
    }

    fn start(&self, sender: &Sender<(usize, News)>, workers: &mut Vec<Worker>) -> Result<(), VoprError> {
        for number in 0..self.stride() {
            workers.push(self.start_worker(number, self.first.wrapping_add(number), sender)?);
        }
        Ok(())
    }

    /// A child that runs the seeds from `first` on that are its own.
    fn start_worker(
        &self,
        number: u64,
        first: u64,
        sender: &Sender<(usize, News)>,
    ) -> Result<Worker, VoprError> {
        let (seed, stride) = (first.to_string(), self.stride().to_string());
        let time = format!("{}ns", self.time_ns);
        let mut child = child(&["--worker", &stride, "--seed", &seed, "--time", &time])?;
        read_in_background(&mut child, number as usize, sender.clone());
        Ok(Worker { child, seed: first, since: Instant::now(), is_done: false })
    }

    /// How many processes share the seeds.
    fn stride(&self) -> u64 {
        self.jobs.min(self.count)
    }

    /// Takes news of a child; the seed that another one has to go on with, if this one ended early.
    fn take(&self, worker: &mut Worker, news: News, harvest: &mut Harvest) -> Result<Option<u64>, VoprError> {
        // What comes after the last seed that was asked for does not count.
        if worker.is_done {
            return Ok(None);
        }
        match news {
            News::Ended(stderr) => {
                // One that was ended for taking too long has its fault already.
                harvest.failures.entry(worker.seed).or_insert_with(|| panicked(&stderr));
                let next = worker.seed.wrapping_add(self.stride());
                worker.is_done = next.wrapping_sub(self.first) >= self.count || !self.keeps_going;
                worker.child.wait().map_err(VoprError::Child)?;
                return Ok((!worker.is_done).then_some(next));
            }
            News::Line(line) => match worker::read(&line)? {
                Record::Begin(seed) => {
                    worker.seed = seed;
                    worker.since = Instant::now();
                    worker.is_done = seed.wrapping_sub(self.first) >= self.count;
                }
                Record::Passed { tally, digest } => {
                    harvest.tally.add(&tally);
                    harvest.digest = (self.count == 1).then_some(digest);
                }
                Record::Failed(fault) => {
                    harvest.failures.insert(worker.seed, fault);
                }
            },
        }
        Ok(None)
    }

    /// The limit, if it is what ends the run.
    fn endless_until(&self) -> Option<Duration> {
        self.limit.filter(|_| self.count == u64::MAX)
    }

    fn progress(&self) -> ProgressBar {
        let (length, template) = match self.endless_until() {
            Some(limit) => (limit.as_secs(), "{bar:30} {pos} of {len} s  {msg}"),
            None => (self.count, "{bar:30} {pos} of {len} seeds, {eta} left  {msg}"),
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        // It shows nothing where stderr is no terminal.
        ProgressBar::new(length).with_style(style)
    }

    fn show_progress(&self, progress: &ProgressBar, harvest: &Harvest, elapsed: Duration) {
        let Tally { runs, events, hit, .. } = harvest.tally;
        progress.set_position(self.endless_until().map_or(runs, |_| elapsed.as_secs()));
        let rate = runs as f64 / elapsed.as_secs_f64().max(0.001);
        let failed = harvest.failures.len();
        let text =
            format!("{rate:.0} seeds/s, {} M events, {hit} faults, {failed} failed", events / 1_000_000);
        progress.set_message(text);
    }
}

/// Passes on what a child writes.
fn read_in_background(child: &mut Child, number: usize, sender: Sender<(usize, News)>) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // Both are read at once, since a child stops when one of them is full.
    let stderr = thread::spawn(move || {
        let mut bytes = Vec::new();
        // What cannot be read was not said.
        let _ = stderr.map(|mut stderr| stderr.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    });
    thread::spawn(move || {
        for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
            let Ok(line) = line else { break };
            // Nobody listens any more when there were enough seeds.
            if sender.send((number, News::Line(line))).is_err() {
                return;
            }
        }
        let text = stderr.join().unwrap_or_default();
        let _ = sender.send((number, News::Ended(text)));
    });
}

/// How often the clock is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

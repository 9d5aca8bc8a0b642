//! One measurement: processes are started, and one number comes out.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use ferroce_pair::{Pair, Program, User};
use serde::{Serialize, Serializer};

use super::figure::{Figure, Kind, PATH_MTU};
use super::perftest;
use crate::raw::{PingpongReport, StreamReport, Waiting};

/// How everything is measured.
#[derive(Serialize)]
pub struct Setting {
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// How often.
    pub rounds: u32,
    /// Of one measurement of bandwidth.
    pub seconds: u32,
    /// In one measurement of latency.
    pub exchanges: u32,
    /// Who all processes run as.
    #[serde(serialize_with = "serialize_user")]
    pub user: User,
    /// The command `ferroce`.
    pub ferroce: PathBuf,
    /// This program.
    #[serde(skip)]
    pub bench: PathBuf,
}

impl Setting {
    /// The figure itself, in its unit.
    ///
    /// # Errors
    /// When a program fails, does not end, or prints something else than expected.
    pub fn measure(&self, figure: Figure) -> anyhow::Result<f64> {
        let pair = Pair { program: figure.program(), options: self.options(figure) };
        let run = pair.run(&self.ferroce, self.user, self.patience())?;
        let value = perftest::check_path(&run.output, self.ipv6).and_then(|()| match figure.kind() {
            // Bits to bytes.
            Kind::Bandwidth => Ok(perftest::average_gbps(&run.output, figure.message_len())? / 8.0),
            Kind::Latency => perftest::typical_us(&run.output, figure.message_len()),
        });
        value.with_context(|| format!("`{}` printed:\n{}", run.client_command, run.output.trim_end()))
    }

    /// What raw UDP does with the figure's packets, in the same unit: the better of two ways to wait for them, of
    /// which one suits a machine with processors to spare and the other a busy one.
    ///
    /// # Errors
    /// When a process fails or does not end.
    pub fn measure_limit(&self, figure: Figure) -> anyhow::Result<f64> {
        let polling = self.measure_udp(figure, Waiting::Poll)?;
        let sleeping = self.measure_udp(figure, Waiting::Sleep)?;
        Ok(figure.kind().better(polling, sleeping))
    }

    fn measure_udp(&self, figure: Figure, waiting: Waiting) -> anyhow::Result<f64> {
        let mut command = Command::new(&self.bench);
        command.arg(match figure.kind() {
            Kind::Bandwidth => "stream",
            Kind::Latency => "pingpong",
        });
        command.args(["--size", &figure.packet_len().to_string(), "--wait", waiting.name()]);
        // The two ways share the time.
        command.args(["--seconds", &(f64::from(self.seconds) / 2.0).to_string()]);
        if figure.kind() == Kind::Latency {
            command.args(["--iterations", &self.exchanges.to_string()]);
        }
        if self.ipv6 {
            command.arg("--ipv6");
        }
        self.user.apply(&mut command);
        let output = Program::start(command)?.finish(Instant::now() + self.patience())?;
        match figure.kind() {
            Kind::Bandwidth => {
                let report: StreamReport = serde_json::from_str(&output)?;
                Ok(report.packets_per_second * f64::from(figure.payload_len()) / 1e9)
            }
            Kind::Latency => Ok(serde_json::from_str::<PingpongReport>(&output)?.median_us),
        }
    }

    /// What perftest is told on both sides.
    pub fn options(&self, figure: Figure) -> Vec<String> {
        let mut options = vec!["-s".to_owned(), figure.message_len().to_string()];
        let mut add = |words: &str| options.extend(words.split(' ').map(str::to_owned));
        add(&format!("-m {PATH_MTU}"));
        match figure.kind() {
            // Without the two seconds before and after that perftest leaves out by default; in 10⁹ bits a second,
            // since its megabytes are of 2²⁰ bytes.
            Kind::Bandwidth => add(&format!("-D {} -f 0 --report_gbits", self.seconds)),
            Kind::Latency => add(&format!("-n {}", self.exchanges)),
        }
        if self.ipv6 {
            // The IPv6 address; perftest's own choice is the IPv4 one.
            add("-x 0");
        }
        // A CPU whose frequency changes is worth no refusal.
        add("-F");
        options
    }

    fn patience(&self) -> Duration {
        PATIENCE + Duration::from_secs(self.seconds.into())
    }
}

/// Beyond the time of measuring; an idle machine needs a second of it.
const PATIENCE: Duration = Duration::from_secs(120);

fn serialize_user<S: Serializer>(user: &User, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match user {
        User::Caller => "caller",
        User::Nobody { .. } => "nobody",
        User::Root => "root",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(ipv6: bool) -> Setting {
        Setting {
            ipv6,
            rounds: 1,
            seconds: 3,
            exchanges: 20,
            user: User::Caller,
            ferroce: "/nonexistent/ferroce".into(),
            bench: "/nonexistent/bench".into(),
        }
    }

    #[test]
    fn perftest_is_told_size_mtu_length_and_unit() {
        let options = |figure, ipv6| setting(ipv6).options(figure).join(" ");
        assert_eq!(options(Figure::Write64k, false), "-s 65536 -m 4096 -D 3 -f 0 --report_gbits -F");
        assert_eq!(options(Figure::Write1m, true), "-s 1048576 -m 4096 -D 3 -f 0 --report_gbits -x 0 -F");
        assert_eq!(options(Figure::SendLat, false), "-s 8 -m 4096 -n 20 -F");
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let error = setting(false).measure_limit(Figure::SendLat).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/bench pingpong --size 24 "), "{error}");
    }
}

//! What is measured, what it is held against, and what is aimed at.

use std::fmt;

use clap::ValueEnum;
use ferroce_wire::{Bth, ICRC_LEN};
use serde::Serialize;

/// A figure of an application.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Bandwidth of RDMA WRITEs of 64 KiB
    #[value(name = "write-64k")]
    #[serde(rename = "write-64k")]
    Write64k,
    /// Bandwidth of RDMA WRITEs of 1 MiB
    #[value(name = "write-1m")]
    #[serde(rename = "write-1m")]
    Write1m,
    /// Latency of SENDs of 8 bytes
    SendLat,
}

/// What a figure says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Payload bytes a second, in units of 10⁹.
    Bandwidth,
    /// Half of a round trip, in microseconds.
    Latency,
}

/// What the ratio of figure and limit is meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Figure {
    /// In the order of the table.
    pub const ALL: [Figure; 3] = [Figure::Write64k, Figure::Write1m, Figure::SendLat];

    /// The figure's name in the table.
    pub fn title(self) -> &'static str {
        match self {
            Figure::Write64k => "RDMA WRITE, 64 KiB",
            Figure::Write1m => "RDMA WRITE, 1 MiB",
            Figure::SendLat => "SEND, 8 bytes",
        }
    }

    /// Bandwidth or latency.
    pub fn kind(self) -> Kind {
        match self {
            Figure::Write64k | Figure::Write1m => Kind::Bandwidth,
            Figure::SendLat => Kind::Latency,
        }
    }

    /// The program of perftest.
    pub fn program(self) -> &'static str {
        match self.kind() {
            Kind::Bandwidth => "ib_write_bw",
            Kind::Latency => "ib_send_lat",
        }
    }

    /// Bytes of one message.
    pub fn message_len(self) -> u32 {
        match self {
            Figure::Write64k => 64 << 10,
            Figure::Write1m => 1 << 20,
            Figure::SendLat => 8,
        }
    }

    /// The payload of the limit's packets, in bytes: what the figure's packets carry of a message.
    pub fn payload_len(self) -> u32 {
        self.message_len().min(PATH_MTU)
    }

    /// The limit's packets, in bytes of UDP payload: as long as the figure's. Of a message of several packets only the
    /// first is longer than this, by the 16 bytes of its RETH (IBTA 9.4.4).
    pub fn packet_len(self) -> u32 {
        self.payload_len() + (Bth::LEN + ICRC_LEN) as u32
    }

    /// The aim of this stage of the project.
    pub fn aim(self) -> Aim {
        match self.kind() {
            Kind::Bandwidth => Aim::AtLeast(0.5),
            Kind::Latency => Aim::AtMost(2.0),
        }
    }
}

impl Kind {
    /// The unit of the values.
    pub fn unit(self) -> &'static str {
        match self {
            Kind::Bandwidth => "GB/s",
            Kind::Latency => "µs",
        }
    }

    /// The better of two values.
    pub fn better(self, one: f64, other: f64) -> f64 {
        match self {
            Kind::Bandwidth => one.max(other),
            Kind::Latency => one.min(other),
        }
    }
}

impl Aim {
    /// Whether a ratio of figure and limit is as good as that.
    pub fn is_met(self, ratio: f64) -> bool {
        match self {
            Aim::AtLeast(least) => ratio >= least,
            Aim::AtMost(most) => ratio <= most,
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aim::AtLeast(least) => write!(f, "≥ {least:.2}"),
            Aim::AtMost(most) => write!(f, "≤ {most:.2}"),
        }
    }
}

/// The path MTU that the applications are told to use: the loopback device's, the largest there is.
pub const PATH_MTU: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_the_limit_are_as_long_as_those_of_the_figure() {
        // BTH 12, payload, ICRC 4.
        assert_eq!(Figure::ALL.map(Figure::packet_len), [4112, 4112, 24]);
        assert_eq!(Figure::ALL.map(Figure::payload_len), [4096, 4096, 8]);
    }

    #[test]
    fn an_aim_includes_its_border() {
        assert!(Aim::AtLeast(0.5).is_met(0.5) && !Aim::AtLeast(0.5).is_met(0.49));
        assert!(Aim::AtMost(2.0).is_met(2.0) && !Aim::AtMost(2.0).is_met(2.01));
    }
}

//! `ferroce devices`: the devices that an application would see, with their GIDs.

use std::io;

use clap::Args;
use ferroce::{Device, PortState};
use serde::Serialize;
use thiserror::Error;

use crate::output::{self, Reader, Table};

/// List the devices: interface, port state, MTU, and the GID table
///
/// A GID's index is what programs call -x or -g. FERROCE_DEVICES narrows the list as it does for an application.
#[derive(Args, Debug)]
pub struct DevicesArgs {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Why there is no list.
#[derive(Debug, Error)]
pub enum DevicesError {
    /// The interfaces could not be looked at.
    #[error(transparent)]
    Verbs(#[from] ferroce::Error),
    /// There is none to show.
    #[error(
        "no network interface here can carry a device: one needs an address and an MTU of at least 336 bytes, \
         and FERROCE_DEVICES, if set, has to name it"
    )]
    None,
    /// stdout did not take it.
    #[error("cannot print the devices")]
    Output(#[from] io::Error),
}

/// Prints the list.
///
/// # Errors
/// [`DevicesError`].
pub fn devices(args: &DevicesArgs) -> Result<(), DevicesError> {
    let descriptions = ferroce::devices()?.iter().map(Description::of).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        output::print_json(&descriptions)?;
    } else if descriptions.is_empty() {
        return Err(DevicesError::None);
    } else {
        output::print(&text(&descriptions, Reader::of_stdout()))?;
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct Description {
    device: String,
    interface: String,
    state: &'static str,
    active_mtu: u32,
    max_mtu: u32,
    node_guid: String,
    gids: Vec<GidDescription>,
}

#[derive(Debug, Serialize)]
struct GidDescription {
    index: u32,
    gid: String,
    /// The IP address that the GID stands for.
    address: String,
}

impl Description {
    fn of(device: &Device) -> Result<Self, ferroce::Error> {
        let port = device.port_attr(PORT)?;
        Ok(Self {
            device: device.name().to_owned(),
            interface: device.interface_name().to_owned(),
            state: match port.state {
                PortState::Active => "ACTIVE",
                PortState::Down => "DOWN",
            },
            active_mtu: port.active_mtu.bytes(),
            max_mtu: port.max_mtu.bytes(),
            node_guid: guid_text(device.guid()),
            gids: device.gids().into_iter().map(|(index, gid)| GidDescription::of(index, gid)).collect(),
        })
    }
}

impl GidDescription {
    fn of(index: u32, gid: ferroce::Gid) -> Self {
        Self { index, gid: gid.to_string(), address: gid.ip().to_string() }
    }
}

/// One line for each GID. For a person, the device's own columns stand in its first line only.
fn text(devices: &[Description], reader: Reader) -> String {
    let head = ["DEVICE", "INTERFACE", "STATE", "MTU", "MAX", "INDEX", "GID"];
    let mut table = Table::new(&head, &[3, 4, 5]);
    for device in devices {
        let own = [
            device.device.clone(),
            device.interface.clone(),
            device.state.to_owned(),
            device.active_mtu.to_string(),
            device.max_mtu.to_string(),
        ];
        for (line, gid) in device.gids.iter().enumerate() {
            let own = if line > 0 && reader == Reader::Person { Default::default() } else { own.clone() };
            table.row(own.into_iter().chain([gid.index.to_string(), gid.gid.clone()]));
        }
    }
    table.text(reader)
}

/// As ibv_devinfo(1) prints it: `0200:00ff:fe00:0001`.
fn guid_text(guid: [u8; 8]) -> String {
    let groups: Vec<_> =
        guid.as_chunks::<2>().0.iter().map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect();
    groups.join(":")
}

/// A device has one port.
const PORT: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback() -> Description {
        let gid = |index, gid: &str| GidDescription { index, gid: gid.to_owned(), address: String::new() };
        Description {
            device: "ferroce_lo".to_owned(),
            interface: "lo".to_owned(),
            state: "ACTIVE",
            active_mtu: 4096,
            max_mtu: 4096,
            node_guid: guid_text([2, 0, 0, 0xff, 0xfe, 0, 0, 1]),
            gids: vec![gid(0, "::1"), gid(1, "::ffff:127.0.0.1")],
        }
    }

    #[test]
    fn a_person_sees_a_device_once() {
        console::set_colors_enabled(false);
        let text = text(&[loopback()], Reader::Person);
        assert_eq!(text.matches("ferroce_lo").count(), 1, "{text}");
        assert!(text.ends_with("1  ::ffff:127.0.0.1\n"), "{text}");
    }

    #[test]
    fn a_program_gets_every_field_on_every_line() {
        let expected = "ferroce_lo\tlo\tACTIVE\t4096\t4096\t0\t::1\n\
                        ferroce_lo\tlo\tACTIVE\t4096\t4096\t1\t::ffff:127.0.0.1\n";
        assert_eq!(text(&[loopback()], Reader::Program), expected);
    }

    #[test]
    fn a_guid_looks_as_in_ibv_devinfo() {
        assert_eq!(loopback().node_guid, "0200:00ff:fe00:0001");
    }
}

//! Reads what perftest's programs print.

use anyhow::{Context, bail};

/// The average bandwidth in 10⁹ bits a second, of messages of `bytes`.
///
/// # Errors
/// When there is no such row, or it is in another unit.
pub fn average_gbps(output: &str, bytes: u32) -> anyhow::Result<f64> {
    value(output, bytes, "BW average[Gb/sec]", 1)
}

/// The median of half the round trips in microseconds, of messages of `bytes`; perftest calls it typical.
///
/// # Errors
/// When there is no such row, or it is in another unit.
pub fn typical_us(output: &str, bytes: u32) -> anyhow::Result<f64> {
    value(output, bytes, "t_typical[usec]", 2)
}

/// Makes sure that the program used Ferroce's loopback device, and the IP version that was asked for.
///
/// # Errors
/// When it did not.
pub fn check_path(output: &str, ipv6: bool) -> anyhow::Result<()> {
    if !output.split_whitespace().any(|word| word == DEVICE) {
        bail!("it did not use the device {DEVICE}");
    }
    let gid = output.lines().find_map(|line| line.trim_start().strip_prefix("GID: "));
    let gid = gid.context("it did not print its GID")?.trim_end();
    // An IPv4 address is written ::ffff:a.b.c.d; perftest prints bytes in decimal.
    let is_ipv6 = !gid.starts_with(IPV4_MAPPED);
    if is_ipv6 != ipv6 {
        bail!("it used the GID {gid}; is there no address of the IP version that was asked for?");
    }
    Ok(())
}

/// The column of that number, counted from the one after `#iterations`, in the only row of the table.
fn value(output: &str, bytes: u32, head: &str, column: usize) -> anyhow::Result<f64> {
    let mut lines = output.lines().skip_while(|line| !line.trim_start().starts_with("#bytes"));
    let heads = lines.next().context("it printed no table")?;
    if !heads.contains(head) {
        bail!("its table has no column {head}");
    }
    let row: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    if row.first().and_then(|size| size.parse().ok()) != Some(bytes) {
        bail!("its table has no row for {bytes} bytes");
    }
    let value = row.get(2 + column).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    if !(value.is_finite() && value > 0.0) {
        bail!("nothing was measured in the column {head}");
    }
    Ok(value)
}

const DEVICE: &str = "ferroce_lo";
const IPV4_MAPPED: &str = "00:00:00:00:00:00:00:00:00:00:255:255:";

#[cfg(test)]
mod tests {
    use super::*;

    // As perftest 4.5 prints them, shortened.
    const BANDWIDTH: &str = "\
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : ferroce_lo
 GID index       : 0
 local address: LID 0000 QPN 0x26656 PSN 0xb4f0e8 RKey 0xa206b840 VAddr 0x007f3800688000
 GID: 00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:01
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      12671            0.00               6.64   \t\t   0.012664
---------------------------------------------------------------------------------------
";

    const LATENCY: &str = "\
 Dual-port       : OFF\t\tDevice         : ferroce_lo
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:127:00:00:01
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       200          5.36           1419.95      5.79     \t       6.79        \t3.96   \t\t51.95   \t\t1419.95
";

    #[test]
    fn the_columns_are_found() {
        assert_eq!(average_gbps(BANDWIDTH, 65536).unwrap(), 6.64);
        assert_eq!(typical_us(LATENCY, 8).unwrap(), 5.79);
    }

    #[test]
    fn another_unit_size_or_table_is_an_error() {
        let mebibytes = BANDWIDTH.replace("Gb/sec", "MB/sec");
        assert!(average_gbps(&mebibytes, 65536).unwrap_err().to_string().contains("no column"));
        assert!(average_gbps(BANDWIDTH, 8).unwrap_err().to_string().contains("no row for 8 bytes"));
        assert!(typical_us(BANDWIDTH, 65536).unwrap_err().to_string().contains("no column"));
        assert!(typical_us("", 8).unwrap_err().to_string().contains("no table"));
    }

    #[test]
    fn a_measurement_that_is_no_number_above_zero_is_an_error() {
        for nothing in ["0.00", "nan", "inf", "-1", "x"] {
            let output = LATENCY.replace("5.79", nothing);
            assert!(typical_us(&output, 8).is_err(), "{nothing}");
        }
    }

    #[test]
    fn device_and_ip_version_are_those_asked_for() {
        check_path(BANDWIDTH, true).unwrap();
        check_path(LATENCY, false).unwrap();
        assert!(check_path(BANDWIDTH, false).is_err() && check_path(LATENCY, true).is_err());
        let other = LATENCY.replace("ferroce_lo", "mlx5_0");
        assert!(check_path(&other, false).unwrap_err().to_string().contains("ferroce_lo"));
        assert!(check_path("Device : ferroce_lo", false).unwrap_err().to_string().contains("GID"));
    }
}

//! Reads what `ibv_*_pingpong` prints.

/// What one side says at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Bytes sent and received together.
    pub bytes: u64,
    /// Exchanges.
    pub iterations: u64,
}

/// Reads the two closing lines, `BYTES bytes in … seconds` and `N iters in … seconds`.
pub fn summary(output: &str) -> Option<Summary> {
    let number = |unit: &str| {
        output.lines().find_map(|line| {
            let (number, rest) = line.split_once(' ')?;
            rest.starts_with(unit).then(|| number.parse().ok())?
        })
    };
    Some(Summary { bytes: number("bytes in")?, iterations: number("iters in")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_are_read() {
        let output = "  local address:  LID 0x0000, QPN 0x010001\n\
                      8192000 bytes in 0.01 seconds = 5698.32 Mbit/sec\n\
                      1000 iters in 0.01 seconds = 11.50 usec/iter\n";
        assert_eq!(summary(output), Some(Summary { bytes: 8_192_000, iterations: 1000 }));
        assert_eq!(summary("8192000 bytes in 0.01 seconds"), None);
    }
}

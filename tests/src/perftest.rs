//! Reads the tables that perftest's programs print.

/// One line of a result table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Message size.
    pub bytes: u64,
    /// Messages, or exchanges, that were measured.
    pub iterations: u64,
    /// The columns after that, in the units of the table's head.
    pub values: Vec<f64>,
}

/// Everything below a line that starts with `#bytes`. Empty if there is no table.
pub fn rows(output: &str) -> Vec<Row> {
    let table = output.lines().skip_while(|line| !line.trim_start().starts_with("#bytes"));
    table.filter_map(row).collect()
}

fn row(line: &str) -> Option<Row> {
    let mut fields = line.split_whitespace();
    let bytes = fields.next()?.parse().ok()?;
    let iterations = fields.next()?.parse().ok()?;
    let values = fields.map(|field| field.parse().ok()).collect::<Option<Vec<f64>>>()?;
    Some(Row { bytes, iterations, values })
}

/// The sizes of `-a`: 2 bytes to 8 MiB by powers of two.
pub fn all_sizes() -> Vec<u64> {
    (1..=23).map(|power| 1 << power).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BANDWIDTH: &str = "\
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             1042.17            1004.55\t\t   0.016073
---------------------------------------------------------------------------------------
";

    const LATENCY: &str = "\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 2       1000          7.47           41.99        8.02     \t       8.24        \t1.49\t\t10.61   \t\t41.99  
 4       1000          7.47           41.99        8.02     \t       8.24        \t1.49\t\t10.61   \t\t41.99  
";

    #[test]
    fn both_kinds_of_table_are_read() {
        let row = Row { bytes: 65536, iterations: 5000, values: vec![1042.17, 1004.55, 0.016073] };
        assert_eq!(rows(BANDWIDTH), [row]);
        let rows = rows(LATENCY);
        assert_eq!((rows.len(), rows[1].bytes, rows[1].values.len()), (2, 4, 7));
    }

    #[test]
    fn a_run_without_a_table_has_no_rows() {
        assert_eq!(rows(" local address: LID 0000 QPN 0x10001\n 2 3 4\n"), []);
        assert_eq!((all_sizes().len(), all_sizes()[22]), (23, 8 << 20));
    }
}

//! The rows of the table, in Markdown: each is printed when it is known.

use crate::harness::runner::bench::Tell;

/// Prints rows.
pub(super) struct Table<'a> {
    tell: Tell<'a>,
}

/// One cell of one server.
pub(super) struct Row<'a> {
    pub(super) what: String,
    pub(super) clients: usize,
    pub(super) server: &'a str,
    /// Requests a second.
    pub(super) per_s: f64,
    /// Bytes of contents a second, where there are any.
    pub(super) bytes_per_s: Option<f64>,
    pub(super) p50_s: f64,
    pub(super) p99_s: f64,
    /// Cores that the client kept busy.
    pub(super) client_cores: Option<f64>,
    /// Cores that the server's process kept busy.
    pub(super) server_cores: Option<f64>,
    /// Flushes of a drive for each request; `Some(None)` where they could not be read, `None` where they are not asked
    /// for.
    pub(super) flushes: Option<Option<f64>>,
    /// How much faster the first server is.
    pub(super) of_first: f64,
}

impl<'a> Table<'a> {
    /// Prints the head.
    pub(super) fn begin(tell: Tell<'a>) -> Self {
        let head = "| what | clients | server | requests/s | MB/s | p50 ms | p99 ms | client cores | server cores \
                    | flushes a drive | the node to it |";
        tell(head);
        tell("|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|");
        Self { tell }
    }

    pub(super) fn row(&self, row: &Row<'_>) {
        let or_dash = |number: Option<f64>, digits: usize| match number {
            Some(number) => format!("{number:.digits$}"),
            None => "-".to_owned(),
        };
        let flushes = match row.flushes {
            Some(None) => "unreadable".to_owned(),
            Some(number) => or_dash(number, 2),
            None => "-".to_owned(),
        };
        let digits = if row.per_s < 100.0 { 1 } else { 0 };
        (self.tell)(&format!(
            "| {} | {} | {} | {:.digits$} | {} | {:.2} | {:.2} | {} | {} | {flushes} | {:.2} |",
            row.what,
            row.clients,
            row.server,
            row.per_s,
            or_dash(row.bytes_per_s.map(|bytes| bytes / 1e6), 1),
            row.p50_s * 1e3,
            row.p99_s * 1e3,
            or_dash(row.client_cores, 2),
            or_dash(row.server_cores, 2),
            row.of_first,
        ));
    }
}

/// A number of bytes, as people write it.
pub(super) fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    match fits {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_as_people_write_them() {
        let sizes = [0, 1, 1 << 10, 1536, 128 << 10, 64 << 20, 5 << 30].map(size);
        let words = ["0 B", "1 B", "1 KiB", "1536 B", "128 KiB", "64 MiB", "5 GiB"];
        assert_eq!(sizes, words);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let lines = std::sync::Mutex::new(Vec::new());
        let tell = |line: &str| lines.lock().expect("one thread").push(line.to_owned());
        let table = Table::begin(&tell);
        let row = Row {
            what: "PUT 4 KiB".to_owned(),
            clients: 8,
            server: "node",
            per_s: 1234.4,
            bytes_per_s: Some(5e6),
            p50_s: 0.001,
            p99_s: 0.02,
            client_cores: Some(0.25),
            server_cores: None,
            flushes: Some(None),
            of_first: 1.0,
        };
        table.row(&row);
        let lines = lines.lock().expect("one thread");
        let wanted =
            "| PUT 4 KiB | 8 | node | 1234 | 5.0 | 1.00 | 20.00 | 0.25 | - | unreadable | 1.00 |";
        assert_eq!(lines.last().map(String::as_str), Some(wanted));
    }
}

//! The lines of a trace, read one at a time.

use std::io::{BufRead, Read};
use std::ops::Range;

use crate::workload_error::WorkloadError;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const LFS_POINTER: &str = "version https://git-lfs.github.com/spec/v1";

/// Bytes that no row has: reading a file without line ends must not fill the memory.
const LONGEST_LINE: u64 = 256 << 20;

/// The lines of a trace that are not blank, with their numbers.
pub(super) struct Lines<'a, R> {
    input: R,
    path: &'a str,
    number: usize,
    buffer: Vec<u8>,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub(super) fn new(input: R, path: &'a str) -> Self {
        Self {
            input,
            path,
            number: 0,
            buffer: Vec::new(),
        }
    }

    /// Name of the trace.
    pub(super) fn path(&self) -> &'a str {
        self.path
    }

    /// The next line that is not blank and its number, from 1.
    pub(super) fn next_row(&mut self) -> Result<Option<(usize, &str)>, WorkloadError> {
        let row = loop {
            self.buffer.clear();
            self.number += 1;
            let read = (&mut self.input).take(LONGEST_LINE).read_until(b'\n', &mut self.buffer);
            let bytes = read.map_err(|source| WorkloadError::Read {
                path: self.path.to_owned(),
                line: self.number,
                source,
            })?;
            if bytes == 0 {
                return Ok(None);
            }
            if bytes as u64 == LONGEST_LINE {
                return Err(WorkloadError::LineTooLong {
                    path: self.path.to_owned(),
                    line: self.number,
                });
            }
            let row = self.row_in_buffer();
            if !row.is_empty() {
                break row;
            }
        };
        let text = std::str::from_utf8(&self.buffer[row]).map_err(|_| WorkloadError::NotText {
            path: self.path.to_owned(),
            line: self.number,
        })?;
        if text.starts_with(LFS_POINTER) {
            return Err(WorkloadError::LfsPointer {
                path: self.path.to_owned(),
            });
        }
        Ok(Some((self.number, text)))
    }

    /// Where the row lies between byte order mark, blanks and line end.
    fn row_in_buffer(&self) -> Range<usize> {
        let mark = match self.number {
            1 if self.buffer.starts_with(BYTE_ORDER_MARK) => BYTE_ORDER_MARK.len(),
            _ => 0,
        };
        let unmarked = &self.buffer[mark..];
        let start = mark + (unmarked.len() - unmarked.trim_ascii_start().len());
        start..start + unmarked.trim_ascii().len()
    }
}

//! Shows what an HTML report is made of, and writes one with invented figures to standard output.
//!
//! ```sh
//! cargo run --release --example html_report > report.html
//! ```

mod sample;

fn main() {
    println!("{}", dynosim::html_report::render(&sample::page()));
}

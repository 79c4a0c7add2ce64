//! The dynosim command.

fn main() {}

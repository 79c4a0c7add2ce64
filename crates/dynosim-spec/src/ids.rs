//! Dense indices of the things a run consists of.

use std::fmt;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The identity with this index.
            pub const fn new(index: u32) -> Self {
                Self(index)
            }

            /// The index as written in reports.
            pub const fn get(self) -> u32 {
                self.0
            }

            /// The index into a `Vec` of these.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index!(
    /// A request of a workload: its position in session order, turns of a session adjacent.
    RequestId
);
index!(
    /// A worker of one pool.
    WorkerId
);
index!(
    /// A shared stretch of prompt blocks; see [`PromptSegments`](crate::PromptSegments).
    SegmentId
);

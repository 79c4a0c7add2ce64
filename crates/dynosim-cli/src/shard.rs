//! Parts of a sweep.

use std::fmt;
use std::str::FromStr;

use dynosim::sweep::Shard;
use serde::{Deserialize, Serialize};

/// A part of a sweep as people count: `1/7` to `7/7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct ShardArg {
    /// Parts in all.
    pub(crate) count: u32,
    /// Which one, from 1.
    pub(crate) number: u32,
}

impl ShardArg {
    /// The same part as the library counts.
    pub(crate) const fn shard(self) -> Shard {
        Shard {
            index: self.number - 1,
            count: self.count,
        }
    }
}

impl FromStr for ShardArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, count)| {
            let (number, count) = (number.parse().ok()?, count.parse().ok()?);
            Some(Self { count, number })
        });
        let shard = numbers.ok_or("a shard is NUMBER/COUNT, such as 1/7")?;
        if (1..=shard.count).contains(&shard.number) {
            return Ok(shard);
        }
        Err(match shard.count {
            0 => "a sweep has one part at least: 1/1".to_owned(),
            count => format!("there are shards 1/{count} to {count}/{count}"),
        })
    }
}

impl TryFrom<String> for ShardArg {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ShardArg> for String {
    fn from(shard: ShardArg) -> Self {
        shard.to_string()
    }
}

impl fmt::Display for ShardArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_from_one() {
        let check = |text: &str, expected: Result<(u32, u32), &str>| {
            let shard = text.parse::<ShardArg>();
            let shard = shard.map(|shard| (shard.shard().index, shard.shard().count));
            assert_eq!(shard, expected.map_err(str::to_owned), "{text}");
        };
        check("1/1", Ok((0, 1)));
        check("7/7", Ok((6, 7)));
        check("8/7", Err("there are shards 1/7 to 7/7"));
        check("0/7", Err("there are shards 1/7 to 7/7"));
        check("1/0", Err("a sweep has one part at least: 1/1"));
        check("-1/7", Err("a shard is NUMBER/COUNT, such as 1/7"));
        check("1", Err("a shard is NUMBER/COUNT, such as 1/7"));
    }
}

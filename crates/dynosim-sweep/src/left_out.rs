//! Sizes that cannot be used, for people: each reason once.

use dynosim_spec::WorkerRole;
use indexmap::IndexMap;

use crate::worker_shapes::LeftOutTp;

/// A line per reason for which tensor-parallel sizes are left out, with the roles and sizes it is about:
/// `prefill and decode tp 1, 2: ...`. Reasons that differ in the size that they name are taken for one.
pub fn left_out_by_reason(left_out: &[LeftOutTp]) -> Vec<String> {
    let mut by_reason: IndexMap<String, IndexMap<WorkerRole, Vec<u32>>> = IndexMap::new();
    for entry in left_out {
        let reason = without_size(&entry.reason, entry.tp);
        let roles = by_reason.entry(reason).or_default();
        roles.entry(entry.role).or_default().push(entry.tp);
    }
    let lines = by_reason.iter();
    lines
        .map(|(reason, roles)| format!("{}: {reason}", workers(roles)))
        .collect()
}

/// The reason without the size, which stands in front of it.
fn without_size(reason: &str, tp: u32) -> String {
    let size = format!(" at tp {tp}");
    match reason.split_once(&size) {
        Some((before, after)) if !after.starts_with(|letter: char| letter.is_ascii_digit()) => {
            format!("{before}{after}")
        }
        _ => reason.to_owned(),
    }
}

/// Roles with the same sizes share them.
fn workers(roles: &IndexMap<WorkerRole, Vec<u32>>) -> String {
    let mut by_sizes: IndexMap<&[u32], Vec<String>> = IndexMap::new();
    for (role, tps) in roles {
        by_sizes.entry(tps).or_default().push(role.to_string());
    }
    let groups = by_sizes.iter().map(|(tps, roles)| {
        let tps: Vec<String> = tps.iter().map(u32::to_string).collect();
        format!("{} tp {}", roles.join(" and "), tps.join(", "))
    });
    groups.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(left_out: &[(WorkerRole, u32, &str)], expected: &[&str]) {
        let entries: Vec<LeftOutTp> = left_out
            .iter()
            .map(|&(role, tp, reason)| LeftOutTp {
                role,
                tp,
                reason: reason.to_owned(),
            })
            .collect();
        assert_eq!(left_out_by_reason(&entries), expected);
    }

    #[test]
    fn a_reason_is_given_once() {
        use WorkerRole::{Decode, Prefill};
        check(&[], &[]);
        check(
            &[
                (Prefill, 1, "no"),
                (Prefill, 2, "no"),
                (Decode, 1, "no"),
                (Decode, 2, "no"),
            ],
            &["prefill and decode tp 1, 2: no"],
        );
        check(
            &[(Prefill, 1, "no"), (Prefill, 2, "small"), (Decode, 2, "no")],
            &["prefill tp 1, decode tp 2: no", "prefill tp 2: small"],
        );
    }

    #[test]
    fn sizes_make_no_other_reason() {
        use WorkerRole::Prefill;
        check(
            &[
                (Prefill, 1, "no table for m at tp 1 here"),
                (Prefill, 2, "no table for m at tp 2 here"),
            ],
            &["prefill tp 1, 2: no table for m here"],
        );
        check(&[(Prefill, 1, "m at tp 16")], &["prefill tp 1: m at tp 16"]);
    }
}

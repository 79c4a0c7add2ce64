//! Sizes that cannot be used, for people: each reason once.

use dynosim_spec::{ParallelShape, WorkerRole};
use indexmap::IndexMap;

use crate::worker_shapes::LeftOutTp;

/// A line per reason for which shapes of workers are left out, with the roles and sizes it is about:
/// `prefill and decode tp 1, 2: ...`. Reasons that differ in the size that they name are taken for one.
pub fn left_out_by_reason(left_out: &[LeftOutTp]) -> Vec<String> {
    let mut by_reason: IndexMap<String, IndexMap<WorkerRole, Vec<ParallelShape>>> = IndexMap::new();
    for entry in left_out {
        let reason = without_size(&entry.reason, entry.shape);
        let roles = by_reason.entry(reason).or_default();
        roles.entry(entry.role).or_default().push(entry.shape);
    }
    let lines = by_reason.iter();
    lines
        .map(|(reason, roles)| format!("{}: {reason}", workers(roles)))
        .collect()
}

/// The reason without the size, which stands in front of it.
fn without_size(reason: &str, shape: ParallelShape) -> String {
    let size = format!(" at {shape}");
    match reason.split_once(&size) {
        Some((before, after)) if !after.starts_with(|letter: char| letter.is_ascii_digit()) => {
            format!("{before}{after}")
        }
        _ => reason.to_owned(),
    }
}

/// Roles with the same sizes share them.
fn workers(roles: &IndexMap<WorkerRole, Vec<ParallelShape>>) -> String {
    let mut by_shapes: IndexMap<&[ParallelShape], Vec<String>> = IndexMap::new();
    for (role, shapes) in roles {
        by_shapes.entry(shapes).or_default().push(role.to_string());
    }
    let groups = by_shapes
        .iter()
        .map(|(shapes, roles)| format!("{} {}", roles.join(" and "), sizes(shapes)));
    groups.collect::<Vec<String>>().join(", ")
}

/// `tp 1, 2` where that is all, and `tp 2 moe_ep 2, tp 2 moe_tp 2` otherwise.
fn sizes(shapes: &[ParallelShape]) -> String {
    let named = shapes.iter().any(|shape| !shape.is_tensor_only());
    let names: Vec<String> = if named {
        shapes.iter().map(ParallelShape::to_string).collect()
    } else {
        shapes.iter().map(|shape| shape.tp.to_string()).collect()
    };
    let title = if named { "" } else { "tp " };
    format!("{title}{}", names.join(", "))
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
                shape: ParallelShape::tensor(tp),
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

    #[test]
    fn experts_are_named() {
        let left_out = |shape: ParallelShape| LeftOutTp {
            role: WorkerRole::Decode,
            shape,
            reason: format!("no room at {shape}"),
        };
        let shapes = [(1, 1, 1, 1), (1, 2, 2, 1), (2, 1, 1, 2)];
        let entries = shapes.map(|(tp, dp, moe_tp, moe_ep)| left_out(ParallelShape::experts(tp, dp, moe_tp, moe_ep)));
        assert_eq!(
            left_out_by_reason(&entries),
            ["decode tp 1, tp 1 attention_dp 2 moe_tp 2, tp 2 moe_ep 2: no room"]
        );
    }
}

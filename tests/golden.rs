//! Figures of the reference, and of hand-checked examples: see `tests/golden/README.md`.

mod engine;
mod rules;
mod runs;
mod support;
mod sweeps;

//! What holds for every run, whatever the engine, the rules, the router and the load.

mod any_run;
mod details;
mod giving_up;
mod lives;
mod report;

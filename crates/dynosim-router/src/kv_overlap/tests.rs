mod differential;
mod odd_cases;
mod plain_twin;
mod scenario;
mod worked_examples;

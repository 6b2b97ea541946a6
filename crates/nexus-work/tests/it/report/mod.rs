//! The integration tests of the reports.

mod browser;
mod pages;

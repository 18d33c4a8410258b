//! The tests of the whole crate, in one program: linking it once takes less time than linking seven.

mod drive;
mod e2e;
mod extension;
mod files;
mod golden;
mod laws;
mod manual;
mod random;

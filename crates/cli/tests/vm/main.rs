//! `candor vm` as people use it, with programs in place of apt and dpkg that do as the test says:
//! no network is needed. What real packages do is tried by `./test`.

mod cache;
mod experiments;
#[path = "../../../vm/src/kernel/fabricated.rs"]
mod fabricated;
mod fetch;
mod setting;

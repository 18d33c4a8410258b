//! Real Linux kernels in QEMU, with the same time on every run.
//!
//! ```text
//!  Debian package, own build -- kernel --> Kernel{image, modules} -+
//!                       guest program (embedded) -- initramfs -----+--> Machine
//!                                                                       | boot once, save
//!                                            order (candor-protocol) --> restore, run --> Report
//! ```
//!
//! Guest time is counted instructions: `-icount shift=N` makes every instruction last 2^N ns, and
//! idle time is skipped. What caches, buses and parallel processors would do is not in it.
//!
//! A machine is booted once and saved at the moment when its `/init` waits for an order. Every run
//! starts from that saved state, so no run can depend on another, and the same order gives the same
//! nanoseconds.

mod boot;
mod cache;
pub mod clean;
mod counting;
mod digest;
mod ending;
mod error;
pub mod initramfs;
pub mod kernel;
mod machine;
mod options;
mod outside;
mod plugin;
mod profile;
pub mod program;
pub mod python;
mod qemu;
mod qmp;
mod reserved_cpu;
mod run;
mod scratch;
mod snapshot;
mod speed;
mod watch;

pub use boot::Boot;
pub use cache::{Cache, folder_name};
pub use error::Error;
pub use kernel::{Kernel, Spec};
pub use machine::{BusTime, Identity, Machine, Setup};
pub use outside::MOST_SENDERS;
pub use profile::{Function, Profile};
pub use qemu::{FIRMWARE, Qemu};
pub use snapshot::ABOUT;
pub use speed::Speed;
pub use watch::{Unwatched, Watch};

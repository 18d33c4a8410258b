//! [`CanUdpArgs`]: where CAN frames are in a capture of Ethernet.

use candor_recording::CanUdp;
use clap::Args;

/// Where CAN frames are in a capture of Ethernet.
#[derive(Args)]
pub(crate) struct CanUdpArgs {
    /// The UDP port whose datagrams in captures of Ethernet are CAN frames (can2udp); none: they stay Ethernet frames
    #[arg(long, value_name = "PORT", default_value = "4858")]
    pub(crate) can_udp: CanUdp,
}

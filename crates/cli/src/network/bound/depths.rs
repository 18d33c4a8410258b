//! `candor network bound --depths`: transmit queues that are deep enough.

use candor_config::quoted_key;
use candor_diagnostics::visible;
use candor_network::bound::network::Sender;
use candor_output::say;

use super::InQueue;
use crate::Answer;
use crate::output::print;

/// Prints the depths as settings of a network file; `false` if a queue has none that is enough.
pub(super) fn run(queues: &[InQueue<'_>]) -> Answer {
    let mut text = String::from(
        "# Transmit queues of these depths lose no frame. That on the bus counts; fewer may do.\n",
    );
    let mut is_enough = true;
    // A gateway has one depth for all of its queues.
    let mut written: Vec<(&str, &str, u64)> = Vec::new();
    for queue in queues {
        let Some(frames) = queue.bound.frames else {
            let (sender, bus) = (visible(queue.sender), visible(queue.bus));
            say!(
                "the queue of {sender} on {bus} has no depth that is enough; see without --depths"
            );
            is_enough = false;
            continue;
        };
        let table = match queue.bound.sender {
            Sender::Node(_) => "node",
            Sender::Gateway(..) => "gateway",
        };
        match written.iter_mut().find(|it| (it.0, it.1) == (table, queue.sender)) {
            Some((_, _, most)) => *most = frames.max(*most),
            None => written.push((table, queue.sender, frames)),
        }
    }
    for (table, sender, frames) in written {
        text += &format!("{table}.{}.queue_depth = {frames}\n", quoted_key(sender));
    }
    print(&text)?;
    Ok(is_enough)
}

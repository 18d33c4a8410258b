//! What waits in front of an interface.

use super::connection::Netlink;
use super::message::{DUMP, GET_QUEUE, NEW_QUEUE, REQUEST, Request, attributes, u32_at};
use crate::Error;

/// What waits in front of an interface (its queueing disciplines, together).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Frames that wait now.
    pub length: u64,
    /// Frames refused since the interface came up.
    pub drops: u64,
}

impl Netlink {
    /// What waits in front of an interface, and what was refused there.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn queue(&mut self, name: &str) -> Result<Queue, Error> {
        let index = self.link(name)?.index;
        let request = Request::new(GET_QUEUE, REQUEST | DUMP).with(&queue_information(index));
        let found = self.dump("list the queues", &request, |message| {
            (message.kind == NEW_QUEUE).then(|| decode_queue(message.payload))?
        })?;
        // The root counts what its children refuse too.
        let own = found.iter().filter(|(of, _)| *of == index);
        Ok(own.map(|(_, queue)| *queue).max_by_key(|queue| queue.drops).unwrap_or_default())
    }
}

/// `struct tcmsg`: family, padding, interface, handle, parent, information.
fn queue_information(index: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes
}

/// Reads `struct tcmsg` and its statistics: the interface and its queue. `None` if it is cut.
#[must_use]
pub fn decode_queue(payload: &[u8]) -> Option<(u32, Queue)> {
    /// `TCA_STATS2`, and in it `TCA_STATS_QUEUE`: `struct gnet_stats_queue`.
    const STATISTICS: u16 = 7;
    const OF_QUEUE: u16 = 3;
    let index = u32_at(payload, 4)?;
    let mut queue = Queue::default();
    let statistics = attributes(payload.get(20..)?).filter(|found| found.kind == STATISTICS);
    for found in statistics.flat_map(|found| found.nested()) {
        if found.kind == OF_QUEUE {
            queue.length = u64::from(u32_at(found.value, 0)?);
            queue.drops = u64::from(u32_at(found.value, 8)?);
        }
    }
    Some((index, queue))
}

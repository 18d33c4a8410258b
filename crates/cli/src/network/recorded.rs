//! `arrivals` of a bus: how densely its messages come, as recordings of it say.

use std::path::Path;

use candor_diagnostics::list_of_names;
use candor_network::flow::{Flow, flows};
use candor_network::{Message as Sent, Network, Node, Payload, Queue, show_id};
use candor_time::Nanos;

use super::drive::{Drive, Form, Message};

/// Who sends what only the recording has, as in files of `network infer`.
const OTHERS: &str = "others";

/// Reads the recordings of all buses, in this folder: a message has the distances that were seen, and what no node and no
/// gateway sends is a message of a further node. The flows then, and false if no checksum confirms some of what was read.
pub(super) fn add(network: &mut Network, folder: &Path) -> Result<(Vec<Flow>, bool), String> {
    let mut is_whole = true;
    let mut added = Vec::new();
    let copies = flows(network).unwrap_or_default();
    for bus in 0..network.buses.len() {
        let files = network.recorded.iter().filter(|it| it.bus == bus);
        let files: Vec<_> = files.map(|it| it.file.clone()).collect();
        let mut drive = Drive::default();
        for file in &files {
            let path = folder.join(file);
            drive.add(
                candor_recording::open(&path, None).map_err(|error| error.to_string())?,
                &path,
            )?;
        }
        if files.is_empty() {
            continue;
        }
        is_whole &= drive.is_whole;
        let files = files.join(", ");
        let interface =
            interface(&drive, &network.buses[bus].name).map_err(|it| format!("{files}: {it}"))?;
        let longest_ns = drive.longest_ns();
        for ((on, can_id), seen) in &drive.messages {
            let is_copy = copies.iter().any(|flow| {
                flow.parent.is_some() && flow.bus == bus && flow.frame.can_id() == *can_id
            });
            if *on == interface && !is_copy {
                let is_known = see(network, bus, (*can_id, seen), longest_ns)
                    .map_err(|it| format!("{files}: {it}"))?;
                if !is_known {
                    added.push((bus, *can_id));
                }
            }
        }
    }
    let flows = flows(network).map_err(|_| {
        "gateways send messages of the recordings round for ever, or make too many copies; correct their rules"
    })?;
    // Whoever is not in the file may be behind a gateway.
    let is_added =
        |flow: &&Flow| flow.parent.is_some() && added.contains(&(flow.bus, flow.frame.can_id()));
    if let Some(flow) = flows.iter().find(is_added) {
        let gateway = flow
            .sent_by()
            .and_then(|it| network.gateways.get(it))
            .map_or("", |it| it.name.as_str());
        return Err(format!(
            "{} was recorded on {}, where gateway {} sends it, too; list it under [[message]] with the node that sends it",
            show_id(flow.frame.can_id()),
            network.buses[flow.bus].name,
            gateway
        ));
    }
    Ok((flows, is_whole))
}

/// The interface of a recording that is the bus of this name: that of its name, or the only one.
fn interface(drive: &Drive, name: &str) -> Result<String, String> {
    let mut names: Vec<_> = drive.messages.keys().map(|(on, _)| on.as_str()).collect();
    names.dedup();
    match names.as_slice() {
        [] => Err("it has no frame of CAN; record with `candor bus record`".into()),
        [only] => Ok((*only).to_owned()),
        names if names.contains(&name) => Ok(name.to_owned()),
        names => {
            let names = list_of_names(names.iter().copied(), "and");
            Err(format!(
                "it has frames of {names}, and the bus is called `{name}`; give the bus the name of an interface"
            ))
        }
    }
}

/// A message was seen on a bus. Whether a node of the file sends it.
fn see(
    network: &mut Network,
    bus: usize,
    (can_id, seen): (u32, &Message),
    longest_ns: u64,
) -> Result<bool, String> {
    let watched = seen.watched.seen(longest_ns);
    let distances: Vec<_> = watched.distances_ns.iter().copied().map(Nanos::from_nanos).collect();
    let name = show_id(can_id);
    if seen.form != Form::Classical && !network.buses[bus].is_fd {
        return Err(format!(
            "{name} is {}, and bus `{}` has none; add fd = true to it",
            seen.form.name(),
            network.buses[bus].name
        ));
    }
    let has_brs = seen.form != Form::Slow;
    let is_fd = seen.form != Form::Classical;
    let of_bus = network.nodes.iter_mut().filter(|node| node.bus == bus);
    let known = of_bus.flat_map(|node| &mut node.messages).find(|it| it.can_id == can_id);
    if let Some(known) = known {
        if known.length < seen.length || known.is_fd != is_fd || (is_fd && known.has_brs != has_brs)
        {
            return Err(format!(
                "{name} is {} of up to {} bytes, and `{}` of the network file is none of that; correct the file",
                seen.form.name(),
                seen.length,
                known.name
            ));
        }
        if known.distances.is_empty() {
            known.distances = distances;
        }
        if seen.min_length < known.length {
            known.min_length.get_or_insert(seen.min_length);
        }
        return Ok(true);
    }
    let message = Sent {
        name,
        can_id,
        length: seen.length,
        min_length: Some(seen.min_length),
        is_fd,
        has_brs,
        period: Nanos::from_nanos(watched.period_ns.max(1)),
        offset: None,
        jitter: Nanos::from_nanos(watched.jitter_ns),
        deadline: None,
        payload: Payload::Signals,
        distances,
    };
    match network.nodes.iter_mut().find(|node| node.bus == bus && node.name == OTHERS) {
        Some(node) => node.messages.push(message),
        None => network.nodes.push(Node {
            name: OTHERS.into(),
            bus,
            queue: Queue::default(),
            messages: vec![message],
        }),
    }
    Ok(false)
}

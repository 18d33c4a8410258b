//! The gateway of candor_can as the judged: trial by trial, its rules, the frames, and what comes out of virtual devices.
//!
//! Each bus of a trial is a virtual device with one handle, which sends the frames of the bus and reads what the gateway sends there. A
//! virtual device sends at once, so all is done when a frame is written.

use std::fs;
use std::path::Path;

use candor_engine::program::Program;
use candor_linux::candor_can::{Device, EXTENDED, Frame, Limit, REMOTE};
use candor_linux::candor_gateway::{JobCounts, KernelGateway, Refusal};
use candor_linux::{Sent, module};
use candor_protocol::meeting::DRIVER;
use candor_protocol::order::Trial;
use candor_protocol::report::{JobCount, TrialOutcome};
use candor_protocol::{Message, Order};
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, RTR_FLAG};

use crate::failure::{Context, FAULT, Failure};
use crate::watchdog;

const PLACE: &str = "conformance of candor_can";
/// Copies that one frame may make on a bus.
const ROOM: usize = 64;
/// Where a classical frame of SocketCAN has its data, and its length.
const DATA: usize = 8;
const LEN: usize = 4;
const CAN_MTU: usize = 16;

pub(crate) fn conform(
    module: &[u8],
    trials: &[Trial],
    order: &Order,
    hello: &Message,
    messages: &mut Vec<Message>,
) -> Result<(), Failure> {
    watchdog::start(order, hello).at("watchdog", FAULT)?;
    fs::write(DRIVER, module).at(DRIVER, FAULT)?;
    let buses = trials.iter().map(|trial| trial.rules.buses.len()).max().unwrap_or(0);
    module::load(Path::new(DRIVER), &format!("virtual={buses}")).at(PLACE, "see the console")?;
    let gateway = KernelGateway::open().at(PLACE, FAULT)?;
    let handle = |bus: usize| Device::open(&format!("candor{bus}")).at(PLACE, FAULT);
    let handles: Vec<Device> = (0..buses).map(handle).collect::<Result<_, _>>()?;
    for trial in trials {
        messages.push(Message::Trial(perform(&gateway, &handles, trial)?));
    }
    Ok(())
}

fn perform(
    gateway: &KernelGateway,
    handles: &[Device],
    trial: &Trial,
) -> Result<TrialOutcome, Failure> {
    let program = Program::new(&trial.rules);
    let buses = program.buses().len();
    let devices: Vec<Option<u8>> = (0..buses).map(|bus| u8::try_from(bus).ok()).collect();
    match gateway.prepare(&program.to_image(), &devices) {
        Ok(steps) if u64::from(steps) == program.most_steps() => {
            gateway.commit().at(PLACE, FAULT)?;
        }
        Ok(steps) => {
            let expected = program.most_steps();
            let reason = format!("at most {steps} steps by the driver, {expected} by the engine");
            return Err(Failure::new(PLACE, reason, FAULT));
        }
        Err(Refusal::Other(error)) => return Err(error).at(PLACE, FAULT),
        Err(Refusal::Device { bus }) => {
            return Err(Failure::new(PLACE, format!("there is no candor{bus}"), FAULT));
        }
        Err(Refusal::Image { section, record, reason }) => {
            let reason = format!("section {section}, record {record}: {reason}");
            return Err(Failure::new(PLACE, reason, "use rules that it can carry out"));
        }
    }
    let mut copies = Vec::with_capacity(trial.frames.len());
    for (bus, bytes) in &trial.frames {
        let Some(handle) = handles.get(usize::from(*bus)) else {
            return Err(Failure::new(PLACE, "a frame for no bus", "name one of the table"));
        };
        if handle.write(&of_socket(bytes)).at(PLACE, FAULT)? != Sent::Taken {
            return Err(Failure::new(PLACE, "a device has no room", FAULT));
        }
        copies.push(collect(handles.get(..buses).unwrap_or_default())?);
    }
    let counts = gateway.counts(program.jobs().len(), buses, false).at(PLACE, FAULT)?;
    let jobs = counts.unwrap_or_default().jobs.iter().map(count).collect();
    Ok(TrialOutcome { copies, jobs, refused: Vec::new() })
}

fn count(job: &JobCounts) -> JobCount {
    JobCount {
        handled: job.handled,
        dropped: job.down + job.queue_full + job.unsupported,
        deleted: job.too_long + job.hop_limit,
        causes: Vec::new(),
    }
}

/// What has come out of each device.
fn collect(handles: &[Device]) -> Result<Vec<(u16, Vec<u8>)>, Failure> {
    let mut copies = Vec::new();
    for (bus, handle) in (0..).zip(handles) {
        let mut room = [Frame::default(); ROOM];
        let count = handle.read(&mut room, Limit::Now).at(PLACE, FAULT)?;
        if count == ROOM {
            let reason = "a frame made too many copies";
            return Err(Failure::new(PLACE, reason, "split the rules over several trials"));
        }
        copies.extend(room.iter().take(count).map(|frame| (bus, to_socket(frame))));
    }
    Ok(copies)
}

fn of_socket(bytes: &[u8]) -> Frame {
    let word = u32::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 4]));
    let flag = |of_word: u32, flag: u16| if word & of_word == 0 { 0 } else { flag };
    let flags = flag(EFF_FLAG, EXTENDED) | flag(RTR_FLAG, REMOTE);
    let data = bytes.get(DATA..).and_then(|data| data.first_chunk()).copied().unwrap_or_default();
    Frame::new(word & EFF_MASK, flags, bytes.get(LEN).copied().unwrap_or(0), data)
}

fn to_socket(frame: &Frame) -> Vec<u8> {
    let flag = |of_word: u32, flag: u16| if frame.flags & flag == 0 { 0 } else { of_word };
    let word = frame.id | flag(EFF_FLAG, EXTENDED) | flag(RTR_FLAG, REMOTE);
    let mut bytes = vec![0; CAN_MTU];
    bytes[..4].copy_from_slice(&word.to_le_bytes());
    bytes[LEN] = frame.len;
    bytes[DATA..].copy_from_slice(&frame.data);
    bytes
}

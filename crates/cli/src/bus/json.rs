//! What `candor bus` prints.

use candor_bus::capture::{Captured, Totals};
use candor_bus::interface::{self, Interface};
use candor_bus::load::{IdLoad, Meter, Stretch};
use candor_bus::outlet::Finished;
use candor_bus::report;
use candor_bus::schedule::Figures;
use candor_bus::words::View;
use candor_port::{Driver, Origin};
use candor_recording::Format;
use candor_signals::Decoded;
use candor_wire::can::Kind;

use super::live::{hex_id, hex_word};
use crate::json::{objects, words};

objects! {
    /// A frame that a port received.
    "frame" of "bus dump" for (&Captured, &str, Option<&View>) as (it, title, view) {
        /// The port that it came from
        port = title;
        /// When it came, in ns since 1970: the stamp of the kernel or of the recording, or when it was handed over
        time_ns = it.time;
        /// The stamp of the controller in ns, by a clock of its own; null if there is none
        hardware_ns = it.received.stamp.hardware;
        /// Who sent it
        origin = it.received.origin;
        /// The frame in the notation of candump, such as 123#DEADBEEF
        frame = it.received.frame;
        /// The identifier in hex: 3 digits standard, 8 extended
        id = hex_id(&it.received.frame);
        /// What it is
        kind = it.received.frame.kind();
        /// The name of the message by the DBC file; null if it is not known
        message = view.and_then(|view| view.message(&it.received.frame)).map(|it| &it.name);
        /// The signals of the message by the DBC file; empty if it is not known
        signals = view.map_or_else(Vec::new, |view| view.decode(&it.received.frame).collect());
        /// What an error report says; null for other frames
        report = report::words(&it.received.frame);
    }

    /// A signal and its value.
    Decoded<'_> as it {
        /// Its name in the DBC file
        name = it.signal.name;
        /// The physical value; null if it is infinite or no number
        value = Some(it.physical);
        /// The unit in the DBC file; empty if there is none
        unit = it.signal.unit;
        /// The name that the DBC file gives to the value; null if it gives none
        text = it.value_name();
    }

    /// What a port received, shown or not; it comes after the frames.
    "port" of "bus dump", "bus record" for (&str, &Totals) as (port, it) {
        /// The port
        port = port;
        /// Frames, without error reports
        frames = it.frames;
        /// Error reports of the controller
        error_reports = it.error_reports;
        /// What was received and is no frame
        malformed = it.malformed;
        /// Frames that the kernel dropped because they were not fetched in time
        overflow = it.overflow;
        /// Datagrams that never came, by their sequence numbers
        missing = it.missing;
        /// Datagrams that came late or twice, by their sequence numbers
        out_of_order = it.out_of_order;
        /// Frames that came and are not in the recording of `record`, which could not be written any more
        unwritten = it.unwritten;
    }

    /// How the frames of a port fared; times are those of all ports together.
    "delivery" of "bus generate", "bus replay", "bus send" for Delivered<'_> as it {
        /// The port
        port = it.outlet.name;
        /// Frames that the port took and did not lose, as far as it knows
        sent = it.outlet.delivery.sent();
        /// Frames refused because the port carries no such frames
        unsupported = it.outlet.delivery.unsupported;
        /// Frames refused because there was no room in time
        full = it.outlet.delivery.full;
        /// Frames refused because the port was away
        down = it.outlet.delivery.down;
        /// Frames refused because the port could not go on: a recording on a full disk
        failed = it.outlet.delivery.failed;
        /// Frames lost after the port took them
        lost = it.outlet.delivery.lost;
        /// Frames that waited for room
        waited = it.outlet.delivery.waited;
        /// How long frames waited in all, in ns
        waiting_ns = it.outlet.delivery.waiting;
        /// Half of the frames left at most so late, in ns; null if frames have no times
        late_ns_p50 = it.planned.map(|it| it.late_p50);
        /// 99 of 100 frames left at most so late, in ns; null if frames have no times
        late_ns_p99 = it.planned.map(|it| it.late_p99);
        /// How late the latest frame left, in ns; null if frames have no times
        late_ns_max = it.planned.map(|it| it.late_max);
        /// The planned time from the first frame to the last, in ns; null if frames have no times
        planned_ns = it.planned.map(|it| it.planned);
        /// The time from the first frame to the last, in ns; null if there is none
        took_ns = it.figures.map(|it| it.took);
        /// By how much that is longer than planned, in ns; null if frames have no times
        drift_ns = it.planned.map(|it| it.drift_ns);
    }

    /// A CAN interface of this machine.
    "interface" of "bus list" for Interface as it {
        /// Its name, such as can0
        name;
        /// can for a controller; vcan, vxcan for virtual interfaces
        kind;
        /// Whether frames come and go
        state;
        /// The (nominal) bit rate in bit/s; null if there is none
        bitrate = it.timing.map(|it| it.nominal);
        /// The bit rate of the data phase in bit/s; null if it is the nominal one or there is none
        data_bitrate = it.timing.filter(|it| it.data != it.nominal).map(|it| it.data);
        /// The most that it takes
        frames;
        /// The number of frames that may wait in front of it
        queue_length;
        /// The driver of the controller; null if there is none
        driver;
        /// Frames received, as the kernel counted
        received;
        /// Frames transmitted, as the kernel counted
        transmitted;
        /// Frames dropped, as the kernel counted
        dropped;
        /// Errors, as the kernel counted
        errors;
    }

    /// A kind of port.
    "driver" of "bus list" for Driver as it {
        /// What stands before the colon in the name of a port
        name;
        /// What it is
        summary;
        /// The name of such a port
        example;
        /// What may be set in the name of such a port
        options;
    }

    /// What may be set in the name of a port.
    (&'static str, &'static str) as (name, summary) {
        /// The name of the option
        name = name;
        /// What it does
        summary = summary;
    }

    /// The load of a bus in an interval.
    "interval" of "bus load" for (&str, &Meter, Stretch) as (port, meter, it) {
        /// The port
        port = port;
        /// When the interval began, in ns since 1970
        from_ns = it.from;
        /// How long the interval was, in ns
        time_ns = it.time;
        /// Frames, without error reports
        frames = it.frames;
        /// Error reports of the controller
        error_reports = it.error_reports;
        /// Frames per second
        frames_per_s = it.frames_per_second();
        /// Bits of the frames at the nominal bit rate, intermission included
        nominal_bits = it.bits.nominal;
        /// Bits of the frames at the bit rate of the data phase
        data_bits = it.bits.data;
        /// The part of the time in which the bus was busy, in percent; null if no bit rate is known
        load_percent = meter.timing().map(|_| it.percent());
        /// The highest load of an interval until now, in percent; null if no bit rate is known
        peak_percent = meter.timing().map(|_| meter.peak());
    }

    /// The load of a bus over the whole time, as one interval; it comes last.
    "total" of "bus load" for (&str, &Meter, usize) as (port, meter, top) {
        ..(*port, *meter, meter.total());
        /// The (nominal) bit rate in bit/s; null if it is not known
        bitrate = meter.timing().map(|it| it.nominal);
        /// The bit rate of the data phase in bit/s; null if it is not known
        data_bitrate = meter.timing().map(|it| it.data);
        /// The identifiers with the most bits, the busiest first
        ids = meter.top(*top).into_iter().map(|id| (id, *meter)).collect::<Vec<_>>();
    }

    /// The load by an identifier.
    (IdLoad, &Meter) as (it, meter) {
        /// The identifier in hex: 3 digits standard, 8 extended
        id = hex_word(it.can_id);
        /// Frames with this identifier
        frames = it.frames;
        /// The part of the time that they took, in percent; null if no bit rate is known
        load_percent = meter.timing().map(|timing| it.bits.percent(timing, meter.total().time));
    }

    /// A recording that is complete.
    "file" of "bus record" for Recording as it {
        /// The path of the file
        file;
        /// Its format
        format [Format::written().map(|it| it.name)] = it.format.name;
        /// Frames in it
        frames;
        /// Its size in bytes
        bytes;
    }
}

words! {
    Origin { "bus": "another node", "machine": "another program of this machine", "own": "this program" }
    Kind { "error": "an error report" }
    interface::State {}
    interface::Frames {}
}

/// How the frames of a port fared.
pub(crate) struct Delivered<'a> {
    pub(crate) outlet: &'a Finished,
    /// Of all ports together.
    pub(crate) figures: Option<Figures>,
    /// The same if frames had times.
    pub(crate) planned: Option<Figures>,
}

/// A recording that is complete.
pub(crate) struct Recording {
    pub(crate) file: String,
    pub(crate) format: &'static Format,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

//! What `candor log` prints.

use candor_bus::words::View;
use candor_recording::{
    BusStatistics, Compression, Differences, Direction, FORMATS, IdStatistics, LinkStatistics,
    Record, Side, Sighting, Stream, StreamStatistics,
};
use candor_signals::Decoded;
use candor_wire::can::{Id, Timing};

use super::diff::DiffArgs;
use super::info::{Info, ether_type, hex};
use crate::json::{objects, words};

objects! {
    /// A frame of a recording with its signals.
    "frame" of "log decode" for (&Record, &str, &View) as (it, interface, view) {
        /// When it was recorded, in ns since 1970
        time_ns = it.time_ns;
        /// The interface that it was recorded on
        interface = interface;
        /// Which way it went; null if the recording does not say
        direction = it.direction;
        /// The frame in the notation of candump, such as 123#DEADBEEF
        frame = it.frame;
        /// The name of the message by the DBC file; null if it is not known
        message = view.message(&it.frame).map(|it| &it.name);
        /// The signals of the message; empty if it is not known or the frame is too short for them
        signals = view.decode(&it.frame).map(Exact).collect::<Vec<_>>();
    }

    /// A signal of a recorded frame.
    Exact<'_> as it {
        /// Its name in the DBC file
        name = it.0.signal.name;
        /// The whole number in the frame, exact, up to 64 bits
        raw = it.0.raw;
        /// The physical value; null if it is infinite or no number
        value = Some(it.0.physical);
        /// The unit in the DBC file; empty if there is none
        unit = it.0.signal.unit;
        /// The name that the DBC file gives to the value; null if it gives none
        text = it.0.value_name();
    }

    /// A frame that only one of two recordings has.
    "only" of "log diff" for (Side, &Sighting, &str) as (side, it, interface) {
        /// Which of them
        side = side;
        /// Which of the CAN frames of that recording it is, from 1 on
        number = it.number;
        /// When it was recorded, in ns since 1970, by the clock of that recording
        time_ns = it.time_ns;
        /// The interface that it was recorded on
        interface = interface;
        /// Which way it went; null if the recording does not say
        direction = it.direction;
        /// The frame in the notation of candump, such as 123#DEADBEEF
        frame = it.frame;
    }

    /// What two recordings have in common, and how the clock of B runs against that of A.
    "diff" of "log diff" for (&DiffArgs, &Differences) as (args, it) {
        /// The first file as it was given
        a = args.files()[0];
        /// The second file as it was given
        b = args.files()[1];
        /// CAN frames that both have
        both = it.both;
        /// CAN frames that only A has, shown or not
        only_a = it.only[0];
        /// CAN frames that only B has
        only_b = it.only[1];
        /// Those of both that come in another order
        displaced = it.displaced;
        /// Those of both whose times are farther apart than --within, besides what the clocks differ by; null without it
        late = args.within().map(|_| it.late);
        /// Those that only A has, or so it was taken because too many waited
        crowded_out_a = it.crowded_out[0];
        /// The same of B
        crowded_out_b = it.crowded_out[1];
        /// CAN frames of A that are earlier than the one before
        out_of_order_a = it.backwards[0];
        /// The same of B
        out_of_order_b = it.backwards[1];
        /// Whether the starts of both told how their clocks differ, or --offset did
        is_synchronised = !it.is_unsynchronised;
        /// The stamp in B less that in A of the earliest common frame, in ns; null if there is none
        offset_first_ns = it.clocks.first_offset_ns();
        /// The same of the latest common frame
        offset_last_ns = it.clocks.last_offset_ns();
        /// What the clock of B gains, in millionths: the slope of the line of least squares through the offsets; null if
        /// the common frames have only one time
        drift_ppm = it.clocks.drift_ppm();
        /// How far an offset is from that line at most, in ns; null if there is no common frame
        deviation_ns_max = it.clocks.deviation_ns_max();
    }

    /// A recording.
    "log" of "log info" for Info<'_> as it {
        /// The file as it was given
        file = it.file.display().to_string();
        /// Its format
        format [FORMATS.iter().map(|it| it.name)] = it.recording.format().name;
        /// What it is compressed with as a whole; null if it is not
        compression = it.recording.compression();
        /// Frames, without error reports
        frames = it.statistics.frames;
        /// Error reports of drivers
        error_reports = it.statistics.error_reports;
        /// Different identifiers; one on two interfaces counts twice
        ids = it.statistics.ids().count();
        /// When the measurement began, in ns since 1970; null if the recording does not say
        start_ns = it.recording.start_ns();
        /// The earliest time, in ns since 1970; null if there are no records
        first_ns = it.statistics.span_ns().map(|(first_ns, _)| first_ns);
        /// The latest time, in ns since 1970; null if there are no records
        last_ns = it.statistics.span_ns().map(|(_, last_ns)| last_ns);
        /// The time from the earliest to the latest, in ns
        duration_ns = it.statistics.duration_ns();
        /// The longest time between two records, in ns; null if there are no two
        pause_ns_max = it.statistics.longest_pause.map(|it| it.duration_ns);
        /// When that pause began, in ns since 1970; null if there is none
        pause_from_ns = it.statistics.longest_pause.map(|it| it.from_ns);
        /// Frames per second: the frames after the first one over the duration; null if that is zero
        rate_per_s = it.statistics.rate();
        /// Records that are earlier than the one before
        out_of_order = it.statistics.out_of_order;
        /// Malformed records passed over
        skipped = it.recording.skipped().count;
        /// Records that no checksum confirms, since what the file is compressed with is cut or damaged
        unverified = it.recording.unverified().unwrap_or(0);
        /// Frames that the recorder says it lost
        lost_frames = it.recording.passed_over().lost_frames;
        /// Ethernet frames
        ethernet_frames = it.statistics.ethernet.frames;
        /// Ethernet frames of which the recorder kept only the start
        cut_frames = it.statistics.ethernet.cut_frames;
        /// Ethernet frames of which less than a header was kept; they belong to no stream
        short_frames = it.statistics.ethernet.short_frames;
        /// Ethernet frames of none of the 65,536 different streams that are listed
        unlisted_stream_frames = it.statistics.ethernet.unlisted_frames;
        /// Packets of other protocols, objects of other types, and other events
        other_packets = it.recording.passed_over().other_packets;
        /// Frames with none of the 65,536 different identifiers that are listed
        unlisted_frames = it.statistics.unlisted_frames;
        /// The (nominal) bit rate in bit/s as it was given; null if it was not
        bitrate = it.timing.map(|it| it.nominal);
        /// The bit rate of the data phase in bit/s; null if no bit rate was given
        data_bitrate = it.timing.map(|it| it.data);
        /// The CAN interfaces of the recording
        buses = it.buses();
        /// The Ethernet interfaces of the recording
        links = it.links();
    }

    /// A CAN interface of a recording.
    (&str, &BusStatistics, Option<Timing>) as (interface, it, timing) {
        /// Its name
        interface = interface;
        /// Frames, without error reports
        frames = it.frames;
        /// Error reports of drivers
        error_reports = it.error_reports;
        /// Frames per second, from the first to the last of the interface; null if it has one
        rate_per_s = it.rate();
        /// The part of the time in which the bus was busy, in percent; null if it is not known
        load_percent = timing.and_then(|timing| it.load_percent(timing));
        /// The highest load within 10 ms, in percent; null if it is not known
        peak_10ms_percent = it.peaks_percent()[0];
        /// The highest load within 100 ms, in percent; null if it is not known
        peak_100ms_percent = it.peaks_percent()[1];
        /// The highest load within a second, in percent; null if it is not known
        peak_1s_percent = it.peaks_percent()[2];
    }

    /// An Ethernet interface of a recording.
    (&str, &LinkStatistics) as (interface, it) {
        /// Its name
        interface = interface;
        /// Frames
        frames = it.frames;
        /// Their bytes, without check sequences
        bytes = it.bytes;
        /// Frames per second, from the first to the last of the interface; null if it has one
        rate_per_s = it.rate();
        /// What the frames take of the link on average, in bit/s, with padding, check sequence, preamble and gap;
        /// null if the interface has one frame
        bits_per_s = it.bits_per_second();
    }

    /// The frames of an identifier on one interface.
    "id" of "log info" for (&str, Id, &IdStatistics, Option<f64>) as (interface, id, it, share_percent) {
        /// The interface
        interface = interface;
        /// The identifier in hex: 3 digits standard, 8 extended
        id = hex(*id);
        /// Frames with this identifier
        frames = it.frames;
        /// The remote frames of them
        remote_frames = it.remote_frames;
        /// The CAN FD frames of them
        fd_frames = it.fd_frames;
        /// The shortest data length in bytes
        len_min = it.len_min;
        /// The longest data length in bytes
        len_max = it.len_max;
        /// The mean time from one frame to the next, in ns; null if it is not known
        period_ns_mean = it.period.mean_ns();
        /// The shortest time from one frame to the next, in ns; null if it is not known
        period_ns_min = it.period.min_ns();
        /// The longest time from one frame to the next, in ns; null if it is not known
        period_ns_max = it.period.max_ns();
        /// The standard deviation of these times, in ns; null if it is not known
        period_ns_stddev = it.period.stddev_ns();
        /// The part of the busy time of the bus, in percent; null if it is not known
        share_percent = share_percent;
    }

    /// A stream of a recorded Ethernet link: the frames with one destination, one VLAN and one type.
    "stream" of "log info" for (&str, Stream, &StreamStatistics) as (interface, stream, it) {
        /// The interface that it was recorded on
        interface = interface;
        /// The destination address, such as 03:04:05:06:00:01
        destination = stream.destination.to_string();
        /// The VLAN of the tag, 0 to 4095; null if there is no tag
        vlan = stream.vlan;
        /// The type in hex, such as 0x88d7; null if the header has the length instead
        ether_type = ether_type(*stream);
        /// Frames
        frames = it.frames;
        /// The shortest frame in bytes, without its check sequence
        len_min = it.len_min;
        /// The longest frame in bytes, without its check sequence
        len_max = it.len_max;
        /// The mean time from one frame to the next, in ns; null if there are no two
        period_ns_mean = it.period.mean_ns();
        /// The shortest such time, in ns
        period_ns_min = it.period.min_ns();
        /// The longest such time, in ns
        period_ns_max = it.period.max_ns();
        /// The standard deviation of these times, in ns
        period_ns_stddev = it.period.stddev_ns();
    }
}

words! {
    Compression {}
    Direction {}
    Side {}
}

/// A signal with the whole number in the frame.
pub(crate) struct Exact<'a>(Decoded<'a>);

//! What `candor route` prints.

use candor_causes::Cause;
use candor_diagnostics::Severity;
use candor_engine::image::{Extent, Outline};
use candor_engine::program::Job;
use candor_engine::table::List;
use candor_engine::{Bus, Program, Rule};
use candor_gateway::Snapshot;
use candor_gateway::control::rates::{PortRates, RuleRates};
use candor_gateway::control::{FindingLine, Loaded, Rejected};
use candor_gateway::plan::Planned;
use candor_gateway::plane::PLANES;
use candor_gateway::snapshot::{LATENCY, LatencySnapshot, PortSnapshot, RuleSnapshot};
use candor_rules::explain::Copy;
use candor_rules::file::STEPS;
use candor_wire::can::Frame;

use super::explain::{Fate, Met, Named, Step};
use super::image::bus;
use crate::json::{objects, words};

objects! {
    /// An error or warning in a file of rules or of a network.
    "finding" of "route check", "route load", "tte check", "network bound" for FindingLine as it {
        /// How bad it is
        severity = severity(&it.severity);
        /// The file
        file;
        /// The line, from 1; 0 if it has no place
        line;
        /// The column, from 1; 0 if it has no place
        column;
        /// What is wrong
        message;
        /// What to do about it; null if nothing is known
        hint;
    }

    /// Who runs a rule; only with --plan.
    "plan" of "route check" for (&Rule, &Planned) as (rule, it) {
        /// The name of the rule
        rule = rule.name;
        /// Who runs it
        plane [PLANES.iter().rev().map(|it| it.name)] = it.plane.name;
        /// Why
        reason = it.reason;
        /// The most steps (docs/drivers.md) that all rules of the driver candor_can take for one frame; null for other planes
        most_steps = it.most_steps;
    }

    /// How many findings there are; it comes last.
    "summary" of "route check" for (&str, Option<usize>, [usize; 2]) as (file, rules, counts) {
        /// The rule file
        file = file;
        /// The number of rules; null if there are errors
        rules = rules;
        /// The number of errors
        errors = counts[0];
        /// The number of warnings
        warnings = counts[1];
    }

    /// What becomes of the frame; it comes first.
    "verdict" of "route explain" for (&Bus, &Frame, (Fate, String), Named<'_>) as (bus, frame, fate, it) {
        /// The bus that receives the frame
        bus = bus.name;
        /// The frame in the notation of candump, such as 123#DEADBEEF
        frame = frame;
        /// What becomes of it
        verdict = fate.0;
        /// The same as a sentence
        text = fate.1;
        /// The name of the message by the DBC file of the bus; null if it is not known
        message = it.message;
        /// The signals of the message; empty if it is not known
        signals = it.signals;
    }

    /// A rule that the frame meets, in the order of the file.
    "rule" of "route explain" for Met<'_> as it {
        /// 1 for the frame as it came in; copies that come back make further passes
        pass = it.number;
        /// The bus that receives the frame of this pass
        bus = it.bus.name;
        /// The frame of this pass in the notation of candump
        frame = it.pass.frame;
        /// The name of the rule
        rule = it.rule.name;
        /// The line of the rule in its file, from 1
        line = it.rule.position.0;
        /// The column of the rule in its file, from 1
        column = it.rule.position.1;
        /// Whether the rule takes the frame
        taken = it.taken.is_some();
        /// Why, or why not
        reason;
        /// The kernel's receive list of the filter that matched; null if none did
        list = it.taken.map(|it| it.list);
        /// What the rule changes in the frame, step by step
        steps;
        /// The frame that goes out; null if none does
        result = it.taken.and_then(|it| it.result.ok());
        /// The copies of the frame, one for each destination
        copies;
    }

    /// A step of an edit.
    Step as it {
        // A conversion stands beside the steps; `end` is the end of a frame that has become too long.
        /// What is done
        operation [STEPS.into_iter().chain(["convert", "end"])];
        /// The part of the frame, such as id, length or data
        field;
        /// What it was
        before;
        /// What it is then
        after;
    }

    /// A copy of a frame for one destination.
    (&Bus, &Copy, Named<'_>) as (bus, copy, it) {
        /// The bus that it goes to
        bus = bus.name;
        /// The port of that bus
        interface = bus.port;
        /// Why it is refused; null if it is not
        refused = copy.refused;
        /// How many more times it may pass through the gateway
        hops_left = copy.hops_left;
        /// The pass that it makes when it comes back; null if it does not
        next_pass = copy.pass.map(|pass| pass + 1);
        /// The name of the message by the DBC file of that bus; null if it is not known
        message = it.message;
        /// The signals of the message; empty if it is not known
        signals = it.signals;
    }

    /// A program image as a whole; it comes first.
    "image" of "route image" for (&str, &Outline) as (file, it) {
        /// The image
        file = file;
        /// The version of the format
        version = it.version;
        /// The CRC-32 of everything from byte 16 on, as 8 hexadecimal digits
        crc32 = format!("{:08x}", it.crc32);
        /// The length of the image in bytes
        bytes = it.length;
        /// How often a frame may pass the gateway
        max_hops = it.max_hops;
    }

    /// A section of a program image, in the order of the image.
    "section" of "route image" for Extent as it {
        /// Its name, as in docs/program-image.md
        section = it.section.name();
        /// The number that stands for it in the image
        kind = it.section.kind();
        /// Where it begins, in bytes from the begin of the image
        offset;
        /// The size of a record in bytes
        record_bytes = it.section.record_bytes();
        /// The number of records
        records = it.count;
    }

    /// A bus of a program image, in the order of the image.
    "bus" of "route image" for Bus as it {
        /// What the rules call it
        bus = it.name;
        /// The port, such as can0
        port;
        /// Whether frames sent there come back as received
        virtual = it.is_virtual;
    }

    /// A rule of a program image, in the order of the image.
    "rule" of "route image" for (&Program, &[Job]) as (program, jobs) {
        /// Its number in the section rules, from 0
        rule = jobs[0].rule_index;
        /// Its name
        name = jobs[0].rule;
        /// The bus that frames come from
        from = bus(program, jobs[0].from);
        /// The buses that copies go to
        to = jobs.iter().map(|it| bus(program, it.to)).collect::<Vec<_>>();
        /// Whether it changes frames
        modifies = jobs[0].modifies;
    }

    /// Rules that are in use now.
    "loaded" of "route load" for Loaded as it {
        /// How often the rules were changed since the start of the gateway, this time included
        generation;
        /// The number of rules
        rules;
        /// How long it took to read, check and change them, in us
        took_us;
    }

    /// Rules that were refused; it comes after the findings.
    "rejected" of "route load" for Rejected as it {
        /// Why, in one sentence
        message;
    }

    /// A port of a gateway; counts are since the start, and `received` is the sum of `routed`, `not_routed` and
    /// `refused`.
    "port" of "route stats", "route apply" for (&PortSnapshot, Option<&PortRates>) as (it, rates) {
        /// What the rules call it
        bus = it.bus;
        /// The port, such as can0
        port = it.port;
        /// Why it does not work; null if it works
        trouble = it.trouble;
        /// Frames received
        received = it.received;
        /// For how long no frame has come, in ns: at least so long, and at most 1 s longer; since the bus is there if none
        /// ever came; null if no rule takes frames of the bus
        silent_ns = it.silent_ns;
        /// Frames received that no rule took
        unmatched = it.unmatched;
        /// Whether those are refused, because the rules are a list of what is allowed
        refuses_unmatched = it.refuses_unmatched;
        /// Error reports of the controller
        error_reports = it.error_reports;
        /// What was received and is no frame
        malformed_frames = it.malformed_frames;
        /// Frames that the kernel dropped before they could be received
        overflow_frames = it.overflow_frames;
        /// Datagrams received; 0 for ports without datagrams, as the further counts of datagrams
        received_datagrams = it.received_datagrams;
        /// Datagrams that are not of the format
        malformed_datagrams = it.malformed_datagrams;
        /// Datagrams that the kernel dropped before they could be received
        overflow_datagrams = it.overflow_datagrams;
        /// Datagrams that never came, by their sequence numbers
        missing_datagrams = it.missing_datagrams;
        /// Datagrams that came late or twice
        out_of_order_datagrams = it.out_of_order_datagrams;
        /// Datagrams or connections of others than the peer
        foreign = it.foreign;
        /// Frames that were received again and again in one second, as in a loop of gateways
        looping = it.looping;
        /// Frames that the port took for transmission
        transmitted = it.transmitted;
        /// Datagrams sent with them
        transmitted_datagrams = it.transmitted_datagrams;
        /// How often the port had no room for a frame
        full = it.full;
        /// Frames that the port took and then lost
        lost = it.lost;
        /// Frames that wait in its egress queue now
        queued = it.queued;
        /// The most frames that ever waited in it
        most_queued = it.most_queued;
        /// The number of frames that the queue has room for
        queue_depth = it.queue_depth;
        /// How often the port was opened again
        reopened = it.reopened;
        /// The load of the bus in the last second without stuff bits, in percent; null if it is not known
        least_load_percent = it.least_load_percent;
        /// The most steps that the driver candor_can took for one frame; 0 without --plane candor_can, as what follows
        most_steps = it.most_steps;
        /// The most that it could have taken, by the rules and the files that were open
        step_limit = it.step_limit;
        /// The longest time from the interrupt until the rules and the open files had a frame, in ns
        longest_ns = it.longest_ns;
        /// Frames received that a rule took
        routed = it.routed();
        /// Frames received that no rule took, where that is no refusal
        not_routed = it.not_routed();
        /// Frames received that no rule took, where the rules are a list of what is allowed
        refused = it.refused();
        /// Frames received per second since the object before; null the first time
        received_per_s = rates.map(|it| it.received);
        /// Frames transmitted per second since the object before; null the first time
        transmitted_per_s = rates.map(|it| it.transmitted);
    }

    /// A rule and one of its destinations; counts are since the start of the gateway.
    "rule" of "route stats", "route apply" for (&RuleSnapshot, Option<&RuleRates>) as (it, rates) {
        /// The name of the rule
        rule = it.rule;
        /// The bus that it takes frames from
        from = it.from;
        /// The bus that its copies go to
        to = it.to;
        /// Who runs it
        plane [PLANES.iter().rev().map(|it| it.name)] = it.plane;
        /// Whether it is in use; a rule that was taken out keeps its counts
        in_use = it.in_use;
        /// Copies that the destination took
        handled = it.handled;
        /// Copies that wait for the destination
        pending = it.pending;
        /// Copies that were refused or lost, by cause; causes that never occurred are left out
        stopped [Cause::ALL.into_iter().map(Cause::name)] = it.stopped;
        /// Copies in all: handled, pending, refused and lost
        copies = it.copies();
        /// Copies that the rule refused
        refused = it.refused();
        /// Copies that were lost
        lost = it.lost();
        /// Copies handled per second since the object before; null the first time
        handled_per_s = rates.map(|it| it.handled);
        /// Copies refused per second since the object before; null the first time
        refused_per_s = rates.map(|it| it.refused);
        /// Copies lost per second since the object before; null the first time
        lost_per_s = rates.map(|it| it.lost);
    }

    /// How long frames take from one port of a gateway to another.
    "latency" of "route stats" for LatencySnapshot as it {
        /// The bus that they came from
        from;
        /// The bus that they went to
        to;
        /// The metric, by its name in experiments
        metric [[LATENCY.key()].into_iter()];
        /// Frames that were measured; if there are none, the times are 0
        count;
        /// The sum of all latencies, in ns
        sum_ns;
        /// The shortest latency, in ns
        min_ns;
        /// Half of the latencies are at most this, in ns
        p50_ns;
        /// 99 of 100 latencies are at most this, in ns
        p99_ns;
        /// 999 of 1,000 latencies are at most this, in ns
        p999_ns;
        /// The longest latency, in ns
        max_ns;
        /// Frames that were measured in the last whole second
        recent_count;
        /// Half of the latencies of that second are at most this, in ns
        recent_p50_ns;
        /// 99 of 100 latencies of that second are at most this, in ns
        recent_p99_ns;
        /// Frames whose time stamp could not be used, because the clock was set
        unusable;
    }

    /// The gateway as a whole; it comes last, and with --watch last of each interval.
    "summary" of "route stats", "route apply" for Snapshot as it {
        /// The rule file
        file;
        /// The process
        pid;
        /// How long it has been running, in ns
        uptime_ns;
        /// How often the rules were changed since the start
        generation;
        /// Why the rules on disk are not those in use; null if they are
        rejected;
        /// Messages that standard error did not take
        messages_dropped;
    }
}

words! {
    Severity { "error": "the file cannot be used", "warning": "it probably does not do what was meant" }
    Fate { "ignored": "no rule takes it; the port counts it as not_routed" }
    List {}
    Cause {}
}

/// A severity that this version does not know counts as an error.
fn severity(name: &str) -> Severity {
    if name == Severity::Warning.name() { Severity::Warning } else { Severity::Error }
}

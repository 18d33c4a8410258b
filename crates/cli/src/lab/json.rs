//! What `candor lab` prints.

use std::collections::BTreeMap;

use candor_lab::Experiment;
use candor_lab::claims::{Agreement, Basis};
use candor_lab::compare::{
    self, Allowance, Changed, Comparison, CountChange, Figure, FunctionChange, Ranges, Sample,
    Trend, Verdict,
};
use candor_lab::coverage::{Coverage, GATEWAYS, LOADS, PUBLISHED, TRAFFICS};
use candor_lab::experiment::Testbed;
use candor_lab::group::Range;
use candor_lab::history::{Change, Point};
use candor_lab::result::ProfileFile;
use candor_lat::Metric;
use candor_lat::section::{Cell, Row, Unit};
use candor_vm::Function;

use super::claims::{Counts, Judged};
use super::compare::agrees;
use super::coverage::{CONDITIONS, missing, missing_by_load, missing_by_traffic};
use crate::json::{objects, word, words};
use crate::{Answer, exit_status};

objects! {
    /// A claim and what became of it.
    "claim" of "lab claims" for Judged<'_> as it {
        /// The name of the claim
        id = it.claim.id;
        /// What is claimed
        says = it.said();
        /// What was published, for people
        published = it.claim.published;
        /// Where the value comes from
        basis = it.claim.basis();
        /// The bounds of the value, for people
        bounds = it.claim.bounds();
        /// Which of several claims of the same kind it is; null if it is the only one
        each = it.claim.each;
        /// The alternative whose experiments it is about, for --alternatives; such a claim is not counted. Null for
        /// the experiments of the file
        alternative;
        /// The unit of the values and bounds; null for a ratio
        unit = it.claim.unit().map(ClaimUnit);
        /// The value; null if there is none or it differs between seeds
        value = it.verdict.value();
        /// The number of seeds with a value; null if there is no value
        seeds = it.verdict.found.map(|it| it.count);
        /// The smallest value of all seeds; null if there is no value
        least = it.verdict.found.map(|it| it.least);
        /// The largest value of all seeds; null if there is no value
        most = it.verdict.found.map(|it| it.most);
        /// Whether the agreement is yes
        agrees = it.verdict.agrees();
        /// Whether the values lie within the bounds
        agreement = it.verdict.agreement;
        /// What is known about an agreement or its lack
        note = it.claim.note;
    }

    /// How many claims of an id agree; these objects come after the claims.
    "claim_group" of "lab claims" for (&str, Counts) as (id, it) {
        /// The name of the claims
        id = id;
        /// The number of claims
        claims = it.total();
        /// Claims that agree
        yes = it.count(Agreement::Yes);
        /// Claims that agree with some seeds only
        depends = it.count(Agreement::Depends);
        /// Claims that do not agree
        no = it.count(Agreement::No);
        /// Claims that are a matter of chance and have too few seeds
        too_few_seeds = it.count(Agreement::TooFewSeeds);
        /// Claims without a value
        missing = it.count(Agreement::Missing);
    }

    /// All claims together; it comes last.
    "verdict" of "lab claims" for (Counts, &Answer) as (it, answer) {
        /// The number of claims
        claims = it.total();
        /// Claims that agree
        yes = it.count(Agreement::Yes);
        /// Claims that agree with some seeds only
        depends = it.count(Agreement::Depends);
        /// Claims that do not agree
        no = it.count(Agreement::No);
        /// Claims that are a matter of chance and have too few seeds
        too_few_seeds = it.count(Agreement::TooFewSeeds);
        /// Claims without a value
        missing = it.count(Agreement::Missing);
        /// Whether all claims agree
        agrees = it.count(Agreement::Yes) == it.total();
        /// 0 if all claims agree; 1 if not, or if two runs of --verify differ; 2 if experiments failed or were
        /// interrupted, or the report cannot be written
        exit_code = exit_status(answer);
    }

    /// An experiment on one release of a kernel; releases of a line follow one another.
    "point" of "lab history" for Point as it {
        /// The experiment, without the name of its kernel
        experiment;
        /// The Debian that built the kernel: deb12, deb13, or own
        debian = it.line.debian;
        /// Whether the kernel is PREEMPT_RT
        is_rt = it.line.is_rt;
        /// The release of the kernel
        release;
        /// The median latency in ns: of the gateway, or the latency that the results have; null if there is none
        p50_ns;
        /// The latency that one frame of a thousand exceeds, in ns; null if there is none
        p999_ns;
        /// Instructions per frame of a gateway that is a process; null for others
        instructions;
        /// Frames lost over all seeds
        lost;
        /// Figures that are other than on the release before by more than boots explain
        changes;
    }

    /// A figure that changed from one release to the next.
    Change as it {
        /// Which figure; of the paths that changed, only that which most frames take
        figure [compare::verdict_figures().into_iter()];
        /// The release before
        since;
        /// Its median there, over the boots: ns, instructions per frame, or frames
        before;
        /// Its median on this release
        after;
        /// The functions that changed most; empty without counts of lab profile on five boots
        functions;
    }

    /// A setting that not all experiments of the two sides have in common.
    "changed" of "lab compare" for Changed as it {
        /// The setting
        setting;
        /// Its value before the change; empty if it has none
        before;
        /// Its value after the change; empty if it has none
        after;
    }

    /// A figure that has a verdict, before and after the change.
    "figure" of "lab compare" for (&Figure, Allowance) as (it, allow) {
        /// The experiment, as it is called after the change
        experiment = &it.experiment;
        /// The metric of a latency; null for other figures
        metric [Metric::ALL.into_iter().map(Metric::key)] = it.metric.map(Metric::key);
        /// Which figure; path is the median latency of the frames that take one path
        figure [compare::verdict_figures().into_iter()] = it.figure;
        /// What it counts
        unit = it.unit;
        /// The seed of an exact figure, of several the one with the largest increase; null if the values are of all boots
        seed = it.seed;
        /// The figure before the change
        before = it.before;
        /// The figure after the change
        after = it.after;
        /// The part of the frames that take the path before the change, the median over the boots in percent; null for other
        /// figures
        before_share_percent = it.shares.map(|[before, _]| before.median);
        /// The same after the change
        after_share_percent = it.shares.map(|[_, after]| after.median);
        /// The median after without that before
        difference = it.difference();
        /// The difference in percent of before; null if before is 0
        difference_percent = it.difference_percent();
        /// The difference in instructions; null if they are not counted, as in sim
        difference_instructions = it.difference_instructions();
        /// What is between the values of both sides is none up to this
        resolution = it.resolution;
        /// What became of it
        verdict = it.verdict;
        /// Whether it is not worse than --allow permits
        is_allowed = it.is_allowed(*allow);
    }

    /// The values of a figure on one side: one, or one for each boot and seed.
    Sample as it {
        /// The number of values
        values = it.range.count;
        /// The smallest value
        least = it.range.least;
        /// The median value
        median;
        /// The largest value
        most = it.range.most;
    }

    /// A figure that has no verdict, over its seeds before and after the change: it does not change the exit code.
    "range" of "lab compare" for Ranges as it {
        /// The experiment, as it is called after the change
        experiment;
        /// The metric of a latency; null for other figures
        metric [Metric::ALL.into_iter().map(Metric::key)] = it.metric.map(Metric::key);
        /// Which figure
        figure [compare::seed_figures().into_iter()];
        /// What it counts
        unit;
        /// The figure before the change
        before;
        /// The figure after the change
        after;
        /// Where the values after the change are
        verdict = it.trend;
    }

    /// A count of frames that differs before and after the change: it does not change the exit code, but lost frames
    /// of a figure do.
    "count" of "lab compare" for CountChange as it {
        /// The experiment, as it is called after the change
        experiment;
        /// The seed; null for all seeds together, where figures are not exact
        seed;
        /// What became of the frames
        count [compare::counted_names().into_iter()];
        /// What stopped them, of frames and copies; null for all frames that are counted so
        cause;
        /// How many before the change
        before;
        /// How many after the change
        after;
        /// After without before
        difference = it.difference() as i64;
    }

    /// A figure over several seeds.
    Range as it {
        /// The number of seeds
        seeds = it.count;
        /// The smallest value
        least;
        /// The largest value
        most;
    }

    /// The instructions per frame in a function before and after the change; the largest difference first. With five boots on both
    /// sides, only functions whose difference boots do not explain.
    "function" of "lab compare" for FunctionChange as it {
        /// The experiment, as it is called after the change
        experiment;
        /// kernel, or the name of a module or program
        place;
        /// The function, without what compilers append to its name
        function;
        /// Instructions per frame before the change
        before;
        /// Instructions per frame after the change
        after;
        /// The median after without that before
        difference = it.difference();
        /// What became of it
        verdict;
        /// Whether it is in the latency, whose mean changes by the sum of the differences in it; null if that is not known
        in_latency;
    }

    /// An experiment that only one side has.
    "unpaired" of "lab compare" for (&'static str, &String) as (side, experiment) {
        /// The side that has it
        side [["before", "after"].into_iter()] = side;
        /// The experiment
        experiment = experiment;
    }

    /// What makes the two sides less comparable.
    "note" of "lab compare" for (&String,) as (text,) {
        /// A sentence, such as that there was another QEMU
        text = text;
    }

    /// All figures that have a verdict; it comes last.
    "verdict" of "lab compare" for (&Comparison, Allowance) as (it, allow) {
        /// Experiments that were compared
        pairs = it.pairs;
        /// Figures that are slower
        slower = it.count(Verdict::Slower);
        /// Figures that are faster
        faster = it.count(Verdict::Faster);
        /// Figures that are the same
        same = it.count(Verdict::Same);
        /// Figures without a verdict, since a side has fewer than five boots
        too_few_boots = it.count(Verdict::TooFewBoots);
        /// Figures that are worse than --allow permits
        not_allowed = it.not_allowed(*allow).count();
        /// What --allow permits
        allow = allow.to_string();
        /// Whether nothing is worse than --allow permits; the exit code is 0 then, or 2 if figures are without a verdict
        agrees = agrees(it, *allow);
    }

    /// An experiment of a file.
    "experiment" of "lab list" for Experiment as it {
        /// Its name
        name;
        /// What it is about; empty if the file does not say
        title;
        /// Where it runs
        testbed = it.testbed();
        /// World and conditions, for people
        conditions;
        /// The settings of the matrix and their values in this experiment
        axes = it.axes.iter().map(|(key, value)| (key, value)).collect::<BTreeMap<_, _>>();
    }

    /// Which experiments of the papers a file has for a kernel and a gateway; only with --coverage.
    "coverage" of "lab list" for (&Coverage, &str, &'static str) as (it, kernel, gateway) {
        /// The kernel
        kernel = kernel;
        /// The gateway
        gateway [GATEWAYS.into_iter()] = gateway;
        /// Combinations of traffic and load that the file has
        covered = CONDITIONS - it.missing(kernel, gateway).len();
        /// Combinations of traffic and load
        of = CONDITIONS;
        /// The combinations that the file lacks: traffic and load
        missing [TRAFFICS.into_iter().chain(LOADS)] = missing(it, kernel, gateway);
    }

    /// Which experiments of the papers a file has in all; only with --coverage, and last.
    "coverage_total" of "lab list" for Coverage as it {
        /// The kernels of the file
        kernels = it.kernels().collect::<Vec<_>>();
        /// Combinations that the file has
        covered = it.covered();
        /// Combinations with the kernels of the file
        of = it.size();
        /// Experiments that the papers report
        published = PUBLISHED;
        /// Combinations that the file lacks, by traffic
        missing_by_traffic [TRAFFICS.into_iter()] = BTreeMap::from(missing_by_traffic(it));
        /// Combinations that the file lacks, by load
        missing_by_load [LOADS.into_iter()] = BTreeMap::from(missing_by_load(it));
    }

    /// A message of periodic traffic.
    "message" of "lab messages" for (&str, &Row) as (experiment, it) {
        /// The name of the experiment, with its seed if it has several
        experiment = experiment;
        /// The name of the message
        message = text(it, "name");
        /// Its identifier, such as 0x123, or 0x18FEF100x for an extended one
        id = text(it, "id");
        /// The node that sends it
        node = text(it, "node");
        /// The bus of the node
        bus = text(it, "bus");
        /// Frames sent
        sent = count(it, "sent");
        /// Frames of which a copy arrived
        received = count(it, "received");
        /// The latency from when a frame was queued at its node to its end on the bus of the node; null if none got
        /// there
        response_time = it.get("response_time").and_then(Cell::figures);
        /// The latency from when a frame was queued at its node to its end at the receiver, behind the gateway;
        /// null if none arrived
        end_to_end = it.get("end_to_end").and_then(Cell::figures);
    }

    /// The instructions in the kernel, a module or a program; the most first.
    "place" of "lab profile" for (&ProfileFile, &str, u64) as (of, place, instructions) {
        /// The experiment
        experiment = of.experiment;
        /// kernel, or the name of a module or program
        place = place;
        /// Instructions in all
        instructions = instructions;
        /// Frames that arrived at the receiver
        frames = of.frames;
        /// Instructions per frame
        instructions_per_frame = of.per_frame(*instructions);
    }

    /// The instructions in a function; the most first.
    "function" of "lab profile" for (&ProfileFile, &Function) as (of, it) {
        /// The experiment
        experiment = of.experiment;
        /// kernel, or the name of a module or program
        place = it.place;
        /// The function
        function = it.name;
        /// Instructions in all
        instructions = it.instructions;
        /// Frames that arrived at the receiver
        frames = of.frames;
        /// Instructions per frame
        instructions_per_frame = of.per_frame(it.instructions);
    }
}

words! {
    Testbed {}
}

/// The same without spaces.
fn key(word: &str) -> String {
    word.replace(' ', "_")
}

word! {
    Basis as it: key(it.words());
    Self::ALL;
    "published": "it was published",
    "own_questions": "nothing was published",
    "by_construction": "it could not be otherwise"
}

word! {
    Agreement as it: key(it.word());
    [Self::Yes, Self::No, Self::Depends, Self::TooFewSeeds, Self::Missing];
    "yes": "all of them",
    "no": "none of them",
    "depends": "on the seed",
    "too_few_seeds": "they vary from run to run",
    "missing": "there is no value"
}

word! {
    Trend as it: key(it.word());
    [Self::Overlap, Self::Higher, Self::Lower, Self::TooFewSeeds];
    "overlap": "some are among those before: no difference shows",
    "higher": "all are higher than all before",
    "lower": "all are lower than all before",
    "too_few_seeds": "nothing can be said"
}

word! {
    Verdict as it: key(it.word());
    Self::ALL;
    "same": "boots and seeds explain the difference, or there is none",
    "faster": "less by more than that",
    "slower": "more by more than that",
    "too_few_boots": "a side has fewer than five, so nothing can be said"
}

/// The unit of a claim, which has times in microseconds.
#[derive(Clone, Copy)]
struct ClaimUnit(Unit);

word! {
    ClaimUnit as it: match it.0 {
        Unit::Nanoseconds => "us",
        Unit::Percent => "%",
        other => unit(other),
    };
    [
        Unit::Nanoseconds,
        Unit::Frames,
        Unit::Percent,
        Unit::Count,
        Unit::BitsPerSecond,
        Unit::Bytes,
        Unit::Instructions,
    ]
    .map(Self);
    "bytes": "per event",
    "instructions": "per frame"
}

word! {
    Unit as it: unit(it);
    [
        Self::Nanoseconds,
        Self::Frames,
        Self::Percent,
        Self::Count,
        Self::BitsPerSecond,
        Self::Instructions,
        Self::Bytes,
    ];
    "instructions": "per frame",
    "bytes": "per event"
}

/// What has no unit is counted.
fn unit(unit: Unit) -> &'static str {
    if unit == Unit::Text { Unit::Count.word() } else { unit.word() }
}

/// What a message has under this key, as a text; empty if there is none.
fn text<'a>(message: &'a Row, key: &str) -> &'a str {
    message.get(key).and_then(Cell::text).unwrap_or_default()
}

/// The same as a number; 0 if there is none.
fn count(message: &Row, key: &str) -> u64 {
    message.get(key).and_then(Cell::number).unwrap_or_default() as u64
}

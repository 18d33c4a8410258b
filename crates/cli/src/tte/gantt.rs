//! The cycle of a schedule as text.
//!
//! ```text
//!                         0ns                     3ms
//! in: server -> switch    ......a.................
//! ```

use candor_time::Nanos;
use candor_tte::Network;
use candor_tte::schedule::{Direction, MOST_FRAMES};

use candor_diagnostics::visible;

/// Flows by their order.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// Flows that are left over.
const OTHER: char = '#';
/// Nothing is sent.
const FREE: char = '.';
/// Frames of several flows, one behind the other.
const SEVERAL: char = '*';
/// Frames that overlap.
const OVERLAP: char = '!';

/// Draws the directions that have instants. A slice shows whatever occupies a part of it.
pub(super) fn draw(network: &Network, directions: &[Direction], slices: usize) -> String {
    let directions: Vec<_> = directions.iter().filter(|it| !it.slots.is_empty()).collect();
    if directions.is_empty() {
        return "no time-triggered frame has an instant\n".into();
    }
    let name = |node: usize| &network.nodes[node].name;
    let heads: Vec<_> = directions
        .iter()
        .map(|it| {
            let link = &network.links[it.link].name;
            visible(&format!("{link}: {} -> {}", name(it.from), name(it.to))).into_owned()
        })
        .collect();
    let width = heads.iter().map(|head| head.chars().count()).max().unwrap_or(0);
    let pad = |head: &str| " ".repeat(width - head.chars().count());
    let end = network.cycle.to_string();
    let begin = format!("{:<1$}", "0ns", slices.saturating_sub(end.len()));
    let mut out = format!("{}  {begin}{end}\n", pad(""));
    for (head, direction) in heads.iter().zip(directions) {
        let row = row(network.cycle, direction, &letters(network), slices);
        out += &format!("{head}{}  {row}\n", pad(head));
    }
    out.push('\n');
    let letters = letters(network);
    for (flow, letter) in network.flows.iter().zip(&letters) {
        if flow.is_time_triggered() && *letter != OTHER {
            out += &format!("{letter}  {}\n", visible(&flow.name));
        }
    }
    if letters.contains(&OTHER) {
        out += &format!("{OTHER}  the other flows\n");
    }
    out += &format!(
        "{FREE}  no time-triggered frame   {SEVERAL}  frames of several flows   {OVERLAP}  frames that overlap\n\
         a slice is {} of the cycle; preamble, gap and jitter belong to a frame\n",
        Nanos::from_nanos(network.cycle.as_nanos() / slices as u64)
    );
    out
}

/// The letter of each flow.
fn letters(network: &Network) -> Vec<char> {
    let mut letters = LETTERS.iter().map(|&letter| char::from(letter));
    let letter = |is_time_triggered: bool| {
        if is_time_triggered { letters.next().unwrap_or(OTHER) } else { FREE }
    };
    network.flows.iter().map(|flow| flow.is_time_triggered()).map(letter).collect()
}

/// A direction.
fn row(cycle: Nanos, direction: &Direction, letters: &[char], slices: usize) -> String {
    let Some(occupied) = direction.occupied(cycle) else {
        return format!("more than {MOST_FRAMES} frames");
    };
    let mut row = vec![FREE; slices];
    let mut free_from = Nanos::ZERO;
    // What reaches over the end of the cycle is at its begin, too.
    let ends = occupied.iter().map(|(span, _)| span.end);
    free_from += ends.max().unwrap_or_default() - cycle;
    let place = |at: Nanos| {
        let place =
            u128::from(at.as_nanos()) * slices as u128 / u128::from(cycle.as_nanos().max(1));
        place as usize
    };
    for (span, slot) in &occupied {
        let last = Nanos::from_nanos(span.end.as_nanos().saturating_sub(1));
        for slice in (place(span.begin)..=place(last)).take(slices) {
            let cell = &mut row[slice % slices];
            *cell = match *cell {
                FREE => letters[slot.flow],
                letter if letter == letters[slot.flow] && letter != OTHER => letter,
                OVERLAP => OVERLAP,
                _ => SEVERAL,
            };
        }
        if span.begin < free_from {
            let last = Nanos::from_nanos(free_from.min(span.end).as_nanos().saturating_sub(1));
            for slice in (place(span.begin)..=place(last)).take(slices) {
                row[slice % slices] = OVERLAP;
            }
        }
        free_from = free_from.max(span.end);
    }
    row.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use candor_tte::file::parse;
    use candor_tte::schedule::directions;

    use super::*;

    fn drawn(sends: [&str; 3]) -> String {
        let mut text = "cycle = \"100us\"\nend_system = { a = {}, b = {} }\nswitch.s = {}\n\
            link.in = { between = [\"a\", \"s\"] }\nlink.out = { between = [\"s\", \"b\"] }\n"
            .to_owned();
        for (number, send) in sends.into_iter().enumerate() {
            let period = if number == 2 { "50us" } else { "100us" };
            text += &format!(
                "[flow.f{number}]\nclass = \"tt\"\nid = {number}\nfrom = \"a\"\nto = \"b\"\nperiod = \"{period}\"\n\
                 send = \"{send}\"\nrelay_delay = \"10us\"\n"
            );
        }
        let (network, findings) = parse("n", &text);
        let network = network.unwrap_or_else(|| panic!("{findings}"));
        draw(&network, &directions(&network), 20)
    }

    #[test]
    fn each_flow_has_a_letter() {
        let expected = [
            "             0ns            100us",
            "in: a -> s   aa...bb.cc........cc",
            "out: s -> b  ccaa...bb.cc........",
            "",
            "a  f0",
            "b  f1",
            "c  f2",
            ".  no time-triggered frame   *  frames of several flows   !  frames that overlap",
            "a slice is 5us of the cycle; preamble, gap and jitter belong to a frame",
        ];
        let drawn = drawn(["1us", "26us", "42us"]);
        assert_eq!(drawn.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn frames_that_meet_are_marked() {
        let drawn = drawn(["1us", "7.72us", "4us"]);
        assert!(drawn.contains("in: a -> s   !!!.......ccc.......\n"), "{drawn}");
    }
}

//! [`draw`]: a picture of a [`State`], of any size.
//!
//! ```text
//!  title                          what it is, and since when
//!  ports                          rates, queues, what was dropped on the way to them
//!  rules                          those with the most traffic first
//!  latencies                      and the p99 of the last seconds
//!  keys, or the filter
//! ```

use candor_causes::{Ending, ending};
use candor_gateway::control::rates;
use candor_gateway::snapshot::{LatencySnapshot, PortSnapshot, RuleSnapshot};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::super::stats::{port_title, rejected, remarks, sort_causes};
use super::state::State;
use crate::output::{age, duration, thousands};

/// How wide the gauge of a queue is.
const GAUGE: usize = 8;

pub(super) fn draw(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    let Some(snapshot) = state.overview.snapshot() else {
        let text = state.end.as_deref().unwrap_or("waiting for the gateway");
        frame.render_widget(Paragraph::new(text), area);
        return;
    };
    let rows = |count: usize| u16::try_from(count + 1).unwrap_or(u16::MAX);
    let ports = rows(snapshot.ports.len()).min(area.height / 3);
    let latencies = match snapshot.latencies.len() {
        0 => 0,
        count => rows(count).min(area.height / 4),
    };
    let [title, news, ports, _, rules, _, latencies, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::from(snapshot.rejected.is_some() || state.end.is_some())),
        Constraint::Length(ports),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(u16::from(latencies > 0)),
        Constraint::Length(latencies),
        Constraint::Length(1),
    ])
    .areas(area);
    let view = View { state };
    view.title(frame, title);
    if let Some(text) = state.end.clone().or_else(|| rejected(snapshot)) {
        frame.render_widget(Paragraph::new(text).style(view.loud()), news);
    }
    view.ports(frame, ports, &snapshot.ports, &snapshot.rules);
    view.rules(frame, rules);
    view.latencies(frame, latencies, &snapshot.latencies);
    view.keys(frame, keys);
}

struct View<'a> {
    state: &'a State,
}

impl View<'_> {
    fn colour(&self, colour: Color) -> Style {
        if self.state.is_coloured { Style::new().fg(colour) } else { Style::new() }
    }

    fn loud(&self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn head(&self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    fn title(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(snapshot) = self.state.overview.snapshot() else { return };
        let paused = if self.state.overview.is_paused { "  PAUSED" } else { "" };
        let right = format!(
            "pid {}  up {}  change {}{paused}",
            snapshot.pid,
            age(snapshot.uptime_ns),
            thousands(snapshot.generation)
        );
        let width = u16::try_from(right.chars().count() + 1).unwrap_or(u16::MAX);
        let [left, _, facts] = Layout::horizontal([
            Constraint::Min(0),
            Constraint::Length(1),
            Constraint::Length(width),
        ])
        .areas(area);
        // Of a long path the end says more.
        let file = &snapshot.file;
        let skipped = file.chars().count().saturating_sub(usize::from(left.width));
        let file: String = file.chars().skip(skipped).collect();
        let style = Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD);
        frame.render_widget(Paragraph::new("").style(style), area);
        frame.render_widget(Paragraph::new(file).style(style), left);
        frame.render_widget(Paragraph::new(right).style(style), facts);
    }

    fn ports(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        ports: &[PortSnapshot],
        rules: &[RuleSnapshot],
    ) {
        let row = |(index, port): (usize, &PortSnapshot)| {
            let rates = self.state.overview.port_rates(index);
            let is_narrow = area.width < 100;
            let name = if is_narrow { port.bus.clone() } else { port_title(port) };
            let name = Cell::from(name);
            Row::new([
                if port.trouble.is_some() { name.style(self.loud()) } else { name },
                right(per_second(rates.map(|rates| rates.received))),
                right(per_second(rates.map(|rates| rates.transmitted))),
                right(per_second(rates.map(|rates| rates.unmatched))),
                right(load(port)),
                self.queue(port),
                Cell::from(self.drops(port, rules)),
            ])
        };
        let columns = [
            ("PORT", Constraint::Fill(2)),
            (">IN/S", Constraint::Length(9)),
            (">OUT/S", Constraint::Length(9)),
            (">NO RULE/S", Constraint::Length(9)),
            (">LOAD", Constraint::Length(6)),
            ("QUEUE", Constraint::Length(15)),
            ("DROPS", Constraint::Fill(3)),
        ];
        self.table(frame, area, &columns, ports.iter().enumerate().map(row));
    }

    /// Draws rows below the heads of columns, of which those behind `>` are aligned to the right.
    fn table(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        columns: &[(&str, Constraint)],
        rows: impl Iterator<Item = Row<'static>>,
    ) {
        let head = |name: &str| match name.strip_prefix('>') {
            Some(name) => right(name),
            None => Cell::from(name.to_owned()),
        };
        let head = Row::new(columns.iter().map(|(name, _)| head(name)));
        let table = Table::new(rows, columns.iter().map(|(_, width)| *width));
        frame.render_widget(table.header(head.style(self.head())).column_spacing(1), area);
    }

    /// `███░░░░░ 384`
    fn queue(&self, port: &PortSnapshot) -> Cell<'static> {
        let (queued, depth) = (port.queued, port.queue_depth);
        if depth == 0 {
            return Cell::from(thousands(queued));
        }
        let share = queued as f64 / depth as f64;
        // What is not empty has at least one mark.
        let marks = ((share * GAUGE as f64).ceil() as usize).min(GAUGE);
        let colour = match share {
            share if share >= 0.9 => Color::Red,
            share if share >= 0.5 => Color::Yellow,
            _ => Color::Green,
        };
        let gauge = format!("{}{}", "█".repeat(marks), "░".repeat(GAUGE - marks));
        let number = format!(" {}", thousands(queued));
        Cell::from(Line::from(vec![Span::styled(gauge, self.colour(colour)), Span::raw(number)]))
    }

    /// What is wrong with a port, and what did not go out to it by cause: losses first.
    fn drops(&self, port: &PortSnapshot, rules: &[RuleSnapshot]) -> Line<'static> {
        let mut causes: Vec<(&str, u64)> = Vec::new();
        for rule in rules.iter().filter(|rule| rule.to == port.bus) {
            for (cause, &count) in &rule.stopped {
                match causes.iter_mut().find(|(known, _)| known == cause) {
                    Some((_, sum)) => *sum += count,
                    None => causes.push((cause, count)),
                }
            }
        }
        let is_lost = rates::lost(port) + rates::lost_datagrams(port) > 0;
        let is_bad = port.trouble.is_some() || is_lost;
        let style = if is_bad { self.loud() } else { self.colour(Color::Yellow) };
        let remarks = remarks(port).into_iter().map(|remark| Span::styled(remark, style));
        spaced(remarks.chain(self.causes(causes)))
    }

    /// `queue_full 12`, `rate 3`: losses first, then by number.
    fn causes(&self, mut causes: Vec<(&str, u64)>) -> Vec<Span<'static>> {
        causes.retain(|&(_, count)| count > 0);
        sort_causes(&mut causes);
        let span = |(cause, count): (&str, u64)| {
            let style = match ending(cause) {
                Ending::Lost => self.loud(),
                _ => self.colour(Color::Yellow),
            };
            Span::styled(format!("{cause} {}", thousands(count)), style)
        };
        causes.into_iter().map(span).collect()
    }

    fn rules(&self, frame: &mut Frame<'_>, area: Rect) {
        let rules = self.state.overview.rules();
        let shown = usize::from(area.height.saturating_sub(1));
        let first = self.state.scrolled.min(rules.len().saturating_sub(shown));
        let row = |(rule, rates): &(&RuleSnapshot, _)| {
            let rates: &rates::RuleRates = rates;
            let causes: Vec<_> =
                rule.stopped.iter().map(|(cause, &count)| (cause.as_str(), count)).collect();
            let row = Row::new([
                Cell::from(rule.rule.clone()),
                Cell::from(format!("{} > {}", rule.from, rule.to)),
                right(per_second(Some(rates.handled))),
                right(per_second(Some(rates.refused))),
                right(per_second(Some(rates.lost))),
                right(thousands(rule.handled)),
                Cell::from(spaced(self.causes(causes))),
            ]);
            if rule.in_use { row } else { row.style(Style::new().add_modifier(Modifier::DIM)) }
        };
        let all = self.state.overview.snapshot().map_or(0, |snapshot| snapshot.rules.len());
        let title = if rules.len() == all {
            format!("RULE ({})", thousands(all as u64))
        } else {
            format!("RULE ({}/{})", thousands(rules.len() as u64), thousands(all as u64))
        };
        let columns = [
            (title.as_str(), Constraint::Fill(4)),
            ("WAY", Constraint::Fill(4)),
            (">HANDLED/S", Constraint::Length(9)),
            (">REFUSED/S", Constraint::Length(9)),
            (">LOST/S", Constraint::Length(7)),
            (">HANDLED", Constraint::Length(9)),
            ("STOPPED", Constraint::Fill(5)),
        ];
        self.table(frame, area, &columns, rules.iter().skip(first).take(shown).map(row));
    }

    fn latencies(&self, frame: &mut Frame<'_>, area: Rect, latencies: &[LatencySnapshot]) {
        // What is left of the line beside the numbers.
        let room = usize::from(area.width).saturating_sub(18 + 4 * 9 + 5).max(8);
        let row = |latency: &LatencySnapshot| {
            let time = |ns: u64| {
                let text = if latency.count > 0 { duration(ns as f64) } else { "-".into() };
                right(text)
            };
            let history = self.state.overview.history(&latency.from, &latency.to, room);
            Row::new([
                Cell::from(format!("{} > {}", latency.from, latency.to)),
                time(latency.p50_ns),
                time(latency.p99_ns),
                time(latency.p999_ns),
                time(latency.max_ns),
                Cell::from(sparkline(&history)).style(self.colour(Color::Green)),
            ])
        };
        let columns = [
            ("LATENCY", Constraint::Length(18)),
            (">P50", Constraint::Length(8)),
            (">P99", Constraint::Length(8)),
            (">P99.9", Constraint::Length(8)),
            (">MAX", Constraint::Length(8)),
            ("P99 OF EACH SECOND", Constraint::Fill(1)),
        ];
        self.table(frame, area, &columns, latencies.iter().map(row));
    }

    fn keys(&self, frame: &mut Frame<'_>, area: Rect) {
        let state = self.state;
        let text = if state.is_typing {
            format!("filter: {}_   (enter keeps it, esc clears it)", state.overview.filter)
        } else {
            let filter = match state.overview.filter.as_str() {
                "" => "filter".to_owned(),
                filter => format!("filter \"{filter}\""),
            };
            let space = if state.overview.is_paused { "resumes" } else { "pauses" };
            format!(
                "q quits  s sorts ({})  / {filter}  space {space}  arrows scroll",
                state.overview.sort.title()
            )
        };
        let style = Style::new().add_modifier(Modifier::DIM);
        frame.render_widget(Paragraph::new(text).style(style), area);
    }
}

fn spaced(spans: impl IntoIterator<Item = Span<'static>>) -> Line<'static> {
    let mut line = Line::default();
    for span in spans {
        if !line.spans.is_empty() {
            line.push_span(Span::raw(" "));
        }
        line.push_span(span);
    }
    line
}

fn right(text: impl Into<String>) -> Cell<'static> {
    Cell::from(Line::from(text.into()).right_aligned())
}

fn per_second(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| thousands(rate.round() as u64))
}

/// A bar for each second, from zero to the highest of them; a dot where there were no frames.
fn sparkline(p99_ns: &[Option<u64>]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = p99_ns.iter().flatten().copied().max().unwrap_or(0).max(1);
    let bar = |p99_ns: &Option<u64>| match p99_ns {
        None => '·',
        Some(ns) => {
            let level = u128::from(*ns) * (BARS.len() as u128 - 1) / u128::from(most);
            BARS[usize::try_from(level).unwrap_or(0)]
        }
    };
    p99_ns.iter().map(bar).collect()
}

/// How busy a bus is at least.
fn load(port: &PortSnapshot) -> String {
    port.least_load_percent.map_or_else(String::new, |percent| format!("{percent:.0} %"))
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::path::Path;

    use candor_gateway::Snapshot;
    use expect_test::expect_file;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;

    /// A gateway at some second of its life.
    fn snapshot(second: u64) -> Snapshot {
        let port = |bus: &str, port: &str, received: u64, queued: u64| PortSnapshot {
            bus: bus.into(),
            port: port.into(),
            received: received * second,
            transmitted: received * second / 2,
            least_load_percent: (bus != "far").then_some(received as f64 / 100.0),
            queued,
            queue_depth: 1_024,
            ..PortSnapshot::default()
        };
        let mut ports = vec![
            port("powertrain", "can0", 3_000, 0),
            port("body", "can1", 1_200, 400),
            port("tunnel", "cannelloni:udp://192.0.2.7:20000", 10, 1_000),
            port("can3", "can3", 0, 1),
        ];
        ports[2].lost = 12;
        ports[3].trouble = Some("interface is down".into());
        let rule = |number: u64| RuleSnapshot {
            rule: format!("rule {number}"),
            from: ports[(number % 3) as usize].bus.clone(),
            to: ports[((number + 1) % 4) as usize].bus.clone(),
            plane: "user".into(),
            in_use: number != 3,
            handled: (number * 7 % 31) * 10 * second,
            pending: 0,
            stopped: match number {
                2 => [("queue_full".to_owned(), 40 * second), ("rate".to_owned(), 900)].into(),
                5 => [("sampled".to_owned(), 1_000 * second)].into(),
                _ => Default::default(),
            },
        };
        let rules = (0..30).map(rule).collect();
        let latency = |from: &str, to: &str, count: u64| LatencySnapshot {
            from: from.into(),
            to: to.into(),
            count,
            p50_ns: 35_200,
            p99_ns: 61_000,
            p999_ns: 99_400,
            max_ns: 1_230_000,
            recent_count: count * (second % 5),
            recent_p99_ns: 10_000 * (second % 8),
            ..LatencySnapshot::default()
        };
        let latencies = vec![latency("powertrain", "body", 1_000), latency("body", "tunnel", 0)];
        Snapshot {
            file: "/etc/candor/drive.rules.toml".into(),
            pid: 812,
            uptime_ns: second * 1_000_000_000,
            generation: 3,
            rejected: Some("drive.rules.toml:7: unknown bus `bdoy`".into()),
            messages_dropped: 0,
            ports,
            rules,
            latencies,
        }
    }

    fn state(is_coloured: bool) -> State {
        let mut state = State { is_coloured, ..State::default() };
        (100..140).for_each(|second| state.overview.take(snapshot(second)));
        state
    }

    fn press(state: &mut State, keys: &str) {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                'v' => KeyCode::Down,
                '^' => KeyCode::Up,
                other => KeyCode::Char(other),
            };
            let flow = state.key(KeyEvent::new(code, KeyModifiers::NONE));
            assert_eq!(flow, ControlFlow::Continue(()), "{key:?}");
        }
    }

    fn picture(state: &State, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(state, frame)).unwrap();
        terminal.backend().buffer().clone()
    }

    fn lines(buffer: &Buffer) -> Vec<String> {
        let width = usize::from(buffer.area.width);
        let rows = buffer.content.chunks(width);
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>()).collect()
    }

    /// Compares with a file in `testdata`. With `UPDATE_EXPECT=1` it is written anew.
    #[track_caller]
    fn golden(name: &str, state: &State, width: u16, height: u16) {
        let mut text = String::new();
        for line in lines(&picture(state, width, height)) {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
        expect_file![path].assert_eq(&text);
    }

    #[test]
    fn pictures_are_as_before() {
        golden("top-80x24.txt", &state(true), 80, 24);
        golden("top-132x50.txt", &state(true), 132, 50);
        let mut filtered = state(true);
        press(&mut filtered, "s/RULE 1");
        golden("top-filter-80x24.txt", &filtered, 80, 24);
        press(&mut filtered, "\n vvv");
        filtered.overview.take(snapshot(999));
        golden("top-paused-80x24.txt", &filtered, 80, 24);
        let mut first = State { is_coloured: true, ..State::default() };
        first.overview.take(snapshot(1));
        first.end = Some("the gateway has stopped".into());
        golden("top-ended-60x16.txt", &first, 60, 16);
    }

    #[test]
    fn any_size_can_be_drawn() {
        let state = state(true);
        for (width, height) in [(1, 1), (3, 2), (10, 40), (400, 5), (80, 8)] {
            picture(&state, width, height);
        }
        picture(&State { is_coloured: true, ..State::default() }, 80, 24);
    }

    /// The style of the first cell of `text`.
    #[track_caller]
    fn style_of(buffer: &Buffer, text: &str) -> Style {
        for (y, line) in lines(buffer).iter().enumerate() {
            if let Some(at) = line.find(text) {
                let x = line[..at].chars().count();
                return buffer.content[y * usize::from(buffer.area.width) + x].style();
            }
        }
        panic!("{text:?} is not there");
    }

    #[test]
    fn losses_are_red_and_nothing_is_without_colours() {
        let buffer = picture(&state(true), 132, 50);
        assert_eq!(style_of(&buffer, "queue_full").fg, Some(Color::Red));
        assert_eq!(style_of(&buffer, "interface is down").fg, Some(Color::Red));
        assert_eq!(style_of(&buffer, "sampled").fg, Some(Color::Yellow));
        assert_eq!(style_of(&buffer, "████████ 1,000").fg, Some(Color::Red));
        let plain = picture(&state(false), 132, 50);
        assert!(
            plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
        );
        let style = style_of(&plain, "queue_full");
        assert!(style.add_modifier.contains(Modifier::BOLD), "still distinct from others");
        assert_eq!(lines(&plain), lines(&buffer));
    }

    #[test]
    fn keys_do_what_they_say() {
        let mut state = state(true);
        let first = |state: &State| state.overview.rules()[0].0.rule.clone();
        // By rate: 5 has 1,000 refused per second.
        assert_eq!(first(&state), "rule 5");
        press(&mut state, "ss");
        assert_eq!(first(&state), "rule 22", "handled");
        press(&mut state, "ss");
        assert_eq!(first(&state), "rule 0", "name");
        press(&mut state, "vvv^");
        assert_eq!(state.scrolled, 2);
        press(&mut state, "/q^");
        assert_eq!((state.overview.filter.as_str(), state.scrolled), ("q", 0));
        assert_eq!(state.overview.rules().len(), 1, "by cause: queue_full");
        press(&mut state, "\u{1b}");
        assert_eq!(state.overview.rules().len(), 30);
        press(&mut state, &"v".repeat(100));
        assert_eq!(state.scrolled, 29);
        let quit = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        assert_eq!(state.key(quit), ControlFlow::Break(()));
        press(&mut state, "/");
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.key(interrupt), ControlFlow::Break(()));
    }

    #[test]
    fn every_second_is_a_bar() {
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[Some(0), Some(35), None, Some(70)]), "▁▄·█");
        assert_eq!(sparkline(&[Some(0), Some(0)]), "▁▁");
        assert_eq!(sparkline(&[Some(u64::MAX), Some(1)]), "█▁");
    }
}

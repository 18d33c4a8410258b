//! Findings about rules between buses, as the check tells them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The findings about rules between two real and two virtual buses, without excerpts.
fn messages(rules: &str) -> Vec<String> {
    let buses = "[bus]\na = \"can0\"\nb = \"can1\"\nv = \"vcan0\"\nw = \"vcan1\"\n";
    let (_, findings) = crate::file::parse("t", &format!("{buses}{rules}"));
    let messages = findings.sorted().into_iter().map(|finding| finding.message);
    messages.filter(|message| !message.starts_with("no rule uses bus")).collect()
}

/// A rule on one line: `from to rest`.
fn rule(text: &str) -> String {
    let mut words = text.splitn(3, ' ');
    let mut word = || words.next().unwrap_or("").to_string();
    let (from, to, rest) = (word(), word(), word());
    let rest = rest.replace("; ", "\n");
    format!("[[rule]]\nfrom = \"{from}\"\nto = \"{to}\"\n{rest}\n")
}

#[test]
fn loops_are_reported_if_a_frame_can_run_in_them() {
    let circle = "a frame such as 0x000 runs in a loop, \"rule 1\" -> \"rule 2\" -> \"rule \
                  1\", until max_hops stops it after 1 pass";
    for (rules, expected) in [
        // Back to where it came in only if allowed.
        (&["v w echo = true", "w v echo = true"][..], None),
        // One rule that allows it is enough for what comes in at its end.
        (&["v w echo = true; allow_return = true", "w v echo = true"], Some(circle)),
        // What comes from a third bus may go back and forth.
        (&["v w echo = true", "w v echo = true", "a v echo = true"], Some(circle)),
        // Frames sent on a real bus come back only with echo.
        (&["a b", "b a", "w a"], None),
        (&["a b echo = true", "b a echo = true", "w a echo = true"], Some(circle)),
        // Identifiers, kinds and edits decide.
        (
            &["v w echo = true; match = [1]", "w v echo = true; match = [2]", "a v echo = true"],
            None,
        ),
        (
            &[
                "v w echo = true; match = [1]; set = { id = 2 }",
                "w v echo = true; match = [2]; set = { id = 1 }",
                "a v echo = true",
            ],
            Some("frame 0x001 runs in a loop"),
        ),
        (&["v w echo = true", "w v echo = true; frames = \"fd\"", "a v echo = true"], None),
    ] {
        let rules: String = rules.iter().map(|text| rule(text)).collect();
        let found = messages(&rules);
        match expected {
            None => assert!(found.is_empty(), "{rules}\n{found:?}"),
            Some(expected) => {
                assert_eq!(found.len(), 1, "{rules}\n{found:?}");
                assert!(found[0].starts_with(expected), "{found:?}");
            }
        }
    }
}

#[test]
fn overlaps_are_reported_if_a_frame_goes_out_twice() {
    for (rules, is_reported) in [
        (["a b match = [1]", "a b match = [1]"], true),
        (["a b", "a b match = [1]"], true),
        (["a b", "a b frames = \"any\"; match = [1]"], true),
        (["a b match = [1]", "a b match = [2]"], false),
        (["a b match = [1]", "b a match = [1]"], false),
        (["a b match = [1]", "a b match = [\"remote 0x1\"]"], false),
        (["a b match = [1]", "a b match = [1]; frames = \"fd\""], false),
        (["a b match = [\"0x0-0x7\", \"!0x1\"]", "a b match = [1]"], false),
        // Under another identifier it is another frame.
        (["a b match = [1]", "a b match = [1]; set = { id = 3 }"], false),
        (["a b match = [1]", "a b match = [1]; set = { length = 3 }"], true),
        // So it is with other data or another format.
        (["a b match = [1]; data = \"11\"", "a b match = [1]"], false),
        (["a b match = [1]", "a b match = [1]; data = \"11\""], false),
        (["a b match = [1]; convert = \"fd\"", "a b match = [1]"], false),
        (["a b match = [1]; convert = \"fd\"", "a b match = [1]; convert = \"fd\""], true),
    ] {
        let [first, second] = rules.map(rule);
        let found = messages(&format!("{first}{second}"));
        assert_eq!(found.len(), usize::from(is_reported), "{rules:?} {found:?}");
        assert!(found.iter().all(|message| message.ends_with("by \"rule 1\"")), "{found:?}");
    }
}

#[test]
fn a_frame_that_goes_out_twice_is_one_or_one_of_many() {
    for (id, frames) in [
        ("[1]", "frame 0x001 goes to `b` twice"),
        ("[\"0x10-0x13\"]", "a frame such as 0x010 goes to `b` twice"),
        ("[\"0x5x\"]", "frame 0x5x goes to `b` twice"),
        ("[\"000:40000000\"]", "a frame such as 0x000 goes to `b` twice"),
    ] {
        let twice = rule(&format!("a b match = {id}"));
        let found = messages(&format!("{twice}{twice}"));
        assert!(found.len() == 1 && found[0].starts_with(frames), "{found:?}");
    }
}

#[test]
fn a_lost_flag_is_reported_unless_it_is_set_again() {
    for (edit, is_reported) in [
        ("and = { id = 0x7F }", true),
        ("and = { id = 0x7F }; xor = { id = 1 }", true),
        ("and = { id = \"0x7Fx\" }", false),
        ("and = { id = 0x7F }; or = { id = \"0x100x\" }", false),
        ("and = { id = 0x7F }; xor = { id = \"0x100x\" }", false),
    ] {
        let found = messages(&rule(&format!("a b match = [\"0x18FEF100x\"]; {edit}")));
        let is_lost = |message: &String| message.contains("clears the flag of extended");
        assert_eq!(found.iter().any(is_lost), is_reported, "{edit}: {found:?}");
        // Standard identifiers have no such flag.
        let found = messages(&rule(&format!("a b match = [0x123]; {edit}")));
        assert!(!found.iter().any(is_lost), "{edit}: {found:?}");
    }
    // An identifier that replaces it says what it is.
    let found =
        messages(&rule("a b match = [\"0x18FEF100x\"]; and = { id = 0x7F }; set = { id = 0x123 }"));
    assert!(!found.iter().any(|message| message.contains("clears the flag")), "{found:?}");
}

#[test]
fn rules_may_remember_as_much_as_the_limit_says() {
    let many = rule("a b every = 2; ids = 32767").repeat(8);
    for (ids, is_refused) in [(8, false), (9, true)] {
        let found = messages(&format!("{many}{}", rule(&format!("a b every = 2; ids = {ids}"))));
        let is_refusal = |message: &String| message.contains("remember more than 262144");
        assert_eq!(found.iter().any(is_refusal), is_refused, "{ids}: {found:?}");
    }
}

#[test]
fn filters_that_do_not_do_what_they_seem_to_are_reported() {
    for (rest, expected) in [
        ("match = [\"12345:1FFFFFFF\"]", None),
        ("match = [\"12345:9FFFFFFF\"]", Some("`12345:9FFFFFFF` lacks the flag of extended")),
        ("match = [\"000:20000000\"]", Some("this rule can never match")),
        ("match = [\"000:20000004\"]", None),
        ("match = [1]; set = { length = 2 }; xor_checksum = { from = -2, to = 1, into = 1 }", None),
        (
            "match = [1]; set = { length = 2 }; xor_checksum = { from = -3, to = 1, into = 1 }",
            Some("`xor_checksum` is never computed: with 2 bytes, one of its indices is before"),
        ),
    ] {
        let found = messages(&rule(&format!("a b {rest}")));
        assert_eq!(found.len(), usize::from(expected.is_some()), "{rest}: {found:?}");
        assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)));
    }
}

#[test]
fn many_single_identifiers_are_no_trouble() {
    let mut many: String =
        (0..8_000).map(|id| rule(&format!("a b match = \"0x{id:X}x\""))).collect();
    assert_eq!(messages(&many), [""; 0]);
    many += &rule("a b match = [\"0x1F00x\"]");
    assert_eq!(
        messages(&many),
        ["frame 0x1F00x goes to `b` twice: by this rule and by \"rule 7937\""]
    );
}

#[test]
fn a_search_that_takes_too_long_is_given_up_and_reported() {
    let many: String =
        (0..8_000).map(|id| rule(&format!("a b match = \"0x{:X}x/0x1FFFFFFC\"", id * 4))).collect();
    assert_eq!(messages(&many), ["there are too many rules to check for all overlapping rules"]);
}

#[test]
fn a_rule_for_both_kinds_overlaps_one_for_remote_frames() {
    for rules in [
        ["a b match = [\"any 0x1\"]", "a b match = [\"remote 0x1\"]"],
        ["a b match = [\"remote 0x1\"]", "a b match = [\"any 0x1\"]"],
    ] {
        let found = messages(&rules.map(rule).concat());
        assert_eq!(found.len(), 1, "{rules:?} {found:?}");
        assert!(found[0].starts_with("frame remote 0x001 goes to `b` twice"), "{found:?}");
    }
}

#[test]
fn an_extended_identifier_is_one_with_all_its_bits() {
    for (id, frames) in [
        ("0x1F00x/0x7FF", "a frame such as 0x700x goes to `b` twice"),
        ("0x1F00x/0x1FFFFFFF", "frame 0x1F00x goes to `b` twice"),
    ] {
        let twice = rule(&format!("a b match = [\"{id}\"]"));
        let found = messages(&format!("{twice}{twice}"));
        assert!(found.len() == 1 && found[0].starts_with(frames), "{found:?}");
    }
}

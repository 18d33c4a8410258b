//! Files become databases, or findings.

use candor_wire::can::frame::id_word;
use candor_wire::can::{ByteOrder, Field};
use proptest::prelude::*;

use super::statement::MAX_STATEMENT;
use super::*;
use crate::MAX_NESTING;

/// The database, and what is wrong with the file.
fn read(text: &str) -> (Option<Database>, String) {
    let findings = Findings::new();
    let database = Database::parse("t.dbc", text.as_bytes(), &findings);
    (database, findings.to_string())
}

fn good(text: &str) -> Database {
    let (database, findings) = read(text);
    assert_eq!(findings, "");
    database.unwrap()
}

#[test]
fn messages_and_signals_are_read_as_written() {
    let database = good(
        "VERSION \"7\"\r\n\r\nNS_ :\r\n\tCM_\r\n\tBA_\r\n\r\nBS_:\r\n\r\nBU_: A B\r\n\r\n\
         BO_ 291 Motor: 8 A\r\n SG_ Speed : 7|16@0- (0.25,-3e1) [-10.5|16000] \"rpm\" B,C\r\n \
         SG_ Gear : 16|4@1+(1,0)[0|0]\"\" Vector__XXX\r\n\r\n\
         BO_ 2147483939 Other: 64 Vector__XXX\r\n\r\nCM_ \"two\r\nBO_ 5 lines: 8 A\";\r\n\
         CM_ BO_ 291 \"a \\\"quoted\\\" word\"; // and \"a remark\r\n",
    );
    let [motor, other] = database.messages() else { panic!("two messages") };
    assert_eq!((motor.name.as_str(), id_word(motor.id), motor.length), ("Motor", 291, 8));
    assert_eq!((motor.sender.as_deref(), motor.is_fd), (Some("A"), false));
    assert_eq!((id_word(other.id), &other.sender, other.is_fd), (0x8000_0123, &None, true));
    let [speed, gear] = motor.signals.as_slice() else { panic!("two signals") };
    assert_eq!(speed.field, Field::new(7, 16, ByteOrder::Motorola, true).unwrap());
    assert_eq!(
        (speed.scaling.scale(), speed.scaling.offset(), speed.unit.as_str()),
        (0.25, -30.0, "rpm")
    );
    assert_eq!((speed.limits.clone(), gear.limits.clone()), (Some(-10.5..=16000.0), None));
    assert_eq!(speed.receivers, ["B", "C"]);
    assert_eq!(gear.field, Field::new(16, 4, ByteOrder::Intel, false).unwrap());
    assert!(gear.receivers.is_empty());
}

#[test]
fn attributes_are_looked_at() {
    // Attributes may stand before what they are about.
    let database = good(
        "BA_ \"GenMsgCycleTime\" BO_ 1 20;\nBA_ \"GenMsgCycleTime\" BO_ 2 2.5;\n\
         BA_ \"GenMsgCycleTime\" BO_ 3 0;\nBA_ \"VFrameFormat\" BO_ 2 1;\n\
         BA_ \"SystemMessageLongSymbol\" BO_ 4 \"Four_which_is_long\";\n\
         BA_ \"SystemSignalLongSymbol\" SG_ 4 S \"Signal_which_is_long\";\n\
         BA_ \"Nothing\" 7;\nBA_ \"Nothing\" BU_ A 7;\nBA_ \"Nothing\" EV_ V \"7\";\n\
         BO_ 1 One: 8 A\nBO_ 2 Two: 8 A\nBO_ 3 Three: 12 A\n\
         BO_ 4 Four: 8 A\n SG_ S : 0|8@1+ (1,0) [0|0] \"\" B\n\
         BA_DEF_ BO_ \"GenMsgCycleTime\" INT 0 65535;\n\
         BA_DEF_ BO_ \"VFrameFormat\" ENUM \"StandardCAN\",\"StandardCAN_FD\";\n\
         BA_DEF_DEF_ \"GenMsgCycleTime\" 100;\nBA_DEF_DEF_ \"VFrameFormat\" \"StandardCAN\";\n",
    );
    let reported: Vec<_> = database
        .messages()
        .iter()
        .map(|it| (it.name.as_str(), it.cycle_time.map(|time| time.to_string()), it.is_fd))
        .collect();
    assert_eq!(
        reported,
        [
            ("One", Some("20ms".to_owned()), false),
            ("Two", Some("2.5ms".to_owned()), true),
            ("Three", None, true),
            ("Four_which_is_long", Some("100ms".to_owned()), false),
        ]
    );
    assert!(database.signal_named("Four_which_is_long.Signal_which_is_long").is_ok());
}

#[test]
fn each_message_and_each_signal_of_it_has_a_name_of_its_own() {
    let signal = |name: &str| format!(" SG_ {name} : 0|8@1+ (1,0) [0|0] \"\" B\n");
    let (s, t, u) = (signal("S"), signal("T"), signal("U"));
    let long =
        |id, name, long| format!("BA_ \"SystemSignalLongSymbol\" SG_ {id} {name} \"{long}\";\n");
    let text = [
        format!("BO_ 1 A: 8 X\n{s}{t}{u}BO_ 2 A_0x003: 8 X\nBO_ 3 A: 8 X\nBO_ 2147483652 A: 8 X\n"),
        format!("BO_ 5 L: 8 X\n{s}{t}BA_ \"SystemMessageLongSymbol\" BO_ 5 \"A\";\n"),
        [long(1, "S", "Long"), long(1, "T", "Long"), long(1, "U", "T"), long(5, "S", "T")].concat(),
    ];
    let (database, findings) = read(&text.concat());
    let database = database.unwrap();
    let messages = database.messages();
    let names: Vec<_> = messages.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["A", "A_0x003", "A_0x003_0x003", "A_0x00000004", "A_0x005"]);
    let signals = |message: usize| messages[message].signals.iter().map(|it| it.name.as_str());
    assert_eq!(signals(0).collect::<Vec<_>>(), ["Long", "T", "U"]);
    assert_eq!(signals(4).collect::<Vec<_>>(), ["T", "T_2"]);
    for (name, called) in [
        ("A", "A_0x003_0x003"),
        ("A", "A_0x00000004"),
        ("A", "A_0x005"),
        ("Long", "T"),
        ("T", "U"),
        ("T", "T_2"),
    ] {
        let words = format!("`{name}` is already defined; this one is called `{called}`");
        assert!(findings.contains(&words), "{findings}");
    }
    for message in messages {
        assert_eq!(database.message_named(&message.name).unwrap(), message);
    }
}

#[test]
fn what_makes_no_sense_is_reported_and_left_out() {
    let signal = |name: &str, place: &str| format!(" SG_ {name} : {place} (1,0) [0|0] \"\" B\n");
    let plain = signal("S", "0|8@1+");
    for (text, messages, signals, findings) in [
        (
            "BO_ 1 A: 8 X\nBO_ 1 B: 8 X\n".to_owned(),
            1,
            0,
            "t.dbc:2:1: warning: identifier 1 is already used; `B` is skipped",
        ),
        (
            "BO_ 1 A: 8 X\nBO_ 2 A: 8 X\n".to_owned(),
            2,
            0,
            "t.dbc:2:1: warning: `A` is already defined; this one is called `A_0x002`",
        ),
        (
            "BO_ 2048 A: 8 X\n".to_owned(),
            0,
            0,
            "t.dbc:1:1: warning: 2048 is not an identifier; `A` is skipped",
        ),
        (
            "BO_ 99999999999999999999 A: 8 X\n".to_owned(),
            0,
            0,
            "t.dbc:1:1: warning: 99999999999999999999 is not an identifier; `A` is skipped",
        ),
        (
            "BO_ 1 A: -8 X\n".to_owned(),
            0,
            0,
            "t.dbc:1:1: warning: `A` cannot have -8 bytes; it is skipped",
        ),
        (
            format!("BO_ 1 A: 8 X\n{plain}{plain}"),
            1,
            1,
            "t.dbc:3:2: warning: `S` is already defined; this one is skipped",
        ),
        (
            format!("BO_ 1 A: 2 X\n{}", signal("S", "9|8@1+")),
            1,
            0,
            "t.dbc:2:2: warning: the field ends in byte 3, but there are 2; `S` is skipped",
        ),
        (
            format!("BO_ 1 A: 99 X\n\n{}", signal("S", "511|9@0+")),
            1,
            0,
            "t.dbc:3:2: warning: the field ends in byte 65, but there are 64; `S` is skipped",
        ),
        (
            format!("BO_ 1 A: 8 X\n{}", signal("S", "0|0@1+")),
            1,
            0,
            "t.dbc:2:2: warning: a field must have 1 to 64 bits, not 0; `S` is skipped",
        ),
        (
            format!("BO_ 1 A: 8 X\n{}", signal("S", "0|300@1+")),
            1,
            0,
            "t.dbc:2:2: warning: bit 0 with 300 bits does not fit into a frame; `S` is skipped",
        ),
        (
            format!("BO_ 1 A: 8 X\n{}", signal("S", "-1|3@1+")),
            1,
            0,
            "t.dbc:2:2: warning: bit -1 with 3 bits does not fit into a frame; `S` is skipped",
        ),
        (
            format!("BO_ 1 A: 8 X\n{}", plain.replace("(1,", "(1e999,")),
            1,
            0,
            "t.dbc:2:2: warning: the scale or the offset is too large; `S` is skipped",
        ),
        (
            format!("BO_ 1 A: 8 X\n{}", signal("S m0", "0|8@1+")),
            1,
            0,
            "t.dbc:2:2: warning: `S` has no selector and is skipped",
        ),
        (
            format!("BO_ 1 A: 8 X\n{}", signal("S m99999999999999999999", "0|8@1+")),
            1,
            0,
            "t.dbc:2:2: warning: the number after `m` is too large; `S` is skipped",
        ),
        (
            format!("BO_ 1 A: 8 X\n{plain}SG_MUL_VAL_ 1 S S 0-1;\n"),
            1,
            0,
            "t.dbc:2:2: warning: `S` has no selector and is skipped",
        ),
        (
            format!("BO_ 1 A: 8 X\n{}{}", signal("S M", "0|8@1+"), signal("T M", "8|8@1+")),
            1,
            2,
            "t.dbc:3:2: warning: `T` is a second selector",
        ),
        (
            format!(
                "BO_ 1 A: 8 X\n{}{}SG_MUL_VAL_ 1 T S 5-2, 0-1;\n",
                signal("S M", "0|8@1+"),
                signal("T m0", "8|8@1+")
            ),
            1,
            2,
            "t.dbc:4:19: warning: this range is empty",
        ),
        (
            format!("BO_ 1 A: 8 X\n{plain}SIG_VALTYPE_ 1 S : 1;\n"),
            1,
            1,
            "t.dbc:3:1: warning: `S` has 8 bits, but this kind of floating-point number needs 32",
        ),
        (
            format!("BO_ 1 A: 8 X\n{plain}VAL_ 1 T 0 \"no\" ;\n"),
            1,
            1,
            "t.dbc:3:8: warning: `A` has no signal `T`",
        ),
        (
            format!("BO_ 1 A: 8 X\n{plain}VAL_ 2 S 0 \"no\" ;\n"),
            1,
            1,
            "t.dbc:3:6: warning: there is no message 2",
        ),
    ] {
        let (database, reported) = read(&text);
        let database = database.unwrap();
        assert_eq!(reported.lines().next(), Some(findings), "{text}");
        assert!(reported.contains("\n  hint: "), "{reported}");
        let count = database.messages().iter().map(|it| it.signals.len()).sum::<usize>();
        assert_eq!((database.messages().len(), count), (messages, signals), "{text}");
    }
}

#[test]
fn what_is_no_dbc_file_is_refused_with_its_places() {
    for (text, findings) in [
        ("hello", &["t.dbc:1:1: error: this is not a DBC file: `hello` cannot be here"][..]),
        (
            "BO_ 1 A: 8 X\n SG_ S : 0|8@1* (1,0) [0|0] \"\" B\nBO_ x\n",
            &[
                "t.dbc:2:15: error: this is not a DBC file: `*` cannot be here, but `+` or `-` can",
                "t.dbc:3:5: error: this is not a DBC file: `x` cannot be here",
            ],
        ),
        // Signals whose message is missing do not pass as names of nodes.
        (
            "BU_: A B\n SG_ S : 0|8@1+ (1,0) [0|0] \"\" B\n",
            &["t.dbc:2:8: error: this is not a DBC file: `:` cannot be here"],
        ),
        (
            "BO_ 1 A 8 X\n",
            &["t.dbc:1:9: error: this is not a DBC file: `8` cannot be here, but `:` can"],
        ),
        (
            "BO_ 1 A: 8\n",
            &["t.dbc:1:11: error: this is not a DBC file: the end of the line cannot be here"],
        ),
        (
            "BO_ 1 A: 8 X\n SG_ S mx : 0|8@1+ (1,0) [0|0] \"\" B\n",
            &["t.dbc:2:8: error: this is not a DBC file: `mx` cannot be here, but `:` can"],
        ),
        (
            "VAL_ 1 S 0 \"no\" ,\n",
            &["t.dbc:1:17: error: this is not a DBC file: `,` cannot be here, but `;` can"],
        ),
        (
            "VAL_ V 0 \"no\" ; 5\n",
            &["t.dbc:1:17: error: this is not a DBC file: `5` cannot be here"],
        ),
        (
            "CM_ \"no end\nBO_ 1 A: 8 X\n",
            &["t.dbc:3:1: error: this is not a DBC file: the end of the file cannot be here, \
               but `\"` can"],
        ),
    ] {
        let (database, reported) = read(text);
        assert!(database.is_none(), "{text}");
        let reported: Vec<_> = reported.lines().filter(|line| line.starts_with("t.dbc")).collect();
        assert_eq!(reported, findings, "{text}");
    }
}

#[test]
fn files_are_read_from_disk() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/small-car.dbc");
    let findings = Findings::new();
    let database = Database::load(Path::new(path), &findings).unwrap();
    assert_eq!((database.name(), findings.to_string().as_str()), (path, ""));
    assert!(database.message_named("VehicleSpeed").is_ok());
    for (path, reason) in [
        ("/nowhere/car.dbc", "/nowhere/car.dbc: error: the file cannot be read: No such file"),
        // A file without an end is not read without an end.
        ("/dev/zero", "/dev/zero: error: the file has more than 16777216 bytes"),
    ] {
        let findings = Findings::new();
        assert!(Database::load(Path::new(path), &findings).is_none());
        assert!(findings.to_string().starts_with(reason), "{findings}");
    }
}

#[test]
fn what_is_left_out_is_counted() {
    let text = "BO_ 1 A: 8 X\nBO_ 1 B: 8 X\nBO_ 2048 C: 8 X\nBO_ 3 D: -8 X\nBO_ 4 E: 8 X\n";
    let (database, _) = read(text);
    let database = database.unwrap();
    assert_eq!((database.messages().len(), database.left_out()), (2, 3));
}

#[test]
fn findings_mark_what_they_are_about() {
    let marked = |text: &str, name: &str| {
        let (_, reported) = read(text);
        let line = reported.lines().find(|line| line.contains('^')).expect(&reported);
        assert_eq!(line.matches('^').count(), name.len(), "{reported}");
    };
    // The whole line of a message, and a word that cannot be where it is.
    marked("BO_ 1 A: 8 X\nBO_ 1 B: 8 X  \nBO_ 2 C: 8 X\n", "BO_ 1 B: 8 X");
    marked("BO_ 1 A: 8 X\nBO_ word A: 8 X\n", "word");
    marked("BO_ 1 A: 8 X\nVAL_ 2222 S 0 \"no\" ;\n", "2222");
}

#[test]
fn names_of_values_may_lack_their_semicolon() {
    let signal = "BO_ 1 A: 8 X\n SG_ S : 0|8@1+ (1,0) [0|0] \"\" B\n";
    let database = good(&format!("{signal}VAL_ 1 S 0 \"no\" VAL_ 1 S 1 \"yes\"\n"));
    let names = &database.messages()[0].signals[0].value_names;
    assert_eq!(names.iter().collect::<Vec<_>>(), [(1, "yes")]);
}

#[test]
fn the_default_frame_format_holds_for_messages_without_their_own() {
    let database = good(
        "BO_ 1 One: 8 A\nBO_ 2 Two: 8 A\n\
         BA_DEF_ BO_ \"VFrameFormat\" ENUM \"StandardCAN\",\"StandardCAN_FD\";\n\
         BA_DEF_DEF_ \"VFrameFormat\" \"StandardCAN_FD\";\nBA_ \"VFrameFormat\" BO_ 2 0;\n",
    );
    let is_fd: Vec<_> = database.messages().iter().map(|message| message.is_fd).collect();
    assert_eq!(is_fd, [true, false]);
    // Without a definition, numbers are those that all files use.
    let database = good(
        "BO_ 1 One: 8 A\nBO_ 2 Two: 8 A\nBO_ 2147483651 Three: 8 A\n\
         BA_ \"VFrameFormat\" BO_ 1 14;\nBA_ \"VFrameFormat\" BO_ 2 0;\n\
         BA_ \"VFrameFormat\" BO_ 2147483651 15;\n",
    );
    let is_fd: Vec<_> = database.messages().iter().map(|message| message.is_fd).collect();
    assert_eq!(is_fd, [true, false, true]);
    // A number in quotation marks is a name.
    let database = good(
        "BO_ 1 One: 8 A\nBO_ 2 Two: 8 A\n\
         BA_DEF_ BO_ \"VFrameFormat\" ENUM \"1\",\"StandardCAN_FD\";\n\
         BA_ \"VFrameFormat\" BO_ 1 1;\nBA_ \"VFrameFormat\" BO_ 2 \"1\";\n",
    );
    let is_fd: Vec<_> = database.messages().iter().map(|message| message.is_fd).collect();
    assert_eq!(is_fd, [true, false]);
}

#[test]
fn files_are_bounded() {
    // As much as there may be is read. That it says nothing is told.
    let empty = "t.dbc:1:1: warning: the file describes no message\n";
    let frame = "CM_ \"\";";
    let comment = format!("CM_ \"{}\";", "a".repeat(MAX_STATEMENT - frame.len()));
    for text in ["\n".repeat(MAX_BYTES), comment, "BU_: A".to_owned()] {
        let (database, findings) = read(&text);
        assert_eq!(database.unwrap().messages().len(), 0);
        assert!(findings.starts_with(empty), "{findings}");
    }
    let signals = (0..MAX_SIGNALS).map(|n| format!(" SG_ s{n}:0|1@1+(1,0)[0|0]\"\"A\n"));
    let most = good(&format!("BO_ 1 A:8 B\n{}", signals.collect::<String>()));
    assert_eq!(most.messages()[0].signals.len(), MAX_SIGNALS);
    let messages = |count: usize| {
        let line = |n: usize| format!("BO_ {} m{n}:8 B\n", n + 0x8000_0000);
        (0..count).map(line).collect::<String>()
    };
    assert_eq!(good(&messages(MAX_MESSAGES)).messages().len(), MAX_MESSAGES);
    assert!(read(&messages(MAX_MESSAGES + 1)).1.contains("more than 65536 messages"));

    let large = " ".repeat(MAX_BYTES + 1);
    assert!(read(&large).1.starts_with("t.dbc: error: the file has more than 16777216 bytes"));
    let long = format!("CM_ \"{}\";", "a".repeat(MAX_STATEMENT));
    assert!(read(&long).1.contains("this statement has more than 1048576 bytes"));
    let signals = (0..=MAX_SIGNALS).map(|n| format!(" SG_ s{n}:0|1@1+(1,0)[0|0]\"\"A\n"));
    let many = format!("BO_ 1 A:8 B\n{}", signals.collect::<String>());
    assert!(read(&many).1.contains("more than 65536 messages, or 16384 signals in one message"));
    // Selectors of selectors, one more than are followed.
    let chain = |length: usize| {
        let signal = |n| format!(" SG_ s{n} m0M:{n}|1@1+(1,0)[0|0]\"\"A\n");
        let rule = |n| format!("SG_MUL_VAL_ 1 s{n} s{} 0-0;\n", n + 1);
        let signals: String = (0..length).map(signal).collect();
        let rules: String = (0..length).map(rule).collect();
        format!("BO_ 1 A:8 B\n{signals} SG_ s{length} M:{length}|1@1+(1,0)[0|0]\"\"A\n{rules}")
    };
    let longest = good(&chain(MAX_NESTING));
    let message = &longest.messages()[0];
    assert_eq!(message.decode_data(&[0; 8]).count(), MAX_NESTING + 1);
    let (longer, reported) = read(&chain(MAX_NESTING + 1));
    assert_eq!(longer.unwrap().messages()[0].signals.len(), MAX_NESTING + 1);
    assert!(reported.contains("`s0` has no selector"), "{reported}");
}

#[test]
fn files_without_an_end_of_findings_are_read_to_their_end() {
    let unknown = "VAL_ 9 S 0 \"no\";\n".repeat(2 * candor_diagnostics::MAX_FINDINGS);
    let (database, _) = read(&format!("{unknown}BO_ 1 A: 8 X\n"));
    assert_eq!(database.unwrap().messages().len(), 1);
    let used = "BO_ 1 A: 8 X\n".repeat(2 * candor_diagnostics::MAX_FINDINGS);
    let (database, _) = read(&format!("{used}BO_ 2 B: 8 X\n"));
    assert_eq!(database.unwrap().messages().len(), 2);
}

#[test]
fn what_says_nothing_about_messages_is_passed_over() {
    let database = good(
        "BO_ 3221225472 VECTOR__INDEPENDENT_SIG_MSG: 0 Vector__XXX\n \
         SG_ Nowhere : 0|8@1+ (1,0) [0|0] \"\" Vector__XXX\n\
         BO_ 1 A: 8 X\nVAL_TABLE_ T 0 \"no\" 1 \"yes\";\nVAL_ Variable 0 \"no\";\n\
         VAL_ 3221225472 Nowhere 0 \"no\";\nSIG_TYPE_REF_ 1 S : T;\nSGTYPE_ what: ever;\n\
         EV_ Variable: 0 [0|1] \"\" 0 1 DUMMY_NODE_VECTOR0 A;\nBO_TX_BU_ 1 : A,B;\n",
    );
    assert_eq!((database.messages().len(), database.left_out()), (1, 0));
}

proptest! {
    /// Whatever the bytes are, they are read or refused, and a file that is refused has an error.
    #[test]
    fn any_text_is_read_or_refused(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("BO_ 1 A: 8 X\n".to_owned()),
                Just(" SG_ S M : 0|8@1+ (1,0) [0|0] \"\" B\n".to_owned()),
                Just("VAL_ 1 S 0 \"".to_owned()),
                Just("SG_MUL_VAL_ 1 S S 0-1;\n".to_owned()),
                Just("// \"\n".to_owned()),
                Just("\\\"".to_owned()),
                ".{0,8}",
                "[\"\\\\\r\n a_0;:]{0,8}",
            ],
            0..12,
        ),
    ) {
        let text = parts.concat();
        let findings = Findings::new();
        let database = Database::parse("t.dbc", text.as_bytes(), &findings);
        prop_assert_eq!(database.is_none(), findings.has_errors());
    }
}

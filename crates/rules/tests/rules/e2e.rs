//! Messages that are protected end to end, as they are listed in `testdata/e2e.txt`. An independent
//! implementation is held against the same list by `tests/conformance/protection.py`.
//!
//! With `UPDATE_EXPECT=1` the list is written anew.

use std::fmt::Write as _;

use candor_engine::extension::e2e::{E2e, Inclusion, Profile1};
use expect_test::expect_file;

const HEAD: &str = "# profile, inclusion or -, data identifier or list, offset of CRC and counter in bytes,\n\
                    # counter, data before and after\n";

/// xorshift64*: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

/// Everything of a line but the data after.
fn questions() -> Vec<String> {
    let mut random = Random(5);
    let mut questions = Vec::new();
    let zeros = "0000000000000000";
    for counter in 0..15 {
        for (inclusion, _) in Inclusion::ALL {
            questions.push(format!("1 {inclusion} 0123 0 {counter} {zeros}"));
            let len = 2 + random.below(62) as usize;
            let offset = random.below(len as u64 - 1);
            let id = random.below(1 << 16);
            let data = hex(&random.bytes(len));
            questions.push(format!("1 {inclusion} {id:04X} {offset} {counter} {data}"));
        }
    }
    for counter in 0..16 {
        let counted: Vec<u8> = (1..=16).collect();
        questions.push(format!("2 - {} 0 {counter} {zeros}", hex(&counted)));
        for _ in 0..3 {
            let len = 2 + random.below(62) as usize;
            let (ids, data) = (hex(&random.bytes(16)), hex(&random.bytes(len)));
            questions.push(format!("2 - {ids} 0 {counter} {data}"));
        }
    }
    questions
}

fn answer(question: &str) -> String {
    let [profile, inclusion, id, offset, counter, data] =
        question.split(' ').collect::<Vec<_>>()[..]
    else {
        panic!("{question}")
    };
    let offset: u8 = offset.parse().unwrap();
    let e2e = if profile == "1" {
        let (_, inclusion) = *Inclusion::ALL.iter().find(|(name, _)| *name == inclusion).unwrap();
        E2e::Profile1(Profile1 {
            data_id: u16::from_str_radix(id, 16).unwrap(),
            inclusion,
            crc_byte: offset,
            counter_nibble: offset * 2 + 2,
            id_nibble: offset * 2 + 3,
        })
    } else {
        E2e::Profile2(unhex(id).try_into().unwrap())
    };
    let mut data = unhex(data);
    e2e.protect(&mut data, counter.parse().unwrap()).unwrap();
    hex(&data)
}

#[test]
fn messages_are_protected_as_listed() {
    let mut found = HEAD.to_owned();
    for question in questions() {
        writeln!(found, "{question} {}", answer(&question)).unwrap();
    }
    expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/e2e.txt")].assert_eq(&found);
    // That the peer's list is not only our own opinion: the example of the specification.
    assert!(found.contains("\n1 both 0123 0 0 0000000000000000 CC00000000000000\n"));
}

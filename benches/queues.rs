//! What it costs to put an item into a queue and to take it out: `cargo bench -p candor-queue --bench queues`.
//!
//! An item has 16 bytes, as a classical CAN frame. A queue of each size is half full. 256 items (or as many
//! as have room) are put in, then as many are taken out, again and again; the two are timed apart.
//! Each figure is the best of several rounds. Keys are spread over 2,048 identifiers.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use candor_queue::spsc;
use candor_queue::user::Config;
use candor_queue::{Acceptance, Bands, ByPriority, Egress, Fifo, Policy, User};

const SLOTS: [usize; 5] = [1, 16, 64, 1_024, 10_000];
const ROUNDS: usize = 15;
const OPERATIONS: usize = 200_000;
const BATCH: usize = 256;

type Item = [u32; 4];

/// A queue under test: how to put and to take.
trait Queue {
    fn put(&mut self, key: u32, item: Item);
    fn take(&mut self) -> Option<Item>;
}

impl Queue for Fifo<Item> {
    fn put(&mut self, _: u32, item: Item) {
        let _ = black_box(self.push(item));
    }
    fn take(&mut self) -> Option<Item> {
        self.pop()
    }
}

impl Queue for Bands<Item> {
    fn put(&mut self, key: u32, item: Item) {
        let _ = black_box(self.push((key >> 8) as usize, item));
    }
    fn take(&mut self) -> Option<Item> {
        self.pop()
    }
}

impl Queue for User<Item> {
    fn put(&mut self, key: u32, item: Item) {
        let _ = black_box(self.send(key, item));
    }
    fn take(&mut self) -> Option<Item> {
        self.next_to_transmit()
    }
}

impl Queue for (spsc::Producer<4>, spsc::Consumer<4>) {
    fn put(&mut self, _: u32, item: Item) {
        let _ = black_box(self.0.push(&item));
    }
    fn take(&mut self) -> Option<Item> {
        self.1.pop()
    }
}

impl Queue for ByPriority<Item> {
    fn put(&mut self, key: u32, item: Item) {
        let _ = black_box(self.push(key, item));
    }
    fn take(&mut self) -> Option<Item> {
        self.pop()
    }
}

impl Queue for Egress<Item> {
    fn put(&mut self, key: u32, item: Item) {
        let _ = black_box(self.push(key, None, item));
    }
    fn take(&mut self) -> Option<Item> {
        self.pop()
    }
}

/// ns per insert and per extract.
fn measured(queue: &mut impl Queue, slots: usize) -> [f64; 2] {
    let mut spread = 1_u32;
    let mut key = || {
        spread = spread.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        spread >> 21
    };
    let keys: [u32; BATCH] = std::array::from_fn(|_| key());
    let waiting = slots / 2;
    let batch = BATCH.min(slots - waiting);
    for _ in 0..waiting {
        queue.put(key(), [1; 4]);
    }
    let mut best = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        let mut took = [Duration::ZERO; 2];
        let mut operations = 0;
        if batch < 16 {
            // The clock would cost more than these few items.
            let start = Instant::now();
            while operations < OPERATIONS {
                for &key in &keys[..batch] {
                    queue.put(key, [key; 4]);
                }
                for _ in 0..batch {
                    black_box(queue.take());
                }
                operations += batch;
            }
            took = [start.elapsed() / 2; 2];
        }
        while operations < OPERATIONS {
            let start = Instant::now();
            for &key in &keys[..batch] {
                queue.put(key, [key; 4]);
            }
            let between = Instant::now();
            for _ in 0..batch {
                black_box(queue.take());
            }
            took[1] += between.elapsed();
            took[0] += between - start;
            operations += batch;
        }
        for (best, took) in best.iter_mut().zip(took) {
            *best = best.min(took.as_secs_f64() * 1e9 / operations as f64);
        }
    }
    best
}

fn show(what: &str, mut measure: impl FnMut(usize) -> [f64; 2]) {
    let cells = SLOTS.map(|slots| {
        let [insert, extract] = measure(slots);
        format!("{insert:.1} / {extract:.1}")
    });
    println!("| {what} | {} |", cells.join(" | "));
}

fn main() {
    let names = SLOTS.map(|slots| slots.to_string()).join(" | ");
    println!("| ns per insert / extract, by slots | {names} |");
    println!("|---|{}", "---|".repeat(SLOTS.len()));
    let policies = [("refuses", Policy::RefuseNewest), ("overwrites", Policy::OverwriteOldest)];
    for (name, policy) in policies {
        show(&format!("`Fifo`, {name}"), |slots| {
            measured(&mut Fifo::with_policy(slots, policy), slots)
        });
    }
    show("`Bands`, 8 bands", |slots| {
        measured(&mut Bands::new(8, slots, Policy::RefuseNewest), slots)
    });
    show("`User`, 3 transmit queues", |slots| {
        let accepts = [0x400, 0x200, 0].map(|mask| Acceptance { code: 0, mask });
        let config =
            Config { transmit: accepts.into(), transmit_slots: slots, ..Config::default() };
        measured(&mut User::new(&config), slots)
    });
    for (name, policy) in policies {
        show(&format!("`spsc`, {name}"), |slots| {
            measured(&mut spsc::queue::<4>(slots as u32, policy), slots)
        });
    }
    show("`ByPriority`, a heap", |slots| measured(&mut ByPriority::new(slots), slots));
    show("`Egress`, three heaps", |slots| measured(&mut Egress::new(slots), slots));
}

//! What was asked for, lives one after the other, and what is told of them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::coverage::Coverage;
use crate::life::{self, Lived};

pub struct Asked {
    seed: Option<u64>,
    first: u64,
    events: u64,
    is_traced: bool,
    needs_all_pairs: bool,
    threads: usize,
}

impl Asked {
    pub fn from_words(words: impl Iterator<Item = String>) -> Result<Asked, String> {
        let mut asked = Asked {
            seed: None,
            first: 1,
            events: 100_000,
            is_traced: false,
            needs_all_pairs: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64, String> {
                let text = words.next().ok_or_else(|| format!("{word} needs a number"))?;
                text.parse().map_err(|_| format!("{word}: no number: {text}"))
            };
            match word.as_str() {
                "--seed" => asked.seed = Some(number()?),
                "--from" => asked.first = number()?,
                "--events" => asked.events = number()?,
                "--threads" => asked.threads = number()?.clamp(1, 64) as usize,
                "--trace" => asked.is_traced = true,
                "--all-pairs" => asked.needs_all_pairs = true,
                _ => {
                    return Err(format!(
                        "unknown: {word}; there are --seed, --from, --events, --threads, --trace, --all-pairs"
                    ));
                }
            }
        }
        Ok(asked)
    }
}

/// Of all lives so far.
#[derive(Default)]
struct Sum {
    lives: u64,
    faults: u64,
    answers: u64,
    coverage: Coverage,
    violated: Option<Lived>,
}

/// Where lives keep their files: memory, if there is such a place.
fn place(worker: usize) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
    root.join(format!("agentsup-simulate-{:08x}-{worker:02}", std::process::id()))
}

pub fn run(asked: &Asked) -> ExitCode {
    life::keep_panics();
    let began = Instant::now();
    let (next, events, is_over) = (AtomicU64::new(asked.first), AtomicU64::new(0), AtomicBool::new(false));
    let sum = Mutex::new(Sum::default());
    let work = |worker: usize| {
        let dir = place(worker);
        while !is_over.load(Ordering::Relaxed) {
            let seed = asked.seed.unwrap_or_else(|| next.fetch_add(1, Ordering::Relaxed));
            let (dir, is_traced) = (dir.clone(), asked.is_traced);
            let life = std::thread::Builder::new()
                .stack_size(4 << 20)
                .spawn(move || life::live(seed, &dir, is_traced));
            let lived = life.expect("a thread").join().expect("no life panics").expect("a place for files");
            let so_far = events.fetch_add(lived.events, Ordering::Relaxed) + lived.events;
            let mut sum = sum.lock().expect("nobody panics with it");
            sum.lives += 1;
            sum.faults += lived.faults;
            sum.answers += lived.answers;
            sum.coverage.add(&lived.coverage);
            if asked.seed.is_some() {
                println!("seed {seed}: {} events, digest {:016x}", lived.events, lived.digest);
            }
            let is_enough = asked.seed.is_some() || so_far >= asked.events;
            if lived.violation.is_some() && sum.violated.as_ref().is_none_or(|known| lived.seed < known.seed)
            {
                sum.violated = Some(lived);
            }
            if is_enough || sum.violated.is_some() {
                is_over.store(true, Ordering::Relaxed);
            }
        }
        let _ = std::fs::remove_dir_all(dir);
    };
    std::thread::scope(|scope| {
        for worker in 0..if asked.seed.is_some() { 1 } else { asked.threads } {
            scope.spawn(move || work(worker));
        }
    });
    let sum = sum.into_inner().expect("nobody panics with it");
    let events = events.into_inner();
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{events} events in {} lives, {:.1} s, {:.0} events/s; {} requests answered, {} faults of the disk",
        sum.lives,
        seconds,
        events as f64 / seconds,
        sum.answers,
        sum.faults,
    );
    println!(
        "{} of {} pairs of phase and event, {} of them without strays",
        sum.coverage.pairs() - sum.coverage.missing().len(),
        sum.coverage.pairs(),
        sum.coverage.natural()
    );
    if let Some(lived) = sum.violated {
        return tell_violation(&lived);
    }
    if asked.needs_all_pairs && !sum.coverage.missing().is_empty() {
        println!("never seen: {}", sum.coverage.missing().join(" "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn tell_violation(lived: &Lived) -> ExitCode {
    let Some(violation) = &lived.violation else { return ExitCode::SUCCESS };
    println!("\nINVARIANT VIOLATED: {}", violation.invariant);
    println!("{}", violation.detail);
    println!("seed {}, event {}; the last of them:", lived.seed, lived.events);
    for moment in &lived.last {
        println!("  {moment}");
    }
    println!("replay: cargo run --example simulate -- --seed {} --trace", lived.seed);
    ExitCode::FAILURE
}

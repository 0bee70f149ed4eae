//! A miner that lies, for the demonstration and for trying a validator by hand.

use std::net::SocketAddr;
use std::process::ExitCode;

use assay_dishonest::{Disguise, DishonestMiner, ProbeLie, WorkLie};
use clap::{Parser, ValueEnum};

/// Connects to a validator and lies in every challenge
#[derive(Debug, Parser)]
#[command(name = "assay-dishonest-miner", version)]
struct Cli {
    /// Where the validator listens
    #[arg(value_name = "ADDRESS")]
    validator: SocketAddr,
    /// What the miner lies about
    #[arg(value_enum)]
    lie: Lie,
    /// Slots of n = 256 on each of its two devices
    #[arg(long, default_value_t = 256)]
    slots: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Lie {
    /// Nothing: to see that the lies are what is caught
    Nothing,
    /// Every twentieth element of a product is left zero
    SkipElements,
    /// The leaves are zeros
    ZeroLeaves,
    /// One slot in mid-chain is zeros
    ZeroSlot,
    /// The probe walks over other memory than the work filled
    OtherMemory,
    /// Half of the walks of the probe are copies
    MergedWalks,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut miner = DishonestMiner::connect(cli.validator, &Disguise::new(&[cli.slots, cli.slots])).await;
    match cli.lie {
        Lie::Nothing => {}
        Lie::SkipElements => miner.lies.in_work(WorkLie::SkipElements),
        Lie::ZeroLeaves => miner.lies.in_work(WorkLie::ZeroLeaves),
        Lie::ZeroSlot => miner.lies.in_work(WorkLie::ZeroSlots(&[3])),
        Lie::OtherMemory => miner.lies.in_probe(ProbeLie::OtherMemory),
        Lie::MergedWalks => miner.lies.in_probe(ProbeLie::MergedWalks),
    }
    println!("{}", miner.key);
    match miner.ended().await {
        Ok(closed) => {
            eprintln!("session ended: {closed}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(74)
        }
    }
}

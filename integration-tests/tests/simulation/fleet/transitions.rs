//! The cells of the tables of states in docs/PROTOCOL.md that simulated fleets reach.

use std::sync::LazyLock;

use assay_protocol::message::{MinerMessage, ValidatorMessage};

use crate::standing::{MinerStanding, ValidatorStanding, kind_of_miner, kind_of_validator};
use crate::table::{Named, StateTable, TableCell};

/// Both tables, without a cell that was reached.
static TABLES: LazyLock<Transitions> =
    LazyLock::new(|| Transitions { validator: StateTable::read("states"), miner: StateTable::read("miner-states") });

/// The tables of both sides, with the cells reached.
#[derive(Clone)]
pub struct Transitions {
    validator: StateTable,
    miner: StateTable,
}

impl Default for Transitions {
    fn default() -> Self {
        TABLES.clone()
    }
}

/// The end of a stream, or a message that a validator cannot read.
#[derive(Debug, Clone, Copy)]
pub enum StreamEnd {
    Malformed,
    End,
}

impl Transitions {
    /// Notes what a validator is given.
    pub fn at_validator(&mut self, standing: &ValidatorStanding, given: Result<&MinerMessage, StreamEnd>) {
        let (kind, named) = match given {
            Ok(message) => (kind_of_miner(message), standing.named(message)),
            Err(StreamEnd::Malformed) => ("malformed", Named::None),
            Err(StreamEnd::End) => ("end of stream", Named::None),
        };
        self.validator.cell(kind, named, standing.state);
    }

    /// Notes what a miner is given; `None`: the end of the stream.
    pub fn at_miner(&mut self, standing: &MinerStanding, given: Option<&ValidatorMessage>) {
        let (kind, named) =
            given.map_or(("end of stream", Named::None), |given| (kind_of_validator(given), standing.named(given)));
        self.miner.cell(kind, named, standing.state);
    }

    pub fn add(&mut self, other: &Self) {
        self.validator.add_seen(&other.validator);
        self.miner.add_seen(&other.miner);
    }

    /// Cells reached, those of them that a fleet can reach, and those not reached, in words.
    pub fn reached(&self) -> (usize, usize, Vec<String>) {
        let validator = self.validator.all_cells().map(|(cell, is_reached)| ("validator", cell, is_reached));
        // A miner here ends with its session, and its link garbles nothing that a validator says: those cells are in the
        // tests of the tables alone.
        let can_be = |cell: &TableCell| cell.state != "closed" && cell.message != "malformed";
        let miner = self.miner.all_cells().filter(|(cell, _)| can_be(cell));
        let cells: Vec<_> = validator.chain(miner.map(|(cell, is_reached)| ("miner", cell, is_reached))).collect();
        let missing = cells.iter().filter(|(.., is_reached)| !is_reached);
        let missing: Vec<_> = missing.map(|(side, cell, _)| format!("{side}: {cell}")).collect();
        (cells.len() - missing.len(), cells.len(), missing)
    }
}

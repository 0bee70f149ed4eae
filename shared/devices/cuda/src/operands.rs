//! Which slots' operands are held expanded: those of two slots, the last ones used.

/// Matrices of operands that are held.
pub(super) const PLACES: usize = 2;

/// The slot in each place.
#[derive(Debug, Default)]
pub(super) struct HeldOperands {
    slots: [Option<u32>; PLACES],
}

/// A place, and whether its operands are to be written first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OperandPlace {
    pub(super) place: usize,
    /// Whether it held another slot.
    pub(super) is_new: bool,
}

impl HeldOperands {
    /// Places for the operands of two slots, which are held from now on. Operands that are held already stay in place.
    pub(super) fn hold(&mut self, slots: [u32; PLACES]) -> [OperandPlace; PLACES] {
        slots.map(|slot| {
            if let Some(place) = self.slots.iter().position(|held| *held == Some(slot)) {
                return OperandPlace { place, is_new: false };
            }
            // One of two places at most holds the other slot of the pair.
            let wanted = |held: &Option<u32>| held.is_some_and(|held| slots.contains(&held));
            let place = self.slots.iter().position(|held| !wanted(held)).unwrap_or(0);
            self.slots[place] = Some(slot);
            OperandPlace { place, is_new: true }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(place: usize, is_new: bool) -> OperandPlace {
        OperandPlace { place, is_new }
    }

    #[test]
    fn what_is_held_is_not_written_again() {
        let mut operands = HeldOperands::default();
        assert_eq!(operands.hold([0, 1]), [held(0, true), held(1, true)]);
        assert_eq!(operands.hold([0, 2]), [held(0, false), held(1, true)]);
        assert_eq!(operands.hold([2, 3]), [held(1, false), held(0, true)]);
        assert_eq!(operands.hold([1, 4]), [held(0, true), held(1, true)]);
        assert_eq!(operands.hold([4, 1]), [held(1, false), held(0, false)]);
        assert_eq!(operands.hold([7, 4]), [held(0, true), held(1, false)]);
        // Not in a challenge, but no reason to fail.
        assert_eq!(operands.hold([5, 5]), [held(0, true), held(0, false)]);
    }

    #[test]
    fn both_operands_are_always_there() {
        let mut operands = HeldOperands::default();
        let mut truth = [None; PLACES];
        for u in 2_u32..500 {
            let wanted = [u.wrapping_mul(2_654_435_761) % (u - 1), u - 1];
            for (slot, held) in wanted.into_iter().zip(operands.hold(wanted)) {
                if held.is_new {
                    truth[held.place] = Some(slot);
                }
                assert_eq!(truth[held.place], Some(slot), "{u}");
            }
            assert!(wanted.into_iter().all(|slot| truth.contains(&Some(slot))), "{u}");
        }
    }
}

//! Operands that come from a rule of the kind of work (WORK.md, Rules), written out before their product.

use super::flow::{Dispatch, Flow};
use super::memory::SlotPiece;
use super::pass::{BufferedPass, FIRST_GROUPS, RULE_MATRIX, words_of};
use super::plan::MAX_WORKGROUPS;
use super::shaders::{self, RuleParams};
use assay_device::DeviceError;
use assay_device::pace::{WorkKind, Workload};
use assay_work::rule::network::noise_key;

impl<'a> BufferedPass<'a> {
    /// Writes out the operands of the product that fills slot `u`, which come from another slot.
    pub(super) fn apply_rule(&self, flow: &mut Flow<'a>, u: u32, slot: u32) -> Result<(), DeviceError> {
        let (layout, rows) = (&self.layout, self.layout.operand_rows);
        let key = words_of(&noise_key(&self.pass.key, u));
        for piece in 0..u64::from(layout.n) / rows {
            let row0 = piece * rows;
            let slot_piece = row0 / layout.piece_rows();
            let next = (slot_piece + 1) % layout.pieces_per_slot;
            let parameters = RuleParams {
                key,
                n: layout.n,
                slot: u,
                first_group: 0,
                row0: row0 as u32,
                slot_row0: (slot_piece * layout.piece_rows()) as u32,
                slot_rows: layout.piece_rows() as u32,
            };
            let bindings = [
                self.memory.piece(layout, slot, slot_piece),
                self.memory.operands(layout, 1, RULE_MATRIX, piece),
                self.memory.piece(layout, slot, next),
            ];
            self.apply_to_piece(flow, &parameters, &bindings)?;
        }
        Ok(())
    }

    /// All workgroups of a piece of operands, in as many dispatches as their time asks for.
    fn apply_to_piece(
        &self,
        flow: &mut Flow<'a>,
        parameters: &RuleParams,
        bindings: &[SlotPiece<'a>; 3],
    ) -> Result<(), DeviceError> {
        let RuleParams { n, slot, .. } = *parameters;
        let group_bytes = shaders::rule_group_bytes(self.pass.precision, n, slot);
        let all = bindings[1].bytes / group_bytes;
        let mut first_group = 0;
        while first_group < all {
            let left = all - first_group;
            let groups = flow.pieces(WorkKind::Expand, left, group_bytes, FIRST_GROUPS);
            let groups = groups.min(left).min(MAX_WORKGROUPS.into());
            flow.dispatch(&Dispatch {
                pipeline: self.kernels.expansion(self.pass.precision, slot),
                words: &RuleParams { first_group: first_group as u32, ..*parameters }.words(),
                bindings,
                workgroups: groups as u32,
                work: Workload { kind: WorkKind::Expand, units: groups * group_bytes },
            })?;
            first_group += groups;
        }
        Ok(())
    }
}

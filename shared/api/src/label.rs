//! Labels, and changes of them.

use assay_records::Labels;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{AdditionalProperties, AnyOfBuilder, ArrayBuilder, Object, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The most labels of a miner.
pub const MAX_LABELS: usize = 32;
/// The longest name of a label.
pub const MAX_LABEL_NAME_BYTES: usize = 63;
/// The longest value of a label.
pub const MAX_LABEL_VALUE_CHARS: usize = 128;

/// Labels to set, and to take away: at least one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChangeLabels {
    /// To be set.
    pub set: Labels,
    /// Names of those to be taken away.
    pub remove: Vec<String>,
}

fn name() -> ObjectBuilder {
    let pattern = format!("^[A-Za-z0-9][A-Za-z0-9._/-]{{0,{}}}$", MAX_LABEL_NAME_BYTES - 1);
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

fn labels(least: Option<usize>) -> ObjectBuilder {
    let value = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
    ObjectBuilder::new()
        .property_names(Some(name()))
        .additional_properties(Some(value.max_length(Some(MAX_LABEL_VALUE_CHARS))))
        .min_properties(least)
        .max_properties(Some(MAX_LABELS))
}

/// Labels as part of another document.
pub(crate) fn any_labels() -> Object {
    labels(None).description(Some("What the miner is labelled with.")).build()
}

// Derived, it would allow a change of nothing.
impl PartialSchema for ChangeLabels {
    fn schema() -> RefOr<Schema> {
        let change = |required: &str| {
            let least = |field: &str| (field == required).then_some(1);
            let remove = ArrayBuilder::new().items(name().build()).min_items(least("remove"));
            ObjectBuilder::new()
                .property("set", labels(least("set")).description(Some("To be set.")))
                .property("remove", remove.description(Some("Names of those to be taken away.")))
                .required(required)
                .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
        };
        let either = AnyOfBuilder::new().item(change("set")).item(change("remove"));
        either.description(Some("Labels to set, and to take away: at least one.")).into()
    }
}

impl ToSchema for ChangeLabels {}

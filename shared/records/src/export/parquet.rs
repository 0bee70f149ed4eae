//! Rows as Parquet, a row group for each batch.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use tokio::sync::mpsc;

use super::{Batch, Cell, exported};
use crate::SCHEMA_VERSION;
use crate::tables::{Column, ColumnKind, Table};

/// The key of the version of the schema in a file's metadata.
const VERSION_KEY: &str = "assay.schema_version";

/// Writes a row group for each batch until there are no more.
pub(super) fn write(table: &Table, file: &File, mut batches: mpsc::Receiver<Batch>) -> Result<()> {
    let version = KeyValue::new(VERSION_KEY.to_owned(), Some(SCHEMA_VERSION.to_string()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_key_value_metadata(Some(vec![version]))
        .build();
    let mut writer = SerializedFileWriter::new(file, schema(table)?, Arc::new(properties))?;
    while let Some(batch) = batches.blocking_recv() {
        let mut group = writer.next_row_group()?;
        for (index, column) in exported(table).enumerate() {
            write_column(&mut group, column, batch.iter().map(|row| &row[index]))?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn schema(table: &Table) -> Result<TypePtr> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            ColumnKind::Text | ColumnKind::Bytes => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnKind::Json => (PhysicalType::BYTE_ARRAY, Some(LogicalType::Json)),
            ColumnKind::Integer | ColumnKind::Flag => (PhysicalType::INT64, None),
            ColumnKind::Time => {
                let utc = LogicalType::Timestamp { is_adjusted_to_u_t_c: true, unit: TimeUnit::MILLIS };
                (PhysicalType::INT64, Some(utc))
            }
            ColumnKind::Float => (PhysicalType::DOUBLE, None),
        };
        let repetition = if column.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(column.name, physical).with_repetition(repetition);
        Ok(Arc::new(field.with_logical_type(logical).build()?))
    };
    let fields = exported(table).map(field).collect::<Result<_>>()?;
    Ok(Arc::new(Type::group_type_builder(table.name).with_fields(fields).build()?))
}

fn write_column<'a>(
    group: &mut SerializedRowGroupWriter<'_, &File>,
    column: &Column,
    cells: impl Iterator<Item = &'a Option<Cell>> + Clone,
) -> Result<()> {
    let levels: Option<Vec<i16>> =
        column.is_optional.then(|| cells.clone().map(|cell| i16::from(cell.is_some())).collect());
    let levels = levels.as_deref();
    let cells = cells.flatten();
    match column.kind {
        ColumnKind::Float => {
            let value = |cell: &Cell| if let Cell::Float(value) = cell { Some(*value) } else { None };
            write_values::<DoubleType>(group, column, cells.map(value), levels)
        }
        ColumnKind::Integer | ColumnKind::Flag | ColumnKind::Time => {
            let value = |cell: &Cell| if let Cell::Integer(value) = cell { Some(*value) } else { None };
            write_values::<Int64Type>(group, column, cells.map(value), levels)
        }
        ColumnKind::Text | ColumnKind::Json | ColumnKind::Bytes => {
            let value =
                |cell: &Cell| if let Cell::Text(text) = cell { Some(ByteArray::from(text.as_str())) } else { None };
            write_values::<ByteArrayType>(group, column, cells.map(value), levels)
        }
    }
}

fn write_values<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &File>,
    column: &Column,
    values: impl Iterator<Item = Option<T::T>>,
    levels: Option<&[i16]>,
) -> Result<()> {
    let other = || ParquetError::General(format!("the column {} has values of another kind", column.name));
    let values: Vec<T::T> = values.collect::<Option<_>>().ok_or_else(other)?;
    let mut writer = group.next_column()?.ok_or_else(other)?;
    writer.typed::<T>().write_batch(&values, levels, None)?;
    writer.close()
}

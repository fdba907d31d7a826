//! Columns of the files that are written, with descriptions: the source of Arrow schemas and of docs/schema.md.
//!
//! The files themselves hold no descriptions.

use std::collections::HashMap;
use std::sync::Arc;

use crate::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// The type of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// Whole numbers with a sign.
    Int64,
    /// Whole numbers.
    UInt64,
    /// Whole numbers of 32 bits.
    UInt32,
    /// Whole numbers of 16 bits.
    UInt16,
    /// Whole numbers of 8 bits.
    UInt8,
    /// Single precision.
    Float32,
    /// Double precision.
    Float64,
    /// Yes or no.
    Boolean,
    /// Bytes.
    Binary,
    /// UTF-8.
    Utf8,
    /// Several whole numbers.
    ListUInt64,
    /// Several whole numbers of 32 bits.
    ListUInt32,
    /// Several numbers of single precision.
    ListFloat32,
}

impl Data {
    /// Returns the type in Arrow.
    pub fn arrow(self) -> DataType {
        let list = |item: DataType| DataType::List(Arc::new(Field::new("item", item, false)));
        match self {
            Data::Int64 => DataType::Int64,
            Data::UInt64 => DataType::UInt64,
            Data::UInt32 => DataType::UInt32,
            Data::UInt16 => DataType::UInt16,
            Data::UInt8 => DataType::UInt8,
            Data::Float32 => DataType::Float32,
            Data::Float64 => DataType::Float64,
            Data::Boolean => DataType::Boolean,
            Data::Binary => DataType::Binary,
            Data::Utf8 => DataType::Utf8,
            Data::ListUInt64 => list(DataType::UInt64),
            Data::ListUInt32 => list(DataType::UInt32),
            Data::ListFloat32 => list(DataType::Float32),
        }
    }

    /// Returns the type's name.
    pub const fn name(self) -> &'static str {
        match self {
            Data::Int64 => "int64",
            Data::UInt64 => "uint64",
            Data::UInt32 => "uint32",
            Data::UInt16 => "uint16",
            Data::UInt8 => "uint8",
            Data::Float32 => "float32",
            Data::Float64 => "float64",
            Data::Boolean => "bool",
            Data::Binary => "binary",
            Data::Utf8 => "utf8",
            Data::ListUInt64 => "list of uint64",
            Data::ListUInt32 => "list of uint32",
            Data::ListFloat32 => "list of float32",
        }
    }
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Type of the cells.
    pub data: Data,
    /// Whether cells may be empty.
    pub optional: bool,
    /// Unit: `ps`, `bytes`, …; `number` for identifiers, `code` for enumerations.
    pub unit: &'static str,
    /// Description.
    pub about: &'static str,
}

impl Column {
    /// A column without empty cells.
    pub const fn new(name: &'static str, data: Data, unit: &'static str, about: &'static str) -> Column {
        Column { name, data, optional: false, unit, about }
    }

    /// A column with empty cells.
    pub const fn maybe(name: &'static str, data: Data, unit: &'static str, about: &'static str) -> Column {
        Column { name, data, optional: true, unit, about }
    }
}

/// A kind of table in the run dir, with its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamTable {
    /// Its name.
    pub name: &'static str,
    /// Description of one row.
    pub row: &'static str,
    /// Its columns, in order.
    pub columns: &'static [Column],
}

impl StreamTable {
    /// Returns the schema in files.
    pub fn schema(&self, version: u32) -> SchemaRef {
        let field = |column: &Column| Field::new(column.name, column.data.arrow(), column.optional);
        let fields: Vec<_> = self.columns.iter().map(field).collect();
        let metadata = HashMap::from([
            ("pktgen.kind".to_owned(), self.name.to_owned()),
            ("pktgen.version".to_owned(), version.to_string()),
        ]);
        Arc::new(Schema::new_with_metadata(fields, metadata))
    }
}

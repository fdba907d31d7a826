//! Converts between files and polars: batches of arrow-rs to frames, and frames to batches.
//!
//! As everywhere in the workspace, arrow-rs and parquet read and write files; polars only computes. Its own reader
//! would add its streaming engine and clients of cloud storage, a quarter of a clean build (docs/build.md). Columns
//! without empty cells are passed on without copying. Called by [`crate::table`].

use std::sync::Arc;

use pktgen_core::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch, StringArray,
};
use pktgen_core::arrow::datatypes::{
    self as arrow_types, DataType as ArrowType, Field as ArrowField, Schema as ArrowSchema,
};
use polars::prelude::*;

/// Lists the primitive types that both have.
macro_rules! primitives {
    ($with:ident) => {
        $with! {
            Int64, Int64Type; UInt64, UInt64Type; UInt32, UInt32Type; UInt16, UInt16Type; UInt8, UInt8Type;
            Float32, Float32Type; Float64, Float64Type
        }
    };
}

pub(crate) use primitives;

/// Converts the rows of a batch.
pub fn frame(batch: RecordBatch) -> PolarsResult<DataFrame> {
    let rows = batch.num_rows();
    let (schema, arrays, _) = batch.into_parts();
    let columns = schema.fields().iter().zip(arrays).map(|(field, array)| column(field.name(), array));
    DataFrame::new(rows, columns.collect::<PolarsResult<_>>()?)
}

fn column(name: &str, array: ArrayRef) -> PolarsResult<Column> {
    let name = PlSmallStr::from_str(name);
    macro_rules! by_type {
        ($($arrow:ident, $kind:ident);*) => {
            match array.data_type() {
                $(ArrowType::$arrow => numbers::<arrow_types::$kind, $kind>(name, array).into_column(),)*
                ArrowType::Boolean => Column::new(name, array.as_boolean().iter().collect::<Vec<_>>()),
                ArrowType::Utf8 => Column::new(name, array.as_string::<i32>().iter().collect::<Vec<_>>()),
                ArrowType::List(item) if *item.data_type() == ArrowType::UInt32 => lists(name, &array).into_column(),
                other => polars_bail!(SchemaMismatch: "column \"{name}\" holds {other}, which no stream of pktgen has"),
            }
        };
    }
    Ok(primitives!(by_type))
}

/// Moves the buffer if every cell has a value and the buffer is not shared; otherwise copies it.
fn numbers<A, P>(name: PlSmallStr, array: ArrayRef) -> ChunkedArray<P>
where
    A: ArrowPrimitiveType,
    P: PolarsNumericType<Native = A::Native>,
{
    let own = array.as_primitive::<A>().clone();
    drop(array);
    if let Some(full) = own.nulls().filter(|full| full.null_count() > 0) {
        let full = BooleanChunked::from_iter_values(PlSmallStr::EMPTY, full.iter());
        let full = full.downcast_iter().next().map(|full| full.values().clone());
        return ChunkedArray::from_vec_validity(name, own.values().to_vec(), full);
    }
    let (_, values, _) = own.into_parts();
    ChunkedArray::from_vec(name, values.into_inner().into_vec().unwrap_or_else(|shared| shared.typed_data().to_vec()))
}

fn lists(name: PlSmallStr, array: &ArrayRef) -> ListChunked {
    let lists = array.as_list::<i32>();
    let mut built =
        ListPrimitiveChunkedBuilder::<UInt32Type>::new(name, lists.len(), lists.values().len(), DataType::UInt32);
    for list in lists.iter() {
        match list {
            Some(list) => built.append_slice(list.as_primitive::<arrow_types::UInt32Type>().values()),
            None => built.append_null(),
        }
    }
    built.finish()
}

/// Converts the rows of a frame; all columns of the result may have empty cells.
pub fn batch(frame: &DataFrame) -> PolarsResult<RecordBatch> {
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for column in frame.columns() {
        let array = array(column)?;
        fields.push(ArrowField::new(column.name().as_str(), array.data_type().clone(), true));
        arrays.push(array);
    }
    let schema = Arc::new(ArrowSchema::new(fields));
    RecordBatch::try_new(schema, arrays).map_err(|fault| polars_err!(ComputeError: "{fault}"))
}

fn array(column: &Column) -> PolarsResult<ArrayRef> {
    let series = column.as_materialized_series();
    macro_rules! by_type {
        ($($variant:ident, $kind:ident);*) => {
            match series.dtype() {
                $(DataType::$variant => {
                    let cells = series.unpack::<$kind>()?;
                    Arc::new(cells.iter().collect::<PrimitiveArray<arrow_types::$kind>>()) as ArrayRef
                })*
                DataType::Boolean => Arc::new(series.bool()?.iter().collect::<BooleanArray>()),
                DataType::String => Arc::new(series.str()?.iter().collect::<StringArray>()),
                other => polars_bail!(SchemaMismatch: "column \"{}\" holds {other}", column.name()),
            }
        };
    }
    Ok(primitives!(by_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_there_and_back_with_empty_cells() {
        let made = DataFrame::new_infer_height(vec![
            Column::new("i64".into(), [i64::MIN, 0, i64::MAX]),
            Column::new("u64".into(), [Some(u64::MAX), None, Some(0)]),
            Column::new("u32".into(), [1u32, 2, u32::MAX]),
            Column::new("u16".into(), [None::<u16>, None, Some(7)]),
            Column::new("u8".into(), [0u8, 1, 255]),
            Column::new("f32".into(), [Some(f32::MIN_POSITIVE), None, Some(-0.0)]),
            Column::new("f64".into(), [1.5f64, f64::INFINITY, -1e-300]),
            Column::new("yes".into(), [Some(true), None, Some(false)]),
            Column::new("text".into(), [Some("a"), None, Some("")]),
        ])
        .unwrap();
        assert!(frame(batch(&made).unwrap()).unwrap().equals_missing(&made));
        let none = made.clear();
        assert!(frame(batch(&none).unwrap()).unwrap().equals_missing(&none));
    }

    #[test]
    fn full_columns_are_moved() {
        let values: Vec<u64> = (0..100).collect();
        let at = values.as_ptr();
        let array = Arc::new(PrimitiveArray::<arrow_types::UInt64Type>::from(values)) as ArrayRef;
        let moved = numbers::<arrow_types::UInt64Type, UInt64Type>("n".into(), array);
        assert_eq!(moved.cont_slice().unwrap().as_ptr(), at);
    }

    #[test]
    fn other_types_are_named() {
        let array = Arc::new(PrimitiveArray::<arrow_types::Int8Type>::from(vec![1i8])) as ArrayRef;
        assert!(column("x", array).unwrap_err().to_string().contains("column \"x\" holds Int8"));
    }
}

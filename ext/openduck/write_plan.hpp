//===----------------------------------------------------------------------===//
// openduck/write_plan.hpp: the statements of the server that rows are written with
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/write.hpp"

#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/common/index_vector.hpp"

namespace openduck {

//! A column of the target, and which of the rows' it gets.
struct InsertedColumn {
	string name;
	LogicalType type;
	idx_t from;
};

//! The columns of TABLE that MAP (as LogicalInsert has it) gives values.
vector<InsertedColumn> InsertedColumns(TableCatalogEntry &table, const physical_index_vector_t<idx_t> &map);

RemoteWriteInfo InsertInfo(TableCatalogEntry &table, const vector<InsertedColumn> &columns, bool returning);
//! As many rows as come, all of them defaults.
RemoteWriteInfo DefaultsInfo(TableCatalogEntry &table, bool returning);
//! EXPRESSIONS refer to the columns of the rows, or are DEFAULT; ROW_ID is the column that holds it.
RemoteWriteInfo UpdateInfo(TableCatalogEntry &table, const vector<PhysicalIndex> &columns,
                           const vector<unique_ptr<Expression>> &expressions, idx_t row_id, bool returning);
RemoteWriteInfo DeleteInfo(TableCatalogEntry &table, idx_t row_id, bool returning);

} // namespace openduck

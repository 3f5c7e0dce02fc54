//===----------------------------------------------------------------------===//
// vgi/table.hpp: a table of a VGI catalog
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/schema.hpp"

#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"

namespace vgi {

class VgiTableEntry : public TableCatalogEntry {
public:
	//! Throws if the worker's description makes no table.
	static unique_ptr<VgiTableEntry> Make(ClientContext &context, VgiSchemaEntry &schema, const od_vgi_table &table);

	VgiTableEntry(VgiSchemaEntry &schema, CreateTableInfo &info, optional_idx estimated_rows);

	VgiSchemaEntry &Schema() {
		return schema.Cast<VgiSchemaEntry>();
	}
	//! The branches as the worker tells them now; checked to make sense.
	void GetBranches(ClientContext &context, Answer<od_vgi_branches> &out);
	optional_idx EstimatedRows() const {
		return estimated_rows;
	}
	//! A query must filter on a column of each; a part of a struct is written "s.part".
	const vector<vector<string>> &RequiredFilters() const {
		return required_filters;
	}

public:
	unique_ptr<BaseStatistics> GetStatistics(ClientContext &context, column_t column_id) override;
	TableFunction GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data) override;
	TableFunction GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data,
	                              const EntryLookupInfo &lookup_info) override;
	TableStorageInfo GetStorageInfo(ClientContext &context) override;
	virtual_column_map_t GetVirtualColumns() const override;
	vector<column_t> GetRowIdColumns() const override;

private:
	TableFunction MakeScan(ClientContext &context, unique_ptr<FunctionData> &bind_data, bool with_at);

	const optional_idx estimated_rows;
	vector<vector<string>> required_filters;
};

} // namespace vgi

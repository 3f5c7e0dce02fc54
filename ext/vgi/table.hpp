//===----------------------------------------------------------------------===//
// vgi/table.hpp: a table of a VGI catalog
//===----------------------------------------------------------------------===//
#pragma once

#include "common/branches.hpp"
#include "vgi/estimates.hpp"
#include "vgi/schema.hpp"

#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"

namespace vgi {

class VgiTableEntry : public TableCatalogEntry {
public:
	//! A version of the table, of AT (UNIT => VALUE); an empty unit: the present.
	struct Version {
		string unit, value;
	};
	//! What AT says, as the worker is told it.
	static Version VersionOf(optional_ptr<BoundAtClause> at);
	//! The table at VERSION, or null if the worker has none; asks it.
	static unique_ptr<VgiTableEntry> Ask(ClientContext &context, VgiSchemaEntry &schema, const string &name,
	                                     const Version &version);
	//! TABLE at VERSION. Throws if the worker's description makes no table.
	static unique_ptr<VgiTableEntry> Make(ClientContext &context, VgiSchemaEntry &schema, const od_vgi_table &table,
	                                      Version version);

	VgiTableEntry(VgiSchemaEntry &schema, CreateTableInfo &info, optional_idx estimated_rows);

	VgiSchemaEntry &Schema() {
		return schema.Cast<VgiSchemaEntry>();
	}
	//! The branches as the worker tells them now; checked to make sense.
	void GetBranches(ClientContext &context, Answer<od_vgi_branches> &out);
	//! The worker says that rows can be inserted.
	bool CanInsert() const {
		return can_insert;
	}
	optional_idx EstimatedRows() const {
		return estimated_rows;
	}
	//! A query must filter on a column of each; a part of a struct is written "s.part".
	const vector<vector<string>> &RequiredFilters() const {
		return required_filters;
	}
	//! The worker says something of the columns' values, beside what their function says.
	bool HasEstimates() const {
		return has_estimates;
	}
	//! That, asked for once if it was not told with the table. Thread: any.
	NamedEstimates Estimates(ClientContext &context);
	//! The columns as the worker tells them: of the table, and its row id.
	const vector<openduck::BranchColumn> &ToldColumns() const {
		return told;
	}
	//! Where the table's column ID, or its row id, is among those.
	idx_t ToldIndex(column_t id) const;
	//! Throws if the table has several branches at present: they have no common version.
	void RefuseVersionOfBranches(ClientContext &context);
	const Version &AtVersion() const {
		return version;
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
	TableFunction MakeScan(ClientContext &context, unique_ptr<FunctionData> &bind_data);
	void AskBranches(ClientContext &context, const Version &at, Answer<od_vgi_branches> &out);

	const optional_idx estimated_rows;
	vector<vector<string>> required_filters;
	bool can_insert = false;
	mutex estimates_lock; //!< guards what follows, also while it is asked for
	unique_ptr<NamedEstimates> estimates;
	bool has_estimates = false;
	vector<openduck::BranchColumn> told;
	optional_idx row_id; //!< in TOLD
	Version version;
	//! Of a version whose function the worker told with it: nothing else is asked for.
	unique_ptr<Answer<od_vgi_tables>> function_answer;
	od_vgi_branch function_branch = {};
};

} // namespace vgi

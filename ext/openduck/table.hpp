//===----------------------------------------------------------------------===//
// openduck/table.hpp: a table of a remote database
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/catalog_loader.hpp"
#include "openduck/layout.hpp"
#include "openduck/remote.hpp"
#include "openduck/remote_type.hpp"
#include "openduck/selectivity.hpp"
#include "openduck/snapshot.hpp"

#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/storage/table_storage_info.hpp"

namespace openduck {

//! The columns are the server's. Generated ones are computed here if they can be, as by any DuckDB, else they are ordinary
//! ones here. Defaults and checks are for show where they are bound, since they may name macros, sequences and types that
//! only the server has.
//! Also stands for the rows of a view, see view.hpp, and for a table of branches, see branches.hpp.
class OpenDuckTableEntry : public TableCatalogEntry {
public:
	//! What an entry is made of.
	struct Parts {
		unique_ptr<CreateTableInfo> info;
		//! Columns whose type is not known here, and why.
		case_insensitive_map_t<string> odd_columns;
	};
	//! Turns what the server said into columns and constraints. Does not throw for an odd table.
	static Parts Build(RemoteTypes &types, SchemaCatalogEntry &schema, const LoadedRelation &loaded);

	OpenDuckTableEntry(CatalogSnapshot &snapshot, SchemaCatalogEntry &schema, Parts parts,
	                   const LoadedRelation &loaded);
	//! The table of branches TABLE, with SOURCE's columns. TABLE lives as long as the catalog.
	static unique_ptr<OpenDuckTableEntry> OfBranches(SchemaCatalogEntry &schema, const od_layout_table &table,
	                                                 OpenDuckTableEntry &source);

	CatalogSnapshot &snapshot;
	//! The CREATE statement of the server; empty if not asked for yet.
	const string sql;
	const bool full;

	//! Every column's name and type, for a scan.
	vector<RemoteColumn> RemoteColumns() const;
	//! "db"."schema"."name" at the server.
	string RemoteName() const;
	bool IsView() const {
		return is_view;
	}
	//! What it is read from; null: it is the database's own.
	optional_ptr<const od_layout_table> Branches() const {
		return branches;
	}
	//! What is known of the values of column COLUMN. As old as the snapshot.
	ColumnFigures Figures(column_t column) const {
		return column < figures.size() ? figures[column] : ColumnFigures();
	}

public:
	unique_ptr<CreateInfo> GetInfo() const override;
	string ToSQL() const override;
	unique_ptr<BaseStatistics> GetStatistics(ClientContext &context, column_t column_id) override;
	TableFunction GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data) override;
	TableStorageInfo GetStorageInfo(ClientContext &context) override;
	virtual_column_map_t GetVirtualColumns() const override;
	vector<column_t> GetRowIdColumns() const override;
	void BindUpdateConstraints(Binder &binder, LogicalGet &get, LogicalProjection &proj, LogicalUpdate &update,
	                           ClientContext &context) override;

private:
	const bool is_view;
	optional_ptr<const od_layout_table> branches;
	const case_insensitive_map_t<string> odd_columns;
	const optional_idx estimated_size;
	const idx_t index_count;
	vector<ColumnFigures> figures;
};

} // namespace openduck

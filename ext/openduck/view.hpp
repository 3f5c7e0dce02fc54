//===----------------------------------------------------------------------===//
// openduck/view.hpp: a view of a remote database
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/catalog_loader.hpp"
#include "openduck/table.hpp"

#include "duckdb/catalog/catalog_entry/view_catalog_entry.hpp"

namespace openduck {

//! Shown with the SQL that the server has, read as a table of the server: its body is never expanded here. DuckDB binds a
//! view by its query, so the query reads a table of a hidden name that the schema resolves to Rows().
class OpenDuckViewEntry : public ViewCatalogEntry {
public:
	static constexpr char HIDDEN_PREFIX = '\x1f';

	//! Made of a listing: shown, but described first when it is used (FULL from LoadRelation has the true columns).
	OpenDuckViewEntry(RemoteTypes &types, CatalogSnapshot &snapshot, SchemaCatalogEntry &schema,
	                  const LoadedRelation &loaded, bool described);

	//! The columns are those of SELECT * FROM view at this version.
	const bool described;

	OpenDuckTableEntry &Rows() {
		return *rows;
	}
	//! The server cannot describe it: using it throws that.
	void SetProblem(ErrorData problem);

public:
	shared_ptr<ViewColumnInfo> GetColumnInfo() const override;
	void BindView(ClientContext &context, BindViewAction action) override;
	void UpdateBinding(const vector<LogicalType> &types, const vector<string> &names) override;
	unique_ptr<CreateInfo> GetInfo() const override;
	unique_ptr<CatalogEntry> Copy(ClientContext &context) const override;
	const SelectStatement &GetQuery() override;
	string ToSQL() const override;

private:
	unique_ptr<OpenDuckTableEntry> rows;
	shared_ptr<ViewColumnInfo> column_info;
	//! Guards problem and queries.
	mutex lock;
	ErrorData problem;
	//! A query for each name that the database has had here (ALTER DATABASE ... RENAME); references to them are out.
	unordered_map<string, unique_ptr<SelectStatement>> queries;
};

} // namespace openduck

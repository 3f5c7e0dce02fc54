//===----------------------------------------------------------------------===//
// openduck/catalog_loader.hpp: the questions to the server about its catalog, and its answers
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/remote.hpp"

#include "duckdb/common/case_insensitive_map.hpp"

namespace openduck {

struct LoadedSchema {
	string name;
	Value comment;
	InsertionOrderPreservingMap<string> tags;
	bool internal = false;
};

struct LoadedColumn {
	string name;
	string type;      // as the server writes it
	string collation; // of a VARCHAR column, if the answer tells it apart from the type
	Value comment;
	Value default_sql;      // also the expression of a generated column,
	bool generated = false; // which is known here only if its table was asked for alone
	bool nullable = true;
	idx_t distinct_count = 0; // about; 0: not known
	Value lowest;             // as text; NULL: not known
	Value highest;
};

struct LoadedRelation {
	string schema;
	string name;
	bool is_view = false;
	//! Everything that the server tells is here; else (one relation was asked for) of a table the CREATE statement,
	//! sizes, comments, tags and constraints other than keys are missing.
	bool full = false;
	bool internal = false;
	bool temporary = false;
	string sql; // the CREATE statement; empty if not known
	//! Foreign keys: how SQL, as it comes, has each (empty: not at all), and how it has to be.
	vector<pair<string, string>> foreign_keys;
	Value comment;
	InsertionOrderPreservingMap<string> tags;
	optional_idx estimated_size;
	idx_t index_count = 0;
	vector<LoadedColumn> columns;
	//! Keys as DESCRIBE shows them, also those of columns that a view passes on.
	vector<string> primary_columns;
	vector<string> unique_columns;
};

struct LoadedCatalog {
	uint64_t version = 0;
	string database; // as the server spells it
	//! Columns of all tables and views, counted up to a limit.
	int64_t column_count = 0;
	vector<LoadedSchema> schemas;
	vector<LoadedRelation> relations;
	//! RELATIONS holds all tables and views.
	bool complete = false;
};

//! One query each; any of them also brings the schemas, so that an answer of a newer version starts a new snapshot. They run
//! in TXN; null: by themselves.
class CatalogLoader {
public:
	//! The schemas alone, and how many columns there are, counted up to COUNT_LIMIT + 1. LAYOUT as in Remote::Query.
	static LoadedCatalog LoadSchemas(ClientContext &context, Remote &remote, const od_remote_txn *txn,
	                                 int64_t count_limit, string *layout = nullptr);
	//! All tables and views.
	static LoadedCatalog LoadAll(ClientContext &context, Remote &remote, const od_remote_txn *txn, int64_t count_limit);
	//! What SELECT * FROM SCHEMA.NAME would give. Costs the server no scan of its tables. Throws the server's error if
	//! there is no such relation, or if it is a view that no longer works.
	static LoadedCatalog LoadRelation(ClientContext &context, Remote &remote, const od_remote_txn *txn,
	                                  const string &schema, const string &name);
};

} // namespace openduck

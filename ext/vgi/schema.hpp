//===----------------------------------------------------------------------===//
// vgi/schema.hpp: a schema of a VGI catalog
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/catalog.hpp"

#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"

namespace vgi {

class VgiTableEntry;

class VgiSchemaEntry : public SchemaCatalogEntry {
public:
	//! TOLD: as the worker lists it; only read here.
	VgiSchemaEntry(VgiCatalog &catalog, CreateSchemaInfo &info, const od_vgi_schema &told);
	~VgiSchemaEntry() override;

	VgiCatalog &Owner() {
		return catalog.Cast<VgiCatalog>();
	}
	//! The worker's table functions of this name; overloads have one name.
	vector<const od_vgi_function *> Functions(ClientContext &context, const string &name);

public:
	void Scan(ClientContext &context, CatalogType type, const std::function<void(CatalogEntry &)> &callback) override;
	void Scan(CatalogType type, const std::function<void(CatalogEntry &)> &callback) override;
	optional_ptr<CatalogEntry> LookupEntry(CatalogTransaction transaction, const EntryLookupInfo &lookup_info) override;
	SimilarCatalogEntry GetSimilarEntry(CatalogTransaction transaction, const EntryLookupInfo &lookup_info) override;

	optional_ptr<CatalogEntry> CreateIndex(CatalogTransaction transaction, CreateIndexInfo &info,
	                                       TableCatalogEntry &table) override;
	optional_ptr<CatalogEntry> CreateFunction(CatalogTransaction transaction, CreateFunctionInfo &info) override;
	optional_ptr<CatalogEntry> CreateTable(CatalogTransaction transaction, BoundCreateTableInfo &info) override;
	optional_ptr<CatalogEntry> CreateView(CatalogTransaction transaction, CreateViewInfo &info) override;
	optional_ptr<CatalogEntry> CreateSequence(CatalogTransaction transaction, CreateSequenceInfo &info) override;
	optional_ptr<CatalogEntry> CreateTableFunction(CatalogTransaction transaction,
	                                               CreateTableFunctionInfo &info) override;
	optional_ptr<CatalogEntry> CreateCopyFunction(CatalogTransaction transaction,
	                                              CreateCopyFunctionInfo &info) override;
	optional_ptr<CatalogEntry> CreatePragmaFunction(CatalogTransaction transaction,
	                                                CreatePragmaFunctionInfo &info) override;
	optional_ptr<CatalogEntry> CreateCollation(CatalogTransaction transaction, CreateCollationInfo &info) override;
	optional_ptr<CatalogEntry> CreateType(CatalogTransaction transaction, CreateTypeInfo &info) override;
	void DropEntry(ClientContext &context, DropInfo &info) override;
	void Alter(CatalogTransaction transaction, AlterInfo &info) override;

private:
	//! What is asked for at once, and has names of its own.
	enum Kind {
		TABLES,
		VIEWS,
		SCALAR_FUNCTIONS,
		AGGREGATE_FUNCTIONS,
		SCALAR_MACROS,
		TABLE_FUNCTIONS,
		TABLE_MACROS,
		KINDS
	};
	using EntryMap = case_insensitive_tree_t<unique_ptr<CatalogEntry>>;
	struct Entries {
		bool known = false;
		EntryMap map;
	};

	//! Where an entry of TYPE may be, in the order of their precedence.
	static vector<Kind> KindsOf(CatalogType type);
	//! All of KIND, asked for at the first call.
	EntryMap &Get(ClientContext &context, Kind kind);
	void Load(ClientContext &context, const od_vgi_context &call, Kind kind, EntryMap &out);
	void LoadTables(ClientContext &context, const od_vgi_context &call, EntryMap &out);
	void LoadViews(const od_vgi_context &call, EntryMap &out);
	void LoadMacros(ClientContext &context, const od_vgi_context &call, bool table, EntryMap &out);
	void LoadFunctions(ClientContext &context, const od_vgi_context &call, Kind kind, EntryMap &out);
	//! The version of a table that AT says; null if it has none, or there is no such table.
	optional_ptr<CatalogEntry> LookupVersion(ClientContext &context, const EntryLookupInfo &lookup);
	//! Adds ENTRY, or throws if its name is taken.
	void Add(EntryMap &out, unique_ptr<CatalogEntry> entry);
	shared_ptr<Answer<od_vgi_functions>> TableFunctions(const od_vgi_context &call);

	mutex lock; //!< guards the fields below, also while they are asked for
	Entries entries[KINDS];
	shared_ptr<Answer<od_vgi_functions>> functions;
};

} // namespace vgi

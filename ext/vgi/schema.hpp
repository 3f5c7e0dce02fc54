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
	VgiSchemaEntry(VgiCatalog &catalog, CreateSchemaInfo &info);
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
	using TableMap = case_insensitive_tree_t<unique_ptr<VgiTableEntry>>;
	//! All tables, asked for at the first call.
	TableMap &Tables(ClientContext &context);

	mutex lock; //!< guards the fields below, also while they are asked for
	bool tables_known = false;
	TableMap tables;
	unique_ptr<Answer<od_vgi_functions>> functions;
};

} // namespace vgi

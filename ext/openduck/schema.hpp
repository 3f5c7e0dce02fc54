//===----------------------------------------------------------------------===//
// openduck/schema.hpp: a schema of a remote database
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/catalog_loader.hpp"
#include "openduck/layout.hpp"
#include "openduck/snapshot.hpp"

#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"

namespace openduck {

class OpenDuckTransaction;

class OpenDuckSchemaEntry : public SchemaCatalogEntry {
public:
	OpenDuckSchemaEntry(CatalogSnapshot &snapshot, CreateSchemaInfo &info);

	CatalogSnapshot &snapshot;

	//! Adds a table or view; what was known of it before is superseded.
	void Add(unique_ptr<CatalogEntry> entry);
	//! The entry of NAME, if it is known.
	optional_ptr<CatalogEntry> Find(const string &name);

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
	vector<reference<CatalogEntry>> Known();
	//! The database's own table or view NAME, whatever the layout has; asked for if it is not known. Null if there is none.
	optional_ptr<CatalogEntry> FindOwn(ClientContext &context, OpenDuckTransaction &transaction, CatalogType wanted,
	                                   const string &name);
	//! The table of branches TABLE, of this schema. Throws if the server's database has nothing that tells its columns.
	optional_ptr<CatalogEntry> FindBranched(ClientContext &context, OpenDuckTransaction &transaction,
	                                        const od_layout_table &table);
	//! What TABLE of this schema is in the catalog's layout; null: nothing.
	optional_ptr<const od_layout_table> Laid(const string &table) const;
	//! Scan, of what is no table or view: the server is asked, once a statement.
	void ScanObjects(ClientContext &context, CatalogType type, const std::function<void(CatalogEntry &)> &callback);
	//! The type NAME, asked for at its first use; null if there is none.
	optional_ptr<CatalogEntry> FindType(ClientContext &context, const string &name);
	//! Refuses to create NAME: because it exists, or because that is not possible yet. False: nothing is to be done.
	bool RefuseCreate(CatalogTransaction transaction, const CreateInfo &info, const string &name, const string &what);

	//! Guards the fields below. No call is made while it is held.
	mutex lock;
	case_insensitive_tree_t<unique_ptr<CatalogEntry>> relations;
	case_insensitive_tree_t<unique_ptr<CatalogEntry>> branched;
	case_insensitive_tree_t<unique_ptr<CatalogEntry>> types;
	vector<unique_ptr<CatalogEntry>> superseded;
};

} // namespace openduck

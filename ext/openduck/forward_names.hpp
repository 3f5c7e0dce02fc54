//===----------------------------------------------------------------------===//
// openduck/forward_names.hpp: which names of a statement are a remote database's, and how its server spells them
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/catalog.hpp"
#include "openduck/table.hpp"

namespace openduck {

//! Resolves names as DuckDB's binder would. One statement belongs to one remote database: the first that a name leads to.
class RemoteNames {
public:
	enum class Place : uint8_t {
		REMOTE,   // the names have become the server's
		BUILT_IN, // every DuckDB has it
		LOCAL,    // of this instance, or of another remote database
		UNKNOWN   // nobody here knows it
	};

	explicit RemoteNames(ClientContext &context) : context(context) {
	}

	//! What NAME of TYPE is. If it is REMOTE, CATALOG and SCHEMA become the server's.
	Place Resolve(CatalogType type, string &catalog, string &schema, const string &name);
	//! From now on names without a catalog mean what the statement's remote database has, if it has them, in SCHEMA if they
	//! name none: those of a view's query.
	void LookFirstInTarget(const string &schema);
	//! Where an object that is to be made, or to be changed whatever it is, belongs.
	Place ResolveNew(string &catalog, string &schema);
	//! As ResolveNew, of a schema.
	Place ResolveSchema(string &catalog);

	//! The table of branches that such names lead to; null: they lead to something else.
	optional_ptr<OpenDuckTableEntry> FindBranched(string catalog, string schema, const string &name);

	//! The remote database of the statement; null if no name has led to one yet.
	optional_ptr<OpenDuckCatalog> Target() const {
		return target;
	}
	//! CATALOG is what the statement's remote database is called here.
	bool IsTarget(const string &catalog) const;
	//! A table that the statement names has a column of that name.
	bool HasColumn(const string &name) const;

private:
	//! The remote database called NAME; null if that is something else.
	optional_ptr<OpenDuckCatalog> Remote(const string &name);
	Place Take(OpenDuckCatalog &found, string &catalog);
	//! The entry that names without a catalog mean in FIRST_SCHEMA's database.
	optional_ptr<CatalogEntry> FindFirst(const EntryLookupInfo &lookup, const string &schema);
	//! What an unqualified or half qualified name means if nothing of that name is known.
	Place ByDefault(string &catalog, string &schema);

	ClientContext &context;
	optional_ptr<OpenDuckCatalog> target;
	//! Set by LookFirstInTarget, else empty.
	string first_schema;
	vector<reference<CatalogEntry>> tables;
};

} // namespace openduck

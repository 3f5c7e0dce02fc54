//===----------------------------------------------------------------------===//
// openduck/snapshot.hpp: what is known of a remote catalog at one of its versions
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/catalog_loader.hpp"

#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"

namespace openduck {

class OpenDuckCatalog;
class OpenDuckSchemaEntry;

//! The schemas are complete from the start, tables and views come in as they are asked for. Entries are only added or
//! superseded, never freed before the snapshot is: a statement may keep plain references to them while it holds the
//! snapshot. Thread: any.
class CatalogSnapshot {
public:
	//! Takes what LOADED says of schemas; ID is the catalog's NextSnapshotId.
	CatalogSnapshot(OpenDuckCatalog &catalog, idx_t id, const LoadedCatalog &loaded, bool shared);
	~CatalogSnapshot();

	//! Adds the tables and views of LOADED.
	void Add(ClientContext &context, LoadedCatalog &loaded);

	optional_ptr<OpenDuckSchemaEntry> FindSchema(const string &name);
	vector<reference<OpenDuckSchemaEntry>> Schemas();
	//! True once every table and view is known.
	bool Complete() const {
		return complete;
	}

	OpenDuckCatalog &catalog;
	//! Unique among the snapshots of the catalog, also of the same version.
	const idx_t id;
	//! The server's; 0: it does not tell, so nothing outlives the transaction.
	const uint64_t version;
	//! The database is small enough to be read whole.
	const bool small;
	//! What others see too: not read in a transaction that has changed the catalog.
	const bool shared;
	//! The catalog's, when it was made.
	const idx_t writes;

private:
	case_insensitive_tree_t<unique_ptr<OpenDuckSchemaEntry>> schemas;
	atomic<bool> complete {false};
	mutex add_lock; // for adding all of an answer, or none
};

} // namespace openduck

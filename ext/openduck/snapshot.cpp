#include "openduck/snapshot.hpp"

#include "openduck/catalog.hpp"
#include "openduck/schema.hpp"
#include "openduck/view.hpp"

#include "duckdb/parser/parsed_data/create_schema_info.hpp"

namespace openduck {

CatalogSnapshot::CatalogSnapshot(OpenDuckCatalog &catalog, idx_t id, const LoadedCatalog &loaded, bool shared)
    : catalog(catalog), id(id), version(loaded.version),
      small(loaded.column_count >= 0 && loaded.column_count <= OpenDuckCatalog::SMALL_COLUMN_COUNT), shared(shared),
      writes(catalog.writes) {
	for (auto &schema : loaded.schemas) {
		CreateSchemaInfo info;
		info.schema = schema.name;
		info.internal = schema.internal;
		info.comment = schema.comment;
		info.tags = schema.tags;
		schemas[schema.name] = make_uniq<OpenDuckSchemaEntry>(*this, info);
	}
}

CatalogSnapshot::~CatalogSnapshot() {
}

void CatalogSnapshot::Add(ClientContext &context, LoadedCatalog &loaded) {
	RemoteTypes types(context);
	vector<pair<reference<OpenDuckSchemaEntry>, unique_ptr<CatalogEntry>>> entries;
	for (auto &relation : loaded.relations) {
		auto schema = FindSchema(relation.schema);
		if (!schema) {
			continue;
		}
		unique_ptr<CatalogEntry> entry;
		if (relation.is_view) {
			// A listing tells the columns that the server saw when it bound the view last.
			entry = make_uniq<OpenDuckViewEntry>(types, *this, *schema, relation, !relation.full);
		} else {
			entry = make_uniq<OpenDuckTableEntry>(*this, *schema, OpenDuckTableEntry::Build(types, *schema, relation),
			                                      relation);
		}
		entries.emplace_back(*schema, std::move(entry));
	}
	lock_guard<mutex> guard(add_lock);
	if (loaded.complete && complete) {
		// Another thread of the statement has asked for all too; what has been shown must not be superseded.
		return;
	}
	for (auto &entry : entries) {
		entry.first.get().Add(std::move(entry.second));
	}
	if (loaded.complete) {
		complete = true;
	}
}

optional_ptr<OpenDuckSchemaEntry> CatalogSnapshot::FindSchema(const string &name) {
	auto entry = schemas.find(name);
	return entry == schemas.end() ? nullptr : entry->second.get();
}

vector<reference<OpenDuckSchemaEntry>> CatalogSnapshot::Schemas() {
	vector<reference<OpenDuckSchemaEntry>> result;
	for (auto &entry : schemas) {
		result.push_back(*entry.second);
	}
	return result;
}

} // namespace openduck

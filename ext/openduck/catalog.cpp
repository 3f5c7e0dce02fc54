#include "openduck/catalog.hpp"

#include "openduck/refresh.hpp"
#include "openduck/schema.hpp"
#include "openduck/transaction.hpp"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/parser/parsed_data/create_schema_info.hpp"
#include "duckdb/parser/parsed_data/drop_info.hpp"
#include "duckdb/storage/database_size.hpp"
#include "duckdb/transaction/meta_transaction.hpp"

extern "C" {
#include "query/remote_snapshot.h"
}

namespace openduck {

OpenDuckCatalog::OpenDuckCatalog(AttachedDatabase &db, shared_ptr<Remote> remote_p,
                                 shared_ptr<OpenDuckStorageInfo> info_p, string shown_path)
    : Catalog(db), remote(std::move(remote_p)), companions(db.GetDatabase()), info(std::move(info_p)),
      shown_path(std::move(shown_path)) {
	info->attached++;
}

OpenDuckCatalog::~OpenDuckCatalog() {
	info->attached--;
}

void OpenDuckCatalog::Initialize(bool load_builtin) {
}

void OpenDuckCatalog::Connect(ClientContext &context) {
	auto snapshot = od_remote_snapshot(remote->Handle());
	string told;
	auto loaded = CatalogLoader::LoadSchemas(context, *remote, nullptr, SMALL_COLUMN_COUNT, snapshot ? nullptr : &told);
	// Servers of the protocol's first version know no versions of catalogs, and read a database as it is now whatever they are asked.
	if (snapshot && loaded.version == 0) {
		throw NotImplementedException("ATTACH: the server at %s does not read snapshots", remote->Authority());
	}
	remote_database = loaded.database;
	if (!told.empty()) {
		layout = make_uniq<RemoteLayout>(told);
	}
	Publish(make_shared_ptr<CatalogSnapshot>(*this, NextSnapshotId(), loaded, true));
}

shared_ptr<CatalogSnapshot> OpenDuckCatalog::Current() {
	lock_guard<mutex> guard(lock);
	return current;
}

void OpenDuckCatalog::Publish(const shared_ptr<CatalogSnapshot> &snapshot) {
	shared_ptr<CatalogSnapshot> freed; // without the lock
	small = snapshot->small;
	lock_guard<mutex> guard(lock);
	if (current) {
		retired.push_back(std::move(current));
	}
	if (snapshot->version == 0) {
		// Nothing would tell when it is out of date.
		retired.push_back(snapshot);
		current = nullptr;
	} else {
		current = snapshot;
	}
	while (retired.size() > MAX_RETIRED) {
		freed = std::move(retired.front());
		retired.pop_front();
	}
}

void OpenDuckCatalog::Invalidate(const CatalogSnapshot &snapshot) {
	lock_guard<mutex> guard(lock);
	if (current.get() == &snapshot) {
		retired.push_back(std::move(current));
		current = nullptr;
	}
}

void OpenDuckCatalog::Forget() {
	lock_guard<mutex> guard(lock);
	if (current) {
		retired.push_back(std::move(current));
		current = nullptr;
	}
}

uint64_t OpenDuckCatalog::RemoteVersion(ClientContext &context, const od_remote_txn *txn) {
	uint64_t version = 0;
	remote->Describe(context, txn, "SELECT 1", &version);
	return version;
}

optional_idx OpenDuckCatalog::GetCatalogVersion(ClientContext &context) {
	auto snapshot = OpenDuckTransaction::Get(context, *this).Snapshot(context);
	if (snapshot->version == 0) {
		return optional_idx();
	}
	return snapshot->id;
}

optional_ptr<SchemaCatalogEntry> OpenDuckCatalog::LookupSchema(CatalogTransaction transaction,
                                                               const EntryLookupInfo &schema_lookup,
                                                               OnEntryNotFound if_not_found) {
	auto &context = transaction.GetContext();
	auto &remote_transaction = OpenDuckTransaction::Get(context, *this);
	auto schema = remote_transaction.Snapshot(context)->FindSchema(schema_lookup.GetEntryName());
	if (!schema) {
		remote_transaction.Miss();
	}
	if (!schema && if_not_found == OnEntryNotFound::THROW_EXCEPTION) {
		throw CatalogException(schema_lookup.GetErrorContext(), "Schema with name \"%s\" does not exist in \"%s\"!",
		                       schema_lookup.GetEntryName(), GetName());
	}
	return schema.get();
}

void OpenDuckCatalog::ScanSchemas(ClientContext &context, std::function<void(SchemaCatalogEntry &)> callback) {
	// A list goes through the databases as they are now. If the transaction knows another one by our name (it was detached
	// meanwhile), DuckDB would break at the second: the transaction goes on without us.
	auto known = MetaTransaction::Get(context).GetReferencedDatabase(GetName());
	if (known && !RefersToSameObject(*known, GetAttached())) {
		return;
	}
	shared_ptr<CatalogSnapshot> snapshot;
	try {
		snapshot = OpenDuckTransaction::Get(context, *this).Glance(context);
	} catch (IOException &) {
		// "Did you mean" goes through all databases, also for a local name. A server that is away must not take the place of
		// that error; but a list of tables without this database would be wrong.
		if (ListsDatabases(context)) {
			throw;
		}
		return;
	}
	for (auto &schema : snapshot->Schemas()) {
		callback(schema.get());
	}
}

CatalogLookupBehavior OpenDuckCatalog::CatalogTypeLookupRule(CatalogType type) const {
	switch (type) {
	case CatalogType::TABLE_ENTRY:
	case CatalogType::VIEW_ENTRY:
	case CatalogType::SCHEMA_ENTRY:
	case CatalogType::TYPE_ENTRY:
		return CatalogLookupBehavior::STANDARD;
	default:
		// Functions of the server cannot be used here; with USE every "+" would be looked up.
		return CatalogLookupBehavior::NEVER_LOOKUP;
	}
}

void OpenDuckCatalog::RefuseWrite(const string &what) {
	if (GetAttached().IsReadOnly()) {
		throw InvalidInputException("Cannot execute statement of type \"%s\" on database \"%s\" which is attached in "
		                            "read-only mode!",
		                            what, GetName());
	}
	throw NotImplementedException("%s on database \"%s\" is not supported yet; CALL openduck_query('%s', 'SQL') runs a "
	                              "statement at the server",
	                              what, GetName(), GetName());
}

void OpenDuckCatalog::RequireWritable(const string &what) {
	if (GetAttached().IsReadOnly()) {
		RefuseWrite(what);
	}
}

void OpenDuckCatalog::RefuseDrop(const string &type) {
	RequireWritable("DROP " + StringUtil::Upper(type));
	ThrowCatalogChanged();
}

optional_ptr<CatalogEntry> OpenDuckCatalog::CreateSchema(CatalogTransaction transaction, CreateSchemaInfo &create) {
	auto &context = transaction.GetContext();
	if (OpenDuckTransaction::Get(context, *this).FreshSnapshot(context)->FindSchema(create.schema)) {
		if (create.on_conflict == OnCreateConflict::IGNORE_ON_CONFLICT) {
			return nullptr;
		}
		throw CatalogException("Schema with name \"%s\" already exists!", create.schema);
	}
	RefuseWrite("CREATE SCHEMA");
}

void OpenDuckCatalog::DropSchema(ClientContext &context, DropInfo &drop) {
	if (!OpenDuckTransaction::Get(context, *this).FreshSnapshot(context)->FindSchema(drop.name)) {
		if (drop.if_not_found == OnEntryNotFound::RETURN_NULL) {
			return;
		}
		throw CatalogException("Schema with name \"%s\" does not exist!", drop.name);
	}
	RefuseDrop(CatalogTypeToString(drop.type));
}

unique_ptr<LogicalOperator> OpenDuckCatalog::BindCreateIndex(Binder &binder, CreateStatement &stmt,
                                                             TableCatalogEntry &table,
                                                             unique_ptr<LogicalOperator> plan) {
	RefuseWrite("CREATE INDEX");
}

void OpenDuckCatalog::OnDetach(ClientContext &context) {
	companions.Release(context);
}

DatabaseSize OpenDuckCatalog::GetDatabaseSize(ClientContext &context) {
	// The file is the server's; its size is not known here.
	return DatabaseSize();
}

OpenDuckCatalog &CatalogOfAlias(ClientContext &context, const string &alias) {
	auto database = DatabaseManager::Get(context).GetDatabase(context, alias);
	if (!database) {
		throw BinderException("no database \"%s\" is attached", alias);
	}
	if (!OpenDuckCatalog::Is(database->GetCatalog())) {
		throw BinderException("database \"%s\" is not an openduck database", alias);
	}
	return database->GetCatalog().Cast<OpenDuckCatalog>();
}

} // namespace openduck

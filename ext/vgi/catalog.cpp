#include "vgi/catalog.hpp"

#include "vgi/insert.hpp"
#include "vgi/schema.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/parser/parsed_data/create_schema_info.hpp"
#include "duckdb/parser/parsed_data/drop_info.hpp"
#include "duckdb/storage/database_size.hpp"

namespace vgi {

//===--------------------------------------------------------------------===//
// Snapshots
//===--------------------------------------------------------------------===//
CatalogSnapshot::CatalogSnapshot(VgiCatalog &catalog, int64_t version, const od_vgi_schemas &listed)
    : version(version) {
	for (idx_t i = 0; i < listed.count; i++) {
		CreateSchemaInfo info;
		info.schema = Text(listed.items[i].name);
		if (info.schema.empty() || FindSchema(info.schema)) {
			throw IOException("the VGI worker of \"%s\" lists a schema \"%s\" twice, or one without a name",
			                  catalog.GetName(), info.schema);
		}
		info.comment = listed.items[i].comment.data ? Value(Text(listed.items[i].comment)) : Value();
		schemas.push_back(make_uniq<VgiSchemaEntry>(catalog, info, listed.items[i]));
	}
}

CatalogSnapshot::~CatalogSnapshot() = default;

optional_ptr<VgiSchemaEntry> CatalogSnapshot::FindSchema(const string &name) {
	for (auto &schema : schemas) {
		if (StringUtil::CIEquals(schema->name, name)) {
			return schema.get();
		}
	}
	return nullptr;
}

//===--------------------------------------------------------------------===//
// The catalog
//===--------------------------------------------------------------------===//
VgiCatalog::VgiCatalog(AttachedDatabase &db, shared_ptr<VgiRemote> remote_p, const od_vgi_attached &attached,
                       string shown_path_p, WorkerRights rights_p)
    : Catalog(db), remote(std::move(remote_p)), companions(db.GetDatabase()), shown_path(std::move(shown_path_p)),
      default_schema(Text(attached.default_schema)), has_transactions(attached.supports_transactions),
      version_frozen(attached.version_frozen), attach_version(attached.version), rights(std::move(rights_p)) {
}

VgiCatalog::~VgiCatalog() {
	// Whatever the worker says to it: the catalog is gone.
	od_error err = {};
	auto call = remote->Quiet(string());
	(void)(od_vgi_detach_catalog(remote->Handle(), &call, &err) == OD_OK);
}

void VgiCatalog::Initialize(bool load_builtin) {
}

void VgiCatalog::OnDetach(ClientContext &context) {
	companions.Release(context);
	secrets.reset();
}

shared_ptr<CatalogSnapshot> VgiCatalog::Snapshot(const od_vgi_context &call) {
	auto version = attach_version;
	od_error err = {};
	if (!version_frozen) {
		auto code = od_vgi_catalog_version(remote->Handle(), &call, &version, &err);
		if (code == OD_E_NOT_IMPLEMENTED) {
			version = 0;
		} else {
			ThrowIfFailed(code, err);
		}
	}
	{
		lock_guard<mutex> guard(lock);
		if (current && (version_frozen || (version != 0 && current->version == version))) {
			return current;
		}
	}
	Answer<od_vgi_schemas> schemas;
	ThrowIfFailed(od_vgi_list_schemas(remote->Handle(), &call, &schemas.data, &err), err);
	auto result = make_shared_ptr<CatalogSnapshot>(*this, version, schemas.data);
	shared_ptr<CatalogSnapshot> freed; // without the lock
	lock_guard<mutex> guard(lock);
	if (current) {
		retired.push_back(std::move(current));
	}
	current = result;
	if (retired.size() > MAX_RETIRED) {
		freed = std::move(retired.front());
		retired.pop_front();
	}
	return result;
}

optional_idx VgiCatalog::GetCatalogVersion(ClientContext &context) {
	// Statements are bound anew each time: branches are asked for at every bind.
	return optional_idx();
}

optional_ptr<SchemaCatalogEntry> VgiCatalog::LookupSchema(CatalogTransaction transaction,
                                                          const EntryLookupInfo &schema_lookup,
                                                          OnEntryNotFound if_not_found) {
	auto &context = transaction.GetContext();
	auto schema = VgiTransaction::Get(context, *this).Snapshot(context).FindSchema(schema_lookup.GetEntryName());
	if (!schema && if_not_found == OnEntryNotFound::THROW_EXCEPTION) {
		throw CatalogException(schema_lookup.GetErrorContext(), "Schema with name \"%s\" does not exist in \"%s\"!",
		                       schema_lookup.GetEntryName(), GetName());
	}
	return schema.get();
}

void VgiCatalog::ScanSchemas(ClientContext &context, std::function<void(SchemaCatalogEntry &)> callback) {
	for (auto &schema : VgiTransaction::Get(context, *this).Snapshot(context).schemas) {
		callback(*schema);
	}
}

CatalogLookupBehavior VgiCatalog::CatalogTypeLookupRule(CatalogType type) const {
	switch (type) {
	case CatalogType::TABLE_ENTRY:
	case CatalogType::VIEW_ENTRY:
	case CatalogType::SCHEMA_ENTRY:
	case CatalogType::SCALAR_FUNCTION_ENTRY:
	case CatalogType::AGGREGATE_FUNCTION_ENTRY:
	case CatalogType::MACRO_ENTRY:
	case CatalogType::TABLE_FUNCTION_ENTRY:
	case CatalogType::TABLE_MACRO_ENTRY:
		return CatalogLookupBehavior::STANDARD;
	default:
		return CatalogLookupBehavior::NEVER_LOOKUP;
	}
}

DatabaseSize VgiCatalog::GetDatabaseSize(ClientContext &context) {
	return DatabaseSize();
}

//===--------------------------------------------------------------------===//
// Writes: INSERT, and what a VGI catalog does not do
//===--------------------------------------------------------------------===//
void VgiCatalog::Refuse(const string &what) {
	throw NotImplementedException("VGI catalog \"%s\" does not support %s", GetName(), what);
}

optional_ptr<CatalogEntry> VgiCatalog::CreateSchema(CatalogTransaction transaction, CreateSchemaInfo &info) {
	Refuse("CREATE SCHEMA");
}

void VgiCatalog::DropSchema(ClientContext &context, DropInfo &info) {
	Refuse("DROP SCHEMA");
}

PhysicalOperator &VgiCatalog::PlanCreateTableAs(ClientContext &context, PhysicalPlanGenerator &planner,
                                                LogicalCreateTable &op, PhysicalOperator &plan) {
	Refuse("CREATE TABLE");
}

PhysicalOperator &VgiCatalog::PlanInsert(ClientContext &context, PhysicalPlanGenerator &planner, LogicalInsert &op,
                                         optional_ptr<PhysicalOperator> plan) {
	if (!plan) {
		Refuse("INSERT DEFAULT VALUES");
	}
	return PlanWorkerInsert(context, planner, op, *plan);
}

PhysicalOperator &VgiCatalog::PlanDelete(ClientContext &context, PhysicalPlanGenerator &planner, LogicalDelete &op,
                                         PhysicalOperator &plan) {
	Refuse("DELETE");
}

PhysicalOperator &VgiCatalog::PlanUpdate(ClientContext &context, PhysicalPlanGenerator &planner, LogicalUpdate &op,
                                         PhysicalOperator &plan) {
	Refuse("UPDATE");
}

unique_ptr<LogicalOperator> VgiCatalog::BindCreateIndex(Binder &binder, CreateStatement &stmt, TableCatalogEntry &table,
                                                        unique_ptr<LogicalOperator> plan) {
	Refuse("CREATE INDEX");
}

} // namespace vgi

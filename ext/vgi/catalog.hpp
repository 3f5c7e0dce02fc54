//===----------------------------------------------------------------------===//
// vgi/catalog.hpp: a catalog that a worker serves
//===----------------------------------------------------------------------===//
#pragma once

#include "common/companions.hpp"
#include "vgi/remote.hpp"
#include "vgi/secret_service.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/common/deque.hpp"

namespace vgi {

using openduck::Companions;

class VgiSchemaEntry;
class VgiCatalog;

//! What of this DuckDB's a worker is told when it binds a function.
struct WorkerRights {
	case_insensitive_set_t settings;
	case_insensitive_set_t secret_types;
	bool any_secret = false;
};

//! The worker's schemas as of one version of its catalog. Tables and functions of a schema are asked for at its first use.
class CatalogSnapshot {
public:
	CatalogSnapshot(VgiCatalog &catalog, int64_t version, const od_vgi_schemas &schemas);
	~CatalogSnapshot();

	optional_ptr<VgiSchemaEntry> FindSchema(const string &name);

	const int64_t version;
	vector<unique_ptr<VgiSchemaEntry>> schemas;
};

class VgiCatalog : public Catalog {
public:
	static constexpr const char *TYPE = "vgi";
	//! Snapshots that are kept for plans that still point into them.
	static constexpr idx_t MAX_RETIRED = 16;

	VgiCatalog(AttachedDatabase &db, shared_ptr<VgiRemote> remote, const od_vgi_attached &attached, string shown_path,
	           WorkerRights rights);
	~VgiCatalog() override;

	static bool Is(Catalog &catalog) {
		return catalog.GetCatalogType() == TYPE;
	}

	const shared_ptr<VgiRemote> &Remote() const {
		return remote;
	}
	Companions &GetCompanions() {
		return companions;
	}
	//! From now on, until the catalog is detached, DuckDB finds secrets there.
	void SetSecrets(unique_ptr<CatalogSecrets> secrets_p) {
		secrets = std::move(secrets_p);
	}
	//! Whether the worker may have a secret of this type: one of its own, or any if ATTACH says so.
	bool MayHaveSecret(const string &type) const {
		return rights.any_secret || rights.secret_types.count(type) > 0;
	}
	//! Whether the worker has declared this setting.
	bool HasSetting(const string &name) const {
		return rights.settings.count(name) > 0;
	}
	bool HasTransactions() const {
		return has_transactions;
	}
	//! What the worker's catalog holds now, as CALL's transaction sees it.
	shared_ptr<CatalogSnapshot> Snapshot(const od_vgi_context &call);

public:
	void Initialize(bool load_builtin) override;
	string GetCatalogType() override {
		return TYPE;
	}
	string GetDefaultSchema() const override {
		return default_schema;
	}
	optional_idx GetCatalogVersion(ClientContext &context) override;
	optional_ptr<CatalogEntry> CreateSchema(CatalogTransaction transaction, CreateSchemaInfo &info) override;
	void ScanSchemas(ClientContext &context, std::function<void(SchemaCatalogEntry &)> callback) override;
	optional_ptr<SchemaCatalogEntry> LookupSchema(CatalogTransaction transaction, const EntryLookupInfo &schema_lookup,
	                                              OnEntryNotFound if_not_found) override;
	CatalogLookupBehavior CatalogTypeLookupRule(CatalogType type) const override;

	PhysicalOperator &PlanCreateTableAs(ClientContext &context, PhysicalPlanGenerator &planner, LogicalCreateTable &op,
	                                    PhysicalOperator &plan) override;
	PhysicalOperator &PlanInsert(ClientContext &context, PhysicalPlanGenerator &planner, LogicalInsert &op,
	                             optional_ptr<PhysicalOperator> plan) override;
	PhysicalOperator &PlanDelete(ClientContext &context, PhysicalPlanGenerator &planner, LogicalDelete &op,
	                             PhysicalOperator &plan) override;
	PhysicalOperator &PlanUpdate(ClientContext &context, PhysicalPlanGenerator &planner, LogicalUpdate &op,
	                             PhysicalOperator &plan) override;
	unique_ptr<LogicalOperator> BindCreateIndex(Binder &binder, CreateStatement &stmt, TableCatalogEntry &table,
	                                            unique_ptr<LogicalOperator> plan) override;

	DatabaseSize GetDatabaseSize(ClientContext &context) override;
	bool InMemory() override {
		return false;
	}
	string GetDBPath() override {
		return shown_path;
	}
	bool SupportsTimeTravel() const override {
		return true; // a table says whether it has other versions
	}
	bool HasConflictingAttachOptions(const string &path, const AttachOptions &options) override {
		return true; // OR REPLACE always attaches anew: the worker may be another
	}
	void OnDetach(ClientContext &context) override;

	//! Refuses a write, WHAT: "INSERT".
	[[noreturn]] void Refuse(const string &what);

private:
	void DropSchema(ClientContext &context, DropInfo &info) override;

	shared_ptr<VgiRemote> remote;
	//! Before the companions, which need it to their end.
	unique_ptr<CatalogSecrets> secrets;
	Companions companions;
	const string shown_path;
	const string default_schema;
	const bool has_transactions;
	const bool version_frozen;
	const int64_t attach_version;
	const WorkerRights rights;

	//! Guards current and retired. No call is made while it is held.
	mutex lock;
	shared_ptr<CatalogSnapshot> current;
	deque<shared_ptr<CatalogSnapshot>> retired;
};

} // namespace vgi

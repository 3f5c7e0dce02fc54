//===----------------------------------------------------------------------===//
// openduck/catalog.hpp: the catalog of an attached remote database
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/layout.hpp"
#include "openduck/remote.hpp"
#include "openduck/snapshot.hpp"
#include "openduck/table_size.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/common/deque.hpp"
#include "duckdb/storage/storage_extension.hpp"

namespace openduck {

//! What all attached remote databases of one DuckDB instance share.
struct OpenDuckStorageInfo : public StorageExtensionInfo, public enable_shared_from_this<OpenDuckStorageInfo> {
	atomic<idx_t> attached {0};
};

//! Names come from snapshots: what the server said at one catalog version. A statement binds against the current
//! snapshot without asking; refresh.cpp finds out before its first row whether the version still holds.
class OpenDuckCatalog : public Catalog {
public:
	static constexpr const char *TYPE = "openduck";
	//! A remote database with no more columns than this is read whole at its first use.
	static constexpr int64_t SMALL_COLUMN_COUNT = 1000;
	//! Snapshots that are kept for plans that still point into them without a transaction.
	static constexpr idx_t MAX_RETIRED = 16;

	OpenDuckCatalog(AttachedDatabase &db, shared_ptr<Remote> remote, shared_ptr<OpenDuckStorageInfo> info,
	                string shown_path);
	~OpenDuckCatalog() override;

	//! Asks the server for the name, the schemas and the layout of the database: proves endpoint, token and database. A snapshot has no
	//! layout: it is the database as it was, alone.
	void Connect(ClientContext &context);
	//! What the server has told then; null: nothing.
	optional_ptr<const RemoteLayout> Layout() const {
		return layout.get();
	}
	Companions &GetCompanions() {
		return companions;
	}

	Remote &GetRemote() {
		return *remote;
	}
	const shared_ptr<Remote> &SharedRemote() const {
		return remote;
	}
	//! "db" as the server spells it; set by Connect.
	const string &RemoteDatabase() const {
		return remote_database;
	}

	//! The snapshot that new transactions bind against; null if one must be fetched.
	shared_ptr<CatalogSnapshot> Current();
	//! Makes SNAPSHOT current (its id is set here) and retires the one before.
	void Publish(const shared_ptr<CatalogSnapshot> &snapshot);
	//! SNAPSHOT is known to be out of date.
	void Invalidate(const CatalogSnapshot &snapshot);
	//! Next number of a snapshot; never used twice while attached.
	idx_t NextSnapshotId() {
		return ++last_snapshot_id;
	}
	//! The database was small when it was read last.
	bool Small() const {
		return small;
	}
	//! All that is cached is asked for anew.
	void Forget();
	//! Asks the server only which version its catalog has; as TXN sees it, unless that is null.
	uint64_t RemoteVersion(ClientContext &context, const od_remote_txn *txn);

	//! Counts what was written through this attach; what is known of sizes from before is old.
	atomic<idx_t> writes {0};
	TableSizes sizes;

	static bool Is(Catalog &catalog) {
		return catalog.GetCatalogType() == TYPE;
	}
	//! Refuses a write: read-only attach, or a way that does not exist yet.
	[[noreturn]] void RefuseWrite(const string &what);
	//! Refuses to drop an object of TYPE: one that was there when the statement was bound is dropped by the server, so this one
	//! has come since.
	[[noreturn]] void RefuseDrop(const string &type);
	//! Refuses it if the database is attached read-only.
	void RequireWritable(const string &what);

public:
	void Initialize(bool load_builtin) override;
	string GetCatalogType() override {
		return TYPE;
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
	PhysicalOperator &PlanMergeInto(ClientContext &context, PhysicalPlanGenerator &planner, LogicalMergeInto &op,
	                                PhysicalOperator &plan) override;
	unique_ptr<LogicalOperator> BindCreateIndex(Binder &binder, CreateStatement &stmt, TableCatalogEntry &table,
	                                            unique_ptr<LogicalOperator> plan) override;

	void OnDetach(ClientContext &context) override;
	DatabaseSize GetDatabaseSize(ClientContext &context) override;
	bool InMemory() override {
		return false;
	}
	string GetDBPath() override {
		return shown_path;
	}
	bool HasConflictingAttachOptions(const string &path, const AttachOptions &options) override {
		// OR REPLACE always makes a new connection: endpoint, token or secret may have changed.
		return true;
	}

private:
	void DropSchema(ClientContext &context, DropInfo &info) override;

	shared_ptr<Remote> remote;
	Companions companions;
	unique_ptr<const RemoteLayout> layout;
	shared_ptr<OpenDuckStorageInfo> info;
	string shown_path;
	string remote_database;
	atomic<idx_t> last_snapshot_id {0};
	atomic<bool> small {false};

	//! Guards current and retired. No call is made while it is held.
	mutex lock;
	shared_ptr<CatalogSnapshot> current;
	deque<shared_ptr<CatalogSnapshot>> retired;
};

} // namespace openduck

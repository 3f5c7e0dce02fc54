#include "common/companions.hpp"

#include "common/event.hpp"
#include "common/row_list.hpp"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/connection.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/main/secret/secret_manager.hpp"
#include "duckdb/parser/parsed_data/attach_info.hpp"

namespace openduck {

CompanionRegistry::CompanionRegistry() {
	od_error err = {};
	ThrowIfFailed(od_companion_registry_create(&registry, &err), err);
}

CompanionRegistry::~CompanionRegistry() {
	od_companion_registry_free(registry);
}

shared_ptr<CompanionRegistry> CompanionRegistry::Get(DatabaseInstance &db) {
	return db.GetObjectCache().GetOrCreate<CompanionRegistry>(ObjectType());
}

string Redacted(const string &text) {
	od_buf shown = {};
	auto known = od_companion_redact(&shown, text.c_str(), nullptr) == OD_OK && od_buf_cstr(&shown) != nullptr;
	string result = known ? od_buf_cstr(&shown) : "no memory for a message";
	od_buf_release(&shown);
	return result;
}

//===--------------------------------------------------------------------===//
// The host
//===--------------------------------------------------------------------===//
CompanionHost::CompanionHost(DatabaseInstance &db, optional_ptr<ClientContext> context)
    : db(db), context(context), table {this, Find, Attach, Detach, Secret, Interrupted, Event} {
}

//! An exception as an od_error, without the passwords that a database's own text may quote.
static od_code Fail(od_error *err, const ErrorData &error) {
	auto code = error.Type() == ExceptionType::INTERRUPT ? OD_E_CANCELLED : OD_E_BINDER;
	return od_fail(err, code, "%s", Redacted(error.RawMessage()).c_str());
}

//! Runs WORK, which may throw, for the C side.
template <class WORK>
static od_code Guarded(od_error *err, WORK work) {
	try {
		work();
		return OD_OK;
	} catch (std::exception &ex) {
		return Fail(err, ErrorData(ex));
	} catch (...) { // NOLINT: nothing passes through C
		return od_fail(err, OD_E_BINDER, "an unknown exception");
	}
}

uint64_t CompanionHost::Find(void *arg, const char *alias) {
	auto &self = *static_cast<CompanionHost *>(arg);
	uint64_t result = 0;
	Guarded(nullptr, [&] {
		auto found = DatabaseManager::Get(self.db).GetDatabase(alias);
		result = found ? found->oid : 0;
	});
	return result;
}

static AttachOptions MakeAttachOptions(DatabaseInstance &db, const od_companion_request &request) {
	unordered_map<string, Value> values;
	for (idx_t i = 0; i < request.option_count; i++) {
		values[request.options[i].key] = Value(request.options[i].value);
	}
	if (request.read_only) {
		values["read_only"] = Value::BOOLEAN(true);
	}
	AttachOptions result(values, DBConfig::GetConfig(db).options.access_mode);
	result.db_type = request.type;
	result.visibility = request.hidden ? AttachVisibility::HIDDEN : AttachVisibility::SHOWN;
	return result;
}

od_code CompanionHost::Attach(void *arg, const od_companion_request *request, uint64_t *identity, od_error *err) {
	auto &self = *static_cast<CompanionHost *>(arg);
	return Guarded(err, [&] {
		auto &manager = DatabaseManager::Get(self.db);
		AttachInfo info;
		info.name = request->alias;
		info.path = request->path;
		auto options = MakeAttachOptions(self.db, *request);
		Connection connection(self.db);
		auto before = manager.NextOid();
		shared_ptr<AttachedDatabase> attached;
		connection.context->RunFunctionInTransaction(
		    [&] { attached = manager.AttachDatabase(*connection.context, info, options); });
		if (attached->oid <= before) {
			// A file that is attached under this name already is given as it is.
			throw BinderException("alias already in use by (existing non-companion catalog) (not replaced)");
		}
		*identity = attached->oid;
	});
}

od_code CompanionHost::Detach(void *arg, const char *alias, od_error *err) {
	auto &self = *static_cast<CompanionHost *>(arg);
	return Guarded(err, [&] {
		auto &manager = DatabaseManager::Get(self.db);
		if (self.context) {
			manager.DetachDatabase(*self.context, alias, OnEntryNotFound::RETURN_NULL);
			return;
		}
		Connection connection(self.db);
		connection.context->RunFunctionInTransaction(
		    [&] { manager.DetachDatabase(*connection.context, alias, OnEntryNotFound::RETURN_NULL); });
	});
}

od_code CompanionHost::Secret(void *arg, const char *name, od_error *err) {
	auto &self = *static_cast<CompanionHost *>(arg);
	return Guarded(err, [&] {
		Connection connection(self.db);
		connection.context->RunFunctionInTransaction([&] {
			auto transaction = CatalogTransaction::GetSystemCatalogTransaction(*connection.context);
			if (!SecretManager::Get(self.db).GetSecretByName(transaction, name)) {
				throw BinderException("VGI companion secret_ref '%s' did not resolve to a secret", name);
			}
		});
	});
}

bool CompanionHost::Interrupted(void *arg) {
	auto &self = *static_cast<CompanionHost *>(arg);
	return self.context && self.context->interrupted;
}

void CompanionHost::Event(void *arg, const char *name, const od_companion_field *fields, size_t count) {
	auto &self = *static_cast<CompanionHost *>(arg);
	Guarded(nullptr, [&] {
		vector<std::pair<string, string>> list;
		for (size_t i = 0; i < count; i++) {
			list.emplace_back(fields[i].name, ForeignText(fields[i].value, strlen(fields[i].value)));
		}
		LogEvent(self.db, self.context, name, list);
	});
}

//===--------------------------------------------------------------------===//
// The companions of a catalog
//===--------------------------------------------------------------------===//
Companions::Companions(DatabaseInstance &db) : db(db.shared_from_this()), registry(CompanionRegistry::Get(db)) {
}

void Companions::Attach(ClientContext &context, const vector<od_companion_wish> &wishes,
                        const od_companion_terms &terms) {
	CompanionHost host(DatabaseInstance::GetDatabase(context), &context);
	od_error err = {};
	ThrowIfFailed(
	    od_companion_set_attach(registry->Handle(), host.Table(), wishes.data(), wishes.size(), &terms, &set, &err),
	    err);
}

void Companions::Release(ClientContext &context) {
	CompanionHost host(DatabaseInstance::GetDatabase(context), &context);
	od_companion_set_release(set, host.Table());
	set = nullptr;
}

Companions::~Companions() {
	if (!set) {
		return;
	}
	auto instance = db.lock();
	if (!instance) {
		// The instance ends, and takes its databases along.
		od_companion_set_abandon(set);
		return;
	}
	CompanionHost host(*instance, nullptr);
	od_companion_set_release(set, host.Table());
}

//===--------------------------------------------------------------------===//
// The list
//===--------------------------------------------------------------------===//
static void AddRow(void *arg, const od_companion_row *row) {
	auto &rows = *static_cast<vector<vector<Value>> *>(arg);
	rows.push_back({Value(row->alias), Value(row->shown), Value(row->type), Value::BOOLEAN(row->hidden),
	                Value::BIGINT(int64_t(row->users))});
}

static vector<vector<Value>> ListCompanions(ClientContext &context) {
	auto &db = DatabaseInstance::GetDatabase(context);
	vector<vector<Value>> result;
	CompanionHost host(db, &context);
	od_error err = {};
	ThrowIfFailed(od_companion_registry_list(CompanionRegistry::Get(db)->Handle(), host.Table(), AddRow, &result, &err),
	              err);
	return result;
}

void RegisterCompanionList(ExtensionLoader &loader, const string &name) {
	loader.RegisterFunction(RowListFunction(
	    name, {"catalog_name", "target", "db_type", "hidden", "refcount"},
	    {LogicalType::VARCHAR, LogicalType::VARCHAR, LogicalType::VARCHAR, LogicalType::BOOLEAN, LogicalType::BIGINT},
	    ListCompanions));
}

} // namespace openduck

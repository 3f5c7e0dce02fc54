#include "server/host.h"

#include "duckdb.h"
#include "duckdb.hpp"
#include "duckdb/main/capi/capi_internal.hpp"
#include "duckdb/main/prepared_statement_data.hpp"
#include "duckdb/planner/planner.hpp"
#include "server/confine.hpp"
#include "server/column_statistics.hpp"
#include "server/limit.hpp"
#include "server/outline.hpp"
#include "server/read.hpp"
#include "server/run_here.hpp"
#include "server/stream.hpp"
#include "storage/register.hpp"

namespace openduck {
namespace {

void *ValueOf(void *vector, uint64_t row) {
	try {
		auto value = reinterpret_cast<duckdb::Vector *>(vector)->GetValue(row);
		return new duckdb::Value(std::move(value));
	} catch (...) {
		return nullptr;
	}
}

void FlattenAll(duckdb::Vector &vector, duckdb::idx_t count) {
	vector.Flatten(count);
	switch (vector.GetType().InternalType()) {
	case duckdb::PhysicalType::LIST:
		FlattenAll(duckdb::ListVector::GetEntry(vector), duckdb::ListVector::GetListSize(vector));
		break;
	case duckdb::PhysicalType::ARRAY:
		FlattenAll(duckdb::ArrayVector::GetEntry(vector), count * duckdb::ArrayType::GetSize(vector.GetType()));
		break;
	case duckdb::PhysicalType::STRUCT:
		for (auto &child : duckdb::StructVector::GetEntries(vector)) {
			FlattenAll(*child, count);
		}
		break;
	default:
		break;
	}
}

bool Flatten(void *vector, uint64_t count) {
	try {
		FlattenAll(*reinterpret_cast<duckdb::Vector *>(vector), count);
		return true;
	} catch (...) {
		return false;
	}
}

duckdb::PreparedStatementData &DataOf(void *prepared) {
	return *reinterpret_cast<duckdb::PreparedStatementWrapper *>(prepared)->statement->data;
}

void Rebind(void *prepared) {
	DataOf(prepared).properties.always_require_rebind = true;
}

bool Describe(void *connection, void *prepared, char *why, size_t size) {
	auto &context = *reinterpret_cast<duckdb::Connection *>(connection)->context;
	auto &values = reinterpret_cast<duckdb::PreparedStatementWrapper *>(prepared)->values;
	auto &data = DataOf(prepared);
	try {
		context.RunFunctionInTransaction([&]() {
			duckdb::Planner planner(context);
			for (auto &value : values) {
				planner.parameter_data.emplace(value);
			}
			planner.CreatePlan(data.unbound_statement->Copy());
			data.types = planner.types;
			data.names = planner.names;
		});
		data.properties.always_require_rebind = true;
		return true;
	} catch (const std::exception &ex) {
		snprintf(why, size, "%s", duckdb::ErrorData(ex).Message().c_str());
		return false;
	}
}

bool Install(void *connection, unsigned run_places, char *why, size_t size) {
	try {
		auto &context = *reinterpret_cast<duckdb::Connection *>(connection)->context;
		InstallStream(context);
		InstallRun(context, run_places);
		InstallLimit(context);
		InstallColumnStatistics(context);
		return true;
	} catch (const std::exception &ex) {
		snprintf(why, size, "%s", duckdb::ErrorData(ex).Message().c_str());
		return false;
	}
}

void SetStreamOf(void *connection, const od_stream_source *source) {
	SetStream(*reinterpret_cast<duckdb::Connection *>(connection)->context, source);
}

void SetLimitOf(void *connection, const od_rights *rights) {
	SetLimit(*reinterpret_cast<duckdb::Connection *>(connection)->context, rights);
}

bool OutlineOf(const char *sql, uint64_t len, const od_outline_sink *sink, char *why, size_t size) {
	try {
		Outline(duckdb::string(sql, len), *sink);
		return true;
	} catch (const std::exception &ex) {
		snprintf(why, size, "%s", duckdb::ErrorData(ex).Message().c_str());
		return false;
	}
}

bool CatalogVersionOf(void *connection, const char *database, uint64_t *version) {
	try {
		auto &context = *reinterpret_cast<duckdb::Connection *>(connection)->context;
		duckdb::optional_idx found;
		context.RunFunctionInTransaction(
		    [&]() { found = duckdb::Catalog::GetCatalog(context, database).GetCatalogVersion(context); });
		*version = found.IsValid() ? found.GetIndex() : 0;
		return found.IsValid();
	} catch (...) {
		return false; // the statement that comes next says why
	}
}

bool ConfineOf(void *connection, char *why, size_t size) {
	try {
		Confine(*reinterpret_cast<duckdb::Connection *>(connection)->context);
		return true;
	} catch (const std::exception &ex) {
		snprintf(why, size, "%s", duckdb::ErrorData(ex).Message().c_str());
		return false;
	}
}

bool ConfineClientOf(void *connection) {
	try {
		MarkConfined(*reinterpret_cast<duckdb::Connection *>(connection)->context);
		return true;
	} catch (...) {
		return false;
	}
}

void TellStorageWork(void *arg, const od_storage_event *event) {
	auto &watch = *static_cast<const od_stored_watch *>(arg);
	auto work = event->work == OD_STORAGE_WORK_SEAL ? OD_STORED_SEAL : OD_STORED_MERGE;
	watch.told(watch.arg, work, static_cast<int64_t>(event->nanoseconds), event->failed == 0);
}

bool ServeStorage(void *connection, const od_stored_watch *watch, char *why, size_t size) {
	try {
		StorageObserver observer {TellStorageWork, const_cast<od_stored_watch *>(watch)};
		RegisterServedStorage(*reinterpret_cast<duckdb::Connection *>(connection)->context->db, observer);
		return true;
	} catch (const std::exception &ex) {
		snprintf(why, size, "%s", duckdb::ErrorData(ex).Message().c_str());
		return false;
	}
}

bool FindSnapshot(void *connection, const char *database, const char *id, char *path, size_t path_size, char *why,
                  size_t size) {
	try {
		auto &context = *reinterpret_cast<duckdb::Connection *>(connection)->context;
		duckdb::string found;
		context.RunFunctionInTransaction([&]() { found = PathOfServedSnapshot(context, database, id); });
		if (found.size() < path_size) {
			memcpy(path, found.c_str(), found.size() + 1);
			return true;
		}
		snprintf(why, size, "its path is too long");
	} catch (const std::exception &ex) {
		snprintf(why, size, "%s", duckdb::ErrorData(ex).Message().c_str());
	}
	return false;
}

const od_engine_host HOST = {ValueOf,     Flatten,         Rebind,        Describe,    Install,
                             SetStreamOf, SetLimitOf,      ReadStatement, OutlineOf,   CatalogVersionOf,
                             ConfineOf,   ConfineClientOf, ServeStorage,  FindSnapshot};

} // namespace
} // namespace openduck

extern "C" const od_engine_host *od_server_host(void) {
	return &openduck::HOST;
}

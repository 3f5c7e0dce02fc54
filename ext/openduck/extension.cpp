//===----------------------------------------------------------------------===//
// openduck/extension.cpp: LOAD openduck
//===----------------------------------------------------------------------===//
#include "common/companions.hpp"
#include "common/event.hpp"
#include "openduck/attach.hpp"
#include "openduck/branches.hpp"
#include "openduck/default_database.hpp"
#include "openduck/forward.hpp"
#include "openduck/refresh.hpp"
#include "openduck/run.hpp"
#include "openduck/secret.hpp"
#include "openduck/server_value.hpp"
#include "openduck/status.hpp"
#include "openduck/write_copy.hpp"
#include "storage/register.hpp"

#include "duckdb/main/extension/extension_loader.hpp"

extern "C" {

DUCKDB_CPP_EXTENSION_ENTRY(openduck, loader) {
	// DuckDB compares the version in the file's footer with its own. This is about the library beside the file, whose code
	// works on the host's objects.
	if (duckdb::string(duckdb::DuckDB::LibraryVersion()) != OD_DUCKDB_VERSION) {
		throw duckdb::IOException(
		    "the extension openduck is built for DuckDB %s, but the libduckdb.so beside it is of %s", OD_DUCKDB_VERSION,
		    duckdb::DuckDB::LibraryVersion());
	}
	auto &db = loader.GetDatabaseInstance();
	auto info = duckdb::make_shared_ptr<openduck::OpenDuckStorageInfo>();
	openduck::RegisterOptions(loader);
	openduck::RegisterEvents(db);
	openduck::RegisterCompanionList(loader, "openduck_companions");
	openduck::RegisterBranchList(loader);
	openduck::RegisterDefaultDatabase(loader);
	openduck::RegisterSecret(loader);
	openduck::RegisterRemoteFunctions(loader);
	openduck::RegisterStatusFunctions(loader);
	openduck::RegisterRun(loader);
	openduck::RegisterServerValue(loader);
	openduck::RegisterOptimizer(loader);
	openduck::RegisterAttach(db, info);
	openduck::RegisterForward(db);
	openduck::RegisterCopyDatabase(db);
	openduck::RegisterRefresh(db, info);
	openduck::RegisterStorage(loader);
}
}

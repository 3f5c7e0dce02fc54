//===----------------------------------------------------------------------===//
// vgi/extension.cpp: LOAD vgi
//===----------------------------------------------------------------------===//
#include "common/companions.hpp"
#include "common/event.hpp"
#include "common/log_sink.hpp"
#include "vgi/attach.hpp"
#include "vgi/branches.hpp"
#include "vgi/secret_storage.hpp"

#include "duckdb/main/extension/extension_loader.hpp"

extern "C" {

DUCKDB_CPP_EXTENSION_ENTRY(vgi, loader) {
	// DuckDB compares the version in the file's footer with its own. This is about the library beside the file, whose code
	// works on the host's objects.
	if (duckdb::string(duckdb::DuckDB::LibraryVersion()) != OD_DUCKDB_VERSION) {
		throw duckdb::IOException("the extension vgi is built for DuckDB %s, but the libduckdb.so beside it is of %s",
		                          OD_DUCKDB_VERSION, duckdb::DuckDB::LibraryVersion());
	}
	auto &db = loader.GetDatabaseInstance();
	auto info = duckdb::make_shared_ptr<vgi::VgiStorageInfo>();
	openduck::SilenceLog();
	openduck::RegisterEvents(db);
	vgi::RegisterSecretStorage(db, info->secret_services);
	vgi::RegisterBranches(loader);
	openduck::RegisterCompanionList(loader, "vgi_companion_catalogs");
	vgi::RegisterAttach(db, info);
}
}

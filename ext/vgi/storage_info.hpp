//===----------------------------------------------------------------------===//
// vgi/storage_info.hpp: what all VGI catalogs of one DuckDB instance share
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/secret_service.hpp"

#include "duckdb.hpp"
#include "duckdb/storage/storage_extension.hpp"

namespace vgi {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

struct VgiStorageInfo : public StorageExtensionInfo {
	mutex settings_lock; //!< guards settings, also while one is registered
	//! What workers have declared, by names in lower case.
	unordered_map<string, LogicalType> settings;
	const shared_ptr<SecretServices> secret_services = make_shared_ptr<SecretServices>();
};

} // namespace vgi

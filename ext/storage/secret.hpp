//===----------------------------------------------------------------------===//
// storage/secret.hpp: secrets of type openduck_storage
//===----------------------------------------------------------------------===//
#pragma once

#include "storage/far_place.hpp"
#include "storage/location.hpp"

#include "duckdb/main/extension/extension_loader.hpp"

namespace openduck {

void RegisterStorageSecret(ExtensionLoader &loader);
//! What is not given is empty.
struct StorageSecret {
	string data_dir;
	string postgres_url;
	FarPlace far;
};

//! The secret that LOCATION names, or the one whose scope fits best, if there is one.
StorageSecret FindStorageSecret(const StorageLocation &location, optional_ptr<FileOpener> opener);
//! The credentials of PLACE, if it is a bucket and has none, from DuckDB's secret of type s3 for it, if there is one.
void AddS3Secret(FarPlace &place, optional_ptr<FileOpener> opener);

} // namespace openduck

//===----------------------------------------------------------------------===//
// vgi/declared.hpp: what a worker declares at ATTACH: options, settings, types of secrets
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/attach_target.hpp"
#include "vgi/storage_info.hpp"
#include "vgi/remote.hpp"

namespace vgi {

//! The options of TARGET that are the worker's own, cast to the types that it declares. Throws for one that it does not know. SECRET gets
//! the names of those that are not to be shown.
vector<NamedValue> WorkerOptions(ClientContext &context, VgiRemote &remote, const AttachTarget &target,
                                 case_insensitive_set_t &secret);

//! Registers the worker's settings; returns their names. Throws if one is DuckDB's, or another extension's, or has another type.
case_insensitive_set_t RegisterSettings(ClientContext &context, VgiStorageInfo &info, const string &catalog,
                                        const od_vgi_attached &attached);

//! Registers the types of secrets that are the worker's own; returns their names. Types that are known already stay what they are.
case_insensitive_set_t RegisterSecretTypes(ClientContext &context, const od_vgi_attached &attached);

} // namespace vgi

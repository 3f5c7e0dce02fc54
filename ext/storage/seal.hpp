//===----------------------------------------------------------------------===//
// storage/seal.hpp: a snapshot of an attached database
//===----------------------------------------------------------------------===//
#pragma once

#include "storage/file_system.hpp"

namespace openduck {

struct Sealed {
	string snapshot;
	//! The snapshot needs no replay of a log. False: others wrote all the time; their commits are in its log.
	bool checkpointed;
};

//! Every commit that was acknowledged before the call is in the snapshot, and nothing of what is not committed.
Sealed SealDatabase(ClientContext &context, StorageState &state, const string &name);
//! Where the attached database NAME lives. False: there is none of that name, or it is not on openduck://.
bool LocationOfAttached(ClientContext &context, const string &name, StorageLocation &location);

} // namespace openduck

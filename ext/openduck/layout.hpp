//===----------------------------------------------------------------------===//
// openduck/layout.hpp: what a remote database is made of for its clients, as its server told at ATTACH
//===----------------------------------------------------------------------===//
#pragma once

#include "common/companions.hpp"

extern "C" {
#include "vgi/layout.h"
}

namespace openduck {

//! What ATTACH says about companions.
struct CompanionRights {
	bool attach = true;
	bool secrets = false;
	bool read_only = false;
};

//! Does not change; what is in it lives as long as it does.
class RemoteLayout {
public:
	//! BYTES as the server sent them. Throws if they are none.
	explicit RemoteLayout(const string &bytes);
	~RemoteLayout();
	RemoteLayout(const RemoteLayout &) = delete;

	//! Attaches its companions into COMPANIONS, all that are required or none, for the catalog called ALIAS.
	void AttachCompanions(ClientContext &context, const string &alias, const CompanionRights &rights,
	                      Companions &companions) const;

	//! Its tables of branches; each has a schema, a name and a branch.
	vector<const od_layout_table *> Tables() const;
	//! Null if it has none of that name.
	optional_ptr<const od_layout_table> FindTable(const string &schema, const string &name) const;
	//! One of its tables has that name, in whatever schema.
	bool HasName(const string &name) const;

private:
	od_layout layout = {};
};

} // namespace openduck
